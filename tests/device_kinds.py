"""Programs of every kind with what launches bring with them: run on a device, they return what they leave.

Both ``tests/gpu`` (on a GPU) and the tests of executed PTX compare it with what the CPU leaves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import diffkern as dk

N = 7
vector = dk.array(dtype=float)


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


@dk.kernel
def squared(x: vector, y: vector):
    i = dk.tid()
    y[i] = x[i] * x[i]


def graphs(device: str, block: int) -> list[np.ndarray]:
    x, y = dk.array(numbers(8), device=device), dk.zeros(N, device=device)
    with dk.ScopedCapture(device) as capture:
        dk.launch(squared, N, [x, y], block_dim=block)
        dk.launch(squared, N, [y, x], block_dim=block)
    capture.graph.launch()
    return [x.numpy(), y.numpy()]


KINDS: list[Callable[[str, int], list[np.ndarray]]] = [
    conditionals, hash_grids, structs, narrow_atomics, second_order, random, graphs,
]  # fmt: skip


def agree(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Compare what two devices leave."""
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3 if b.dtype == np.float16 else 1e-5, atol=1e-5)


@dk.kernel
def told(x: vector):
    i = dk.tid()
    print("thread", i, x[i])


TOLD = [f"thread {i} {float(i)}" for i in range(3)]


def tell(device: str, block: int) -> None:
    """Print ``TOLD``."""
    dk.launch(told, 3, [dk.array(np.arange(3.0), dtype=float, device=device)], block_dim=block)
    dk.synchronize()
