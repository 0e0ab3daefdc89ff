"""Plain stores of several threads to one element: refused where a gradient passes them, right where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.runtime.launch import stamps

F = dk.float64
X1, I1 = dk.array(dtype=F), dk.array(dtype=dk.int32)
N = 4
X = np.array([0.4, -1.3, 2.2, 0.9])
WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0])


@dk.kernel
def scattered(y: X1, x: X1, at: I1):
    i = dk.tid()
    y[at[i]] = dk.sin(x[i])


@dk.kernel
def gathered(y: X1, x: X1, at: I1, of: I1):
    i = dk.tid()
    y[at[i]] = dk.sin(x[of[i]])


@dk.kernel
def halved(y: X1, x: X1):
    i = dk.tid()
    y[i // 2] = x[i]


@dk.kernel
def around(y: X1, x: X1, n: int):
    i = dk.tid()
    y[i % n] = x[i]


@dk.kernel
def laid_out(y: X1, x: X1, width: int):
    i, j = dk.tid()
    y[i * width + j] = dk.sin(x[2 * i + j])


@pytest.fixture
def looks(monkeypatch) -> list[str]:
    """The kernels of which launches were stamped."""
    found: list[str] = []
    before = stamps.PackedLaunch.stamping

    def stamping(self: Any, *given: Any) -> Any:
        found.append(self.kernel.name)
        return before(self, *given)

    monkeypatch.setattr(stamps.PackedLaunch, "stamping", stamping)
    return found


def integers(*values: int) -> Any:
    return dk.array(np.array(values, np.int32))


def gradient(kernel: Any, *given: Any, dim: Any = N, values: Any = X, device: str | None = None) -> np.ndarray:
    x, y = (dk.array(v, requires_grad=True, device=device) for v in (values, np.zeros(N)))
    with dk.Tape() as tape:
        dk.launch(kernel, dim, [y, x, *given])
    tape.backward(grads={y: dk.array(WEIGHTS, device=device)})
    return x.grad.numpy()


def line_of(kernel: Any, below: int = 3) -> int:
    return kernel.func.__code__.co_firstlineno + below


# -- tables ------------------------------------------------------------------------------------------------------------


def test_a_table_without_repetitions_is_looked_at_once(looks):
    at = integers(2, 0, 3, 1)
    for _ in range(3):
        np.testing.assert_allclose(gradient(scattered, at), np.cos(X) * WEIGHTS[[2, 0, 3, 1]])
    assert looks == ["scattered"]
    at.assign([0, 1, 2, -1])
    np.testing.assert_allclose(gradient(scattered, at), np.cos(X) * WEIGHTS)
    assert looks == ["scattered"] * 2


@pytest.mark.parametrize("places", [(0, 1, 0, 3), (2, 1, 3, -2), (1, 1, 1, 1)])
def test_a_repetition_is_an_error_that_names_both_threads_the_line_and_the_remedy(places):
    said = rf"thread \d writes y\[\d\] here, and thread \d another value \(line {line_of(scattered)}\)"
    with pytest.raises(dk.AutodiffError, match=said) as caught:
        gradient(scattered, integers(*places))
    assert caught.value.loc is not None
    assert caught.value.loc.line == line_of(scattered)
    assert "dk.atomic_add" in (caught.value.remedy or "")


@pytest.mark.parametrize("view", [lambda a: a.numpy(), np.from_dlpack])
def test_a_table_changed_through_a_view_is_looked_at_again(view):
    at = integers(2, 0, 3, 1)
    gradient(scattered, at)
    view(at)[:] = [1, 1, 0, 2]
    with pytest.raises(dk.AutodiffError, match="another value"):
        gradient(scattered, at)


def test_values_that_are_equal_by_chance_have_two_writers():
    with pytest.raises(dk.AutodiffError, match=r"thread 2 an equal value, computed in another way or from other"):
        gradient(scattered, integers(0, 1, 0, 3), values=np.zeros(N))


def test_values_of_one_source_have_one_writer(looks):
    at, of = integers(0, 1, 0, 3), integers(2, 1, 2, 0)
    for _ in range(3):
        np.testing.assert_allclose(gradient(gathered, at, of), np.cos(X) * [4.0, 2.0, 1.0, 0.0])
    assert looks == ["gathered"] * 2  # with the adjoint that is for one thread, and then with the other one
    of.assign([2, 1, 3, 0])
    with pytest.raises(dk.AutodiffError, match="another value"):
        gradient(gathered, at, of)


@dk.kernel
def chosen(y: X1, x: X1, at: I1, flags: I1):
    i = dk.tid()
    total = F(0.0)
    for k in range(flags[i] + 1):
        if flags[i] > 0:
            total += x[k] * x[at[i]]
        else:
            total = x[at[i]]
    y[at[i]] = total


def test_loops_and_branches_are_part_of_a_source():
    """The first and the third thread store x[0] * x[0], one of them by way of a loop and the other one not."""
    ones, of_ones = np.ones(N), integers(0, 0, 0, 0)
    np.testing.assert_allclose(gradient(chosen, integers(0, 1, 0, 3), of_ones), [1.0, 2.0, 0.0, 4.0])
    same = gradient(chosen, integers(0, 1, 0, 3), integers(1, 0, 1, 0), values=ones)
    np.testing.assert_allclose(same, [3.0, 3.0, 0.0, 4.0])
    with pytest.raises(dk.AutodiffError, match=r"thread 0 writes y\[0\] here, and thread 2"):
        gradient(chosen, integers(0, 1, 0, 3), integers(1, 0, 0, 0), values=[0.0, 0.0, 0.0, 0.0])


def test_it_is_an_error_only_where_a_gradient_passes_it(looks):
    x, scratch, z = (dk.array(v, requires_grad=True) for v in (X, np.zeros(N), np.zeros(N)))
    at = integers(0, 0, 1, 2)
    for _ in range(3):
        with dk.Tape() as tape:
            dk.launch(scattered, N, [scratch, x, at])
            dk.launch(scattered, N, [z, x, integers(0, 1, 2, 3)])
        x.grad.zero_()
        tape.backward(grads={z: dk.array(WEIGHTS)})
        np.testing.assert_allclose(x.grad.numpy(), np.cos(X) * WEIGHTS)
    assert looks[:2] == ["scattered"] * 2
    assert len(looks) == 4  # what was seen of the shared element is remembered as well


@dk.kernel
def cleared(y: X1, x: X1, at: I1):
    i = dk.tid()
    y[at[i]] = 0.0
    y[i] = y[i] + x[i]


def test_constants_have_no_writer_to_be_told(looks):
    x, y = dk.array(X, requires_grad=True), dk.zeros(2 * N, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(cleared, N, [y, x, integers(5, 5, 6, 5)])
    tape.backward(grads={y: dk.array(np.tile(WEIGHTS, 2))})
    np.testing.assert_allclose(x.grad.numpy(), WEIGHTS)
    np.testing.assert_allclose(y.grad.numpy(), [*WEIGHTS, WEIGHTS[0], 0.0, 0.0, WEIGHTS[3]])


# -- computed indices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "given"), [(halved, ()), (around, (3,))])
def test_computed_indices_that_repeat(kernel, given):
    with pytest.raises(dk.AutodiffError, match=r"thread \d writes y\[0\] here, and thread \d another value"):
        gradient(kernel, *given)


def test_numbers_that_rule_repetitions_out_spare_the_look(looks):
    np.testing.assert_allclose(gradient(around, 4), WEIGHTS)
    np.testing.assert_allclose(gradient(laid_out, 2, dim=(2, 2)), np.cos(X) * WEIGHTS)
    assert not looks
    with pytest.raises(dk.AutodiffError, match=r"thread \(0, 1\) writes y\[1\] here, and thread \(1, 0\)"):
        gradient(laid_out, 1, dim=(2, 2), values=np.ones(N))


@dk.kernel
def rows(y: dk.array2d(dtype=F), x: X1):
    i, j = dk.tid()
    y[i, 2 * j + 1] = x[i] * x[j]


@dk.kernel
def mirrored(y: X1, x: X1):
    i = dk.tid()
    y[3 - i] = x[i] * x[i]


def test_indices_that_are_proved_are_never_looked_at(looks):
    np.testing.assert_allclose(gradient(mirrored), 2 * X * WEIGHTS[::-1])
    x, y = dk.array(X, requires_grad=True), dk.zeros((N, 2 * N), dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(rows, (N, N), [y, x])
    tape.backward(grads={y: dk.ones((N, 2 * N), dtype=F)})
    np.testing.assert_allclose(x.grad.numpy(), np.full(N, 2 * X.sum()))
    assert not looks


@dk.kernel
def appended(count: I1, y: X1, x: X1):
    place = dk.atomic_add(count, 0, 1)
    y[place] = x[dk.tid()] ** 2.0


def test_places_that_a_counter_gives_rest_on_the_precondition(looks):
    x, y = dk.array(X, requires_grad=True), dk.zeros(N, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(appended, N, [integers(0), y, x])
    tape.backward(grads={y: dk.ones(N, dtype=F)})
    np.testing.assert_allclose(x.grad.numpy(), 2 * X)
    assert not looks


# -- vectors and structs -----------------------------------------------------------------------------------------------


@dk.struct
class Particle:
    heat: F
    at: dk.vec3d


@dk.kernel
def one_component(v: dk.array(dtype=dk.vec3d), x: X1, at: I1, which: I1):
    i = dk.tid()
    v[at[i]][which[i]] = 2.0 * x[i]


@dk.kernel
def by_branches(v: dk.array(dtype=dk.vec3d), x: X1, at: I1):
    i = dk.tid()
    if i % 2 == 0:
        v[at[i]].x = 2.0 * x[i]
    else:
        v[at[i]].z = 3.0 * x[i]


@dk.kernel
def one_by_one(v: dk.array(dtype=dk.vec3d), x: X1, at: I1):
    """Each branch goes on with the vector that the one before has left."""
    i = dk.tid()
    k = at[i]
    if i % 3 == 0:
        v[k].x = 2.0 * x[i]
    if i % 3 == 1:
        v[k].y = 3.0 * x[i]
    if i % 3 == 2:
        v[k].z = 4.0 * x[i]


@dk.kernel
def replaced(v: dk.array(dtype=dk.vec3d), x: X1, at: I1):
    i = dk.tid()
    w = dk.vec3d(0.0, 0.0, 0.0)
    if i % 2 == 0:
        w = v[at[i]]
    w[i % 3] = x[i]
    v[at[i]] = w


@dk.kernel
def heated(p: dk.array(dtype=Particle), x: X1, at: I1):
    i = dk.tid()
    p[at[i]].heat = 2.0 * x[i]


def of_vectors(kernel: Any, *given: Any) -> np.ndarray:
    x, v = dk.array(X, requires_grad=True), dk.zeros(2, dtype=dk.vec3d, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, N, [v, x, *given])
    tape.backward(grads={v: dk.array(np.arange(6.0).reshape(2, 3), dtype=dk.vec3d)})
    return x.grad.numpy()


def test_threads_share_vectors_and_no_component():
    at, which = integers(1, 1, 0, -1), integers(0, 2, 1, -2)
    np.testing.assert_allclose(of_vectors(one_component, at, which), [6.0, 10.0, 2.0, 8.0])
    np.testing.assert_allclose(of_vectors(by_branches, integers(1, 1, 0, 0)), [6.0, 15.0, 0.0, 6.0])
    np.testing.assert_allclose(of_vectors(one_by_one, integers(1, 1, 1, 0)), [6.0, 12.0, 20.0, 0.0])


@pytest.mark.parametrize(
    ("kernel", "given", "element"),
    [
        (one_component, [(1, 1, 0, 1), (0, 2, 1, -1)], r"v\[1\]\[2\]"),
        (by_branches, [(1, 1, 1, 0)], r"v\[1\]\[0\]"),
        (one_by_one, [(1, 0, 0, 1)], r"v\[1\]\[0\]"),
        (replaced, [(1, 1, 0, 0)], r"v\[\d\]"),
    ],
)
def test_a_component_of_two_threads_is_named(kernel, given, element):
    with pytest.raises(dk.AutodiffError, match=rf"thread \d writes {element} here, and thread \d another value"):
        of_vectors(kernel, *(integers(*values) for values in given))


def test_fields_of_structs():
    def found(*places: int) -> np.ndarray:
        x, p = dk.array(X, requires_grad=True), dk.zeros(N, dtype=Particle, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(heated, N, [p, x, integers(*places)])
        seed = p.grad.numpy()
        seed["heat"] = WEIGHTS
        p.grad.assign(seed)
        tape.backward()
        return x.grad.numpy()

    np.testing.assert_allclose(found(1, 0, 3, 2), 2.0 * WEIGHTS[[1, 0, 3, 2]])
    with pytest.raises(dk.AutodiffError, match=r"thread 0 writes p\.heat\[1\] here, and thread 2 another value"):
        found(1, 0, 1, 2)


# -- objects and arrays of a thread ------------------------------------------------------------------------------------


@dk.kernel
def nearest(y: X1, x: X1, mesh: dk.uint64):
    i = dk.tid()
    found = dk.mesh_query_point_no_sign(
        mesh, dk.vec3(dk.float32(x[i]), dk.float32(0.1), dk.float32(1.0)), dk.float32(9.0)
    )
    y[found.face] = dk.sin(x[i])


@dk.kernel
def tabled(y: X1, x: X1, at: I1, mesh: dk.uint64):
    i = dk.tid()
    place = dk.vec3(dk.float32(i), dk.float32(0.1), dk.float32(1.0))
    found = dk.mesh_query_point_no_sign(mesh, place, dk.float32(9.0))
    if found.result:
        y[at[i]] = dk.sin(x[i])


@dk.kernel
def sorted_pair(y: X1, x: X1, at: I1):
    i = dk.tid()
    own = dk.zeros(2, dtype=F)
    own[at[i] % 2] = dk.sin(x[i])
    y[at[i]] = own[0] + own[1]


def strip(*places: float) -> Any:
    """A mesh of upright triangles, one at each place along the first axis."""
    corners = [[at, side, height] for at in places for side, height in ((-1.0, 0.0), (1.0, 0.0), (0.0, 3.0))]
    points = dk.array(np.array(corners, np.float32), dtype=dk.vec3)
    return dk.Mesh(points, integers(*range(3 * len(places))))


def test_elements_that_a_query_finds_are_looked_at_each_time(looks):
    mesh = strip(-1.0, 0.0, 1.0, 2.0)  # nearest to -1.3, 0.4, 0.9 and 2.2
    for _ in range(2):
        np.testing.assert_allclose(gradient(nearest, mesh.id), np.cos(X) * WEIGHTS[[1, 0, 3, 2]])
    assert looks == ["nearest"] * 2  # the points decide, which may have moved
    mesh.points = strip(0.0, 0.5, 7.0, 8.0).points
    with pytest.raises(dk.AutodiffError, match=r"thread \d writes y\[1\] here, and thread \d another value"):
        gradient(nearest, mesh.id)


def test_a_table_beside_a_query_is_looked_at(looks):
    mesh, at = strip(0.0, 1.0), integers(2, 0, 3, 1)
    np.testing.assert_allclose(gradient(tabled, at, mesh.id), np.cos(X) * WEIGHTS[[2, 0, 3, 1]])
    with pytest.raises(dk.AutodiffError, match=r"thread 0 writes y\[1\] here, and thread 3 another value"):
        gradient(tabled, integers(1, 0, 3, 1), mesh.id)


def test_kernels_with_arrays_of_a_thread_are_looked_at(looks):
    np.testing.assert_allclose(gradient(sorted_pair, integers(2, 0, 3, 1)), np.cos(X) * WEIGHTS[[2, 0, 3, 1]])
    assert looks == ["sorted_pair"]
    with pytest.raises(dk.AutodiffError, match=r"thread 0 writes y\[1\] here, and thread 3 another value"):
        gradient(sorted_pair, integers(1, 0, 3, 1))


# -- elsewhere ---------------------------------------------------------------------------------------------------------


def test_whoever_promises_it_is_taken_at_his_word(looks):
    promised = dk.kernel(race_free=True)(scattered.func)
    np.testing.assert_allclose(gradient(promised, integers(2, 0, 3, 1)), np.cos(X) * WEIGHTS[[2, 0, 3, 1]])
    gradient(promised, integers(1, 1, 1, 1))
    assert not looks


@dk.kernel
def total(y: X1, s: X1):
    s[0] += y[dk.tid()] * F(dk.tid() + 1)


def test_grad_and_adjoints_by_hand_are_looked_at():
    def loss(x: Any, at: Any) -> Any:
        y, s = dk.zeros(N, dtype=F), dk.zeros(1, dtype=F)
        dk.launch(scattered, N, [y, x, at])
        dk.launch(total, N, [y, s])
        return s

    def by_hand(at: Any) -> np.ndarray:
        x, y = dk.array(X), dk.zeros(N, dtype=F)
        ct_x, ct_y = dk.zeros(N, dtype=F), dk.array(WEIGHTS)
        dk.launch(scattered, N, [y, x, at])
        dk.launch(scattered, N, [y, x, at], adjoint=True, adj_inputs=[ct_y, ct_x, None])
        return ct_x.numpy()

    def by_grad(at: Any) -> np.ndarray:
        return dk.grad(lambda x: loss(x, at))(dk.array(X)).numpy()

    for found in (by_grad, by_hand):
        np.testing.assert_allclose(found(integers(2, 0, 3, 1)), np.cos(X) * WEIGHTS[[2, 0, 3, 1]])
        with pytest.raises(dk.AutodiffError, match=r"thread 0 writes y\[1\] here, and thread 3 another value"):
            found(integers(1, 0, 3, 1))


def test_records_rest_on_the_precondition(looks):
    x, y, at = dk.array(X, requires_grad=True), dk.zeros(N, dtype=F, requires_grad=True), integers(2, 0, 3, 1)
    with dk.record() as steps:
        with dk.Tape() as tape:
            dk.launch(scattered, N, [y, x, at])
        tape.backward(grads={y: dk.array(WEIGHTS)})
    x.grad.zero_()
    steps.replay()
    assert not looks


def test_a_record_of_an_adjoint_may_be_made_before_its_tables(looks):
    at, ct_x, ct_y = integers(0, 0, 0, 0), dk.zeros(N, dtype=F), dk.array(WEIGHTS)
    given = [dk.zeros(N, dtype=F), dk.array(X), at]
    record = dk.launch(scattered, N, given, adjoint=True, adj_inputs=[ct_y, ct_x, None], record_cmd=True)
    at.assign([2, 0, 3, 1])
    record.launch()
    np.testing.assert_allclose(ct_x.numpy(), np.cos(X) * WEIGHTS[[2, 0, 3, 1]])
    assert not looks


def test_launches_on_a_gpu_are_looked_at_there():
    with fake_cuda(run="ptx", races=False):  # the second launch has one, which diffkern tells
        at = integers(2, 0, 3, 1).to("cuda:0")
        np.testing.assert_allclose(gradient(scattered, at, device="cuda:0"), np.cos(X) * WEIGHTS[[2, 0, 3, 1]])
        at = integers(2, 0, 2, 1).to("cuda:0")
        with pytest.raises(dk.AutodiffError, match=r"thread 0 writes y\[2\] here, and thread 2 another value"):
            gradient(scattered, at, device="cuda:0")


def test_many_threads_of_one_source():
    count = 5000
    at = np.arange(count) // 2
    x, y = dk.array(np.linspace(0.0, 1.0, count), requires_grad=True), dk.zeros(count, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(gathered, count, [y, x, dk.array(at.astype(np.int32)), dk.array(at.astype(np.int32))])
    tape.backward(grads={y: dk.ones(count, dtype=F)})
    wanted = np.where(np.arange(count) < count // 2, np.cos(x.numpy()), 0.0)
    np.testing.assert_allclose(x.grad.numpy(), wanted)
