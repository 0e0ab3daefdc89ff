"""Views of tiles that are changed in loops and branches: tiles of their own where nobody reads the whole again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp

A2 = wp.array(dtype=float, ndim=2)
X = np.arange(1.0, 17.0, dtype=np.float32).reshape(4, 4)


@wp.kernel
def in_a_loop(x: A2, o: A2, n: int):
    m = wp.tile_zeros(shape=(16,), dtype=float, storage="shared")
    s = wp.tile_reshape(m, (4, 4))
    t = wp.tile_load(x, shape=(4, 4))
    for _ in range(n):
        s += t * t
    wp.tile_store(o, s)


@wp.kernel
def in_a_branch(x: A2, o: A2, n: int):
    t = wp.tile_load(x, shape=(4, 4))
    m = t * t
    s = wp.tile_transpose(m)
    if n > 0:
        s += wp.tile_ones(shape=(4, 4), dtype=float)
    wp.tile_store(o, s)


@wp.kernel
def of_a_view(x: A2, o: A2, n: int):
    t = wp.tile_load(x, shape=(4, 4))
    m = t * t
    s = wp.tile_reshape(wp.tile_transpose(m), (2, 8))
    for k in range(n):
        s[0, k] = 7.0
    wp.tile_store(o, wp.tile_reshape(s, (4, 4)))


@wp.kernel
def of_a_tile_of_each_round(x: A2, o: A2, n: int):
    for _ in range(n):
        m = wp.tile_load(x, shape=(4, 4))
        m = m * m
        if n > 5:
            wp.tile_store(o, m)
        else:
            s = wp.tile_transpose(m)
            s += wp.tile_ones(shape=(4, 4), dtype=float)
            wp.tile_store(o, s)


def run(kernel: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    x, o = wp.array(X, requires_grad=True), wp.zeros((4, 4), requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_tiled(kernel, dim=[1], inputs=[x, o, n], block_dim=32)
    tape.backward(grads={o: wp.ones((4, 4))})
    return o.numpy(), x.grad.numpy()


@pytest.mark.parametrize("n", [0, 3])
def test_a_sum_in_a_view(n: int) -> None:
    value, slope = run(in_a_loop, n)
    np.testing.assert_array_equal(value, n * X * X)
    np.testing.assert_array_equal(slope, 2 * n * X)


@pytest.mark.parametrize("n", [0, 1])
def test_a_view_changed_in_a_branch(n: int) -> None:
    value, slope = run(in_a_branch, n)
    np.testing.assert_array_equal(value, (X * X).T + n)
    np.testing.assert_array_equal(slope, 2 * X)


@pytest.mark.parametrize("n", [2, 6])
def test_a_view_of_a_tile_that_each_round_makes_anew(n: int) -> None:
    value, slope = run(of_a_tile_of_each_round, n)
    np.testing.assert_array_equal(value, X * X if n > 5 else (X * X).T + 1)
    np.testing.assert_array_equal(slope, 2 * X)


@pytest.mark.parametrize("n", [0, 5])
def test_elements_of_a_view_of_a_view(n: int) -> None:
    value, slope = run(of_a_view, n)
    wanted, of_x = (X * X).T.copy(), 2 * X.T.copy()
    wanted.reshape(-1)[:n], of_x.reshape(-1)[:n] = 7.0, 0.0
    np.testing.assert_array_equal(value, wanted)
    np.testing.assert_array_equal(slope, of_x.T)


@wp.kernel
def read_behind(x: A2, o: A2, n: int):
    m = wp.tile_zeros(shape=(16,), dtype=float)
    s = wp.tile_reshape(m, (4, 4))
    for _ in range(n):
        s += wp.tile_load(x, shape=(4, 4))
    wp.tile_store(o, s)
    o[0, 0] = m[0]


@wp.kernel
def read_by_the_next_trip(x: A2, o: A2, n: int):
    m = wp.tile_zeros(shape=(16,), dtype=float)
    s = wp.tile_reshape(m, (4, 4))
    for k in range(n):
        o[0, k] = m[0]
        s += wp.tile_load(x, shape=(4, 4))
    wp.tile_store(o, s)


@wp.kernel
def read_by_the_next_round_of_an_outer_loop(x: A2, o: A2, n: int):
    m = wp.tile_zeros(shape=(16,), dtype=float)
    for k in range(n):
        o[0, k] = m[0]
        for _ in range(2):
            s = wp.tile_reshape(m, (4, 4))
            if k > 0:
                s += wp.tile_load(x, shape=(4, 4))  # here
            wp.tile_store(o, s)


@wp.kernel
def another_view_is_read(x: A2, o: A2, n: int):
    m = wp.tile_zeros(shape=(16,), dtype=float)
    s = wp.tile_reshape(m, (4, 4))
    t = wp.tile_reshape(m, (2, 8))
    if n > 0:
        s += wp.tile_load(x, shape=(4, 4))  # here
    wp.tile_store(o, wp.tile_reshape(t, (4, 4)))


@wp.func
def adds(m: Any, t: Any, n: int):
    s = wp.tile_reshape(m, (4, 4))
    for _ in range(n):
        s += t  # here
    return wp.tile_sum(s)


@wp.kernel
def of_the_callers_tile(x: A2, o: A2, n: int):
    m = wp.tile_zeros(shape=(16,), dtype=float)
    total = adds(m, wp.tile_load(x, shape=(4, 4)), n)
    o[0, 0] = m[0] + total[0]


@wp.kernel
def a_broadcast(x: A2, o: A2, n: int):
    m = wp.tile_zeros(shape=(4,), dtype=float)
    s = wp.tile_broadcast(m, (4, 4))
    for _ in range(n):
        s += wp.tile_load(x, shape=(4, 4))  # here
    wp.tile_store(o, s)


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("kernel", [read_behind, read_by_the_next_trip])
def test_a_loop_carries_a_view_beside_its_tile(kernel: Any, n: int) -> None:
    value, slope = run(kernel, n)
    np.testing.assert_array_equal(value, n * X)
    np.testing.assert_array_equal(slope, np.full((4, 4), n))


@pytest.mark.parametrize(
    "kernel",
    [
        read_by_the_next_round_of_an_outer_loop,
        another_view_is_read,
        of_the_callers_tile,
        a_broadcast,
    ],
)
def test_what_is_read_again_is_no_copy(kernel: Any) -> None:
    with pytest.raises(dk.KernelTypeError, match=r"s is a view of another tile|s is changed in a loop") as caught:
        run(kernel, 1)
    assert "# here" in caught.value.loc.text
