"""Launches on a GPU of kernels of tiles: a launch counts blocks, whatever their number of threads is."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.contracts import abi
from diffkern.runtime.cuda.context import CudaDevice
from diffkern.runtime.cuda.driver import FunctionAttribute

G = "cuda:0"
TILE = 8


@dk.kernel
def cubes(x: dk.array(dtype=float), y: dk.array(dtype=float), a: float):
    i = dk.tid()
    t = dk.tile_load(x, shape=TILE, offset=i * TILE)
    dk.tile_store(y, a * t * t * t, offset=i * TILE)


@dk.kernel
def product(a: dk.array(dtype=float, ndim=2), b: dk.array(dtype=float, ndim=2), c: dk.array(dtype=float, ndim=2)):
    i, j = dk.tid()
    total = dk.tile_zeros(shape=(4, 4), dtype=float)
    for k in range(2):
        x = dk.tile_load(a, shape=(4, 4), offset=(i * 4, k * 4))
        y = dk.tile_load(b, shape=(4, 4), offset=(k * 4, j * 4))
        dk.tile_matmul(x, y, total)
    dk.tile_store(c, total, offset=(i * 4, j * 4))


@dk.kernel
def shares(x: dk.array(dtype=float), w: dk.array(dtype=float), y: dk.array(dtype=float)):
    """All blocks use the same weights: their gradient is a sum over blocks."""
    i = dk.tid()
    t = dk.tile_load(x, shape=TILE, offset=i * TILE)
    dk.tile_store(y, t * dk.tile_load(w, shape=TILE), offset=i * TILE)


@dk.kernel(mode="debug")
def beyond(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    t = dk.tile_load(x, shape=TILE, offset=i * TILE)
    y[i + 3] = dk.tile_sum(t)[0]


def operands(blocks=6, device=G):
    x = np.linspace(-1, 1, blocks * TILE).astype(np.float32)
    return dk.array(x, device=device), dk.zeros(blocks * TILE, device=device), x


def grids(driver):
    dk.synchronize()
    return [(launched.blocks, launched.threads) for launched in driver.launches]


def header(launched):
    return struct.unpack_from(abi.HEADER_FORMAT, launched.block)


@pytest.mark.parametrize("block_dim", [1, 7, 32, 64, 256, 1024])
def test_a_block_for_each_index(driver, block_dim):
    x, y, held = operands()
    dk.launch_tiled(cubes, dim=6, inputs=[x, y, 2.0], block_dim=block_dim)
    assert grids(driver) == [(6, block_dim)]
    (launched,) = driver.launches
    assert header(launched) == (0, 6, 1, 1, 1, 0, 0)
    n = 6 * TILE
    assert struct.unpack_from("3q3qf", launched.block, abi.HEADER_SIZE) == (x.ptr, n, 4, y.ptr, n, 4, 2.0)
    np.testing.assert_allclose(y.numpy(), 2 * held**3, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "grid"),
    [({}, (6, 256)), ({"block_dim": 32}, (6, 32)), ({"max_blocks": 4}, (4, 256))],
)
def test_options_of_a_tiled_launch(driver, options, grid):
    x, y, held = operands()
    dk.launch_tiled(cubes, 6, inputs=[x, y, 1.0], **options)
    assert grids(driver) == [grid]
    assert header(driver.launches[0])[1:5] == (6, 1, 1, 1)
    np.testing.assert_allclose(y.numpy(), held**3, rtol=1e-6)


def test_what_counts_threads_takes_no_tiles(driver):
    x, y, held = operands()
    cubes[6](x, y, 1.0)  # as many as the kernel works in
    np.testing.assert_allclose(y.numpy(), held**3, rtol=1e-6)
    for options in ({}, {"block_dim": 32}, {"record_cmd": True}, {"adjoint": True}):
        with pytest.raises(dk.LaunchError, match="'cubes' works on tiles") as caught:
            dk.launch(cubes, 6, inputs=[x, y, 1.0], **options)
        assert "dk.launch_tiled(cubes, " in caught.value.remedy
    assert grids(driver) == [(6, 256)]


def test_two_axes(driver):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(12, 8)).astype(np.float32), rng.normal(size=(8, 20)).astype(np.float32)
    c = dk.zeros((12, 20), device=G)
    dk.launch_tiled(product, dim=[3, 5], inputs=[dk.array(a, device=G), dk.array(b, device=G), c], block_dim=64)
    assert grids(driver) == [(15, 64)]
    assert header(driver.launches[0])[1:5] == (3, 5, 1, 1)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5, atol=1e-5)


def test_no_blocks(driver):
    x, y, _ = operands()
    dk.launch_tiled(cubes, dim=0, inputs=[x, y, 2.0], block_dim=32)
    assert grids(driver) == []


@pytest.mark.parametrize("wrong", [0, -1, 1025, True, 32.0])
def test_block_dim_of_a_tiled_launch_is_checked(driver, wrong):
    x, y, _ = operands()
    with pytest.raises(dk.LaunchError, match="block_dim is 1 to 1024"):
        dk.launch_tiled(cubes, dim=6, inputs=[x, y, 2.0], block_dim=wrong)
    assert grids(driver) == []


def test_more_threads_than_the_code_has_registers_for(driver, monkeypatch):
    monkeypatch.setattr(type(driver), "function_attribute", lambda *_: 512)
    x, y, _ = operands()
    with pytest.raises(dk.LaunchError, match="from 1 to 512"):
        dk.launch_tiled(cubes, dim=6, inputs=[x, y, 3.0], block_dim=1024)
    assert grids(driver) == []


def test_a_record_keeps_its_block_dim(driver):
    x, y, held = operands()
    record = dk.launch_tiled(cubes, dim=2, inputs=[x, y, 1.0], block_dim=64, record_cmd=True)
    record.launch()
    record.set_dim(6)
    record.set_param_by_name("a", 3.0)
    record.launch()
    assert grids(driver) == [(2, 64), (6, 64)]
    assert [header(launched)[1:5] for launched in driver.launches] == [(2, 1, 1, 1), (6, 1, 1, 1)]
    np.testing.assert_allclose(y.numpy(), 3 * held**3, rtol=1e-6)


def test_a_record_of_the_adjoint(driver):
    x, y, held = operands()
    x.grad, y.grad = dk.zeros(48, device=G), dk.ones(48, device=G)
    adjoint = dk.launch_tiled(
        cubes, dim=6, inputs=[x, y, 2.0], block_dim=32, adjoint=True, record_cmd=True, adj_inputs=[], adj_outputs=[]
    )
    adjoint.launch()
    assert grids(driver)[-1] == (6, 32)
    assert header(driver.launches[-1])[1:5] == (6, 1, 1, 1)
    np.testing.assert_allclose(x.grad.numpy(), 6 * held**2, rtol=1e-5)


def test_a_graph(driver):
    x, y, held = operands()
    dk.launch_tiled(cubes, dim=6, inputs=[x, y, 2.0], block_dim=128)
    with dk.ScopedCapture(device=G) as capture:
        dk.launch_tiled(cubes, dim=6, inputs=[y, x, 0.5], block_dim=128)
    for _ in range(2):
        dk.capture_launch(capture.graph)
    assert grids(driver) == [(6, 128)] * 3
    np.testing.assert_allclose(x.numpy(), 0.5 * (2 * held**3) ** 3, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("blocks", [1, 6, 200])
def test_gradients_through_a_tape(driver, blocks):
    """The same block_dim forward and backward, and the gradients of the CPU."""
    found = {}
    for device in ("cpu", G):
        x, y, held = operands(blocks, device)
        w = dk.array(np.arange(TILE, dtype=np.float32), device=device, requires_grad=True)
        x.requires_grad = y.requires_grad = True
        with dk.Tape() as tape:
            dk.launch_tiled(shares, dim=blocks, inputs=[x, w, y], block_dim=96)
        tape.backward(grads={y: dk.array(held, device=device)})
        found[device] = x.grad.numpy(), w.grad.numpy()
        np.testing.assert_allclose(found[device][0], held * np.tile(np.arange(TILE), blocks), rtol=1e-6)
        np.testing.assert_allclose(found[device][1], (held**2).reshape(blocks, TILE).sum(0), rtol=1e-4)
    launched = [entry for entry in driver.launches if header(entry)[1:5] == (blocks, 1, 1, 1)]
    assert [entry.threads for entry in launched] == [96, 96]
    assert [entry.blocks for entry in launched] == [blocks, blocks]


def test_errors_of_debug_programs_name_the_block(driver):
    x, y = dk.zeros(48, device=G), dk.zeros(6, device=G)
    with pytest.raises(dk.KernelRuntimeError, match=r"thread 3"):
        dk.launch_tiled(beyond, dim=6, inputs=[x, y], block_dim=64)
    assert header(driver.launches[-1])[1:5] == (6, 1, 1, 1)


@pytest.mark.parametrize("adjoint", [False, True])
def test_programs_for_gpus_are_launched_in_the_same_way(adjoint):
    """With real cubins, which the driver only notes."""
    require("cuda.bindings")
    with fake_cuda(target="sm_90") as driver:
        x, y, _ = operands()
        x.requires_grad = y.requires_grad = True
        with dk.Tape() as tape:
            dk.launch_tiled(cubes, dim=(6,), inputs=[x, y, 2.0], block_dim=64)
        if adjoint:
            tape.backward(grads={y: dk.ones(48, device=G)})
        assert grids(driver)[: 1 + adjoint] == [(6, 64)] * (1 + adjoint)
        assert all(header(entry)[1:5] == (6, 1, 1, 1) for entry in driver.launches[: 1 + adjoint])


@dk.kernel
def large(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2)):
    t, u = dk.tile_load(x, shape=(96, 96)), dk.tile_load(y, shape=(96, 96))
    dk.tile_store(y, dk.tile_transpose(t) + dk.tile_transpose(u))


def test_a_launch_asks_for_shared_memory():
    require("cuda.bindings")
    with fake_cuda(target="sm_90") as driver:
        x, y = dk.zeros((96, 96), device=G), dk.zeros((96, 96), device=G)
        dk.launch_tiled(large, dim=1, inputs=[x, y], block_dim=128)
        dk.synchronize()
        (launched,) = driver.launches
        assert (launched.blocks, launched.threads, launched.shared) == (1, 128, 2 * 96 * 96 * 4)
        asked = [args[1:] for name, args in driver.calls if name == "set_function_attribute"]
        assert asked == [(FunctionAttribute.MAX_DYNAMIC_SHARED, 2 * 96 * 96 * 4)]


def test_a_device_with_less_shared_memory_refuses(monkeypatch):
    require("cuda.bindings")
    monkeypatch.setattr(CudaDevice, "max_shared_memory_per_block", 64 << 10)
    with fake_cuda(target="sm_90") as driver:
        x, y = dk.zeros((96, 96), device=G), dk.zeros((96, 96), device=G)
        with pytest.raises(dk.LaunchError, match="needs 73728 bytes of shared memory"):
            dk.launch_tiled(large, dim=1, inputs=[x, y], block_dim=128)
        dk.synchronize()
        assert driver.launches == []
