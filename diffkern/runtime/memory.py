"""Blocks of memory and the count of their changes.

In: NumPy arrays that own memory. Out: one :class:`Memory` per block, shared by every array and view on it, so that a
tape can tell whether contents it needs are still there. The count is raised by launches, copies, fills and assignments
of diffkern; what NumPy writes through a view is not seen.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from diffkern.runtime.cuda.context import CudaDevice

__all__ = ["Memory", "allocate", "byte_range", "foreign_memory", "memory_of", "overlaps"]

_ALIGNMENT = 64  # a cache line, and the widest vector register


class Memory:
    """One block of memory.

    Attributes
    ----------
    address, nbytes
        Where it lies.
    version
        Raised by every change that Python makes.
    now
        The version together with the changes that native code made: equal only if nothing changed.
    zero_version
        What ``now`` was when all of it was last known to be zero, or -1.
    exposed
        Whether somebody outside diffkern may write to it, so that nothing is known about its contents.
    foreign
        Whether somebody else allocated it, so that another object may describe the same bytes.
    """

    device: CudaDevice | None = None
    """The GPU it belongs to, None for memory of the host."""
    is_pinned = False
    """Whether GPUs reach it by themselves, although it is the host's."""

    __slots__ = (
        "__weakref__", "_counter", "_where", "address", "exposed", "foreign", "nbytes", "version", "zero_version",
    )  # fmt: skip

    def __init__(self, address: int, nbytes: int, zero: bool = False, foreign: bool = False) -> None:
        self.address = address
        self.nbytes = nbytes
        self.version = 0
        self.zero_version = 0 if zero else -1
        self.exposed = self.foreign = foreign
        self._counter: ctypes.c_int64 | None = None
        # Its address, read by native code; 0 as long as there is none.
        self._where = 0

    @property
    def now(self) -> int:
        """The count of all changes."""
        return self.version if self._counter is None else self.version + self._counter.value

    @property
    def counter(self) -> ctypes.c_int64:
        """Where native code counts its changes."""
        if self._counter is None:
            self._counter = ctypes.c_int64(0)
            self._where = ctypes.addressof(self._counter)
        return self._counter

    @property
    def is_zero(self) -> bool:
        """Whether the contents are known to be zero."""
        return self.zero_version == self.now and not self.exposed


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any], zero: bool) -> tuple[np.ndarray[Any, Any], Memory]:
    """Return a new C-contiguous array that begins with a cache line, and its memory."""
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    buffer = (np.zeros if zero else np.empty)(nbytes + _ALIGNMENT, dtype=np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT
    data = buffer[start : start + nbytes].view(dtype).reshape(shape)
    return data, Memory(data.ctypes.data, nbytes, zero)


# Memory of NumPy arrays that were handed to a tape or wrapped, by the id of the array that owns it. The weak reference
# takes the entry out before the id can be given to another array.
_foreign: dict[int, tuple[weakref.ref[Any], Memory]] = {}


def memory_of(data: np.ndarray[Any, Any]) -> Memory:
    """Return the memory of a NumPy array that diffkern did not allocate, the same for all views of one owner."""
    owner = _owner(data)
    key = id(owner)
    entry = _foreign.get(key)
    if entry is not None and entry[0]() is owner:
        return entry[1]
    if owner.flags.c_contiguous:
        memory = foreign_memory(owner.ctypes.data, owner.nbytes)
    else:
        low, high = byte_range(owner)
        memory = foreign_memory(low, high - low)
    _foreign[key] = (weakref.ref(owner, lambda _: _foreign.pop(key, None)), memory)
    return memory


# Memory of other libraries that is in use: two views made of it one after the other are known to be one.
_ranges: weakref.WeakValueDictionary[tuple[int, int], Memory] = weakref.WeakValueDictionary()


def foreign_memory(address: int, nbytes: int) -> Memory:
    """Return the memory of these bytes, which something else owns."""
    memory = _ranges.get((address, nbytes))
    if memory is None:
        memory = _ranges[address, nbytes] = Memory(address, nbytes, foreign=True)
    return memory


def byte_range(data: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the addresses of the first byte of an array and of the byte after its last."""
    low = high = data.ctypes.data
    if data.size == 0:
        return low, low
    for extent, stride in zip(data.shape, data.strides, strict=True):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + data.itemsize


def overlaps(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays share an element; interleaved views do not, unless finding that out takes too long."""
    # Of an array on a GPU only the description is at hand, which is enough.
    a, b = getattr(a, "_shadow", a), getattr(b, "_shadow", b)
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]  # NumPy's stub knows two values only
    except np.exceptions.TooHardError:
        return True


def _owner(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(data.base, np.ndarray):
        data = data.base
    return data
