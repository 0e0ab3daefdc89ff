"""Habits of published programs for Warp, each as small as it can be, with the values that Warp gives."""

from dataclasses import field
from typing import Any

import numpy as np
import pytest
from conftest import require

import diffkern as dk
import diffkern.warp as wp
from diffkern.frontend.syntax.canonical import captures, meaning_of


@wp.struct
class Inner:
    k: float = 4.0


@wp.struct
class Material:
    stiffness: float = field(default=1.5)
    kind: wp.int32 = 7
    direction: wp.vec3 = wp.vec3(1.0, 2.0, 3.0)
    inner: Inner
    points: wp.array[float] = None


@wp.kernel
def made_in_a_kernel(given: Material, out: wp.array[float]):
    m = Material()
    out[0] = m.stiffness + float(m.kind) + m.direction[1] + m.inner.k
    out[1] = given.stiffness + float(given.kind) + given.direction[1] + given.inner.k


def test_a_value_in_the_class_of_a_struct_is_no_default() -> None:
    m = Material()
    assert (m.stiffness, m.kind, list(m.direction), m.inner.k, m.points) == (0.0, 0, [0.0, 0.0, 0.0], 0.0, None)
    assert Material.kind == 7  # the class keeps what it was given
    out = wp.full(2, -1.0, dtype=float)
    wp.launch(made_in_a_kernel, 1, inputs=[m], outputs=[out])
    assert out.numpy().tolist() == [0.0, 0.0]


def test_a_value_in_the_class_of_a_native_struct_is_its_default() -> None:
    @dk.struct
    class Native:
        k: float = 4.0

    assert Native().k == 4.0
    assert not hasattr(Native, "k")


@wp.kernel
def first_axes(out: wp.array3d[int]):
    t = wp.tid()
    i, j, k = wp.tid()
    a, b = wp.tid()
    out[i, j, k] = 100 * t + 10 * a + b


@wp.kernel
def scaled_rows(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = x[wp.tid(), j] * float(wp.tid() + 1)


def test_tid_as_fewer_values_is_the_index_along_the_first_axes() -> None:
    out = wp.zeros((2, 3, 4), dtype=int)
    wp.launch(first_axes, out.shape, outputs=[out])
    i, j, _ = np.indices(out.shape)
    assert np.array_equal(out.numpy(), 110 * i + j)
    x = wp.ones((3, 2), dtype=float, requires_grad=True)
    y = wp.zeros((3, 2), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scaled_rows, x.shape, inputs=[x], outputs=[y])
    tape.backward(grads={y: wp.ones((3, 2), dtype=float)})
    assert x.grad.numpy().tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]


@dk.kernel
def native_axes(out: dk.array2d[int]):
    i, j = dk.tid()
    out[i, j] = dk.tid()


def test_the_native_dialect_wants_one_number_of_axes() -> None:
    with pytest.raises(dk.KernelTypeError, match=r"tid\(\) gives 1 here and 2 in line"):
        dk.launch(native_axes, (2, 2), outputs=[dk.zeros((2, 2), dtype=int)])


@wp.kernel
def moved(
    points: wp.array[wp.vec3], names: wp.array[wp.uint64], unused: wp.array3d[wp.vec3], out: wp.array[float],
    all_: bool,
):  # fmt: skip
    i = wp.tid()
    out[i] = points[i][1] + float(names[i])
    points[i] = 2.0 * points[i]
    if all_:
        unused[i, 0, 0] = points[i]


def test_what_is_passed_for_its_memory_alone_takes_the_elements_of_the_parameter() -> None:
    torch = require("torch")
    points, names = torch.arange(6.0).reshape(2, 3), torch.tensor([5, 6])
    out, unused = torch.zeros(2), torch.empty(0)

    def bare(t):
        return wp.from_torch(t, return_ctype=True)

    for factor in (1.0, 2.0):
        wp.launch(moved, 2, inputs=[bare(points), bare(names), bare(unused), bare(out), False])
        assert out.tolist() == [factor + 5.0, 4.0 * factor + 6.0]
        assert points[:, 1].tolist() == [2.0 * factor, 8.0 * factor]
    assert not isinstance(bare(points), wp.array)
    with pytest.raises(dk.LaunchError, match="points"):  # rows of two numbers are no vec3
        wp.launch(moved, 2, inputs=[bare(torch.zeros(3, 2)), bare(names), bare(unused), bare(out), False])
    with pytest.raises(dk.LaunchError, match="names"):  # neither are half as many bytes an integer
        wp.launch(moved, 2, inputs=[bare(points), bare(names.int()), bare(unused), bare(out), False])
    with pytest.raises(dk.LaunchError, match="points"):  # whoever asks for no more than an array gets one
        wp.launch(moved, 2, inputs=[wp.from_torch(points), bare(names), bare(unused), bare(out), False])


@wp.struct
class Lists:
    near: wp.array[float]
    sorted: wp.array[float]


@wp.func
def squares(x: wp.array(dtype=Any), count: int):
    total = x.dtype(0.0)
    for k in range(count):
        total += x[k] * x[k]
    return total


@wp.func
def picked(flag: bool, lists: Lists):
    if flag:
        return lists.near
    return lists.sorted


@wp.kernel
def of_either(
    lists: Lists, c: wp.array2d[float], d: wp.array2d[float], flags: wp.array[int], out: wp.array[float]
):  # fmt: skip
    i = wp.tid()
    flag = flags[i]
    x = lists.near if flag > 0 else lists.sorted
    y = c
    if flag == 1:
        y = d
    row = y[i]
    z = wp.where(flag == 2, x, lists.near)
    out[i] = squares(x, len(x)) + 3.0 * row[1] + y[i, -1] + float(y.shape[1] * z.shape[0])
    out[i] += squares(picked(flag == 2, lists), 2) * z[0]


def of_either_by_numpy(near, sorted_, c, d, flags):
    rows = []
    for i, flag in enumerate(flags):
        x, y, z = near if flag > 0 else sorted_, d if flag == 1 else c, near
        chosen = near if flag == 2 else sorted_
        rows.append(
            x @ x + 3.0 * y[i, 1] + y[i, -1] + y.shape[1] * len(z) + chosen[:2] @ chosen[:2] * z[0]
        )  # fmt: skip
    return np.array(rows)


def test_one_array_or_another_is_read_and_differentiated() -> None:
    random = np.random.default_rng(3)
    shapes = (3,), (5,), (4, 2), (4, 3)
    given = [random.normal(size=shape).astype(np.float32).astype(float) for shape in shapes]
    flags, weights = np.array([0, 1, 2, 0]), np.array([1.0, -2.0, 3.0, 0.5])
    near, sorted_, c, d = (wp.array(x, dtype=float, requires_grad=True) for x in given)
    out = wp.zeros(4, dtype=float, requires_grad=True)
    lists = Lists()
    lists.near, lists.sorted = near, sorted_
    with wp.Tape() as tape:
        wp.launch(of_either, 4, inputs=[lists, c, d, wp.array(flags, dtype=int)], outputs=[out])
    assert np.allclose(out.numpy(), of_either_by_numpy(*given, flags), rtol=1e-5)
    tape.backward(grads={out: wp.array(weights, dtype=float)})
    for k, (x, held) in enumerate(zip(given, (near, sorted_, c, d), strict=True)):
        for place in np.ndindex(x.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved_ = [y.copy() for y in given]
                moved_[k][place] += step
                ends.append(weights @ of_either_by_numpy(*moved_, flags))
            assert held.grad.numpy()[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3, abs=1e-3)


@wp.kernel
def exchanged(a: wp.array[float], b: wp.array[float], out: wp.array[float]):
    x, y = a, b
    for _ in range(out.shape[0]):
        x, y = y, x
    out[0] = x[0]


@wp.kernel
def chosen_in_a_loop(a: wp.array[float], b: wp.array[float], out: wp.array[float]):
    x = a
    for k in range(out.shape[0]):
        if k % 2 == 1:
            x = b
        out[k] = x[k]


@wp.kernel
def of_other_elements(a: wp.array[float], b: wp.array[int], flag: bool, out: wp.array[float]):
    out[0] = float((a if flag else b)[0])


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("kernel", [exchanged, chosen_in_a_loop])
def test_a_loop_chooses_one_array_or_another(kernel: wp.Kernel, length: int) -> None:
    a, b = (wp.array(x, dtype=float, requires_grad=True) for x in ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]))
    out = wp.zeros(length, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, 1, inputs=[a, b, out])
    tape.backward(grads={out: wp.ones(length, dtype=float)})
    # Which elements are read: of the first array before the second one is chosen, behind an even number of exchanges.
    of_a, of_b = np.zeros(4), np.zeros(4)
    if kernel is exchanged:
        (of_a if length % 2 == 0 else of_b)[0] = 1.0
    else:
        of_a[0], of_b[1:length] = 1.0, 1.0
    assert out.numpy().sum() == (of_a * a.numpy() + of_b * b.numpy()).sum()
    assert np.array_equal(a.grad.numpy(), of_a)
    assert np.array_equal(b.grad.numpy(), of_b)


def test_one_variable_for_arrays_of_two_types_is_an_error() -> None:
    a, b, out = wp.ones(2, dtype=float), wp.ones(2, dtype=int), wp.zeros(2, dtype=float)
    with pytest.raises(dk.KernelTypeError, match="on one side"):
        wp.launch(of_other_elements, 1, inputs=[a, b, True, out])


@dk.kernel
def native_choice(a: dk.array[float], b: dk.array[float], flag: bool, out: dk.array[float]):
    out[0] = (a if flag else b)[0]


def test_the_native_dialect_chooses_elements() -> None:
    a = dk.ones(2)
    with pytest.raises(dk.KernelTypeError, match="on one side"):
        dk.launch(native_choice, 1, inputs=[a, dk.ones(2), True], outputs=[dk.zeros(1)])


class Lattice:
    def __init__(self, axes: int, scale: float) -> None:
        self.axes, self.weights = axes, wp.types.vector(length=3, dtype=float)(1.0, 2.0, 3.0)
        self.scale = scale


class Operator:
    """Makes a kernel and a func, which take their numbers from what it holds, as programs for lattices do."""

    def __init__(self, lattice: Lattice, doubled: bool) -> None:
        self.lattice, self.doubled = lattice, doubled

        @wp.func
        def scaled(x: float):
            return x * self.lattice.scale

        self.scaled = scaled

        @wp.kernel
        def kernel(out: wp.array[float]):
            for d in range(self.lattice.axes):
                out[d] = self.scaled(self.precision(self.lattice.weights[d]))
                if self.doubled:
                    out[d] *= 2.0

        self.kernel = kernel

    @property
    def precision(self) -> Any:
        return wp.float32


def launched(operator: Operator) -> list[float]:
    out = wp.zeros(3, dtype=float)
    wp.launch(operator.kernel, 1, outputs=[out])
    return out.numpy().tolist()


def test_attributes_of_objects_are_constants() -> None:
    first, second = Operator(Lattice(3, 2.0), False), Operator(Lattice(2, 5.0), True)
    assert launched(first) == [2.0, 4.0, 6.0]
    assert launched(second) == [10.0, 20.0, 0.0]
    first.lattice.scale = 7.0  # a launch goes by what they are now
    assert launched(first) == [7.0, 14.0, 21.0]
    first.lattice = Lattice(1, 3.0)
    assert launched(first) == [3.0, 0.0, 0.0]
    first.doubled = True
    assert launched(first) == [6.0, 0.0, 0.0]


def test_an_attribute_that_is_another_one_at_each_reading_is_refused() -> None:
    class Counting:
        reads = 0

        @property
        def count(self) -> float:
            self.reads += 1
            return float(self.reads)

        @property
        def axis(self) -> Any:
            return wp.vec3(2.0, 1.0, 1.0)

    counting = Counting()

    @wp.kernel
    def counted(y: wp.array(dtype=float)):
        y[0] = counting.count

    @wp.kernel
    def steady(y: wp.array(dtype=float)):
        y[0] = counting.axis[0]

    y = wp.zeros(1, dtype=float)
    with pytest.raises(dk.KernelTypeError, match=r"counting.count in counted gives another value each time"):
        wp.launch(counted, dim=1, outputs=[y])
    wp.launch(steady, dim=1, outputs=[y])
    assert y.numpy()[0] == 2.0


def test_an_attribute_that_an_object_lacks_is_named() -> None:
    owner = Lattice(1, 1.0)

    @wp.kernel
    def kernel(out: wp.array[float]):
        out[0] = owner.no_such_attribute

    with pytest.raises(dk.KernelTypeError, match="owner has no attribute 'no_such_attribute'"):
        wp.launch(kernel, 1, outputs=[wp.zeros(1, dtype=float)])


def test_vectors_in_closures_are_looked_up_as_they_are_kept() -> None:
    weights = wp.vec3(1.0, 2.0, 3.0)

    @wp.kernel
    def kernel(out: wp.array[float]):
        out[0] = weights[1]

    out = wp.zeros(1, dtype=float)
    wp.launch(kernel, 1, outputs=[out])
    kept = captures(meaning_of(kernel.func))
    assert all(look(name) is value for look, name, value in kept)
    weights[1] = 5.0
    assert not all(look(name) is value for look, name, value in kept)
    wp.launch(kernel, 1, outputs=[out])
    assert out.numpy()[0] == 5.0
