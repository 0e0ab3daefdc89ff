"""Copies from one array to another, and to new arrays. Tapes and sequences record them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diffkern.errors import described
from diffkern.ir.structs import Struct, holds_arrays
from diffkern.runtime.arrays.operation import Copy, perform
from diffkern.runtime.memory.device import get_device
from diffkern.runtime.memory.stream import Stream

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array

__all__ = ["check_copied", "clone", "copy"]


def copy(
    dest: array, src: array, dest_offset: int = 0, src_offset: int = 0, count: int = 0, stream: Stream | None = None
) -> None:
    """Copy elements from one array to another, also between devices. Under a tape, gradients flow through the copy.

    Parameters
    ----------
    dest, src : array
        Arrays of the same element type and shape; with offsets or a count, any that are contiguous or have one axis.
    dest_offset, src_offset : int, optional
        First element, counted along the flattened arrays.
    count : int, optional
        Number of elements; by default as many as `src` has, after the offset.
    stream : Stream, optional
        The stream; the current stream by default, that of the GPU if one is involved.
    """
    # Most are one object, which is asked first: comparing takes as long as the rest of this function.
    if dest._element is not src._element and dest._element != src._element:
        raise TypeError(f"cannot copy {described(src)} to {described(dest)}: the element types differ")
    check_copied(src)
    if dest_offset or src_offset or count:
        count = count or src.size - src_offset
        if min(dest_offset, src_offset, count) < 0 or dest_offset + count > dest.size or src_offset + count > src.size:
            raise ValueError(f"{count} elements from {src_offset} do not fit from {dest_offset} of {described(dest)}")
        dest, src = _in_a_row(dest, dest_offset, count), _in_a_row(src, src_offset, count)
    if dest.shape != src.shape:
        raise ValueError(f"cannot copy {described(src)} to {described(dest)}: the shapes differ")
    dest._check_writable()
    perform(Copy(dest, src), stream)


def check_copied(src: array) -> None:
    """Raise if elements of an array point to arrays: only those elements keep these alive, and copies would not."""
    if isinstance(src._element, Struct) and holds_arrays(src._element):
        raise TypeError(
            f"{described(src)} is not copied: its elements point to arrays; "
            f"make another array of a list of {src._element.name}"
        )


def _in_a_row(a: array, first: int, count: int) -> array:
    """Return a view of a number of elements, counted along the flattened array."""
    if a.ndim > 1 and not a.is_contiguous:
        raise ValueError(
            f"elements of {described(a)}, which is not contiguous, have no place in a row; copy slices of its axes"
        )
    found: array = (a if a.ndim == 1 else a.flatten())[first : first + count]
    return found


def clone(src: array, requires_grad: bool | None = None, device: Any = None, pinned: bool = False) -> array:
    """Return a contiguous copy of an array.

    Parameters
    ----------
    src : array
        The array.
    requires_grad : bool, optional
        Whether the copy gets a gradient of its own; by default if `src` has one.
    device : str or Device, optional
        The device of the copy; that of `src` by default.
    pinned : bool, optional
        As in :class:`array`.

    Returns
    -------
    array
        The copy.
    """
    made = src._new_on(src.device if device is None else get_device(device), pinned)
    made._memory.warp_dialect = src._memory.warp_dialect
    if src.requires_grad if requires_grad is None else requires_grad:
        made.requires_grad = True
    copy(made, src)
    return made
