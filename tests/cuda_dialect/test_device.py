"""Launches of kernels in numba's spelling on a GPU, which the fake driver stands in for."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern import cuda


@cuda.jit
def scaled(x, out):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        out[i, j] = 2.0 * x[i, j]


@cuda.jit
def turned(x, out):
    held = cuda.shared.array((4, 8), np.float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x0, y0 = cuda.blockIdx.x * cuda.blockDim.x, cuda.blockIdx.y * cuda.blockDim.y
    held[ty, tx] = x[y0 + ty, x0 + tx]
    cuda.syncthreads()
    out[y0 + ty, x0 + tx] = held[3 - ty, 7 - tx]


def copies(driver):
    return [name for name in driver.names() if "copy" in name]


def test_arrays_of_the_host_are_copied_and_what_was_written_comes_back(driver):
    x, out = np.arange(12.0).reshape(3, 4), np.zeros((3, 4))
    scaled[(1, 2), (4, 4)](x, out)
    np.testing.assert_array_equal(out, 2 * x)
    assert len(driver.launches) == 1
    assert len(copies(driver)) == 3  # two there, one back


def test_arrays_of_the_device_stay_there(driver):
    x, out = cuda.to_device(np.arange(12.0).reshape(3, 4)), cuda.device_array((3, 4))
    before = len(copies(driver))
    scaled[(1, 2), (4, 4)](x, out)
    assert len(copies(driver)) == before
    np.testing.assert_array_equal(out.copy_to_host(), 2 * x.copy_to_host())


@pytest.mark.parametrize("stream", ["default", "made"])
def test_blocks_of_several_axes(driver, stream):
    x = np.arange(2 * 3 * 32.0).reshape(8, 24)
    out = np.zeros_like(x)
    turned[(3, 2), (8, 4), cuda.stream() if stream == "made" else 0](x, out)
    cuda.synchronize()
    expected = x.reshape(2, 4, 3, 8)[:, ::-1, :, ::-1].reshape(8, 24)
    np.testing.assert_array_equal(out, expected)
    assert driver.launches[-1].threads == 32
    assert driver.launches[-1].blocks == 6


def test_gradients_on_the_device(driver):
    x, out = cuda.to_device(np.ones((8, 24))), cuda.device_array((8, 24))
    x.requires_grad = out.requires_grad = True
    with dk.Tape() as tape:
        turned[(3, 2), (8, 4)](x, out)
    weights = np.random.default_rng(0).random((8, 24))
    tape.backward(grads={out: weights})
    expected = weights.reshape(2, 4, 3, 8)[:, ::-1, :, ::-1].reshape(8, 24)
    np.testing.assert_allclose(x.grad.numpy(), expected)
