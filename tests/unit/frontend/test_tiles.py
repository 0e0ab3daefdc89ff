"""Mistakes with tiles: what the message says, and where it points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.errors import KernelError

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)
h1 = dk.array(dtype=dk.float16)


def message(function: Callable[..., Any]) -> str:
    with pytest.raises(KernelError) as caught:
        dk.kernel(function).ir()
    return str(caught.value)


def two_shapes(x: f1, y: f1):
    a = dk.tile_load(x, shape=4)
    b = dk.tile_load(x, shape=5)
    dk.tile_store(y, a + b)


def test_a_mismatch_shows_both_shapes_and_both_lines() -> None:
    first = two_shapes.__code__.co_firstlineno
    text = message(two_shapes)
    assert f"a has shape (4,) of float32 (line {first + 1})" in text
    assert f"b has shape (5,) of float32 (line {first + 2})" in text
    assert f"{first + 3}:" in text


def inner_sizes(x: f2, y: f2):
    a = dk.tile_load(x, shape=(4, 3))
    b = dk.tile_load(x, shape=(4, 2))
    dk.tile_store(y, a @ b)


def shape_of_run_time(x: f1, y: f1, n: int):
    dk.tile_store(y, dk.tile_load(x, shape=n))


def another_dtype(x: f1, y: h1):
    dk.tile_store(y, dk.tile_load(x, shape=4))


def number_of_axes(x: f2, y: f1):
    dk.tile_store(y, dk.tile_load(x, shape=4))


def unknown_storage(x: f1, y: f1):
    dk.tile_store(y, dk.tile_load(x, shape=4, storage="global"))


def unknown_parameter(x: f1, y: f1):
    dk.tile_store(y, dk.tile_load(x, shape=4, offsets=3))


def changed_view(x: f2, y: f2):
    t = dk.tile_load(x, shape=(4, 4))
    row = t[1]
    for k in range(2):
        row[k] = 1.0
        if x[0, k] > 1.0:
            break
    dk.tile_store(y, t)


def changed_under_a_view(x: f2, y: f1):
    t = dk.tile_load(x, shape=(4, 4))
    row = t[1]
    if y[0] > 0.0:
        t[1, 0] = 1.0
    dk.tile_store(y, row)


def changed_in_the_trip_after_its_view(x: f1, y: f1, n: int):
    t = dk.tile_load(x, shape=4)
    v = dk.tile_zeros(shape=2, dtype=float)
    for k in range(n):
        v[0] = v[0] + 1.0
        v = dk.tile_view(t, offset=(0,), shape=(2,))
    dk.tile_store(y, t)


def changed_while_the_trip_before_has_a_view(x: f1, y: f1, n: int):
    t = dk.tile_load(x, shape=4)
    v = dk.tile_zeros(shape=2, dtype=float)
    for k in range(n):
        t[0] = t[0] + 1.0
        dk.tile_store(y, v)
        v = dk.tile_view(t, offset=(0,), shape=(2,))


def changed_under_a_view_in_a_tuple(x: f1, y: f1):
    t = dk.tile_load(x, shape=4)
    pair = (dk.tile_view(t, offset=(0,), shape=(2,)), 1)
    t[0] = 1.0
    dk.tile_store(y, pair[0])


@dk.func
def clears(t):
    t[0] = 0.0
    return t


def changed_by_a_func(x: f1, y: f1):
    t = dk.tile_load(x, shape=4)
    dk.tile_store(y, clears(t))


def another_name(x: f2, y: f2):
    add_product = dk.tile_matmul
    a = dk.tile_load(x, shape=(4, 4))
    b = dk.tile_zeros(shape=(4, 4), dtype=float)
    add_product(a, a, b)
    dk.tile_store(y, b)


def types_in_a_loop(x: f1, y: f1, n: int):
    t = dk.tile_load(x, shape=4)
    for k in range(n):
        t = dk.tile_broadcast(dk.tile_sum(t), shape=8)
    dk.tile_store(y, t)


def assigned_as_integers(x: f1, y: f1):
    t = dk.tile_zeros(shape=4, dtype=int)
    dk.tile_assign(t, dk.tile_load(x, shape=4))


def outside(x: f1, y: f1):
    t = dk.tile_load(x, shape=4)
    y[0] = t[4]


def no_broadcast(x: f1, y: f2):
    dk.tile_store(y, dk.tile_broadcast(dk.tile_load(x, shape=4), shape=(4, 3)))


def not_square(x: f2, y: f2):
    dk.tile_store(y, dk.tile_cholesky(dk.tile_load(x, shape=(4, 3))))


def as_a_condition(x: f1, y: f1):
    t = dk.tile_load(x, shape=4)
    if t > 0.0:
        y[0] = 1.0


def no_step(x: f1, y: f1):
    dk.tile_store(y, dk.tile_load(x, shape=4)[::0])


def empty_slice(x: f1, y: f1):
    dk.tile_store(y, dk.tile_load(x, shape=4)[3:1])


def enormous(y: f2):
    dk.tile_store(y, dk.tile_zeros(shape=(8192, 8192), dtype=float))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (inner_sizes, "3 columns and 4 rows"),
        (shape_of_run_time, "known when the kernel is compiled"),
        (another_dtype, "tile_astype"),
        (number_of_axes, "2 axes and the tile has shape (4,)"),
        (unknown_storage, "'register' or 'shared'"),
        (unknown_parameter, "no parameter 'offsets'"),
        (changed_view, "row is a view of another tile"),
        (changed_under_a_view, "row (line"),
        (changed_in_the_trip_after_its_view, "v is a view of another tile and cannot be changed"),
        (changed_while_the_trip_before_has_a_view, ") is a view of it"),
        (changed_under_a_view_in_a_tuple, ") holds a view of it"),
        (changed_by_a_func, "the caller's tile"),
        (another_name, "must be called by its own name"),
        (types_in_a_loop, "tile<float32, 4>"),
        (assigned_as_integers, "dk.tile_astype(tile, dtype=…)"),
        (outside, "index 4 of an axis of 4"),
        (no_broadcast, "has shape (4,)"),
        (not_square, "square"),
        (as_a_condition, "condition"),
        (enormous, "268435456 bytes"),
        (no_step, "the step of a slice is 0"),
        (empty_slice, "an empty slice of an axis of 4"),
    ],
)
def test_mistakes(function: Callable[..., Any], said: str) -> None:
    assert said in message(function)


def function_of_a_tile(x: f1, y: f1):
    dk.tile_store(y, dk.max(dk.tile_load(x, shape=4), 0.0))


def cast_of_a_tile(x: f1, y: f1):
    dk.tile_store(y, float(dk.tile_load(x, shape=4)))


def sum_as_a_number(x: f1, y: f1):
    y[0] = dk.tile_sum(dk.tile_load(x, shape=4))


def function_of_a_sum(x: f1, y: f1):
    y[0] = dk.sqrt(dk.tile_sum(dk.tile_load(x, shape=4)))


def divided_by_a_sum(x: f1, y: f1):
    t = dk.tile_load(x, shape=4)
    dk.tile_store(y, t / dk.tile_sum(t))


def index_of_the_least(x: f1, y: f1):
    y[dk.tile_argmin(dk.tile_load(x, shape=4))] = 1.0


def trips_of_a_tile(x: f1, y: f1):
    for i in range(dk.tile_argmin(dk.tile_load(x, shape=4))):
        y[i] = 1.0


def row_as_a_whole(x: f1, y: f2):
    y[0] = dk.tile_load(x, shape=4)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (function_of_a_tile, "write dk.tile_map(dk.max, tile)"),
        (cast_of_a_tile, "write dk.tile_astype(tile, dtype=float)"),
        (sum_as_a_number, "take one of its elements, as in tile[0]"),
        (function_of_a_sum, "take one of its elements, as in tile[0]"),
        (divided_by_a_sum, "take the number out of the tile that has one"),
        (index_of_the_least, "take one of its elements, as in tile[0]"),
        (trips_of_a_tile, "take one of its elements, as in tile[0]"),
        (row_as_a_whole, "write dk.tile_store(array, tile)"),
    ],
)
def test_a_tile_where_a_number_is_wanted(function: Callable[..., Any], said: str) -> None:
    assert f"help: {said}" in message(function) or f", or {said}" in message(function)


def test_the_length_of_a_tile() -> None:
    def length(x: f2, y: f1):
        y[0] = float(len(dk.tile_load(x, shape=(4, 3))))

    assert "y[0] = 4.0" in dk.kernel(length).source()


def test_a_tile_is_assigned_to_one_of_a_wider_type() -> None:
    @dk.kernel
    def widened(x: f1, n: dk.array(dtype=int), y: dk.array(dtype=dk.float64)):
        t = dk.tile_zeros(shape=4, dtype=dk.float64)
        dk.tile_assign(t, dk.tile_load(x, shape=2))
        dk.tile_assign(t, dk.tile_load(n, shape=2), offset=2)
        dk.tile_store(y, t)

    x, y = dk.array([1.0, 2.5], dtype=float, requires_grad=True), dk.zeros(4, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch_tiled(widened, dim=1, inputs=[x, dk.array([3, 4], dtype=int)], outputs=[y])
    assert y.numpy().tolist() == [1.0, 2.5, 3.0, 4.0]
    tape.backward(grads={y: dk.array([1.0, 2.0, 3.0, 4.0], dtype=dk.float64)})
    assert x.grad.numpy().tolist() == [1.0, 2.0]


def test_views_share_elements() -> None:
    """A change of a tile or of a view of it is one of all of them, as in NumPy."""

    @dk.kernel
    def shared(x: f1, y: f1, z: f2):
        t = dk.tile_load(x, shape=6)
        m = dk.tile_reshape(t, shape=(2, 3))
        u = dk.tile_transpose(m)
        row = m[1]
        row += dk.tile_ones(shape=3, dtype=float)
        u[0, 0] = 100.0
        row *= x[5]
        dk.tile_assign(t, row, offset=(0,))
        dk.tile_store(y, t)
        dk.tile_store(z, u)

    x = dk.array(np.arange(6.0) + 1.0, dtype=float, requires_grad=True)
    y, z = (dk.zeros(shape, dtype=float, requires_grad=True) for shape in (6, (3, 2)))
    with dk.Tape() as tape:
        dk.launch_tiled(shared, dim=1, inputs=[x], outputs=[y, z])
    t = np.arange(6.0) + 1.0
    m = t.reshape(2, 3)
    row = m[1]
    row += 1.0
    m.T[0, 0] = 100.0
    row *= 6.0
    t[:3] = row
    np.testing.assert_array_equal(y.numpy(), t)
    np.testing.assert_array_equal(z.numpy(), m.T)
    tape.backward(grads={y: dk.ones(6, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 0.0, 0.0, 12.0, 12.0, 12.0 + 2.0 * (5.0 + 6.0 + 7.0)])


def test_a_returned_tile_may_be_changed_in_the_kernel() -> None:
    @dk.func
    def doubled(t):
        u = t * 2.0
        u[0] = 0.0
        return u

    @dk.kernel
    def fine(x: f1, y: f1):
        t = doubled(dk.tile_load(x, shape=4))
        t[1] = 1.0
        dk.tile_store(y, t)

    y = dk.zeros(4, dtype=float)
    fine[1](dk.full(4, 3.0, dtype=float), y)
    assert y.numpy().tolist() == [0.0, 1.0, 6.0, 6.0]


def test_blocks_are_checked() -> None:
    @dk.kernel
    def fine(y: f1):
        dk.tile_store(y, dk.tile_ones(shape=4), offset=dk.tid() * 4)

    y = dk.zeros(10, dtype=float)
    dk.launch_tiled(fine, dim=[3], inputs=[y], block_dim=64)
    assert y.numpy().tolist() == [1.0] * 10
    with pytest.raises(dk.LaunchError, match="block_dim"):
        dk.launch_tiled(fine, dim=[3], inputs=[y], block_dim=0)
    with pytest.raises(dk.LaunchError, match="at most 3 axes"):
        dk.launch_tiled(fine, dim=[1, 1, 1, 1], inputs=[y], block_dim=32)


def test_a_launch_of_threads_takes_no_kernel_of_tiles():
    @dk.kernel
    def halves(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        dk.tile_store(y, 0.5 * dk.tile_load(x, shape=4, offset=4 * i), offset=4 * i)

    @wp.kernel
    def by_warp(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        wp.tile_store(y, 0.5 * wp.tile_load(x, shape=4, offset=4 * i), offset=4 * i)

    @dk.kernel
    def own(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = dk.untile(0.5 * dk.tile(x[i]))  # each thread has a number in the tile

    x, y = dk.full(8, 3.0, dtype=float), dk.zeros(8, dtype=float)
    for launch in (
        lambda: dk.launch_tiled(halves, 2, [x], [y]),
        lambda: halves[2](x, y),
        lambda: wp.launch(by_warp, 2, [x], [y]),
    ):
        y.zero_()
        launch()
        assert y.list() == [1.5] * 8
        # Also after a launch that was right.
        with pytest.raises(dk.LaunchError, match="'halves' works on tiles") as caught:
            dk.launch(halves, 2, [x], [y])
        assert "dk.launch_tiled(halves, " in caught.value.remedy
    y.zero_()
    dk.launch(own, 8, [x], [y])
    assert y.list() == [1.5] * 8
