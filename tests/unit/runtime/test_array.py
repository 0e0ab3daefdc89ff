"""Arrays: construction, views, gradients, conversions."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.lang.annotations import ArrayAnnotation


def test_called_without_data_it_is_an_annotation():
    assert dk.array(dtype=float, ndim=2) == ArrayAnnotation(dk.float32.ir, 2)
    assert isinstance(dk.array(dtype=dk.vec3), ArrayAnnotation)
    assert isinstance(dk.zeros(3), dk.array)


@pytest.mark.parametrize(
    ("data", "dtype", "shape", "expected"),
    [
        ([1.0, 2.0], float, (2,), dk.float32),
        ([1, 2], int, (2,), dk.int32),
        ([[1, 2], [3, 4]], float, (2, 2), dk.float32),
        (np.arange(3), None, (3,), dk.int64),
        (np.zeros((2, 3)), None, (2, 3), dk.float64),
        ([[1, 2, 3], [4, 5, 6]], dk.vec3, (2,), dk.vec3),
        (dk.vec3(1, 2, 3), None, (1,), dk.vec3),
        (np.zeros((5, 2, 2)), dk.mat22, (5,), dk.mat22),
        (7.0, float, (1,), dk.float32),
        ([True, False], bool, (2,), dk.bool_),
    ],
)
def test_data_and_dtype(data, dtype, shape, expected):
    a = dk.array(data, dtype=dtype)
    assert a.shape == shape
    assert a.dtype == expected
    assert a.size == np.prod(shape)
    assert a.ndim == len(shape)
    assert len(a) == shape[0]
    assert np.array_equal(np.ravel(a.numpy()), np.ravel(data))


def test_the_shape_of_vectors_can_be_given():
    a = dk.array(np.arange(12), dtype=dk.vec3, shape=(2, 2))
    assert a.shape == (2, 2)
    assert a.numpy().shape == (2, 2, 3)
    assert a.strides == (24, 12)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"data": [1.5], "dtype": int}, TypeError),
        ({"data": [300], "dtype": dk.int8}, OverflowError),
        ({"data": [-1], "dtype": dk.uint32}, OverflowError),
        ({"data": np.zeros((2, 2)), "dtype": dk.vec3}, ValueError),
        ({"data": ["a"]}, TypeError),
        ({"data": np.zeros((1,) * 5)}, ValueError),
        ({"data": [1.0], "ndim": 2}, ValueError),
        ({"data": np.zeros(3), "dtype": float, "copy": False}, TypeError),
        ({"shape": -1}, ValueError),
        ({"shape": (1, 2, 3, 4, 5)}, ValueError),
        ({"data": [1], "dtype": "nonsense"}, TypeError),
        ({"data": [1], "device": "cuda"}, ValueError),
    ],
)
def test_what_is_refused(arguments, error):
    with pytest.raises(error):
        dk.array(**arguments)


def test_copy_and_no_copy():
    data = np.zeros(3, np.float32)
    copied, over = dk.array(data), dk.array(data, copy=False)
    data[0] = 1
    assert copied.numpy()[0] == 0
    assert over.numpy()[0] == 1
    assert over.ptr == data.ctypes.data
    assert not np.shares_memory(dk.from_numpy(data).numpy(), data)


def test_numpy_is_a_view():
    a = dk.zeros(3)
    a.numpy()[1] = 5
    assert a.list() == [0, 5, 0]
    assert np.asarray(a).ctypes.data == a.ptr
    assert a.__array_interface__["data"][0] == a.ptr
    assert np.asarray(a, dtype=np.float64).dtype == np.float64


def test_memory_begins_on_a_cache_line():
    assert all(dk.empty(n).ptr % 64 == 0 for n in (1, 3, 1000))


def test_creation():
    assert dk.zeros((2, 3)).numpy().tolist() == [[0] * 3] * 2
    assert dk.ones(2, dtype=int).list() == [1, 1]
    assert dk.full(2, 7).dtype == dk.int32
    assert dk.full(2, 7.0).dtype == dk.float32
    assert dk.full(2, np.float64(7)).dtype == dk.float64
    assert dk.full(2, dk.vec3(1, 2, 3)).list() == [[1, 2, 3]] * 2
    assert dk.full(2, (1.0, 2.0), dtype=dk.vec2).list() == [[1, 2]] * 2
    a = dk.ones((2, 2), dtype=dk.float64, requires_grad=True)
    for like in (dk.zeros_like(a), dk.empty_like(a), dk.full_like(a, 3), dk.ones_like(a), dk.clone(a)):
        assert like.shape == a.shape
        assert like.dtype == a.dtype
        assert like.requires_grad
        assert not np.shares_memory(like.numpy(), a.numpy())
    assert not dk.zeros_like(a, requires_grad=False).requires_grad


def test_changes():
    a = dk.zeros(4)
    a.fill_(2)
    assert a.list() == [2] * 4
    a.assign([1, 2, 3, 4])
    assert a.list() == [1, 2, 3, 4]
    b = dk.zeros(4)
    dk.copy(b, a)
    assert b.list() == a.list()
    dk.copy(b, a, dest_offset=2, src_offset=0, count=2)
    assert b.list() == [1, 2, 1, 2]
    a[1:3] = 9
    a[0] = -1
    a[-1] = -4
    assert a.list() == [-1, 9, 9, -4]
    m = dk.zeros((2, 2), dtype=dk.vec2)
    m[0, 1] = (1, 2)
    m[1] = dk.vec2(5, 6)
    assert m.list() == [[[0, 0], [1, 2]], [[5, 6], [5, 6]]]


def test_copies_of_some_elements_of_an_array_with_steps() -> None:
    x = dk.array(np.arange(12.0), dtype=dk.float32, requires_grad=True)
    y = dk.zeros(12, dtype=dk.float32, requires_grad=True)
    with dk.Tape() as tape:
        dk.copy(y[::2], x[::3], dest_offset=3, src_offset=1, count=2)
    np.testing.assert_array_equal(y.numpy(), [0, 0, 0, 0, 0, 0, 3, 0, 6, 0, 0, 0])
    tape.backward(grads={y: dk.array(np.arange(12.0), dtype=dk.float32)})
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0, 0, 6, 0, 0, 8, 0, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="which is not contiguous, have no place in a row"):
        dk.copy(dk.zeros((4, 4))[:, ::2], dk.zeros(8), count=3)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.assign([1.0, 2.0]),
        lambda a: a.assign(dk.zeros(3)),
        lambda a: a.assign(dk.zeros(4, dtype=int)),
        lambda a: dk.copy(a, dk.zeros(4), count=9),
        lambda a: a.fill_("x"),
        lambda a: a[0.5],
        lambda a: a[0, 0],
        lambda a: a[[0, 1]],
    ],
)
def test_changes_that_do_not_fit(change):
    a = dk.ones(4)
    with pytest.raises((TypeError, ValueError, IndexError)):
        change(a)
    assert a.list() == [1] * 4


def test_every_change_raises_the_version():
    a = dk.zeros(4)
    seen = {a._memory.version}
    for change in (
        a.zero_,
        lambda: a.fill_(1),
        lambda: a.assign([0] * 4),
        lambda: dk.copy(a, a),
        a[1:].zero_,
    ):
        change()
        seen.add(a._memory.version)
    assert len(seen) == 6


def test_views_share_memory_and_gradient():
    a = dk.array(np.arange(12, dtype=np.float32).reshape(3, 4), requires_grad=True)
    row = a[1]
    assert row.shape == (4,)
    assert row.list() == [4, 5, 6, 7]
    assert a[1, 2] == 6
    assert a[:, 1].list() == [1, 5, 9]
    assert a[..., -1].list() == [3, 7, 11]
    row.grad.fill_(1)
    assert a.grad.numpy().tolist() == [[0] * 4, [1] * 4, [0] * 4]
    assert a.flatten().shape == (12,)
    assert a.reshape(2, -1).shape == (2, 6)
    assert a.reshape((4, 3)).grad.shape == (4, 3)
    assert a.reshape(shape=(4, -1)).grad.shape == (4, 3)
    assert a.reshape(shape=12).shape == (12,)
    assert not a[:, ::2].is_contiguous
    assert a[:, ::2].contiguous().is_contiguous
    assert a[:, ::2].flatten().list() == [0, 2, 4, 6, 8, 10]
    assert row._memory is a._memory


@pytest.mark.parametrize(("extents", "named"), [((), None), ((2, 6), (2, 6))])
def test_a_view_of_another_shape_needs_one_shape(extents, named):
    with pytest.raises(TypeError, match="takes extents, or shape="):
        dk.zeros(12).reshape(*extents, shape=named)


def test_vectors_are_elements():
    a = dk.array(np.arange(12, dtype=np.float32).reshape(2, 2, 3), dtype=dk.vec3)
    assert a[1].shape == (2,)
    assert a[1, 0].tolist() == [6, 7, 8]
    assert a[:, 1].list() == [[3, 4, 5], [9, 10, 11]]
    with pytest.raises(IndexError):
        a[0, 0, 0]
    assert a.flatten().shape == (4,)


def test_gradients_can_be_given():
    a = dk.zeros(3)
    assert a.grad is None
    assert not a.requires_grad
    a.requires_grad = True
    assert a.grad.list() == [0, 0, 0]
    g = dk.ones(3)
    a.grad = g
    assert a.grad is g
    a.grad = np.full(3, 2, np.float32)
    assert a.grad.list() == [2, 2, 2]
    with pytest.raises(ValueError, match="same shape"):
        a.grad = dk.ones(4)
    with pytest.raises(ValueError, match="same shape"):
        a.grad = dk.ones(3, dtype=dk.float64)
    a.requires_grad = False
    assert a.grad is None
    assert dk.array([1.0], dtype=float, grad=dk.ones(1)).grad.list() == [1]


def test_half_precision():
    a = dk.array([1.0, 2.5, np.nan, 1e30], dtype=dk.bfloat16)
    assert a.numpy().dtype == np.uint16
    back = (a.numpy().astype(np.uint32) << 16).view(np.float32)
    assert back[:2].tolist() == [1, 2.5]
    assert np.isnan(back[2])
    assert back[3] == pytest.approx(1e30, rel=1e-2)
    assert dk.array([1.5], dtype=dk.float16).numpy().dtype == np.float16


def test_foreign_byte_order_is_converted_when_copied():
    a = dk.array(np.arange(3, dtype=">f4"))
    assert a.dtype == dk.float32
    assert a.list() == [0, 1, 2]


def test_empty_arrays():
    a = dk.zeros(0, requires_grad=True)
    assert a.size == 0
    assert a.grad.shape == (0,)
    assert dk.array(np.zeros((0, 3), np.float32), dtype=dk.vec3).shape == (0,)


def test_large_arrays_begin_at_different_places_of_a_page():
    shifts = []
    for _ in range(16):
        data = dk.empty(1 << 15, dtype=dk.float32)._data
        block = data
        while block.base is not None:
            block = block.base
        shifts.append(data.ctypes.data - -(-block.ctypes.data // 64) * 64)
    assert sorted(shifts) == [256 * k for k in range(16)]
