"""Memory as the lanes of a warp see it: allocations with bounds, alignment, and the address spaces.

An access names a lane's address, how many bytes it is wide and which lanes take part. It raises :class:`PtxFault`
unless each lane's bytes lie inside one allocation, and begin at a multiple of their number. Addresses in shared and
local memory are offsets; as generic addresses they lie in a window of their own, which no allocation can reach into.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from .faults import PtxFault
from .races import Access, Shadow, WarpWatch
from .types import BITS, LANES, Lanes

__all__ = ["WINDOWS", "Allocations", "Local", "Memory", "Shared", "Span", "load", "store", "update"]

WINDOWS = {"shared": 0x7000 << 48, "local": 0x6000 << 48}
"""Where the generic addresses of shared and of local memory begin."""
_WINDOW_BYTES = 1 << 40
_SHARED_GARBAGE, _LOCAL_GARBAGE = 0xA5, 0xCB
_LOCAL_ALIGNMENT = 16


class Span:
    """Consecutive bytes: the address of the first, an array of all of them, and who was where, if that is watched."""

    def __init__(self, start: int, data: np.ndarray[Any, np.dtype[np.uint8]], kind: str = "global") -> None:
        self.start, self.end, self.data, self.kind = start, start + len(data), data, kind
        self.shadow: Shadow | None = None
        self._views: dict[int, tuple[Lanes, int]] = {}

    def view(self, size: int) -> tuple[Lanes, int]:
        """Return all aligned elements of a size, and the address of the first."""
        found = self._views.get(size)
        if found is None:
            skew = -self.start % size
            count = max(len(self.data) - skew, 0) // size
            elements = self.data[skew : skew + count * size].view(BITS[size])
            found = self._views[size] = elements, self.start + skew
        return found

    def begin(self, watched: bool) -> None:
        """Begin a launch, before which nobody was here."""
        self.shadow = Shadow(self.start, len(self.data)) if watched and self.kind in ("global", "shared") else None


@dataclass(frozen=True)
class Part:
    """Some lanes of an access, and where in a span they go."""

    lanes: np.ndarray[Any, np.dtype[np.intp]]
    span: Span
    addresses: np.ndarray[Any, np.dtype[np.int64]]

    def of(self, chosen: Any) -> Part:
        """Those of its lanes that are chosen."""
        return Part(self.lanes[chosen], self.span, self.addresses[chosen])


class Space(Protocol):
    """A kind of memory."""

    def parts(self, addresses: Lanes, lanes: Any, nbytes: int) -> Iterator[Part]:
        """Yield where the lanes' bytes are, checked; `addresses` are those of the lanes named alone."""


class Allocations:
    """Global memory: what some owner of allocations knows.

    Parameters
    ----------
    find
        Returns the allocation that an address lies in, as its start and its size in bytes, or None.
    """

    def __init__(self, find: Callable[[int], tuple[int, int] | None]) -> None:
        self._find = find
        self._starts: list[int] = []
        self._spans: dict[int, Span] = {}
        self._watched = False

    def begin(self, spans: Iterable[Span], watched: bool) -> None:
        """Begin a launch, in which these spans are part of global memory and races are looked for, or not."""
        self._watched = watched
        for span in self._spans.values():
            span.begin(watched)
        for span in spans:
            self._add(span)

    def _add(self, span: Span) -> None:
        bisect.insort(self._starts, span.start)
        self._spans[span.start] = span
        span.begin(self._watched)

    def _known(self, address: int) -> Span | None:
        place = bisect.bisect_right(self._starts, address) - 1
        span = self._spans[self._starts[place]] if place >= 0 else None
        return span if span is not None and address < span.end else None

    def _span(self, address: int) -> Span:
        span = self._known(address)
        if span is None:
            found = self._find(address)
            if found is None:
                raise PtxFault(f"the global address {address:#x} lies in no allocation")
            span = Span(found[0], _bytes_at(*found))
            self._add(span)
        return span

    def parts(self, addresses: Lanes, lanes: Any, nbytes: int) -> Iterator[Part]:
        while len(lanes):
            span = self._span(int(addresses[0]))
            inside = (addresses >= np.uint64(span.start)) & (addresses < np.uint64(span.end))
            if inside.all():
                yield _part(lanes, span, addresses, nbytes, "an allocation")
                return
            yield _part(lanes[inside], span, addresses[inside], nbytes, "an allocation")
            lanes, addresses = lanes[~inside], addresses[~inside]


def _bytes_at(start: int, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * nbytes).from_address(start))


def _part(lanes: Any, span: Span, addresses: Lanes, nbytes: int, what: str) -> Part:
    """Lanes whose first bytes lie in a span."""
    beyond = int(addresses.max()) + nbytes - span.end
    if beyond > 0:
        size = span.end - span.start
        raise PtxFault(f"an access of {nbytes} bytes reaches {beyond} beyond the end of {what} of {size}")
    return Part(lanes, span, addresses.astype(np.int64))


class Shared:
    """The shared memory of a block. It begins as garbage."""

    def __init__(self, nbytes: int, watched: bool = False) -> None:
        self._span = Span(0, np.full(nbytes, _SHARED_GARBAGE, np.uint8), "shared")
        self._span.begin(watched)

    def parts(self, addresses: Lanes, lanes: Any, nbytes: int) -> Iterator[Part]:
        yield _part(lanes, self._span, addresses, nbytes, "a block's shared memory")


class Local:
    """The local memory of a warp's threads: each has its own bytes at the same offsets. It begins as garbage."""

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._stride = -(-nbytes // _LOCAL_ALIGNMENT) * _LOCAL_ALIGNMENT
        self._span = Span(0, np.full(LANES * self._stride, _LOCAL_GARBAGE, np.uint8), "local")

    def parts(self, addresses: Lanes, lanes: Any, nbytes: int) -> Iterator[Part]:
        if int(addresses.max()) + nbytes > self._nbytes:
            raise PtxFault(f"an access of {nbytes} bytes beyond the {self._nbytes} of a thread's local memory")
        yield Part(lanes, self._span, addresses.astype(np.int64) + lanes * self._stride)


@dataclass
class Memory:
    """All memory that a warp can reach.

    Attributes
    ----------
    order
        Decides which of several lanes that write to one address is the last.
    watch
        Looks for races; None: nobody does.
    """

    allocations: Allocations
    shared: Shared
    order: random.Random
    watch: WarpWatch | None = None
    local: Local = field(default_factory=lambda: Local(0))

    def parts(self, space: str, addresses: Lanes, lanes: Any, nbytes: int) -> Iterator[Part]:
        """Yield where the bytes of some lanes are; `space` is empty for generic addresses."""
        here = addresses[lanes]
        if (here & np.uint64(nbytes - 1)).any():
            wrong = next(int(a) for a in here if int(a) % nbytes)
            raise PtxFault(f"a misaligned access of {nbytes} bytes at {wrong:#x}")
        if space:
            yield from self._space(space).parts(here, lanes, nbytes)
            return
        kinds = [name for name in WINDOWS for _ in (0,) if (here >> np.uint64(40) == WINDOWS[name] >> 40).any()]
        if not kinds:
            yield from self.allocations.parts(here, lanes, nbytes)
            return
        rest = np.ones(len(here), np.bool_)
        for name in kinds:
            chosen = here >> np.uint64(40) == WINDOWS[name] >> 40
            rest &= ~chosen
            offsets = here[chosen] - np.uint64(WINDOWS[name])
            yield from self._space(name).parts(offsets, lanes[chosen], nbytes)
        yield from self.allocations.parts(here[rest], lanes[rest], nbytes)

    def _space(self, name: str) -> Space:
        return {"shared": self.shared, "local": self.local}.get(name, self.allocations)


def load(
    memory: Memory, space: str, addresses: Lanes, lanes: Any, size: int, count: int, access: Access
) -> list[Lanes]:
    """Read `count` consecutive elements of a size for each lane named; the others have 0."""
    out = [np.zeros(LANES, BITS[size]) for _ in range(count)]
    for part in memory.parts(space, addresses, lanes, size * count):
        if part.span.shadow is not None and memory.watch is not None:
            if access.strong:
                memory.watch.pass_on(part, access, writes=False)
            else:
                memory.watch.read(part, size * count, access)
        elements, first = part.span.view(size)
        places = (part.addresses - first) // size
        for k, values in enumerate(out):
            values[part.lanes] = elements[places + k]
    return out


def store(memory: Memory, space: str, addresses: Lanes, lanes: Any, values: list[Lanes], access: Access) -> None:
    """Write consecutive elements for each lane named; of lanes with the same address any may be the last."""
    size = values[0].itemsize
    if memory.order.random() < 0.5:
        lanes = lanes[::-1]
    for part in memory.parts(space, addresses, lanes, size * len(values)):
        elements, first = part.span.view(size)
        places = (part.addresses - first) // size
        watched = part.span.shadow is not None and memory.watch is not None
        if watched:
            same = _holds(elements, places, values, part.lanes)
            _note_store(memory.watch, part, same, size * len(values), access)
        for k, each in enumerate(values):
            elements[places + k] = each[part.lanes]
        if watched and not access.strong:
            kept = _holds(elements, places, values, part.lanes)
            if not kept.all():
                memory.watch.collide(part, int(np.argmin(kept)), access)


def _holds(elements: Lanes, places: Any, values: list[Lanes], lanes: Any) -> Any:
    """Whether what each lane writes is there."""
    held = elements[places] == values[0][lanes]
    for k, each in enumerate(values[1:], 1):
        held &= elements[places + k] == each[lanes]
    return held


def _note_store(watch: WarpWatch, part: Part, same: Any, nbytes: int, access: Access) -> None:
    if access.strong:
        watch.read(part, nbytes, access)
        watch.pass_on(part, access, writes=True)
    elif not same.any():
        watch.write(part, nbytes, access)
    elif same.all():
        watch.read(part, nbytes, access, constantly=True)
    else:
        watch.read(part.of(same), nbytes, access, constantly=True)
        watch.write(part.of(~same), nbytes, access)


def update(
    memory: Memory,
    space: str,
    addresses: Lanes,
    lanes: Any,
    size: int,
    change: Callable[[Lanes, Any], Lanes],
    access: Access,
) -> Lanes:
    """Change an element for each lane named, one lane of each address after the other, in any order.

    Parameters
    ----------
    change
        Takes what is in memory and the lanes whose turn it is, and returns what is there afterwards.

    Returns
    -------
    Lanes
        What each lane found.
    """
    out = np.zeros(LANES, BITS[size])
    left = out.copy()
    order = np.array(memory.order.sample(range(len(lanes)), len(lanes)), np.intp)
    for part in memory.parts(space, addresses, lanes[order], size):
        elements, first = part.span.view(size)
        places, waiting = (part.addresses - first) // size, np.arange(len(part.lanes))
        while len(waiting):
            where, turn = np.unique(places[waiting], return_index=True)
            now = part.lanes[waiting[turn]]
            out[now] = elements[where]
            left[now] = elements[where] = change(out[now], now)
            waiting = np.delete(waiting, turn)
        if part.span.shadow is not None and memory.watch is not None:
            memory.watch.read(part, size, access, touched=out[part.lanes] ^ left[part.lanes])
            memory.watch.pass_on(part, access, writes=True)
    return out
