"""Adjoint launches by hand: which gradients take part, where they are added to, what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.accumulate.aliases import near_pairs


@dk.kernel
def product(x: dk.array(dtype=float), y: dk.array(dtype=float), a: float, z: dk.array(dtype=float)):
    i = dk.tid()
    z[i] = a * x[i] * y[i]


@dk.kernel
def square_in_place(y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = y[i] * y[i]


@dk.kernel
def gather(x: dk.array(dtype=float), index: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[index[i]]


@dk.kernel
def blur(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i - 1] + 2.0 * x[i] + 3.0 * x[i + 1]


@dk.kernel
def broadcast(x: dk.array(dtype=float), y: dk.array2d(dtype=float)):
    i, j = dk.tid()
    y[i, j] = x[j]


@dk.kernel
def move(x: dk.array(dtype=dk.vec3), by: dk.vec3, y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    y[i] = 2.0 * x[i] + by


@dk.kernel(enable_backward=False)
def one_way(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i]


def floats(*values, grad=False):
    return dk.array(np.array(values, dtype=np.float32), requires_grad=grad)


def test_gradients_given_by_hand_are_added_to_and_those_of_outputs_consumed():
    x, y, z = floats(1, 2), floats(3, 4), dk.zeros(2)
    ct_x, ct_y, ct_a, ct_z = floats(10, 10), dk.zeros(2), dk.zeros(1), floats(1, 100)
    product[2](x, y, 2.0, z)
    dk.launch(product, 2, [x, y, 2.0], [z], adj_inputs=[ct_x, ct_y, ct_a], adj_outputs=[ct_z], adjoint=True)
    assert ct_x.numpy().tolist() == [16, 810]
    assert ct_y.numpy().tolist() == [2, 400]
    assert ct_a.numpy().tolist() == [3 + 800]
    assert ct_z.numpy().tolist() == [0, 0]


def test_none_means_the_own_gradient_or_no_gradient():
    x, y, z = floats(1, 2, grad=True), floats(3, 4), dk.zeros(2, requires_grad=True)
    z.grad.fill_(1.0)
    dk.launch(product, 2, [x, y, 2.0], [z], adjoint=True)
    assert x.grad.numpy().tolist() == [6, 8]
    z.grad.fill_(1.0)
    dk.launch(product, 2, [x, y, 2.0], [z], adj_inputs=[None, None, None], adj_outputs=[None], adjoint=True)
    assert x.grad.numpy().tolist() == [12, 16]


def test_numpy_gradients():
    x, y, z = (np.array(v, np.float32) for v in ([1, 2], [3, 4], [0, 0]))
    ct_x, ct_z = np.zeros(2, np.float32), np.ones(2, np.float32)
    dk.launch(product, 2, [x, y, 2.0], [z], adj_inputs=[ct_x, None, None], adj_outputs=[ct_z], adjoint=True)
    assert ct_x.tolist() == [6, 8]


def test_the_gradient_of_a_vector_by_value():
    x, y = dk.zeros(3, dtype=dk.vec3), dk.zeros(3, dtype=dk.vec3)
    ct_by = dk.zeros(1, dtype=dk.vec3)
    ct_y = dk.array(np.arange(9, dtype=np.float32).reshape(3, 3), dtype=dk.vec3)
    dk.launch(move, 3, [x, dk.vec3()], [y], adj_inputs=[None, ct_by], adj_outputs=[ct_y], adjoint=True)
    assert ct_by.numpy().tolist() == [[9, 12, 15]]


@pytest.mark.parametrize(
    ("adj_inputs", "message"),
    [
        ([dk.zeros(3), None, None], "'x'.*shape"),
        ([dk.zeros(2, dtype=dk.float64), None, None], "'x'.*float32"),
        ([None, None, dk.zeros(2)], "'a'.*shape"),
        ([None, None, 1.0], "no argument has a gradient"),  # a number for an argument by value has no effect
        ([None, None], "2 entries for 3"),
        ([None, None, None], "no argument has a gradient"),
    ],
)
def test_gradients_are_checked(adj_inputs, message):
    with pytest.raises(dk.LaunchError, match=message):
        dk.launch(product, 2, [floats(1, 2), floats(3, 4), 1.0], [dk.zeros(2)], adj_inputs=adj_inputs, adjoint=True)


def test_integers_have_no_gradient():
    with pytest.raises(dk.LaunchError, match=r"'index'.*no gradient"):
        dk.launch(
            gather, 1, [floats(1), dk.zeros(1, dtype=int)], [dk.zeros(1)], adj_inputs=[None, floats(1)],
            adj_outputs=[None], adjoint=True,
        )  # fmt: skip


def test_an_overwritten_input_is_refused_without_a_tape():
    y = floats(3, 4, grad=True)
    square_in_place[2](y)
    with pytest.raises(dk.LaunchError, match="'y' held before"):
        dk.launch(square_in_place, 2, [y], adjoint=True)


def test_enable_backward_false():
    x, y = floats(1, grad=True), dk.zeros(1, requires_grad=True)
    one_way[1](x, y)
    with pytest.raises(dk.KernelError, match="enable_backward"):
        dk.launch(one_way, 1, [x], [y], adjoint=True)


def test_shared_memory_is_refused():
    x = floats(1, 2, 3, grad=True)
    with pytest.raises(dk.LaunchError, match="'x' and 'z' share memory"):
        dk.launch(product, 2, [x[1:], floats(1, 1), 1.0], [x[:2]], adjoint=True)
    with pytest.raises(dk.LaunchError, match="gradient of 'x'"):
        dk.launch(product, 3, [x, floats(1, 1, 1), 1.0], [dk.zeros(3)], adj_inputs=[x, None, None], adjoint=True)


def test_pairs_of_near_arrays():
    """All pairs whose addresses overlap, and no others, in the order of the parameters."""
    rng = np.random.default_rng(3)
    whole = dk.zeros(40)
    for _ in range(50):
        views = []
        for k in range(int(rng.integers(1, 9))):
            begin, end = sorted(map(int, rng.integers(0, 40, 2)))
            views.append((k, False, whole[begin:end]))
        wanted = set()
        for (i, _, a), (j, _, b) in itertools.combinations(views, 2):
            if max(a._range[0], b._range[0]) < min(a._range[1], b._range[1]):
                wanted.add((i, j))
        found = [(one[0], other[0]) for one, other in near_pairs(views)]
        assert set(found) == wanted
        assert len(found) == len(wanted)


def test_interleaved_views_do_not_share_memory():
    whole = dk.array(np.arange(6, dtype=np.float32), requires_grad=True)
    x, z = whole[::2], whole[1::2]
    z.grad.fill_(1.0)
    dk.launch(product, 3, [x, floats(1, 2, 3), 1.0], [z], adjoint=True)
    assert whole.grad.numpy().tolist() == [1, 0, 2, 0, 3, 0]


@pytest.mark.parametrize("n", [5, 100_000])
def test_one_array_for_two_parameters_adds_both_gradients(n):
    x = dk.array(np.linspace(1, 2, n, dtype=np.float32), requires_grad=True)
    z = dk.zeros(n, requires_grad=True)
    z.grad.fill_(1.0)
    dk.launch(product, n, [x, x, 3.0], [z], adjoint=True)
    assert np.allclose(x.grad.numpy(), 6 * x.numpy())


@pytest.mark.parametrize("n", [10, 200_000])
@pytest.mark.parametrize("targets", [1, 7, 50_000])
def test_gathers_that_collide(n, targets):
    rng = np.random.default_rng(0)
    at = rng.integers(0, targets, n).astype(np.int32)
    x, y = dk.zeros(targets, requires_grad=True), dk.zeros(n, requires_grad=True)
    y.grad.assign(np.ones(n, np.float32))
    dk.launch(gather, n, [x, dk.array(at)], [y], adjoint=True)
    assert np.array_equal(x.grad.numpy(), 2 * np.bincount(at, minlength=targets))


@pytest.mark.parametrize("n", [3, 300_000])
def test_neighbours(n):
    x, y = dk.zeros(n, requires_grad=True), dk.zeros(n, requires_grad=True)
    seed = np.random.default_rng(1).integers(-5, 5, n).astype(np.float32)
    y.grad.assign(seed)
    dk.launch(blur, n, [x], [y], adjoint=True)
    inner = seed.copy()
    inner[[0, -1]] = 0
    expected = 2 * inner
    expected[:-1] += inner[1:]
    expected[1:] += 3 * inner[:-1]
    assert np.array_equal(x.grad.numpy(), expected)


def test_more_axes_than_the_index_of_an_array():
    x, y = dk.zeros(100, requires_grad=True), dk.zeros((500, 100), requires_grad=True)
    y.grad.fill_(1.0)
    dk.launch(broadcast, (500, 100), [x], [y], adjoint=True)
    assert (x.grad.numpy() == 500).all()


def test_more_axes_than_the_kernel_asks_about():
    n = 1000
    x, y, z = dk.full(n, 2.0, requires_grad=True), dk.full(n, 3.0), dk.zeros(n, requires_grad=True)
    z.grad.fill_(1.0)
    with pytest.raises(dk.LaunchError, match=r"dim=\(1000, 1\) is a grid of 2 axes"):
        dk.launch(product, (n, 1), [x, y, 1.0], [z], adjoint=True)
    assert not x.grad.numpy().any()
    assert (z.grad.numpy() == 1).all()


def test_strided_gradients():
    n = 1000
    x, y, z = dk.full(2 * n, 2.0), dk.full(n, 3.0), dk.zeros(n)
    ct_x, ct_z = np.zeros(2 * n, np.float32), np.ones(n, np.float32)
    dk.launch(product, n, [x[::2], y, 1.0], [z], adj_inputs=[ct_x[::2], None, None], adj_outputs=[ct_z], adjoint=True)
    assert ct_x[::2].tolist() == [3] * n
    assert not ct_x[1::2].any()
    # A contiguous argument with a gradient that is not.
    ct_x, ct_z = np.zeros(2 * n, np.float32), np.ones(n, np.float32)
    dk.launch(product, n, [x[:n], y, 1.0], [z], adj_inputs=[ct_x[::2], None, None], adj_outputs=[ct_z], adjoint=True)
    assert ct_x[::2].tolist() == [3] * n


def test_results_do_not_depend_on_the_number_of_threads():
    from diffkern.runtime.native import pool

    n, targets = 200_000, 100
    rng = np.random.default_rng(5)
    at = dk.array(rng.integers(0, targets, n).astype(np.int32))
    seed = rng.standard_normal(n).astype(np.float32)
    x, y = dk.zeros(targets, requires_grad=True), dk.zeros(n, requires_grad=True)
    found = []
    before = pool.num_threads()
    try:
        for threads in (1, 2, 5):
            pool.set_num_threads(threads)
            x.grad.zero_()
            y.grad.assign(seed)
            dk.launch(gather, n, [x, at], [y], adjoint=True)
            found.append(x.grad.numpy().copy())
    finally:
        pool.set_num_threads(before)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
