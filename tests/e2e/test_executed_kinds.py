"""What launches bring with them, on executed PTX: both compilers, two architectures, blocks of 3 and of 256 threads.

Results are those of the CPU. Without ``--full`` each kind of program runs in one of the four ways.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import FakeDriver, fake_cuda

import diffkern as dk

require("nvidia")

G = "cuda:0"
WAYS = [("llvm", "sm_80", 3), ("llvm", "sm_90", 256), ("numba", "sm_80", 256), ("numba", "sm_90", 3)]
N = 7
vector = dk.array(dtype=float)


@contextlib.contextmanager
def driven(compiler: str, arch: str) -> Iterator[FakeDriver]:
    """A driver with two devices that executes what a compiler makes for an architecture."""
    before = dk.config.cuda_compiler
    dk.config.cuda_compiler = compiler
    try:
        with fake_cuda(devices=2, target=arch, run="ptx") as made:
            yield made
    finally:
        dk.config.cuda_compiler = before


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape or (N,)).astype(np.float32)


@dk.kernel
def energy(x: vector, total: vector):
    i = dk.tid()
    dk.atomic_add(total, 0, x[i] * dk.sin(x[i]) * x[(i + 1) % x.shape[0]])


def second_order(device: str, block: int) -> list[np.ndarray]:
    def loss(x):
        total = dk.zeros(1, device=device, requires_grad=True)
        dk.launch(energy, N, [x, total], block_dim=block)
        return total

    x = dk.array(numbers(1), device=device, requires_grad=True)
    (product,) = dk.hvp(loss, (x,), (dk.array(numbers(2), device=device),))
    return [product.numpy()]


@dk.kernel
def halved(x: vector, left: dk.array(dtype=int)):
    i = dk.tid()
    x[i] = 0.5 * x[i] + 1.0
    if i == 0:
        left[0] -= 1


def conditionals(device: str, block: int) -> list[np.ndarray]:
    x, left = dk.array(numbers(3), device=device), dk.full(1, 3, dtype=int, device=device)
    with dk.ScopedCapture(device) as capture:
        dk.capture_while(left, lambda: dk.launch(halved, N, [x, left], block_dim=block))
    capture.graph.launch()
    return [x.numpy(), left.numpy()]


@dk.struct
class Spring:
    rest: float
    at: dk.vec3
    ends: dk.array(dtype=dk.vec3)


@dk.kernel
def stretched(s: Spring, out: vector):
    i = dk.tid()
    out[i] = dk.length(s.ends[i] - s.at) - s.rest


def structs(device: str, block: int) -> list[np.ndarray]:
    s, out = Spring(), dk.zeros(N, device=device, requires_grad=True)
    s.rest, s.at = 0.25, dk.vec3(0.5, -1.0, 2.0)
    s.ends = dk.array(numbers(4, N, 3), dtype=dk.vec3, device=device, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(stretched, N, [s, out], block_dim=block)
    tape.backward(grads={out: dk.array(numbers(5), device=device)})
    return [out.numpy(), s.ends.grad.numpy()]


@dk.kernel
def density(grid: dk.uint64, x: dk.array(dtype=dk.vec3), rho: vector):
    i = dk.tid()
    for j in dk.hash_grid_query(grid, x[i], 1.0):
        q = 1.0 - dk.length_sq(x[i] - x[j])
        if q > 0.0:
            rho[i] += q * q


def hash_grids(device: str, block: int) -> list[np.ndarray]:
    x = dk.array(numbers(6, 3 * N, 3), dtype=dk.vec3, device=device, requires_grad=True)
    rho = dk.zeros(3 * N, device=device, requires_grad=True)
    grid = dk.HashGrid(4, 5, 3, device=device)
    with dk.Tape() as tape:
        grid.build(x, 1.0)
        dk.launch(density, 3 * N, [grid.id, x, rho], block_dim=block)
    tape.backward(grads={rho: dk.ones(3 * N, device=device)})
    return [rho.numpy(), x.grad.numpy()]


@dk.kernel
def drawn(out: dk.array(dtype=float, ndim=2)):
    i = dk.tid()
    state = dk.rand_init(11, i)
    out[i, 0] = dk.randf(state)
    out[i, 1] = dk.randn(state)
    out[i, 2] = dk.noise(state, dk.vec2(0.3 * float(i), 1.7))


def random(device: str, block: int) -> list[np.ndarray]:
    out = dk.zeros((N, 3), device=device)
    dk.launch(drawn, N, [out], block_dim=block)
    return [out.numpy()]


@dk.kernel
def narrow(x: dk.array(dtype=dk.float16), sums: dk.array(dtype=dk.float16), most: dk.array(dtype=dk.float16)):
    i = dk.tid()
    dk.atomic_add(sums, i % 3, x[i])
    dk.atomic_max(most, i % 3, x[i])


def narrow_atomics(device: str, block: int) -> list[np.ndarray]:
    x = dk.array(np.arange(N, dtype=np.float16) / 4, dtype=dk.float16, device=device)
    sums, most = (dk.zeros(3, dtype=dk.float16, device=device) for _ in range(2))
    dk.launch(narrow, N, [x, sums, most], block_dim=block)
    return [sums.numpy(), most.numpy()]


KINDS: list[Callable[[str, int], list[np.ndarray]]] = [
    conditionals, hash_grids, structs, narrow_atomics, second_order, random,
]  # fmt: skip
CASES = [(kind, way) for kind in KINDS for way in WAYS]
USUAL = {(kind, WAYS[k % len(WAYS)]) for k, kind in enumerate(KINDS)}


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param(kind, way, id=f"{kind.__name__}-{way[0]}-{way[1]}-{way[2]}", marks=marks)
        for kind, way in CASES
        for marks in [() if (kind, way) in USUAL else pytest.mark.full]
    ],
)
def test_results_are_those_of_the_cpu(kind, way):
    compiler, arch, block = way
    if compiler == "numba":
        require("numba.cuda")
    expected = kind("cpu", block)
    with driven(compiler, arch) as driver:
        found = kind(G, block)
        assert {one.threads for one in driver.launches} & {block}
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3 if b.dtype == np.float16 else 1e-5, atol=1e-5)


@dk.kernel
def told(x: vector):
    i = dk.tid()
    print("thread", i, x[i])


@dk.kernel
def squared(x: vector, y: vector):
    i = dk.tid()
    y[i] = x[i] * x[i]


def test_texts(capsys):
    with driven("llvm", "sm_80"):
        dk.launch(told, 3, [dk.array(np.arange(3.0), dtype=float, device=G)], block_dim=256)
        dk.synchronize()
    assert capsys.readouterr().out.splitlines() == [f"thread {i} {float(i)}" for i in range(3)]


def test_two_devices():
    """What one has computed is copied to the other, and goes on there."""
    with driven("llvm", "sm_80") as driver:
        x, y = dk.array(numbers(8), device=G), dk.zeros(N, device=G)
        there, z = dk.zeros(N, device="cuda:1"), dk.zeros(N, device="cuda:1")
        dk.launch(squared, N, [x, y], block_dim=3)
        dk.copy(there, y)
        dk.launch(squared, N, [there, z], block_dim=3)
        np.testing.assert_allclose(z.numpy(), numbers(8) ** 4, rtol=1e-5)
        assert "copy_peer" in driver.names()


def test_an_error_of_the_device_stays():
    with driven("llvm", "sm_80") as driver:
        x, y = dk.ones(N, device=G), dk.zeros(N, device=G)
        dk.launch(squared, N, [x, y], block_dim=3)
        assert y.list() == [1.0] * N
        dk.launch(squared, N, [x, y], block_dim=3)
        driver.fail("synchronize", code=700)
        with pytest.raises(dk.CudaError, match="last one first: forward of squared"):
            dk.synchronize()
        with pytest.raises(dk.CudaError, match="ILLEGAL_ADDRESS"):
            y.numpy()
