"""Reads of shared memory that no thread has written: programs that make checks show them, others are as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern import cuda
from diffkern.errors import KernelRuntimeError, NonFiniteError
from diffkern.kernels.kernel import Kernel

D = dk.array(dtype=dk.float64)


def neighbours(x: D, y: D):
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(shape=33, dtype=dk.float64)
    s[t] = x[i]
    dk.syncthreads()
    y[i] = s[t] * s[t + 1]


def filled(x: D, y: D):
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(shape=33, dtype=dk.float64)
    s[t] = x[i]
    if t == dk.block_dim() - 1:
        s[t + 1] = 1.0
    dk.syncthreads()
    y[i] = s[t] * s[t + 1]


def square(x: D, y: D):
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(shape=(5, 3), dtype=dk.float32)
    s[t, 1] = dk.float32(x[i])
    dk.syncthreads()
    y[i] = dk.float64(s[t, 1] + s[4 - t, 1])


def vectors(x: D, y: D):
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(shape=33, dtype=dk.vec3d)
    s[t] = dk.vec3d(x[i], 2.0, 3.0)
    dk.syncthreads()
    y[i] = dk.dot(s[t], s[t + 1])


def matrices(x: D, y: D):
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(shape=33, dtype=dk.mat22)
    s[t] = dk.mat22(dk.float32(x[i]), 1.0, 1.0, 1.0)
    dk.syncthreads()
    y[i] = dk.float64(dk.trace(s[t + 1]))


def integers(x: D, y: D):
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(shape=33, dtype=dk.int32)
    h = dk.shared_array(shape=33, dtype=dk.uint8)
    s[t], h[t] = i, dk.uint8(1)
    dk.syncthreads()
    y[i] = dk.float64(s[t + 1]) + dk.float64(h[t + 1])


def looked_up(x: D, y: D):
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(shape=33, dtype=dk.int32)
    s[t] = i
    dk.syncthreads()
    y[i] = x[s[t + 1]]


def launched(function: Any, mode: str, block_dim: int, x: np.ndarray) -> np.ndarray:
    y = dk.zeros(x.size, dtype=dk.float64)
    dk.launch(Kernel(function, mode=mode), x.size, [dk.array(x)], [y], block_dim=block_dim)
    return y.numpy()


@pytest.mark.parametrize("block_dim", [1, 4])
def test_what_nobody_wrote_is_nan(block_dim: int) -> None:
    x = np.arange(1.0, 9.0)
    y = launched(neighbours, "debug", block_dim, x)
    last = np.arange(8) % block_dim == block_dim - 1
    # In each block, not only in the first one that a thread of the processor runs.
    np.testing.assert_array_equal(np.isnan(y), last)
    np.testing.assert_array_equal(y[~last], (x * (x + 1))[~last])


@pytest.mark.parametrize("function", [vectors, matrices])
def test_elements_of_several_numbers(function: Any) -> None:
    y = launched(function, "debug", 4, np.arange(1.0, 9.0))
    np.testing.assert_array_equal(np.isnan(y), np.arange(8) % 4 == 3)


def test_two_axes() -> None:
    y = launched(square, "debug", 4, np.arange(1.0, 9.0))
    np.testing.assert_array_equal(y, [np.nan, 2 + 4, 3 + 3, 4 + 2, np.nan, 6 + 8, 7 + 7, 8 + 6])


def test_integers_are_the_smallest() -> None:
    y = launched(integers, "debug", 4, np.zeros(8))
    np.testing.assert_array_equal(y[[3, 7]], -(2.0**31) + 128)
    np.testing.assert_array_equal(y[[0, 1, 2, 4]], [2, 3, 4, 6])


def test_an_unwritten_index_is_out_of_bounds() -> None:
    with pytest.raises(KernelRuntimeError, match="-2147483648") as caught:
        launched(looked_up, "debug", 4, np.zeros(8))
    assert "y[i] = x[s[t + 1]]" in str(caught.value)


def test_the_first_read_is_reported() -> None:
    with pytest.raises(NonFiniteError, match="is nan where it is read") as caught:
        launched(neighbours, "finite", 4, np.arange(1.0, 9.0))
    assert "y[i] = s[t] * s[t + 1]" in str(caught.value)
    assert caught.value.thread in ((3,), (7,))


@pytest.mark.parametrize(("mode", "block_dim"), [("release", 4), ("debug", 1), ("debug", 4), ("finite", 4)])
def test_gradients_of_what_is_written(mode: str, block_dim: int) -> None:
    x = np.arange(1.0, 9.0)
    a, y = dk.array(x, requires_grad=True), dk.zeros(8, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(Kernel(filled, mode=mode), 8, [a], [y], block_dim=block_dim)
    tape.backward(grads={y: dk.ones(8, dtype=dk.float64)})
    last, first = np.arange(8) % block_dim == block_dim - 1, np.arange(8) % block_dim == 0
    np.testing.assert_array_equal(y.numpy(), x * np.where(last, 1.0, x + 1))
    np.testing.assert_array_equal(a.grad.numpy(), np.where(last, 1.0, x + 1) + np.where(first, 0.0, x - 1))


def test_a_gradient_of_what_nobody_wrote_is_nan() -> None:
    a, y = dk.array(np.arange(1.0, 9.0), requires_grad=True), dk.zeros(8, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(Kernel(neighbours, mode="debug"), 8, [a], [y], block_dim=4)
    tape.backward(grads={y: dk.ones(8, dtype=dk.float64)})
    np.testing.assert_array_equal(np.isnan(a.grad.numpy()), np.arange(8) % 4 == 3)


@cuda.jit
def halo(u, out):
    tile = cuda.shared.array((6, 6), dtype=cuda.float32)
    i, j = cuda.grid(2)
    ti, tj = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    tile[ti, tj] = u[i, j]
    cuda.syncthreads()
    out[i, j] = tile[ti - 1, tj] + tile[ti, tj]


def test_a_forgotten_halo_is_an_anomaly() -> None:
    u = np.ones((8, 8), np.float32)
    with pytest.raises(NonFiniteError, match="tile") as caught, dk.detect_anomaly():
        halo[(2, 2), (4, 4)](u, np.zeros_like(u))
    assert "tile[ti - 1, tj]" in str(caught.value)
