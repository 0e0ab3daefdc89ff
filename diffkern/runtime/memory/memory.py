"""Blocks of memory and the versions of their contents.

One :class:`Memory` belongs to each block and is shared by all arrays and views on it, so that a tape can tell whether
contents it needs are still there. The version is raised by launches, copies, fills and assignments of diffkern. Writes
of others through a view are not seen: a block knows whether anybody could write, and tells the tapes before it is given
away. Operations on contents are methods: of the host's memory here, of a GPU's in :mod:`diffkern.runtime.cuda.memory`.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import sys
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from diffkern.ir.structs import Stored, Struct
from diffkern.ir.types import BFLOAT16, FLOAT32, FLOAT64, scalar_of
from diffkern.lang.dtypes import bfloat16_bits, bfloat16_values
from diffkern.runtime.native import pool
from diffkern.runtime.native.replay import Step, function_address

if TYPE_CHECKING:
    from diffkern.runtime.memory.device import Device
    from diffkern.runtime.native.replay import Steps

__all__ = [
    "Held", "HostMemory", "Memory", "Watcher", "allocate", "births", "byte_range", "bytewise", "expose",
    "foreign_memory", "lend", "memory_of", "overlaps", "overwrite", "put", "watch",
]  # fmt: skip

_ALIGNMENT = 64  # a cache line, and the widest vector register
_BYTES_PER_CHUNK = 1 << 18
_TOGETHER = 1 << 22
"""Bytes from which contents are written by all threads. They are the first to touch their parts of new memory, so that
its pages are cleared side by side, and lie on the nodes of all processors."""
# Where blocks of at least so many bytes begin in a page of 4096: at one of so many places, so many bytes apart.
_LARGE, _PLACES, _APART = 1 << 16, 16, 256
_CHANGES, _RANGES = 8, 8
"""The most entries of a journal, and the most ranges of an entry."""
_births = itertools.count()
_allocations = itertools.count()
_SUMS = {FLOAT32: "dk_add_f32", FLOAT64: "dk_add_f64"}


class Held(Protocol):
    """An array as its memory sees it."""

    @property
    def _data(self) -> np.ndarray[Any, Any]: ...

    @property
    def _element(self) -> Stored: ...

    @property
    def _memory(self) -> Memory: ...

    @property
    def _range(self) -> tuple[int, int]: ...


class Changes(NamedTuple):
    """The changes from one version to another: their ranges, and the id of the object that made them."""

    before: int
    after: int
    ranges: list[tuple[int, int]]
    by: int


class Memory(ABC):
    """One block of memory, of the host or of a GPU.

    Attributes
    ----------
    device
        The device it belongs to.
    address, nbytes
        Its first byte and its size.
    version
        Raised by every change that Python makes.
    now
        The version together with the changes that native code made: equal only if nothing changed.
    zero_version
        The value of ``now`` when all of it was last known to be zero, or -1.
    exposed
        Whether its address is known outside diffkern, so that it may be written to at any time.
    lent
        The views, by their ids, that others hold of it at present, and may write through.
    lendings
        Number of views that were given to others; through one that is gone its contents may have changed without a
        count.
    foreign
        Whether somebody else allocated it, so that another object may describe the same bytes.
    pointed
        The arrays to which elements point, by the bytes that stand for them; None if none ever did.
    serial
        Greater than that of any block that existed before.
    born
        The same, but for a block that counts as being as old as another one.
    retains
        Whether the gradient of its contents at the end of a tape is kept, although launches on the tape wrote them.
    warp_dialect
        Whether its arrays are in Warp's dialect: integers that elements do not hold are wrapped around when they are
        assigned and are no errors, lists of elements are flat, and bfloat16 elements are those of ml_dtypes to NumPy.
    journal
        The last changes whose ranges are known, one following the other.
    """

    device: Device
    is_host = False
    """True if programs and native code of the CPU can access it."""
    is_pinned = False
    """True if GPUs can access it although it is host memory."""
    is_counted = False
    """True if the version also counts the writes of its owner, another library."""

    __slots__ = (
        "__weakref__", "_counter", "_shared", "_where", "address", "born", "exposed", "foreign", "journal", "lendings",
        "lent", "nbytes", "pointed", "retains", "serial", "version", "warp_dialect", "zero_version",
    )  # fmt: skip

    def __init__(self, address: int, nbytes: int, zero: bool = False, foreign: bool = False) -> None:
        self.address = address
        self.nbytes = nbytes
        self.serial = self.born = next(_births)
        self.version = 0
        self.zero_version = 0 if zero else -1
        self.exposed = self.foreign = foreign
        self.lent: set[int] | None = None
        self.lendings = 0
        self.pointed: dict[bytes, Any] | None = None
        self.retains = False
        self.warp_dialect = False
        self.journal: list[Changes] = []
        self._counter: ctypes.c_int64 | None = None
        # Where native code counts changes of this and of other memory at once; there is a counter as well then.
        self._shared: tuple[ctypes.c_int64, ...] = ()
        # Its address, read by native code; 0 as long as there is none.
        self._where = 0

    @property
    def now(self) -> int:
        """The count of all changes."""
        if self._counter is None:
            return self.version
        now = self.version + self._counter.value
        return now + sum([shared.value for shared in self._shared]) if self._shared else now

    @property
    def counter(self) -> ctypes.c_int64:
        """The counter of the changes that native code makes."""
        if self._counter is None:
            self._counter = ctypes.c_int64(0)
            self._where = ctypes.addressof(self._counter)
        return self._counter

    def note_changes(self, before: int, ranges: list[tuple[int, int]], by: object) -> None:
        """Record the ranges of all changes that somebody has made since a version."""
        now, journal = self.now, self.journal
        if journal and journal[-1].after == now:
            return  # a tape inside of another one has noted them
        last = journal[-1] if journal and journal[-1].after == before else None
        if last is not None and last.by == id(by):
            journal[-1] = Changes(last.before, now, _joined([*last.ranges, *ranges]), id(by))
            return
        # A gap in the versions means changes at unknown places: older entries no longer lead up to the present.
        self.journal = [*(journal[1 - _CHANGES :] if last else ()), Changes(before, now, _joined(ranges), id(by))]

    def changes_since(self, version: int) -> list[tuple[int, int]]:
        """Return ranges of addresses that contain all changes since a version."""
        if self.now == version:
            return []
        journal = self.journal
        if journal and journal[0].before <= version and journal[-1].after == self.now:
            return [one for changes in journal if changes.after > version for one in changes.ranges]
        # The journal does not reach back that far, or not up to now: anything may have changed.
        return [(self.address, self.address + self.nbytes)]

    def count_with(self, shared: ctypes.c_int64) -> None:
        """Count the increments of a counter of several blocks from now on as changes of this one."""
        assert self.counter is not None
        before = shared.value
        self._shared = (*self._shared, shared)
        # The version does not jump at this moment: the shared counter's present value is taken off again.
        self.version -= before

    def count_alone(self, shared: ctypes.c_int64) -> None:
        """Keep the changes that a counter of several blocks has counted, and no longer count with it."""
        self.version += shared.value
        self._shared = tuple([each for each in self._shared if each is not shared])

    @property
    def is_zero(self) -> bool:
        """True if the contents are known to be zero."""
        now = self.version if self._counter is None else self.now
        return self.zero_version == now and not self.exposed and not self.lent

    @property
    def is_exposed(self) -> bool:
        """True if somebody outside diffkern may write to it now, so that nothing is known about its contents."""
        return self.exposed or bool(self.lent)

    @property
    def is_open(self) -> bool:
        """True if others may write to it without a count of their changes, so that only its contents tell."""
        return self.is_exposed and not self.is_counted

    @abstractmethod
    def use(self, stream: Any) -> None:
        """Note that a stream of its device works with it."""

    @abstractmethod
    def contents(self, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return elements of it in host memory: in place, or in a copy."""

    @abstractmethod
    def view(self, data: np.ndarray[Any, Any], start: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return elements with the shape, type and strides of `like`, `start` bytes behind the first of `data`."""

    @abstractmethod
    def copy(self, goal: Held, source: Held) -> None:
        """Copy the elements of one array to another, of which one is here; between host and GPU, the GPU is asked."""

    @abstractmethod
    def assign(self, goal: Held, values: np.ndarray[Any, Any]) -> None:
        """Set the elements of an array here to values, which are broadcast."""

    @abstractmethod
    def add(self, goal: Held, source: Held) -> None:
        """Add the elements of one array to those of one here, of the same shape and type, which is no struct."""

    @abstractmethod
    def copy_steps(self, goal: Held, source: Held) -> Steps | None:
        """Return :meth:`copy` as native code of the memory's device; None if it has no such form."""

    def assign_steps(self, goal: Held, values: np.ndarray[Any, Any]) -> Steps | None:
        """Return :meth:`assign` in the same way."""
        return None

    @abstractmethod
    def add_steps(self, goal: Held, source: Held) -> Steps | None:
        """Return the sum of two arrays, of structs as well, in the same way."""


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sorted ranges with adjacent ones merged; if there are many, one that contains all."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found if len(found) <= _RANGES else [(found[0][0], found[-1][1])]


def births() -> int:
    """Return a number that is greater than ``born`` of all existing blocks, and less than that of later ones."""
    return next(_births)


class HostMemory(Memory):
    """A block of the host's memory; :mod:`diffkern.runtime.memory.device` sets its device."""

    __slots__ = ()

    is_host = True

    def use(self, stream: Any) -> None:
        """Do nothing: the streams of the CPU keep alive what they work with."""

    def contents(self, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the elements, in place."""
        return data

    def view(self, data: np.ndarray[Any, Any], start: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return elements with the shape, type and strides of `like`, `start` bytes behind the first of `data`."""
        made: np.ndarray[Any, Any] = np.ndarray(like.shape, like.dtype, data, start, like.strides)
        return made

    def copy(self, goal: Held, source: Held) -> None:
        """Copy the elements of one array of the host to another."""
        (low, high), (start, end) = goal._range, source._range
        # Only arrays that may overlap take the check for a temporary copy.
        if low < end and start < high:
            overwrite(goal._data, source._data)
        else:
            put(goal._data, source._data)

    def assign(self, goal: Held, values: np.ndarray[Any, Any]) -> None:
        """Set the elements of an array."""
        put(goal._data, values)

    def add(self, goal: Held, source: Held) -> None:
        """Add the elements of one array to those of another."""
        if scalar_of(goal._element) == BFLOAT16:  # type: ignore[arg-type]  # no struct
            total = bfloat16_values(goal._data) + bfloat16_values(source._data)
            goal._data[...] = bfloat16_bits(total)
            return
        (low, high), (start, end) = goal._range, source._range
        is_shared = goal._data.nbytes >= _TOGETHER and (high <= start or end <= low) and pool.num_threads() > 1
        steps = self.add_steps(goal, source) if is_shared else None
        if steps is None:
            np.add(goal._data, source._data, out=goal._data)
        else:
            _run(steps)

    def copy_steps(self, goal: Held, source: Held) -> Steps | None:
        """Return a copy of contiguous elements in native code."""
        to, data = goal._data, source._data
        # NumPy copies arrays that overlap as if by way of a third; in several chunks that would go wrong.
        if not (to.flags.c_contiguous and data.flags.c_contiguous) or np.may_share_memory(to, data):
            return None
        return bytewise("dk_copy_bytes", to.nbytes, to.ctypes.data, data.ctypes.data)

    def add_steps(self, goal: Held, source: Held) -> Steps | None:
        """Return a sum of contiguous elements in native code; there is none for structs."""
        to, data, element = goal._data, source._data, goal._element
        name = None if isinstance(element, Struct) else _SUMS.get(scalar_of(element))
        if name is None or not (to.flags.c_contiguous and data.flags.c_contiguous):
            return None
        return bytewise(name, to.size, to.ctypes.data, data.ctypes.data)


def bytewise(name: str, count: int, goal: int, source: int) -> Steps | None:
    """Return one native function over bytes or elements of the host; None where there is no native code."""
    function = function_address(name)
    if not function:
        return None
    if not count:
        return []
    return [Step(function, bytearray(struct.pack("2q", goal, source)), count, min(count, _BYTES_PER_CHUNK))]


def put(goal: np.ndarray[Any, Any], values: Any) -> None:
    """Assign values to all elements of a NumPy array of the host: large arrays on all threads, if that is possible.

    Values that overlap with the elements may be read after these have changed, as by NumPy.
    """
    is_large = goal.nbytes >= _TOGETHER and goal.flags.c_contiguous
    steps = _steps_to_put(goal, values) if is_large and pool.num_threads() > 1 else None
    if steps is None:
        goal[...] = values
    else:
        _run(steps)


def _steps_to_put(goal: np.ndarray[Any, Any], values: Any) -> Steps | None:
    """Return native steps that assign values, None if there are none: of other types, or in another order."""
    if not isinstance(values, np.ndarray) or not values.ndim:
        # Compared bit by bit: -0.0 is equal to 0 but not made of zero bytes.
        is_zero = not any(np.array(values, goal.dtype).tobytes())
        return bytewise("dk_clear_bytes", goal.nbytes, goal.ctypes.data, 0) if is_zero else None
    if values.dtype != goal.dtype or values.shape != goal.shape or not values.flags.c_contiguous:
        return None
    if np.may_share_memory(goal, values):
        return None
    return bytewise("dk_copy_bytes", goal.nbytes, goal.ctypes.data, values.ctypes.data)


def _run(steps: Steps) -> None:
    for step in steps:
        step.run()  # type: ignore[union-attr]  # of the CPU


class Watcher(Protocol):
    """An object that relies on contents which others may change."""

    def before_exposure(self, memory: Memory) -> None:
        """Inspect contents at the last moment at which no other library can have changed them."""
        ...


# Whoever is asked before memory is given away; other threads add theirs meanwhile.
_watchers: set[weakref.ref[Watcher]] = set()


def watch(watcher: Watcher) -> None:
    """Ask an object before memory is given away, for as long as it lives."""
    _watchers.add(weakref.ref(watcher, _watchers.discard))


def expose(memory: Memory) -> None:
    """Note that an address is given away for good."""
    # Watchers are told first: while the memory is not exposed, its contents are certainly what diffkern wrote.
    _tell(memory)
    memory.exposed = True


def lend(memory: Memory, view: Any) -> None:
    """Note that others may write through a view as long as it lives; views of it have to keep it alive."""
    _tell(memory)
    key = id(view)
    lent = memory.lent
    if lent is None:
        lent = memory.lent = set()
    lent.add(key)
    memory.lendings += 1
    # The memory counts as lent, and so its contents as unknown; after its return too, as writes were not counted.
    memory.zero_version = -1

    def returned(_: object) -> None:
        _foreign.pop(key, None)
        lent.discard(key)
        memory.zero_version = -1

    # A NumPy view that comes back as an argument is known to be this memory.
    _foreign[key] = weakref.ref(view, returned), memory


def _tell(memory: Memory) -> None:
    if not memory.is_exposed:
        for reference in list(_watchers):
            watcher = reference()
            if watcher is not None:
                watcher.before_exposure(memory)


# Where an array of NumPy keeps the address of its elements: after the head of all objects.
_ADDRESS: Final = object.__basicsize__
_word_at = ctypes.c_size_t.from_address


def _address_of(buffer: np.ndarray[Any, Any]) -> int:
    """Return the address of the first element."""
    # `ctypes.data` makes an object, which takes as long as the rest of an allocation.
    return _word_at(id(buffer) + _ADDRESS).value if _is_known else buffer.ctypes.data


def _has_address() -> bool:
    if sys.implementation.name != "cpython":
        return False
    probe = np.empty(16, dtype=np.uint8)
    return _word_at(id(probe) + _ADDRESS).value == probe.ctypes.data


_is_known = _has_address()


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any], zero: bool) -> tuple[np.ndarray[Any, Any], Memory]:
    """Return a new C-contiguous array that begins on a cache line, and its memory."""
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    # Large blocks all begin at the same place of a page. Kernels that go through several at the same pace would meet in
    # one set of the cache, and loads would wait for stores to the same place of another page.
    shift = next(_allocations) * 5 % _PLACES * _APART if nbytes >= _LARGE else 0
    buffer = (np.zeros if zero else np.empty)(nbytes + _ALIGNMENT + shift, dtype=np.uint8)
    base = _address_of(buffer)
    start = -base % _ALIGNMENT + shift
    data: np.ndarray[Any, Any] = np.ndarray(shape, dtype, buffer, start)
    return data, HostMemory(base + start, nbytes, zero)


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
        memory = _ranges[address, nbytes] = HostMemory(address, nbytes, foreign=True)
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
    """Return whether two arrays share an element; interleaved views do not, unless deciding that takes too long."""
    # Of an array on a GPU only the description is at hand, which is enough.
    a, b = getattr(a, "_shadow", a), getattr(b, "_shadow", b)
    if not np.may_share_memory(a, b):
        return False
    # The exact answer is an integer problem that can take exponential time. Yes is always a safe answer.
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]  # NumPy's stub knows two values only
    except np.exceptions.TooHardError:
        return True


def overwrite(goal: np.ndarray[Any, Any], values: Any) -> None:
    """Assign values to all elements of a NumPy array, as if the values had been copied first.

    Where the two overlap along one axis with different strides, NumPy itself reads elements that it has already
    overwritten.
    """
    if isinstance(values, np.ndarray) and values.strides != goal.strides and np.may_share_memory(goal, values):
        values = values.copy()
    put(goal, values)


def _owner(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(data.base, np.ndarray):
        data = data.base
    return data
