"""The launches that the model is checked on. None of their kernels measures the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import diffkern as dk
from benchmarks import kernels

from . import workload_kernels as own
from .launches import Launch, gradients

__all__ = ["NAMES", "workloads"]

_KERNELS = kernels.make(dk)


def _floats(rng: np.random.Generator, *shape: int, low: float = 0.1, high: float = 0.9) -> Any:
    return dk.array(rng.uniform(low, high, shape).astype(np.float32))


def _points(rng: np.random.Generator, *shape: int, width: int = 3, low: float = 0.1, high: float = 0.9) -> Any:
    values = rng.uniform(low, high, (*shape, width)).astype(np.float32)
    return dk.array(values, dtype=dk.vec3 if width == 3 else dk.vec2)


def elementwise(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """Two elementary functions of each element."""
    n = int(2**21 * scale)
    return _KERNELS.wave, n, (_floats(rng, n), _floats(rng, n), 1.5, _floats(rng, n))


def heat(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """A stencil of five points."""
    rows, columns = int(1536 * scale), 1536
    return _KERNELS.heat, (rows, columns), (_floats(rng, rows, columns), rows, columns, 0.1,
                                            _floats(rng, rows, columns))  # fmt: skip


def nbody(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """Gravity between all pairs."""
    n = int(1536 * scale**0.5)
    return _KERNELS.nbody, n, (_points(rng, n), _floats(rng, n), n, _points(rng, n))


def recurrence(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """A recurrence of 64 steps in each thread."""
    n = int(2**17 * scale)
    return own.recurrence, n, (_floats(rng, n), 64, 3.1, _floats(rng, n))


def cloth(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """A step of springs between neighbours in a grid."""
    side = int(512 * scale**0.5)
    made = [_points(rng, side, side) for _ in range(4)]
    return own.cloth, (side, side), (made[0], made[1], side, 1e-4, made[2], made[3])


def mesh(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """The area of triangles along a surface."""
    side = int(320 * scale**0.5)
    row, column = np.meshgrid(np.arange(side - 1), np.arange(side - 1), indexing="ij")
    corner = (row * side + column).reshape(-1, 1)
    halves = [corner + np.array(three) for three in ((0, 1, side), (side + 1, side, 1))]
    face = np.concatenate(halves, axis=1).reshape(-1, 3)
    return _KERNELS.mesh_area, len(face), (_points(rng, side * side), dk.array(face.astype(np.int32)), dk.zeros(1))


def lookup(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """Elements of a table at random."""
    n, table = int(2**19 * scale), 2**20
    at = dk.array(rng.integers(0, table, n).astype(np.int32))
    return own.lookup, n, (at, _floats(rng, table), _floats(rng, n))


def small_lookup(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """Elements of a small table at random."""
    n, table = int(2**20 * scale), 2**12
    at = dk.array(rng.integers(0, table, n).astype(np.int32))
    return own.lookup, n, (at, _floats(rng, table), _floats(rng, n))


def histogram(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """Counts in 4096 bins."""
    n = int(2**21 * scale)
    return own.histogram, n, (_floats(rng, n), 4096, dk.zeros(4096))


def dot(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """A sum of products."""
    n = int(2**21 * scale)
    return own.dot, n, (_floats(rng, n), _floats(rng, n), dk.zeros(1))


def products(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """Products of tiles of 32 x 32."""
    n = int(512 * scale)
    return own.products, n, tuple(_floats(rng, n, 32, 32) for _ in range(3))


def particles_to_grid(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """Mass and momentum of particles, added to 9 nodes each of a grid of 130 x 130."""
    n = int(2**16 * scale)
    x = _points(rng, n, width=2)
    return own.particles_to_grid, n, (x, _points(rng, n, width=2), 128, dk.zeros((130, 130)),
                                      dk.zeros((130, 130), dtype=dk.vec2))  # fmt: skip


def grid_to_particles(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """The velocity of a grid at particles."""
    n = int(2**16 * scale)
    return own.grid_to_particles, n, (_points(rng, n, width=2), 128, _points(rng, 130, 130, width=2),
                                      _points(rng, n, width=2))  # fmt: skip


def escape(rng: np.random.Generator, scale: float) -> tuple[Any, Any, tuple[Any, ...]]:
    """The Mandelbrot iteration: threads make different numbers of trips."""
    n = int(2**15 * scale)
    return own.escape, n, (_points(rng, n, width=2, low=-2.0, high=1.0), 100, _floats(rng, n))


_CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "elementwise": (elementwise, ("forward", "adjoint")),
    "heat": (heat, ("forward", "adjoint")),
    "n-body": (nbody, ("forward", "adjoint")),
    "recurrence": (recurrence, ("forward", "adjoint")),
    "cloth": (cloth, ("forward", "adjoint")),
    "mesh": (mesh, ("forward", "adjoint")),
    "lookup": (lookup, ("forward", "adjoint")),
    "small lookup": (small_lookup, ("forward", "adjoint")),
    "histogram": (histogram, ("forward",)),
    "dot": (dot, ("forward", "adjoint")),
    "tile products": (products, ("forward", "adjoint")),
    "particles to grid": (particles_to_grid, ("forward", "adjoint")),
    "grid to particles": (grid_to_particles, ("forward", "adjoint")),
    "escape": (escape, ("forward",)),
}
_SCATTERED = {"lookup": ("table", 1.0, 4 * 2**20)}
NAMES = tuple(f"{name} {way}" for name, (_, ways) in _CASES.items() for way in ways)


def workloads(scale: float = 1.0, chosen: tuple[str, ...] = NAMES) -> Iterator[Launch]:
    """Yield the launches; at another scale they have that multiple of the threads, or pairs of them."""
    for name, (make, ways) in _CASES.items():
        wanted = [way for way in ways if f"{name} {way}" in chosen]
        if not wanted:
            continue
        kernel, dim, arguments = make(np.random.default_rng(1), scale)
        for way in wanted:
            if way == "adjoint":
                gradients(*(a for a in arguments if isinstance(a, dk.array) and a.dtype is not int and _smooth(a)))
            scattered: dict[str, tuple[float, int]] = {}
            if name in _SCATTERED:
                of, times, spread = _SCATTERED[name]
                # An adjoint reads the table as well, and an update reads and writes.
                scattered[of] = (3.0 * times if way == "adjoint" else times, spread)
            yield Launch(f"{name} {way}", kernel, dim, arguments, way == "adjoint", scattered=scattered)


def _smooth(held: Any) -> bool:
    return bool(held._smooth)
