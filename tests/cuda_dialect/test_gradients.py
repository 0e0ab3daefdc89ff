"""Gradients of kernels in numba's spelling, against central differences and by every way that there is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import require

import diffkern as dk
from diffkern import cuda
from diffkern.testing import gradcheck

TILE = 4
WEIGHTS = np.array([0.25, 0.5, 0.25])


def doubles(*shape, seed=3):
    return np.random.default_rng(seed).uniform(0.2, 1.5, shape)


def active(values):
    return dk.array(values, requires_grad=True)


@cuda.jit
def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = a * x[i] * x[i] + y[i]


@cuda.jit
def stencil(x, out):
    i, j = cuda.grid(2)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        out[i, j] = x[i - 1, j] * x[i + 1, j] + math.sin(x[i, j - 1]) - x[i, j + 1] ** 2


@cuda.jit
def matmul(a, b, c):
    left = cuda.shared.array((TILE, TILE), np.float64)
    right = cuda.shared.array((TILE, TILE), np.float64)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = 0.0
    for k in range(cuda.gridDim.x):
        left[ty, tx] = a[row, tx + k * TILE]
        right[ty, tx] = b[ty + k * TILE, column]
        cuda.syncthreads()
        for j in range(TILE):
            total += left[ty, j] * right[j, tx]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit
def block_sum(x, out):
    held = cuda.shared.array(0, np.float64)
    t = cuda.threadIdx.x
    held[t] = math.exp(x[cuda.grid(1)])
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            held[t] += held[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, held[0])


@cuda.jit
def warp_products(x, out):
    i = cuda.grid(1)
    value = x[i]
    for k in range(5):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 1 << k)
    out[i] = value * x[i] + cuda.shfl_up_sync(0xFFFFFFFF, x[i], 3) * cuda.shfl_down_sync(0xFFFFFFFF, value, 1)


@cuda.jit(device=True)
def swap(a):
    a[0], a[1] = a[1], a[0]


@cuda.jit
def with_memory_of_its_own(x, out):
    i = cuda.grid(1)
    if i < out.size:
        own = cuda.local.array(2, np.float64)
        own[0] = x[i]
        own[1] = 2.0
        for _ in range(3):
            swap(own)
            own[0] *= own[1]
        out[i] = own[0] + own[1] * own[1]


@cuda.jit
def smoothed(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if 0 < i < x.size - 1:
            weights = cuda.const.array_like(WEIGHTS)
            for k in range(3):
                out[i] += weights[k] * x[i + k - 1] * x[i]


@cuda.jit
def counted(x, out):
    i = cuda.grid(1)
    many = cuda.syncthreads_count(x[i] > 1.0)
    if cuda.syncthreads_or(x[i] > 1.4):
        out[i] = many * x[i] ** 2
    else:
        out[i] = x[i]


CASES = {
    "saxpy": (saxpy[2, 16], [1.5, doubles(30), doubles(30, seed=4)], [np.zeros(30)]),
    "stencil": (stencil[(2, 3), (4, 4)], [doubles(8, 9)], [np.zeros((8, 9))]),
    "matmul": (matmul[(2, 2), (TILE, TILE)], [doubles(8, 8), doubles(8, 8, seed=4)], [np.zeros((8, 8))]),
    "block_sum": (block_sum[2, 16, 0, 128], [doubles(32)], [np.zeros(1)]),
    "warp_products": (warp_products[1, 64], [doubles(64)], [np.zeros(64)]),
    "with_memory_of_its_own": (with_memory_of_its_own[2, 16], [doubles(30)], [np.zeros(30)]),
    "smoothed": (smoothed[1, 8], [doubles(30)], [np.zeros(30)]),
    "counted": (counted[3, 8], [doubles(24)], [np.zeros(24)]),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_differences(name):
    launcher, inputs, outputs = CASES[name]
    gradcheck(launcher.kernel, launcher.dim, inputs, outputs)


@pytest.mark.parametrize("name", ["saxpy", "matmul", "block_sum", "counted"])
def test_a_tape_a_record_and_an_adjoint_launch_agree(name):
    launcher, inputs, outputs = CASES[name]
    weights = doubles(*outputs[0].shape, seed=9)

    def arguments():
        return [active(a) if isinstance(a, np.ndarray) else a for a in inputs], [active(a) for a in outputs]

    def gradients(arrays):
        return [a.grad.numpy() for a in arrays if isinstance(a, dk.array)]

    given, results = arguments()
    with dk.Tape() as tape:
        launcher(*given, *results)
    tape.backward(grads={results[0]: dk.array(weights)})
    expected = gradients(given)

    given, results = arguments()
    record = dk.launch(launcher.kernel, launcher.dim, given, results, record_cmd=True)
    with dk.Tape() as tape:
        record.launch()
    tape.backward(grads={results[0]: dk.array(weights)})
    for a, b in zip(gradients(given), expected, strict=True):
        np.testing.assert_array_equal(a, b)

    given, results = arguments()
    launcher(*given, *results)
    results[0].grad.assign(weights)
    dk.launch(launcher.kernel, launcher.dim, given, results, adjoint=True)
    for a, b in zip(gradients(given), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


@cuda.jit
def through_memory_of_all(x, held, out):
    i = cuda.grid(1)
    held[i] = x[i] * x[i]
    cuda.syncthreads()
    t = cuda.threadIdx.x
    out[i] = held[i - t + (t + 1) % cuda.blockDim.x] * x[i]


def test_threads_that_meet_in_global_memory_run_and_are_not_differentiated():
    x = doubles(32)
    arrays = [active(x), active(np.zeros(32)), active(np.zeros(32))]
    with dk.Tape() as tape:
        through_memory_of_all[2, 16](*arrays)
    expected = [np.roll(b * b, -1) * b for b in x.reshape(2, 16)]
    np.testing.assert_allclose(arrays[2].numpy(), np.concatenate(expected))
    with pytest.raises(dk.AutodiffError, match=r"thread 15 of block 0 reads held\[0\] here, which thread 0") as caught:
        tape.backward(grads={arrays[2]: dk.ones(32, dtype=dk.float64)})
    assert "held[i - t" in caught.value.loc.text


def test_jax_differentiates_it():
    jax = require("jax")

    @cuda.jit("void(float32[:], float32[:])")
    def squares(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] * x[i]

    launcher = squares[2, 16]
    function = dk.jax_kernel(launcher.kernel, num_outputs=1, launch_dims=launcher.dim, output_dims=30)
    x = jax.numpy.arange(30.0)
    np.testing.assert_allclose(jax.grad(lambda x: function(x)[0].sum())(x), 2.0 * x)


def test_torch_differentiates_it():
    torch = require("torch")

    @cuda.jit("void(float32[:], float32[:])")
    def cubes(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] ** 3

    launcher = cubes[2, 16]
    function = dk.torch_function(launcher.kernel, launch_dims=launcher.dim, output_dims=30)
    x = torch.arange(30.0, requires_grad=True)
    function(x).sum().backward()
    np.testing.assert_allclose(x.grad, 3.0 * x.detach() ** 2)
