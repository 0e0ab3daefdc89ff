"""Kernels whose threads work together, and kernels of tiles, on a GPU: against NumPy, and against the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from block_corpus import BLOCKS, Case

import diffkern as dk
from diffkern.cache.environment import has_mathdx
from diffkern.ir.types import Array, is_differentiable
from diffkern.runtime.arrays.array import wrap

pytestmark = pytest.mark.gpu

G = "cuda:0"
f2 = dk.array(dtype=float, ndim=2)


def placed(case: Case, device: str) -> list:
    types = case.kernel.argument_types()
    made = [
        dk.array(wrap(np.array(a), t.dtype), device=device) if isinstance(t, Array) else a
        for a, t in zip(case.arguments(), types, strict=True)
    ]
    for a, t in zip(made, types, strict=True):
        if isinstance(t, Array):
            a.requires_grad = is_differentiable(t)
    return made


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_threads_that_work_together(name):
    case = BLOCKS[name]
    there = placed(case, G)
    dk.launch(case.kernel, case.dim, inputs=there, block_dim=case.block_dim)
    for a, expected in zip(there, case.expected(*case.arguments()), strict=True):
        if isinstance(a, dk.array):
            np.testing.assert_allclose(a.numpy(), expected, rtol=1e-5, atol=1e-5)


def gradients(case: Case, device: str) -> list[np.ndarray]:
    arguments = placed(case, device)
    with dk.Tape() as tape:
        dk.launch(case.kernel, case.dim, inputs=arguments, block_dim=case.block_dim)
    arrays = [a for a in arguments if isinstance(a, dk.array) and a.requires_grad]
    rng = np.random.default_rng(5)
    for a in arrays:
        a.grad.assign(rng.normal(size=a.grad.numpy().shape).astype(np.float32))
    tape.backward()
    return [a.grad.numpy().copy() for a in arrays]


def has_gradients(case: Case) -> bool:
    return any(isinstance(t, Array) and is_differentiable(t) for t in case.kernel.argument_types())


@pytest.mark.parametrize("name", [name for name in sorted(BLOCKS) if has_gradients(BLOCKS[name])])
def test_their_gradients(name):
    """The same as on the CPU, where differences have checked them; what is refused there is refused here."""
    case = BLOCKS[name]
    try:
        here = gradients(case, "cpu")
    except dk.AutodiffError as error:
        with pytest.raises(dk.AutodiffError, match=error.message[:40]):
            gradients(case, G)
        return
    for there, wanted in zip(gradients(case, G), here, strict=True):
        np.testing.assert_allclose(there, wanted, rtol=1e-4, atol=1e-5)


# -- tiles -------------------------------------------------------------------------------------------------------------


def multiply(a: f2, b: f2, c: f2):
    i, j = dk.tid()
    total = dk.tile_zeros(shape=(32, 32), dtype=float)
    for k in range(3):
        x = dk.tile_load(a, shape=(32, 16), offset=(32 * i, 16 * k))
        y = dk.tile_load(b, shape=(16, 32), offset=(16 * k, 32 * j))
        dk.tile_matmul(x, y, total)
    dk.tile_store(c, total, offset=(32 * i, 32 * j))


def product(device: str, library: bool, block_dim: int) -> list[np.ndarray]:
    kernel = dk.kernel(enable_mathdx_gemm=library)(multiply)
    rng = np.random.default_rng(2)
    a, b = (dk.array(rng.normal(size=s).astype(np.float32), dtype=float, device=device) for s in ((64, 48), (48, 96)))
    c = dk.zeros((64, 96), device=device)
    for x in (a, b, c):
        x.requires_grad = True
    with dk.Tape() as tape:
        dk.launch_tiled(kernel, (2, 3), inputs=[a, b, c], block_dim=block_dim)
    tape.backward(grads={c: dk.array(rng.normal(size=(64, 96)).astype(np.float32), dtype=float, device=device)})
    return [c.numpy(), a.grad.numpy(), b.grad.numpy()]


@pytest.mark.parametrize("block_dim", [32, 64, 96, 128, 256, 1024])
def test_products_by_loops(block_dim):
    for there, here in zip(product(G, False, block_dim), product("cpu", False, block_dim), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-4)


@dk.kernel
def shared_squares(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    t = dk.tile(x[i] * x[i])
    y[i] = dk.untile(t * 3.0) + dk.tile_sum(t)[0]


@pytest.mark.real_gpu
@pytest.mark.parametrize("block_dim", [3, 32, 96])
def test_tiles_of_the_threads_of_a_block(block_dim):
    """A tile has an element for each thread: on the CPU blocks are of one thread, so this is compared with NumPy."""
    rng = np.random.default_rng(8)
    held, given = rng.normal(size=(2, 2 * block_dim)).astype(np.float32)
    x, y = dk.array(held, device=G, requires_grad=True), dk.zeros(2 * block_dim, device=G, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(shared_squares, 2 * block_dim, inputs=[x, y], block_dim=block_dim)
    tape.backward(grads={y: dk.array(given, device=G)})
    sums = (held**2).reshape(2, -1).sum(axis=1).repeat(block_dim)
    np.testing.assert_allclose(y.numpy(), 3.0 * held**2 + sums, rtol=1e-4, atol=1e-5)
    sums = given.reshape(2, -1).sum(axis=1).repeat(block_dim)
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * held * (3.0 * given + sums), rtol=1e-4, atol=1e-4)


@pytest.mark.real_gpu
@pytest.mark.parametrize("block_dim", [32, 128, 256])
def test_products_by_libmathdx(block_dim):
    if not has_mathdx():
        pytest.skip("libmathdx is not installed")
    for there, here in zip(product(G, True, block_dim), product("cpu", False, block_dim), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-4)


@dk.kernel
def large(x: f2, y: f2, out: dk.array(dtype=float)):
    """More shared memory than a block has without asking, and a sum beside it."""
    t = dk.tile_load(x, shape=(120, 120))
    dk.tile_store(y, dk.tile_transpose(t))
    dk.atomic_add(out, 0, 0.5)


def test_shared_memory_that_is_asked_for():
    held = np.arange(120 * 120, dtype=np.float32).reshape(120, 120)
    x, y, out = dk.array(held, device=G), dk.zeros((120, 120), device=G), dk.zeros(1, device=G)
    dk.launch_tiled(large, 1, inputs=[x, y, out], block_dim=256)
    np.testing.assert_array_equal(y.numpy(), held.T)
    assert out.list() == [0.5]
