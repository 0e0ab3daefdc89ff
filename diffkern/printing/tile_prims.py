"""The primitives that generated Python source calls for tiles: the NumPy twin of every tile operation.

A tile is an array of its elements' values: float32 if float16 or bfloat16 is stored, rounded to these; a vector or
matrix as an element takes trailing axes. Tiles are values: nothing here changes an operand. Functions of elements are
called element by element, so that they may be any generated code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffkern.ir.ops.tile import ROWS as _ROWS

Tile = Any
Index = Sequence[Any]

# Twins of one line stand in the rows of the operations.
globals().update({_row.name: _row.twin for _row in _ROWS if _row.twin is not None})

float16 = np.float16


def bfloat16(x: Any) -> Any:
    """Round to bfloat16, ties to even; the result is float32."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = ((bits + ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)) >> np.uint32(16)) << np.uint32(16)
    return np.where(np.isnan(x), np.float32(np.nan), rounded.view(np.float32)).astype(np.float32)


def _stored(x: Tile, dtype: Any) -> Tile:
    """Return elements as memory keeps them."""
    if dtype is bfloat16:
        return bfloat16(x)
    return np.asarray(x, np.float32).astype(np.float16).astype(np.float32) if dtype is np.float16 else x


def tile_fill(value: Any, shape: tuple[int, ...], dtype: Any = None) -> Tile:
    """Return a tile of one value."""
    item = np.asarray(value)
    return _stored(np.broadcast_to(item, (*shape, *item.shape)).copy(), dtype)


def tile_map(
    function: Callable[..., Any], *tiles: Tile, shape: tuple[int, ...], dtype: Sequence[Any] = (), indexed: bool = False
) -> Any:
    """Apply a function to the elements of tiles; with several results return as many tiles."""
    found: list[list[Any]] = []
    for index in itertools.product(*(range(n) for n in shape)):
        at = tuple(np.int32(k) for k in index) if indexed else ()
        result = function(*at, *(t[index] for t in tiles))
        found.append(list(result) if isinstance(result, tuple) else [result])
    out = []
    for k, column in enumerate(zip(*found, strict=True)):
        made = np.stack([np.asarray(x) for x in column])
        whole = made.reshape((*shape, *made.shape[1:]))
        out.append(_stored(whole, dtype[k] if k < len(dtype) else None))
    return out[0] if len(out) == 1 else tuple(out)


Along = tuple[int, Any]
"""An axis, and a tile by whose elements those of other tiles are found along it."""


def _places(array: Any, offset: Index, shape: Sequence[int], along: Along | None) -> Any:
    """Iterate over the elements of a tile that are in the array, by index and place."""
    for index in itertools.product(*(range(n) for n in shape)):
        at = list(index)
        if along is not None:
            at[along[0]] = int(along[1][index[along[0]]])
        place = tuple(int(o) + k for o, k in zip(offset, at, strict=True))
        if all(0 <= p < n for p, n in zip(place, array.shape, strict=True)):
            yield index, place


def _single(place: tuple[int, ...]) -> Any:
    return place if len(place) > 1 else place[0]


def tile_load(array: Any, offset: Index, shape: tuple[int, ...], along: Along | None = None) -> Tile:
    """Return a part of an array; 0 outside."""
    out = array.zeros(shape)
    for index, place in _places(array, offset, shape, along):
        out[index] = array[_single(place)]
    return out


def tile_store(array: Any, offset: Index, tile: Tile, along: Along | None = None) -> None:
    """Write a tile to an array."""
    for index, place in _places(array, offset, tile.shape[: len(offset)], along):
        array[_single(place)] = tile[index]


def tile_atomic_add(array: Any, offset: Index, tile: Tile, along: Along | None = None) -> Tile:
    """Add to elements that other threads may change too; return the old ones."""
    return _added(array, offset, tile, "atomic", along)


def tile_accumulate(array: Any, offset: Index, tile: Tile, mode: str = "plain", along: Along | None = None) -> None:
    """Add to elements of a cotangent; for ``mode`` see :func:`diffkern.printing.prims.accumulate`."""
    _added(array, offset, tile, mode, along)


def _added(array: Any, offset: Index, tile: Tile, mode: str, along: Along | None) -> Tile:
    old = np.zeros_like(tile)
    for index, place in _places(array, offset, tile.shape[: len(offset)], along):
        old[index] = array.update(_single(place), tile[index], mode, lambda a, b: a + b)
    return old


def _inside(shape: Sequence[int], offset: Index, steps: Sequence[int], extent: Sequence[int]) -> Any:
    for index in itertools.product(*(range(n) for n in shape)):
        place = tuple(int(o) + k * s for o, k, s in zip(offset, index, steps, strict=True))
        if all(0 <= p < n for p, n in zip(place, extent, strict=True)):
            yield index, place


def tile_view(tile: Tile, offset: Index, shape: tuple[int, ...], steps: Sequence[int]) -> Tile:
    """Return a part of a tile; 0 outside."""
    rank = len(shape)
    out = np.zeros((*shape, *tile.shape[rank:]), tile.dtype)
    for index, place in _inside(shape, offset, steps, tile.shape[:rank]):
        out[index] = tile[place]
    return out


def tile_insert(tile: Tile, part: Tile, offset: Index, steps: Sequence[int]) -> Tile:
    """Return the tile with a part replaced."""
    rank, out = len(offset), tile.copy()
    for index, place in _inside(part.shape[:rank], offset, steps, tile.shape[:rank]):
        out[place] = part[index]
    return out


def tile_permute(tile: Tile, axes: Sequence[int]) -> Tile:
    """Return the tile with its axes in another order."""
    return np.transpose(tile, (*axes, *range(len(axes), tile.ndim))).copy()


def tile_broadcast(tile: Tile, shape: tuple[int, ...], element: int = 0) -> Tile:
    """Return the tile extended to a shape; an element has ``element`` axes of its own."""
    return np.broadcast_to(tile, (*shape, *tile.shape[tile.ndim - element :])).copy()


def tile_reshape(tile: Tile, shape: tuple[int, ...], element: int = 0) -> Tile:
    """Return the same elements in another shape."""
    return tile.reshape((*shape, *tile.shape[tile.ndim - element :])).copy()


def _place(tile: Tile, index: Index) -> tuple[int, ...] | None:
    place = tuple(int(i) for i in index)
    return place if all(0 <= p < n for p, n in zip(place, tile.shape, strict=False)) else None


def tile_extract(tile: Tile, index: Index) -> Any:
    """Return an element; 0 outside."""
    place = _place(tile, index)
    if place is None:
        return np.zeros_like(tile[(0,) * len(tuple(index))])[()]
    item = tile[place]
    return item.copy() if isinstance(item, np.ndarray) else item


def tile_replace(tile: Tile, value: Any, index: Index) -> Tile:
    """Return the tile with one element replaced."""
    out, place = tile.copy(), _place(tile, index)
    if place is not None:
        out[place] = value
    return out


def tile_add_at(tile: Tile, value: Any, index: Index, kind: str = "add") -> Tile:
    """Return the tile with a value added to one element, or its bits combined with the element's."""
    out, place = tile.copy(), _place(tile, index)
    if place is not None:
        combine: Any = {"add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[kind]
        out[place] = combine(out[place], value)
    return out


def tile_take(tile: Tile, indices: Tile, axis: int) -> Tile:
    """Return the elements of an axis at the given indices; 0 outside."""
    # Clipped first, as NumPy would raise for indices outside; those are zeroed below.
    found = np.take(tile, np.clip(indices, 0, tile.shape[axis] - 1), axis)
    inside = (indices >= 0) & (indices < tile.shape[axis])
    return np.where(inside.reshape((-1,) + (1,) * (tile.ndim - axis - 1)), found, np.zeros_like(found))


def tile_add_along(tile: Tile, part: Tile, indices: Tile, axis: int) -> Tile:
    """Return the tile with a part added along an axis at the given indices."""
    out = np.moveaxis(tile, axis, 0).copy()
    for k, row in zip(indices, np.moveaxis(part, axis, 0), strict=True):
        # One row after the other, since the same index may occur several times.
        if 0 <= k < out.shape[0]:
            out[k] = out[k] + row
    return np.moveaxis(out, 0, axis).copy()


def tile_fft(tile: Tile, inverse: bool) -> Tile:
    """Return the discrete Fourier transform along the last axis of complex numbers as pairs, not normalised."""
    numbers = tile[..., 0] + 1j * tile[..., 1]
    made = np.fft.ifft(numbers, norm="forward") if inverse else np.fft.fft(numbers)
    return np.stack([made.real, made.imag], axis=-1).astype(tile.dtype)


def tile_reduce(tile: Tile, kind: str, axis: int | None = None, element: int = 0) -> Tile:
    """Return the sum, the smallest or the greatest of the elements."""
    function: Any = {"add": np.sum, "min": np.min, "max": np.max}[kind]
    axes = tuple(range(tile.ndim - element)) if axis is None else (axis,)
    out = np.asarray(function(tile, axis=axes), tile.dtype)
    return out[None] if out.ndim == element else out


def tile_argreduce(tile: Tile, kind: str, axis: int | None = None) -> Tile:
    """Return the position of the smallest or the greatest element; the first of several."""
    function = np.argmin if kind == "min" else np.argmax
    out = np.asarray(function(tile, axis=axis), np.int32)
    return out[None] if out.ndim == 0 else out


def tile_scan(tile: Tile, exclusive: bool, backwards: bool) -> Tile:
    """Return sums in row-major order, up to each element or before it."""
    flat = tile.reshape(-1)[::-1] if backwards else tile.reshape(-1)
    sums = np.cumsum(flat, dtype=tile.dtype)
    if exclusive:
        sums = np.concatenate([np.zeros(1, tile.dtype), sums[:-1]])
    return (sums[::-1] if backwards else sums).reshape(tile.shape).copy()


def tile_scan_extremum(tile: Tile, kind: str) -> Tile:
    """Return running extrema in row-major order."""
    function: Any = np.maximum if kind == "max" else np.minimum
    return function.accumulate(tile.reshape(-1)).reshape(tile.shape)


def tile_sort(keys: Tile, values: Tile) -> tuple[Tile, Tile, Tile]:
    """Return keys in order, their values, and the origin of each."""
    order = np.argsort(keys.reshape(-1), kind="stable").astype(np.int32)
    in_order = values.reshape((order.size, *_rest(values, keys)))[order]
    return keys.reshape(-1)[order].reshape(keys.shape), in_order.reshape(values.shape), order.reshape(keys.shape)


def tile_scatter(tile: Tile, order: Tile) -> Tile:
    """Return a tile whose element ``order[k]`` is element k."""
    flat = tile.reshape((order.size, *_rest(tile, order)))
    out = np.zeros_like(flat)
    out[order.reshape(-1)] = flat
    return out.reshape(tile.shape)


def _rest(tile: Tile, order: Tile) -> tuple[int, ...]:
    """Return the axes of an element."""
    return tuple(tile.shape[order.ndim :])


def tile_matmul(
    a: Tile, b: Tile, c: Tile | None = None, *, trans_a: bool = False, trans_b: bool = False, dtype: Any = None
) -> Tile:
    """Return ``a @ b + c``."""
    wide = np.float64 if dtype is np.float64 else np.float32
    left, right = (x.T if trans else x for x, trans in ((a, trans_a), (b, trans_b)))
    out = left.astype(wide) @ right.astype(wide)
    return _stored(out if c is None else c + out, dtype)


def tile_cholesky(tile: Tile) -> Tile:
    """Return the lower factor, from the lower triangle; NaN if the matrix is not positive definite."""
    n, out = tile.shape[0], np.tril(tile)
    for j in range(n):
        out[j, j] = np.sqrt(out[j, j])
        out[j + 1 :, j] /= out[j, j]
        for i in range(j + 1, n):
            out[i, j + 1 : i + 1] -= out[i, j] * out[j + 1 : i + 1, j]
    return out


def tile_triangular_solve(matrix: Tile, right: Tile, *, lower: bool, trans: bool) -> Tile:
    """Return the solution with one triangle of a matrix, or of its transpose."""
    # Only one triangle is read, whatever the other contains.
    m, out = (np.tril(matrix) if lower else np.triu(matrix)), right.copy()
    if trans:
        m, lower = m.T, not lower
    n = m.shape[0]
    for i in range(n) if lower else reversed(range(n)):
        before = range(i) if lower else range(i + 1, n)
        for k in before:
            out[i] -= m[i, k] * out[k]
        out[i] /= m[i, i]
    return out
