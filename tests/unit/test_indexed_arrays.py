"""Arrays seen through index arrays."""

import numpy as np
import pytest

import diffkern as dk

VALUES = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_elements_and_shape():
    a, i, j = dk.array(VALUES), dk.array([3, 1], dtype=int), dk.array([2, 0, 2], dtype=int)
    whole = dk.indexedarray(a, [i, j])
    assert (whole.shape, whole.ndim, len(whole), whole.size, whole.dtype) == ((2, 3), 2, 2, 6, dk.float32)
    np.testing.assert_array_equal(whole.numpy(), VALUES[[3, 1]][:, [2, 0, 2]])
    np.testing.assert_array_equal(a[i].numpy(), VALUES[[3, 1]])
    np.testing.assert_array_equal(a[:, j].numpy(), VALUES[:, [2, 0, 2]])
    assert dk.indexedarray1d(dk.array([5.0, 6.0, 7.0]), i[1:]).list() == [6.0]


def test_slices_and_integers_for_other_axes():
    a, i = dk.array(VALUES), dk.array([3, 1], dtype=int)
    np.testing.assert_array_equal(a[i, 1].numpy(), VALUES[[3, 1], 1])
    np.testing.assert_array_equal(a[1, dk.array([2, 0], dtype=int)].numpy(), VALUES[1, [2, 0]])
    np.testing.assert_array_equal(a[1:3, dk.array([2, 0], dtype=int)].numpy(), VALUES[1:3, [2, 0]])
    a[i, :2].fill_(7.0)
    np.testing.assert_array_equal(a.numpy(), [[0, 1, 2], [7, 7, 5], [6, 7, 8], [7, 7, 11]])


def test_the_host_copies_without_a_kernel_where_nobody_notices(monkeypatch):
    def launched(*args, **kwargs):
        raise AssertionError("a kernel was launched")

    monkeypatch.setattr("diffkern.transforms.indexed.launch", launched)
    a, i = dk.array(VALUES, requires_grad=True), dk.array([3, -1, 0], dtype=int)
    version = a._memory.version
    seen = a[i]
    np.testing.assert_array_equal(seen.numpy(), VALUES[[3, 3, 0]])
    assert seen.contiguous().requires_grad
    seen.assign(2 * VALUES[:3])
    np.testing.assert_array_equal(a.numpy()[1:3], VALUES[1:3])
    np.testing.assert_array_equal(a.numpy()[[0, 3]], 2 * VALUES[[2, 1]])
    assert a._memory.version > version
    a[i].zero_()
    assert not a.numpy()[[0, 3]].any()
    with pytest.raises(AssertionError, match="launched"), dk.Tape():
        seen.contiguous()


def test_they_are_written():
    a, i = dk.array(VALUES), dk.array([3, 1], dtype=int)
    seen = a[i]
    seen.fill_(-1.0)
    np.testing.assert_array_equal(a.numpy()[[1, 3]], -np.ones((2, 3)))
    seen.assign(VALUES[:2])
    np.testing.assert_array_equal(a.numpy()[[3, 1]], VALUES[:2])


def test_gradients_flow_out_and_in():
    a = dk.array(VALUES, requires_grad=True)
    with dk.Tape() as tape:
        out = a[dk.array([1, 1, 2], dtype=int)].contiguous()
    tape.backward(grads={out: dk.ones((3, 3))})
    np.testing.assert_array_equal(a.grad.numpy()[:, 0], [0, 2, 1, 0])


def test_what_is_refused():
    a = dk.array(VALUES)
    with pytest.raises(dk.MisuseError, match="made of an array"):
        dk.indexedarray(VALUES)
    with pytest.raises(ValueError, match="with one axis"):
        dk.indexedarray(a, [dk.zeros((2, 2), dtype=int)])
    with pytest.raises(ValueError, match="has not 1 axes"):
        dk.indexedarray1d(a)
    with pytest.raises(TypeError, match="index arrays, slices and integers"):
        a[dk.array([1], dtype=int), ...]
    with pytest.raises(IndexError):
        a[dk.array([4], dtype=int)].numpy()
