"""Kernels of ``dk.matmul`` for GPUs: batches of matrices, a tile of a result for each block, or an element a thread."""

from __future__ import annotations

from typing import Any, Final

from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS
from diffkern.lang.func import constant, func
from diffkern.lang.intrinsics import INTRINSICS

__all__ = ["BLOCK", "TILE", "by_elements", "by_elements_added", "by_tiles", "by_tiles_added"]

tid: Any = INTRINSICS["tid"]
tile_load: Any = INTRINSICS["tile_load"]
tile_matmul: Any = INTRINSICS["tile_matmul"]
tile_store: Any = INTRINSICS["tile_store"]
tile_zeros: Any = INTRINSICS["tile_zeros"]
int32: Any = SCALARS["int32"]

TILE: Final = 32
"""Rows and columns of a tile."""
BLOCK: Final = 128
"""Threads of a block."""

SIZE: Any = constant(TILE)


@func
def _tile(left: Any, right: Any, zeros: Any, i: int32, j: int32) -> Any:
    """A tile of the product of two matrices, in the place of one of zeros."""
    total = zeros
    for k in range((left.shape[1] + SIZE - 1) // SIZE):
        x = tile_load(left, shape=(SIZE, SIZE), offset=(i * SIZE, k * SIZE))
        y = tile_load(right, shape=(SIZE, SIZE), offset=(k * SIZE, j * SIZE))
        tile_matmul(x, y, total)
    return total


@func
def _element(left: Any, right: Any, zero: Any, i: int32, j: int32) -> Any:
    """An element of the product of two matrices."""
    total = zero
    for k in range(left.shape[1]):
        total += left[i, k] * right[k, j]
    return total


@Kernel
def by_tiles(left, right, goal, step_left: int32, step_right: int32, factor):  # type: ignore[no-untyped-def]
    """``goal = factor * left @ right``; a step is 0 where all products of a batch have one factor."""
    of, i, j = tid()
    zeros = tile_zeros(shape=(SIZE, SIZE), dtype=goal.dtype)
    found = _tile(left[of * step_left], right[of * step_right], zeros, i, j)
    tile_store(goal[of], found * factor, offset=(i * SIZE, j * SIZE))


@Kernel
def by_tiles_added(left, right, goal, step_left: int32, step_right: int32, factor):  # type: ignore[no-untyped-def]
    """``goal += factor * left @ right``."""
    of, i, j = tid()
    zeros = tile_zeros(shape=(SIZE, SIZE), dtype=goal.dtype)
    found = _tile(left[of * step_left], right[of * step_right], zeros, i, j)
    before = tile_load(goal[of], shape=(SIZE, SIZE), offset=(i * SIZE, j * SIZE))
    tile_store(goal[of], found * factor + before, offset=(i * SIZE, j * SIZE))


@Kernel
def by_elements(left, right, goal, step_left: int32, step_right: int32, factor):  # type: ignore[no-untyped-def]
    """``goal = factor * left @ right`` with an element for each thread, for types without products of tiles."""
    of, i, j = tid()
    found = _element(left[of * step_left], right[of * step_right], goal.dtype(0), i, j)
    goal[of, i, j] = goal.dtype(found * factor)


@Kernel
def by_elements_added(left, right, goal, step_left: int32, step_right: int32, factor):  # type: ignore[no-untyped-def]
    """``goal += factor * left @ right`` with an element for each thread."""
    of, i, j = tid()
    found = _element(left[of * step_left], right[of * step_right], goal.dtype(0), i, j)
    goal[of, i, j] = goal.dtype(goal[of, i, j] + found * factor)
