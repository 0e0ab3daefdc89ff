"""Which values stand for dimensions, shapes, positions and numbers of threads, and which are refused."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def fill(a: float, y: dk.array(dtype=float)):
    y[dk.tid()] = a


@dk.kernel
def grid(y: dk.array(dtype=float, ndim=2)):
    i, j = dk.tid()
    y[i, j] = 1.0


def resized(dim, y):
    record = dk.launch(fill, 1, [2.0], [y], record_cmd=True)
    record.set_dim(dim)
    record.launch()


WAYS = {
    "launch": lambda dim, y: dk.launch(fill, dim, [2.0], [y]),
    "brackets": lambda dim, y: fill[dim](2.0, y),
    "stream": lambda dim, y: dk.launch(fill, dim, [2.0], [y], stream=dk.Stream()),
    "record": lambda dim, y: dk.launch(fill, dim, [2.0], [y], record_cmd=True).launch(),
    "set_dim": resized,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "dim", [3, (3,), [3], np.int64(3), np.uint8(3), np.array(3), np.array([3]), (np.int32(3),)], ids=repr
)
def test_integers_of_every_kind_are_dimensions(way, dim):
    y = dk.zeros(4)
    WAYS[way](dim, y)
    assert y.numpy().tolist() == [2, 2, 2, 0]


BAD = [
    True, False, np.True_, (True,), [True], np.array([True]), 3.0, np.float32(3.0), (3.0,), np.array([3.0]), None, "3",
    (None,), (), [], -1, (-1,), 2**31, (1, 1, 1, 1, 1), np.array([[3]]), np.array([-1]), {3}, 1j,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dim", BAD, ids=repr)
def test_what_is_no_dimension_is_refused_before_anything_runs(way, dim):
    y = dk.zeros(4)
    with pytest.raises(dk.LaunchError, match="'fill'"):
        WAYS[way](dim, y)
    assert y.numpy().tolist() == [0] * 4


def test_a_dimension_that_was_used_does_not_let_its_equals_pass():
    y = dk.zeros(4)
    fill[1](2.0, y)
    for equal in (True, 1.0):
        with pytest.raises(dk.LaunchError, match=f"not {equal}"):
            fill[equal](2.0, y)


def test_zero_runs_nothing_and_several_axes_are_taken_from_an_array():
    y, z = dk.zeros(4), dk.zeros((2, 3))
    fill[0](2.0, y)
    fill[np.array([0])](2.0, y)
    assert y.numpy().tolist() == [0] * 4
    record = dk.launch(grid, np.array([2, 2]), [], [z], record_cmd=True)
    assert record.dim == (2, 2)
    record.launch()
    assert z.numpy().tolist() == [[1, 1, 0], [1, 1, 0]]


def test_positions_of_parameters():
    y = dk.zeros(2)
    record = dk.launch(fill, 2, [1.0], [y], record_cmd=True)
    record.set_param_at_index(np.int64(0), 3.0)
    record.launch()
    assert y.numpy().tolist() == [3, 3]
    for index in (True, False, np.True_, 0.0, None, "a", np.array([0])):
        with pytest.raises(TypeError, match="the index of a parameter is an integer"):
            record.set_param_at_index(index, 4.0)
    for index in (-1, 2):
        with pytest.raises(dk.LaunchError, match="parameters 0 to 1"):
            record.set_param_at_index(index, 4.0)
    record.launch()
    assert y.numpy().tolist() == [3, 3]


@pytest.mark.parametrize("shape", [2, (2,), [2], np.int64(2), np.array([2]), np.array(2), range(2, 3)], ids=repr)
def test_shapes(shape):
    assert dk.zeros(shape).shape == (2,)


@pytest.mark.parametrize(
    "shape", [True, (True,), 2.0, (2.0,), "2", None, np.float64(2.0), np.array([2.0]), b"2"], ids=repr
)
def test_what_is_no_shape(shape):
    with pytest.raises(TypeError, match="a shape is an integer or up to 4 integers"):
        dk.zeros(shape)


def test_numbers_of_threads():
    y = dk.zeros(2)
    dk.launch(fill, 2, [1.0], [y], block_dim=np.int64(64), max_blocks=np.int32(1))
    assert y.numpy().tolist() == [1, 1]
    for block_dim in (True, 64.0, "64", 0):
        with pytest.raises(dk.LaunchError, match="block_dim"):
            dk.launch(fill, 2, [1.0], [y], block_dim=block_dim)
    with pytest.raises(dk.LaunchError, match="integers"):
        dk.launch(fill, 2, [1.0], [y], max_blocks=True)
    with pytest.raises(ValueError, match="number of threads"):
        dk.config.num_threads = True
