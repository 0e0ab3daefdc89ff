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
    with pytest.raises(TypeError, match="index arrays and full slices"):
        a[dk.array([1], dtype=int), 1]
