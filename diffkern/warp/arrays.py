"""Arrays, annotations of them and copies, under names or by rules that Warp alone has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from diffkern.lang.annotations import ANY, ArrayAnnotation, array_annotation
from diffkern.runtime.array import array
from diffkern.runtime.array_copy import copy as native_copy
from diffkern.runtime.stream import Stream

__all__ = ["copy", "fixedarray", "from_ptr"]


def fixedarray(dtype: Any = ANY, shape: int | tuple[int, ...] = (0,)) -> ArrayAnnotation:
    """Describe what a func returns: an array of a thread, with an element type and a shape."""
    return array_annotation(dtype, 1 if isinstance(shape, int) else len(shape))


def copy(
    dest: array, src: array, dest_offset: int = 0, src_offset: int = 0, count: int = 0, stream: Stream | None = None
) -> None:
    """Copy elements as :func:`diffkern.copy` does, between contiguous arrays of any shapes in row-major order.

    Parameters
    ----------
    dest, src : array
        Arrays of the same element type; of the same shape, if one of them is not contiguous.
    dest_offset, src_offset : int, optional
        First element, counted along the flattened arrays.
    count : int, optional
        Number of elements; by default as many as `src` has, after the offset.
    stream : Stream, optional
        Where to copy; the current stream by default, that of the GPU if one is involved.
    """
    if dest.shape != src.shape and dest.is_contiguous and src.is_contiguous:
        count = count or src.size - src_offset
    native_copy(dest, src, dest_offset, src_offset, count, stream)


def from_ptr(ptr: int, length: int, dtype: Any = None, shape: Sequence[int] | None = None, device: Any = None) -> array:
    """Return an array over memory of the host, which its owner keeps alive.

    Parameters
    ----------
    ptr : int
        Where it begins.
    length : int
        How many elements there are.
    dtype : optional
        Their type, float32 by default.
    shape : sequence of int, optional
        The array's shape; one axis by default.
    device : optional
        Where the memory is.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If the shape has more elements than there are.
    """
    extents = (length,) if shape is None else tuple(shape)
    if math.prod(extents) > length:
        raise ValueError(f"an array of shape {extents} has more than {length} elements")
    made: array = array(ptr=ptr, dtype=float if dtype is None else dtype, shape=extents, device=device)
    return made
