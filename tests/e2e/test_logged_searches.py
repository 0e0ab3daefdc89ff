"""Launches on tapes keep the integers that their adjoints would search for once more; nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from support import search_programs
from support.fake_driver.driver import fake_cuda
from support.surfaces import sphere

import diffkern as dk
from diffkern.runtime.launch import packed
from tests.e2e.logged_search_kernels import KERNELS, REPEATING, SEARCHING

F = dk.float64
N, M = 9, 7
RNG = np.random.default_rng(5)
X, Y, W = RNG.normal(size=(N, 3)), RNG.normal(size=(M, 3)), RNG.normal(size=N)
DX, DY = RNG.normal(size=(N, 3)), RNG.normal(size=(M, 3))


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """How sums are divided among several depends on what an adjoint costs; and small launches keep logs as well."""
    before, dk.config.num_threads = dk.config.num_threads, 1
    least, packed.LEAST_WORK = packed.LEAST_WORK, 0.0
    yield
    dk.config.num_threads, packed.LEAST_WORK = before, least


def given(values: np.ndarray, device: str = "cpu", dtype: Any = F) -> Any:
    return dk.array(values, dtype=dtype, requires_grad=True, device=device)


@dk.kernel
def weighed(d: dk.array(dtype=F), w: dk.array(dtype=F), s: dk.array(dtype=F)):
    i = dk.tid()
    dk.atomic_add(s, 0, d[i] * d[i] * w[i])


def loss(kernel: Any, x: Any, y: Any) -> Any:
    d, s = dk.zeros(N, dtype=F), dk.zeros(1, dtype=F)
    kernel[N](x, y, d)
    weighed[N](d, dk.array(W), s)
    return s


def slots(tape: dk.Tape) -> int:
    """The integers that each thread of the first launch has kept."""
    log = tape.launches[0].logged
    return 0 if log is None else log.calls


def taped(kernel: Any, device: str = "cpu") -> tuple[list[np.ndarray], dk.Tape]:
    x, y, d = given(X, device), given(Y, device), given(np.zeros(N), device)
    with dk.Tape() as tape:
        kernel[N](x, y, d)
    tape.backward(grads={d: dk.array(W, device=device)})
    return [a.numpy() for a in (d, x.grad, y.grad)], tape


def twice(kernel: Any) -> Sequence[Any]:
    x, y, d = given(X), given(Y), given(np.zeros(N))
    with dk.Tape() as tape:
        kernel[N](x, y, d)
        kernel[M](y, x, d[:M])
    for _ in range(2):
        tape.backward(grads={d: W})
    return x.grad, y.grad


def recorded(kernel: Any) -> Sequence[Any]:
    """Each replay searches in what the arrays hold then."""
    x, y, d, found = given(X), given(Y), given(np.zeros(N)), []
    with dk.record() as sequence:
        with dk.Tape() as tape:
            kernel[N](x, y, d)
        tape.zero()
        tape.backward(grads={d: W})
    for values in (X, -X, X[::-1].copy()):
        x.assign(values)
        sequence.replay()
        found += [d.numpy(), x.grad.numpy(), y.grad.numpy()]
    return found


def adjoint_of_a_sequence(kernel: Any) -> Sequence[Any]:
    x, y, d, found = given(X), given(Y), given(np.zeros(N)), []
    with dk.record() as sequence:
        kernel[N](x, y, d)
    both = sequence.adjoint(grads={d: W})
    for values in (X, -X):
        x.assign(values)
        both.replay()
        found += [d.numpy(), x.grad.numpy(), y.grad.numpy()]
    return found


def rolled_out(kernel: Any) -> Sequence[Any]:
    """Steps that move the points, of which few states are kept."""
    x, y, d = given(X), given(Y), given(np.zeros(N))

    def step(k: int) -> None:
        kernel[N](x, y, d)
        moved[N](x, d)

    with dk.Tape() as tape:
        dk.checkpoint(step, 5, 2)
    tape.backward(grads={x: DX})
    return x, x.grad, y.grad


@dk.kernel
def moved(x: dk.array(dtype=F, ndim=2), d: dk.array(dtype=F)):
    i = dk.tid()
    x[i, 0] = x[i, 0] + 0.05 * dk.sin(d[i])
    x[i, 1] = x[i, 1] * 0.9


def inside(kernel: Any) -> Sequence[Any]:
    """A gradient in a tape, which has its own need of the launch."""
    x, y, s = given(X), given(Y), dk.zeros(1, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        g = dk.grad(lambda x: loss(kernel, x, y))(x)
        squared[N](g, s)
    tape.backward(s)
    return s, x.grad, y.grad


@dk.kernel
def squared(g: dk.array(dtype=F, ndim=2), s: dk.array(dtype=F)):
    i = dk.tid()
    dk.atomic_add(s, 0, g[i, 0] * g[i, 0] + g[i, 1] * g[i, 2])


# A loop is unrolled that has become short, or a sum is divided into other parts, as the adjoint costs less: also with
# one thread the parts of a launch follow from its cost.
ROUNDED = ("for_each_axis", "partly", "pairs", "small_integers")
DRIVERS: dict[str, Callable[[Any], Sequence[Any]]] = {
    "tape": lambda k: taped(k)[0],
    "two launches, swept twice": twice,
    "grad": lambda k: dk.grad(lambda x, y: loss(k, x, y))(given(X), given(Y)),
    "vjp for one of two": lambda k: dk.vjp(lambda y: loss(k, given(X), y), (given(Y),), given(np.ones(1)))[1],
    "jvp": lambda k: dk.jvp(lambda x, y: loss(k, x, y), (given(X), given(Y)), (given(DX), given(DY)))[1:],
    "hvp": lambda k: dk.hvp(lambda x, y: loss(k, x, y), (given(X), given(Y)), (given(DX), given(DY))),
    "gradient in a tape": inside,
    "record": recorded,
    "adjoint of a sequence": adjoint_of_a_sequence,
    "roll-out": rolled_out,
}


def numbers(found: Any) -> list[np.ndarray]:
    found = found if isinstance(found, (tuple, list)) else [found]
    return [np.asarray(a.numpy() if isinstance(a, dk.array) else a) for a in found]


@pytest.mark.parametrize("name", SEARCHING)
def test_derivatives(name: str) -> None:
    kernel = SEARCHING[name]
    found, tape = taped(kernel)
    assert slots(tape) == {f.__name__: n for f, n in KERNELS.items()}[name]

    def value(h: float) -> float:
        d = dk.zeros(N, dtype=F)
        kernel[N](dk.array(X + h * DX), dk.array(Y + h * DY), d)
        return float(W @ d.numpy())

    slope = (value(1e-6) - value(-1e-6)) / 2e-6
    assert (found[1] * DX).sum() + (found[2] * DY).sum() == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", SEARCHING)
def test_nothing_else_changes(name: str, driver: str) -> None:
    """To the last bit, but where sums have another order."""
    found, wanted = (numbers(DRIVERS[driver](kernels[name])) for kernels in (SEARCHING, REPEATING))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12 if name in ROUNDED else 0.0, atol=0.0)
        assert np.isfinite(one).all()


@pytest.mark.parametrize("name", ["in_branches", "for_each_axis", "wide_integers"])
def test_on_a_gpu(name: str) -> None:
    wanted, _ = taped(REPEATING[name])
    with fake_cuda(run="ptx"):
        found, tape = taped(ON_GPU[name], "cuda:0")
        assert slots(tape) == slots(taped(SEARCHING[name])[1])
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


ON_GPU = {f.__name__: dk.kernel(f) for f in KERNELS}


@dk.kernel
def seen(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), e: dk.array(dtype=dk.vec3), out: dk.array(dtype=float)):
    i = dk.tid()
    hit = dk.mesh_query_ray(mesh, x[i], e[i], 100.0)
    if hit.result:
        out[i] = hit.t * hit.t


def test_meshes() -> None:
    rng, (points, faces) = np.random.default_rng(3), sphere(6)
    rays, to = 0.8 * rng.normal(size=(2, 40, 3)).astype(np.float32)
    found: list[list[np.ndarray]] = []
    for kernel in (seen, dk.kernel(log_searches=False)(seen.func)):
        p, x, e = given(points, dtype=dk.vec3), given(rays, dtype=dk.vec3), given(to, dtype=dk.vec3)
        mesh, out = dk.Mesh(p, dk.array(faces.reshape(-1), dtype=dk.int32)), given(np.zeros(40), dtype=dk.float32)
        with dk.Tape() as tape:
            kernel[40](mesh.id, x, e, out)
        assert slots(tape) == (1 if kernel is seen else 0)
        tape.backward(grads={out: np.ones(40, np.float32)})
        found.append([a.numpy() for a in (out, p.grad, x.grad, e.grad)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        assert np.abs(one).max() > 0.1


@dk.kernel
def in_table(x: dk.array(dtype=F), keys: dk.array(dtype=F), y: dk.array(dtype=F)):
    i = dk.tid()
    k = 0
    while k < keys.shape[0] and keys[k] < x[i]:
        k += 1
    y[i] = x[i] * x[i] * F(k)


def test_what_the_search_alone_reads_may_change() -> None:
    x, keys, y = given(np.array([0.1, 0.5, 0.9])), dk.array([0.3, 0.6, 0.8]), given(np.zeros(3))
    with dk.Tape() as tape:
        in_table[3](x, keys, y)
    keys.fill_(5.0)
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_allclose(x.grad.numpy(), [0.0, 1.0, 5.4])


@dk.kernel
def by_all(x: dk.array(dtype=F), keys: dk.array(dtype=F), y: dk.array(dtype=F)):
    k = 0
    while k < keys.shape[0] and keys[k] < x[1]:
        k += 1
    dk.atomic_add(y, 0, x[1] * x[1] * F(k))


def test_launches_that_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = dk.array([0.3, 0.6, 0.8])

    def kept(dim: int, kernel: Any = in_table) -> int:
        x, y = given(np.array([0.1, 0.5, 0.9])), given(np.zeros(3))
        with dk.Tape() as tape:
            kernel[dim](x, keys, y)
        tape.backward(grads={y: np.ones(3)})
        wanted = [0.0, dim, 0.0] if kernel is by_all else [0.0, dim > 0, 5.4 * (dim > 0)]
        np.testing.assert_allclose(x.grad.numpy(), wanted)
        return slots(tape) if tape.launches else 0

    assert [kept(dim) for dim in (3, 0)] == [1, 0]
    monkeypatch.setattr(packed, "LEAST_WORK", 1e4)
    assert kept(3) == 0  # too little to be worth it
    monkeypatch.undo()
    # Threads of one index have one place in a log.
    assert [kept(dim, by_all) for dim in (1, 2)] == [1, 0]
    dk.set_module_options({"log_searches": False})
    try:
        assert kept(3) == 0
    finally:
        dk.set_module_options({"log_searches": None})
    assert [dk.kernel(log_searches=on)(in_table.func).log_searches for on in (None, True, False)] == [True, True, False]


@pytest.mark.parametrize("number", range(1, 41))
def test_random_programs(number: int) -> None:
    search_programs.check(number)
