"""Adjoints of stencils on a GPU: each thread gathers what its neighbours would add, in executed PTX, as on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from golden import executed_counts
from support.fake_driver.driver import fake_cuda
from support.ptx.programs import PtxProgram

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import CLEARING, GATHERING, PLAIN, Variant
from diffkern.runtime.accumulate import adjoint as adjoints
from diffkern.runtime.accumulate.accumulation import Gathered
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.launch import race_checks

G = "cuda:0"
F1, F2, F3 = (dk.array(dtype=float, ndim=n) for n in (1, 2, 3))
D1, D2 = (dk.array(dtype=dk.float64, ndim=n) for n in (1, 2))
V2 = dk.array(dtype=dk.vec3, ndim=2)
H1 = dk.array(dtype=dk.float16)
B1 = dk.array(dtype=int)


@dk.kernel
def heat(u: F2, rows: int, columns: int, k: float, out: F2):
    i, j = dk.tid()
    if i > 0 and i < rows - 1 and j > 0 and j < columns - 1:
        out[i, j] = u[i, j] + k * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])
    else:
        out[i, j] = u[i, j]


@dk.kernel
def heat_inside(u: F2, rows: int, columns: int, k: float, out: F2):
    i, j = dk.tid()
    if i > 0 and i < rows - 1 and j > 0 and j < columns - 1:
        out[i, j] = u[i, j] + k * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])


@dk.kernel
def heat_3d(u: F3, c: float, out: F3):
    i, j, k = dk.tid()
    n, m, o = u.shape[0], u.shape[1], u.shape[2]
    if i > 0 and i < n - 1 and j > 0 and j < m - 1 and k > 0 and k < o - 1:
        near = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
        out[i, j, k] = u[i, j, k] + c * (near - 6.0 * u[i, j, k])
    else:
        out[i, j, k] = 2.0 * u[i, j, k]


@dk.kernel
def squares(x: D1, out: D1):
    i = dk.tid()
    if i > 1:
        out[i] = x[i - 2] * x[i - 2] + dk.float64(3.0) * x[i]
    else:
        out[i] = x[i]


@dk.kernel
def two_arrays(u: D2, v: D2, w: D2, out: D2):
    i, j = dk.tid()
    if i < u.shape[0] - 1 and j >= 3:
        d = (u[i + 1, j] - u[i, j]) * w[i, j] + v[i, j - 3] * v[i, j]
        out[i, j] = d


@dk.kernel
def masked(x: F1, mask: B1, out: F1):
    i = dk.tid()
    if mask[i] > 0:
        out[i] = x[i + mask[0]] if mask[i] == 7 else x[i - 1] + 2.0 * x[i + 1]


@dk.kernel
def chosen(x: F1, mask: B1, first: int, out: F1):
    i = dk.tid()
    if i > 0 and i >= first and i < x.shape[0] - 1 and mask[i] > 0:
        out[i] = x[i - 1] + 2.0 * x[i + 1]


@dk.kernel
def kept(x: D1, out: D1):
    """A branch adds to one neighbour, and yields what another one gets."""
    i = dk.tid()
    t = dk.float64(0.5)
    if i > 2:
        t = x[i - 1] * x[i - 1]
    if i > 0 and i < x.shape[0] - 1:
        out[i] = t * (x[i + 1] - x[i - 1])
    else:
        out[i] = t


@dk.kernel
def even(x: D1, n: int, out: D1):
    i = dk.tid()
    if i > 2 and i < n - 2:
        if (n // (i + 1)) * (i + 1) == n:
            out[i] = x[i - 1] + dk.float64(3.0) * x[i + 1] + x[i] - x[i - 3] + x[i - 2] + x[i + 2]


@dk.kernel
def vectors(x: V2, r: F2, out: V2):
    i, j = dk.tid()
    if i > 0 and j > 0:
        out[i, j] = r[i, j] * (x[i - 1, j] - x[i, j - 1]) + x[i - 1, j - 1]
    else:
        out[i, j] = x[i, j]


@dk.kernel
def halves(x: H1, out: H1):
    i = dk.tid()
    if i > 0:
        out[i] = x[i] - dk.float16(0.5) * x[i - 1]
    else:
        out[i] = x[i]


@dk.kernel
def summed(x: F1, c: F1, out: F1):
    i = dk.tid()
    if i > 0:
        out[i] = c[0] * (x[i - 1] + x[i])
    else:
        out[i] = 0.0


@dk.kernel
def wrapping(x: F1, out: F1):
    i = dk.tid()
    out[i] = x[i - 1] + x[i]


@dk.kernel
def longer(x: F1, out: F1):
    i = dk.tid()
    out[i] = x[i + 1] - x[i]


@dk.kernel
def clamped(x: F1, out: F1):
    i = dk.tid()
    out[i] = x[dk.max(i - 1, 0)] + x[i]


@dk.kernel
def strided(x: F1, threads: int, out: F1):
    for i in range(dk.tid() + 1, x.shape[0], threads):
        out[i] = x[i - 1] + x[i]


@dk.kernel
def in_place(x: F1):
    i = dk.tid()
    if i % 2 == 1 and i < x.shape[0] - 1:
        x[i] = x[i - 1] + x[i + 1]


@dk.kernel
def costly(x: F1, out: F1):
    i = dk.tid()
    if i > 0 and i < x.shape[0] - 1:
        out[i] = dk.exp(dk.sin(x[i - 1] * x[i] * x[i + 1])) + dk.pow(x[i - 1], x[i + 1])
    else:
        out[i] = 0.0


@dataclass(frozen=True)
class Floats:
    """An array of floats that has a gradient."""

    element: Any
    shape: tuple[int, ...]


def f(*shape: int, element: Any = float) -> Floats:
    return Floats(element, shape)


def d(*shape: int) -> Floats:
    return f(*shape, element=dk.float64)


@dataclass(frozen=True)
class Stencil:
    """A kernel, its launch, whose last argument is the output, and whether threads gather."""

    kernel: Any
    dim: Any
    arguments: tuple[Any, ...]
    gathers: bool = True
    rtol: float = 2e-5


_MASK = np.array([0, 1, 0, 1, 1, 0, 3, 0, 1, 0, 1, 0], np.int32)
STENCILS = {
    "heat": Stencil(heat, (6, 9), (f(6, 9), 6, 9, 0.1, f(6, 9))),
    "a part of the array": Stencil(heat, (6, 9), (f(6, 9), 4, 8, 0.1, f(6, 9))),
    "inside": Stencil(heat_inside, (6, 9), (f(6, 9), 6, 9, 0.1, f(6, 9))),
    "nothing inside": Stencil(heat_inside, (2, 2), (f(2, 2), 2, 2, 0.1, f(2, 2))),
    "more output than threads": Stencil(heat_inside, (6, 9), (f(6, 9), 6, 9, 0.1, f(8, 11))),
    "3-D": Stencil(heat_3d, (4, 5, 6), (f(4, 5, 6), 0.1, f(4, 5, 6))),
    "squares": Stencil(squares, 37, (d(37), d(37)), rtol=1e-12),
    "two arrays": Stencil(two_arrays, (5, 8), (d(5, 8), d(5, 8), d(5, 8), d(5, 8)), rtol=1e-12),
    "kept": Stencil(kept, 13, (d(13), d(13)), rtol=1e-12),
    "a division": Stencil(even, 19, (d(19), 18, d(19)), rtol=1e-12),
    "masked": Stencil(chosen, 12, (f(12), _MASK, 1, f(12))),
    "vectors": Stencil(vectors, (4, 5), (f(4, 5, element=dk.vec3), f(4, 5), f(4, 5, element=dk.vec3))),
    "halves": Stencil(halves, 21, (f(21, element=dk.float16), f(21, element=dk.float16)), rtol=2e-2),
    "nothing at all": Stencil(heat, (0, 9), (f(0, 9), 0, 9, 0.1, f(0, 9))),
    "a sum of all": Stencil(summed, 40, (f(40), f(1), f(40))),
    "more elements than threads": Stencil(heat, (5, 9), (f(6, 9), 6, 9, 0.1, f(6, 9)), gathers=False),
    "more threads than elements": Stencil(heat_inside, (8, 9), (f(6, 9), 6, 9, 0.1, f(8, 9)), gathers=False),
    "an element that counts from the end": Stencil(wrapping, 12, (f(12), f(12)), gathers=False),
    "one more element": Stencil(longer, 12, (f(13), f(12)), gathers=False),
    "clamped": Stencil(clamped, 12, (f(12), f(12)), gathers=False),
    "strides": Stencil(strided, 4, (f(12), 4, f(12)), gathers=False),
    "an index from memory": Stencil(masked, 12, (f(14), _MASK, f(12)), gathers=False),
    "costly": Stencil(costly, 12, (f(12), f(12)), gathers=False, rtol=1e-4),
    "in place": Stencil(in_place, 13, (f(13),), gathers=False),
}


CHOSEN = ["inside", "kept"]
"""Cases that a run without ``--full`` has."""


def arguments_of(case: Stencil, device: str) -> list[Any]:
    """Fresh arguments; no gradient is zero, as adjoints add to them."""
    rng, made = np.random.default_rng(5), []
    for given in case.arguments:
        if isinstance(given, Floats):
            values = [rng.uniform(0.5, 1.5, _full(given)) for _ in range(2)]
            held, grad = (dk.array(v, dtype=given.element, device=device) for v in values)
            held.requires_grad = True
            held.grad = grad
            made.append(held)
        else:
            made.append(dk.array(given, device=device) if isinstance(given, np.ndarray) else given)
    return made


def _full(given: Floats) -> tuple[int, ...]:
    return (*given.shape, 3) if given.element is dk.vec3 else given.shape


def by_hand(case: Stencil, given: list[Any]) -> None:
    grads = [getattr(a, "grad", None) for a in given]
    dk.launch(case.kernel, case.dim, inputs=given[:-1], outputs=given[-1:], adj_inputs=grads[:-1],
              adj_outputs=grads[-1:], adjoint=True)  # fmt: skip


def gradients(case: Stencil, device: str, run: Any = by_hand) -> list[Any]:
    given = arguments_of(case, device)
    run(case, given)
    return [a.grad.numpy().astype(float) for a in given if isinstance(a, dk.array) and a.grad is not None]


@pytest.fixture
def ran(monkeypatch):
    """Whether the threads of each adjoint have gathered; those of small launches too."""
    found: list[bool] = []
    execute = AdjointLaunch.execute
    monkeypatch.setattr(AdjointLaunch, "execute", lambda self: (found.append(self.gathers), execute(self))[1])
    monkeypatch.setattr(race_checks, "SUMS_OF_A_LAUNCH", 0)
    return found


def check(name: str, ran: list[bool], **given: Any) -> None:
    case = STENCILS[name]
    expected = gradients(case, "cpu")
    with fake_cuda(run="ptx", **given):
        found = gradients(case, G)
    assert ran == [False, case.gathers]
    for there, here in zip(found, expected, strict=True):
        np.testing.assert_allclose(there, here, rtol=case.rtol, atol=case.rtol)


@pytest.mark.parametrize("name", CHOSEN)
def test_the_same_as_on_the_cpu(name, ran):
    check(name, ran)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted({*STENCILS} - {*CHOSEN}))
def test_all_the_same_as_on_the_cpu(name, ran):
    check(name, ran)


@pytest.mark.full
@pytest.mark.parametrize("name", STENCILS)
def test_the_same_on_another_architecture(name, ran):
    check(name, ran, target="sm_80")


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in STENCILS if name != "nothing at all"])
def test_programs_of_both_compilers(name):
    """Also where a launch would take another way, the program that gathers is right for extents that fit."""
    case = STENCILS[name]
    given = arguments_of(case, "cpu")
    values = [a.numpy() if isinstance(a, dk.array) else a for a in given]
    active = frozenset(k for k, a in enumerate(given) if isinstance(a, dk.array) and a.grad is not None)
    types = case.kernel.argument_types(*given)
    dim = case.dim if isinstance(case.dim, tuple) else (case.dim,)
    expected = gradients(case, "cpu")
    for compiler, arch in (("llvm", "sm_80"), ("llvm", "sm_90"), ("numba", "sm_90")):
        made = Compilation(case.kernel.func, types, Variant(target=arch, active=active, compiler=compiler)).derivative
        if made.gather is None or not case.gathers:
            continue
        forms = [GATHERING] if made.gather.numbers is None else [GATHERING, CLEARING]
        grads = [a.grad.numpy().copy() for a in given if isinstance(a, dk.array) and a.grad is not None]
        for form in forms:
            variant = Variant(target=arch, active=active, compiler=compiler, form=form)
            found = Compilation(case.kernel.func, types, variant).adjoint
            for block_dim in (3, 64) if form is CLEARING else (64,):
                PtxProgram(found.fn, compiler, arch, block_dim).run(dim, [*values, *grads])
        if made.gather.cleared:
            grads[-1][...] = 0
        for there, here in zip(grads, expected, strict=True):
            np.testing.assert_allclose(there.astype(float), here, rtol=case.rtol, atol=case.rtol)


def test_what_a_warp_executes():
    found = {}
    for kernel, shape in ((heat_inside, (6, 192)), (heat_3d, (4, 5, 96))):
        numbers = shape if kernel is heat_inside else ()
        given = [dk.zeros(shape, device="cpu"), *numbers, 0.1, dk.zeros(shape, device="cpu")]
        values = [np.ones(shape, np.float32) if isinstance(a, dk.array) else a for a in given]
        for form in (PLAIN, GATHERING, CLEARING):
            active = frozenset({0, len(given) - 1})
            variant = Variant(target="sm_90", active=active, form=form)
            adjoint = Compilation(kernel.func, kernel.argument_types(*given), variant).adjoint.fn
            made = PtxProgram(adjoint, seed=1)
            made.run(shape, [*values, *(np.ones(shape, np.float32) for _ in active)])
            assert ("red." in made.text) == (form is PLAIN)
            way = "gathering" if form.gathers else "clearing" if form.clears else "adjoint"
            found[f"stencils.{kernel.name} {way}"] = round(made.steps / made.warps, 1)
    executed_counts.check(found)


@pytest.mark.parametrize("name", ["two arrays"])
def test_central_differences(name, ran):
    case, h = STENCILS[name], 1e-5
    rng = np.random.default_rng(8)
    with fake_cuda(run="ptx"):
        given = arguments_of(case, G)
        weights, before = given[-1].grad.numpy().copy(), [a.grad.numpy().copy() for a in given[:-1]]
        values = [a.numpy() for a in given]
        by_hand(case, given)
        found = [a.grad.numpy() - old for a, old in zip(given[:-1], before, strict=True)]
    assert ran == [True]
    along = [rng.normal(size=v.shape) for v in values[:-1]]

    def weighed(step: float) -> float:
        moved = [v + step * a for v, a in zip(values, along, strict=False)]
        arrays = [dk.array(v, dtype=dk.float64, device="cpu") for v in (*moved, values[-1])]
        dk.launch(case.kernel, case.dim, arrays, device="cpu")
        return float((weights * arrays[-1].numpy()).sum())

    slope = (weighed(h) - weighed(-h)) / (2 * h)
    np.testing.assert_allclose(sum((g * a).sum() for g, a in zip(found, along, strict=True)), slope, rtol=1e-8)


# -- the ways to a gradient --------------------------------------------------------------------------------------------


@dk.kernel
def loss(out: F2, sums: F1):
    i, j = dk.tid()
    dk.atomic_add(sums, 0, out[i, j] * out[i, j])


def chain(given: list[Any], sums: Any, steps: int = 2) -> None:
    u, rows, columns, k, out = given
    dk.launch(heat, u.shape, [u, rows, columns, k, out])
    dk.launch(loss, u.shape, [out, sums])


def taped(given: list[Any], sums: Any) -> None:
    for _ in range(3):
        for a in (given[0], given[-1], sums):
            a.grad.zero_()
        with dk.Tape() as tape:
            chain(given, sums)
        tape.backward(sums)


def sequence_of(given: list[Any], sums: Any) -> Any:
    with dk.record(run=False) as sequence:
        sums.zero_()
        chain(given, sums)
    return sequence.adjoint(sums)


def replayed(given: list[Any], sums: Any) -> None:
    sequence = sequence_of(given, sums)
    sequence.replay()
    sequence.replay()


def captured(given: list[Any], sums: Any) -> None:
    graph = sequence_of(given, sums).capture()
    graph.launch()
    graph.launch()


@pytest.mark.full
@pytest.mark.parametrize("kernel", [heat, heat_inside], ids=["all clear", "some clear"])
@pytest.mark.parametrize("run", [taped, replayed, captured])
def test_taped_replayed_and_captured(run, kernel, ran, monkeypatch):
    monkeypatch.setitem(globals(), "heat", kernel)

    def found(device: str) -> list[Any]:
        given = arguments_of(STENCILS["heat"], device)
        sums = dk.zeros(1, device=device, requires_grad=True)
        run(given, sums)
        return [given[0].grad.numpy(), given[-1].grad.numpy()]

    expected, chosen, choose = found("cpu"), [], adjoints.choose
    monkeypatch.setattr(adjoints, "choose", lambda *given: chosen.append(choose(*given)) or chosen[-1])
    with fake_cuda(run="ptx"):
        for there, here in zip(found(G), expected, strict=True):
            np.testing.assert_allclose(there, here, rtol=2e-5, atol=2e-5)
    assert any(isinstance(one, Gathered) for one in chosen)


@pytest.mark.full
def test_a_record_follows_the_number_that_decides_what_is_cleared(ran):
    case = STENCILS["masked"]
    expected = []
    for first in (1, 5, 3):
        given = arguments_of(case, "cpu")
        given[2] = first
        by_hand(case, given)
        expected.append([a.grad.numpy() for a in (given[0], given[-1])])
    with fake_cuda(run="ptx"):
        given = arguments_of(case, G)
        before = [a.grad.numpy().copy() for a in (given[0], given[-1])]
        record = dk.launch(case.kernel, case.dim, inputs=given[:-1], outputs=given[-1:], record_cmd=True, adjoint=True)
        for first, wanted in zip((1, 5, 3), expected, strict=True):
            for a, values in zip((given[0], given[-1]), before, strict=True):
                a.grad.assign(values)
            record.set_param_by_name("first", first)
            record.launch()
            for a, values in zip((given[0], given[-1]), wanted, strict=True):
                np.testing.assert_allclose(a.grad.numpy(), values, rtol=2e-5, atol=2e-5)


@pytest.mark.full
def test_again_with_the_same_arrays(ran):
    case = STENCILS["3-D"]
    expected = arguments_of(case, "cpu")
    for number in (0.1, 0.3, 0.1):
        expected[1] = number
        by_hand(case, expected)
        expected[-1].grad.fill_(1.0)
    with fake_cuda(run="ptx"):
        found = arguments_of(case, G)
        for number in (0.1, 0.3, 0.1):
            found[1] = number
            by_hand(case, found)
            assert not found[-1].grad.numpy().any()
            found[-1].grad.fill_(1.0)
        np.testing.assert_allclose(found[0].grad.numpy(), expected[0].grad.numpy(), rtol=2e-5)
    assert ran[3:] == [True] * 3


def test_gradients_that_are_one_array(ran):
    """Two arrays that share a gradient are added to atomically, and a gradient that is read and written is refused."""
    case, shapes = STENCILS["two arrays"], (5, 8)
    with fake_cuda(run="ptx"):
        given = arguments_of(case, G)
        given[1].grad = given[0].grad
        by_hand(case, given)
        one = given[0].grad.numpy()
        assert ran == [False]
        apart = arguments_of(case, G)
        apart[1].grad.zero_()
        by_hand(case, apart)
        np.testing.assert_allclose(one, apart[0].grad.numpy() + apart[1].grad.numpy(), rtol=1e-12)
        assert ran == [False, True]
        mixed = arguments_of(case, G)
        mixed[-1].grad = mixed[0].grad
        with pytest.raises(dk.LaunchError, match="share memory"):
            by_hand(case, mixed)
        assert one.shape == shapes


@pytest.mark.full
def test_the_input_as_output(ran):
    """A kernel that is given one array twice writes what its neighbours read, and has no gradient at all."""
    case = STENCILS["heat"]
    with fake_cuda(run="ptx"):
        given = arguments_of(case, G)
        given[-1] = given[0]
        with pytest.raises(dk.AutodiffError):
            by_hand(case, given)
    assert ran == []


def test_small_launches_add_atomically(ran, monkeypatch):
    monkeypatch.setattr(race_checks, "SUMS_OF_A_LAUNCH", 37 * 2 + 2)
    with fake_cuda(run="ptx"):
        gradients(STENCILS["squares"], G)
    assert ran == [False]


def test_second_order(ran):
    """The adjoint of a kernel's forward derivative gathers for values and tangents."""
    rng = np.random.default_rng(2)
    x, along, weights = (rng.normal(size=12) for _ in range(3))

    def found(device: str) -> Any:
        def energy(x: Any) -> Any:
            out = dk.zeros(12, dtype=dk.float64, device=device)
            total = dk.zeros(1, dtype=dk.float64, device=device)
            dk.launch(squares, 12, [x, out])
            dk.launch(weighed, 12, [out, dk.array(weights, dtype=dk.float64, device=device), total])
            return total

        given, direction = (dk.array(a, dtype=dk.float64, device=device) for a in (x, along))
        return dk.hvp(energy, (given,), (direction,))[0].numpy()

    expected = found("cpu")
    ran.clear()
    with fake_cuda(run="ptx"):
        np.testing.assert_allclose(found(G), expected, rtol=1e-12)
    assert True in ran
    gained = np.zeros(12)
    out = np.where(np.arange(12) > 1, np.roll(x, 2) ** 2 + 3 * x, x)
    # the energy is the weighed sum of squares: its Hessian times the direction, by hand
    jacobian = np.diag(np.where(np.arange(12) > 1, 3.0, 1.0)) + np.diag(2 * x[:-2], -2)
    gained += jacobian.T @ (2 * weights * (jacobian @ along))
    gained[:-2] += 2 * along[:-2] * (2 * weights * out)[2:]
    np.testing.assert_allclose(expected, gained, rtol=1e-12)


@dk.kernel
def weighed(out: D1, weights: D1, total: D1):
    i = dk.tid()
    dk.atomic_add(total, 0, weights[i] * out[i] * out[i])


@pytest.mark.parametrize("seeds", [range(2)])
def test_deterministic(seeds):
    """Sums of neighbours need no exact sums, and have the same bits in any order of threads and in any blocks."""
    kernel = dk.kernel(deterministic=True)(heat.func)
    case = Stencil(kernel, (6, 9), STENCILS["heat"].arguments)
    found = []
    for seed in seeds:
        with fake_cuda(run="ptx", seed=seed) as driver:
            found.append(gradients(case, G)[0].tobytes())
            assert len(driver.launches) == 1
    assert len({*found}) == 1
