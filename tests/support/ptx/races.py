"""Races, by shadow memory: two threads at one place, one of which writes, and nothing that orders the two.

Each span of global and of shared memory has a shadow: for each of its words who wrote it last, who read it last, and
another thread that read it, with the time by that thread's clock and the instruction. What orders accesses is known
by clocks. A warp counts the points at which it meets others; ``bar.warp.sync`` lets its lanes know of each other, a
barrier lets whole warps of a block know of each other, and a fence with an atomic operation hands on what a thread
knows to whoever finds it by an atomic operation and a fence. The end of a launch orders everything. ``shfl`` and
``vote`` order nothing, as the PTX ISA says.

An atomic operation, or a write with an order (``volatile``, ``relaxed``, …), races with plain accesses that write; a
read with an order expects that others write. A write that leaves a place as it is counts as a read of it: in any order
the same is there. An exchange that compares, or an operation on a pair, is at the bytes that it changes: with its other
ones it reaches around an element. What is read by ``ld.global.nc`` must not be written by anyone in that launch, in
whatever order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .faults import RaceFault
from .types import LANES, Lanes

if TYPE_CHECKING:
    from .memory import Part, Span

__all__ = ["Access", "BlockWatch", "LaunchWatch", "Shadow", "WarpWatch"]

_WORD = 4
_THREAD, _STAMP, _SITE = 10, 20, 12  # the bits of each in an entry, below those of the block
_WHO = np.uint64(_STAMP + _SITE)
_LAST_STAMP, _LAST_SITE = (1 << _STAMP) - 1, (1 << _SITE) - 1
_NOBODY = (1 << 32) - 1
"""Stands for a reader that nothing orders."""

Entries = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True)
class Access:
    """An instruction that reaches memory.

    Attributes
    ----------
    site
        Its number in its module.
    does
        What it does, for messages: ``reads``.
    strong
        Whether it is atomic or has an order.
    acquires, releases
        Whether it is a fence as well, for what comes after it or was before.
    constant
        Whether it takes what it reads to be constant.
    around
        Whether it may reach around the element that it is for.
    """

    site: int
    does: str
    strong: bool = False
    acquires: bool = False
    releases: bool = False
    constant: bool = False
    around: bool = False


@dataclass(frozen=True)
class Site:
    """Where an instruction stands."""

    function: str
    text: str
    line: int
    source: str

    def __str__(self) -> str:
        source = f", {self.source}" if self.source else ""
        return f"line {self.line} of the PTX{source}: {self.text}"


class Shadow:
    """Who was last at each word of a span, or at each byte once there was an access to less than a word."""

    __slots__ = ("_base", "_count", "_size", "others", "readers", "writers")

    def __init__(self, start: int, nbytes: int) -> None:
        self._size, self._base = _WORD, start - start % _WORD
        self._count = -(-(start + nbytes - self._base) // _WORD)
        self.writers, self.readers, self.others = (np.zeros(self._count, np.uint64) for _ in range(3))

    def places(self, addresses: np.ndarray[Any, np.dtype[np.int64]], nbytes: int) -> np.ndarray[Any, np.dtype[np.intp]]:
        """The numbers of what an access of some lanes covers: a row for each lane."""
        if nbytes < self._size:
            self._size = 1
            for name in ("writers", "readers", "others"):
                setattr(self, name, np.repeat(getattr(self, name), _WORD))
        first = (addresses - self._base) // self._size
        return first[:, None] + np.arange(nbytes // self._size)

    def offset(self, place: int) -> int:
        """The address of a place."""
        return self._base + place * self._size


@dataclass
class LaunchWatch:
    """What is known of a launch as a whole.

    Attributes
    ----------
    sites
        The instructions, by their numbers.
    names
        Arrays of global memory: their first bytes, those after them, and their names.
    handed
        What those that released at a place of a span knew: the stamps up to which each thread's past is known.
    """

    sites: list[Site]
    names: tuple[tuple[int, int, str], ...] = ()
    handed: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)

    def place(self, span: Span, address: int) -> str:
        """What is at an address, in words."""
        for start, end, name in self.names if span.kind == "global" else ():
            if start <= address < end:
                return f"byte {address - start} of {name}"
        what = "shared memory" if span.kind == "shared" else f"an allocation of {span.end - span.start}"
        return f"byte {address - span.start} of {what}"

    def who(self, thread: int) -> str:
        """A thread in words."""
        if thread == _NOBODY:
            return "another thread"
        return f"thread {thread & ((1 << _THREAD) - 1)} of block {thread >> _THREAD}"


class BlockWatch:
    """The clocks of a block's warps: ``seen[w, v]`` is the stamp up to which warp w knows of warp v."""

    def __init__(self, launch: LaunchWatch, number: int, warps: int) -> None:
        self.launch, self.number = launch, number
        self.seen = np.zeros((warps, warps), np.int64)
        self.warps = [WarpWatch(self, k) for k in range(warps)]

    def join(self, chosen: Iterable[int]) -> None:
        """Let warps know of each other what each of them knows: they met at a barrier."""
        warps = [self.warps[k] for k in chosen]
        numbers = [w.number for w in warps]
        row = self.seen[numbers].max(axis=0)
        row[numbers] = [w.now for w in warps]
        self.seen[numbers] = row
        far: dict[int, int] = {}
        for warp in warps:
            warp.known[:] = warp.now
            for each in warp.far.values():
                _merge(far, each)
        for warp in warps:
            if far:
                warp.far = {lane: dict(far) for lane in range(LANES)}
            warp.advance()


class WarpWatch:
    """The clock of a warp, and what its lanes know: ``known[i, j]`` is the stamp up to which lane i knows of lane j."""

    def __init__(self, block: BlockWatch, number: int) -> None:
        self.block, self.number, self.now = block, number, 0
        self.known = np.zeros((LANES, LANES), np.int64)
        self._threads = (np.arange(LANES, dtype=np.uint64) + np.uint64(LANES * number)) + np.uint64(
            block.number << _THREAD
        )
        # Of other blocks, or by other ways than barriers: what each lane knows, what it will know after its next
        # fence, and what it hands on by its next atomic operation.
        self.far: dict[int, dict[int, int]] = {}
        self._found: dict[int, dict[int, int]] = {}
        self._given: dict[int, dict[int, int]] = {}
        self.advance()

    def advance(self) -> None:
        """Go on to the next stamp."""
        self.now = min(self.now + 1, _LAST_STAMP)
        self._entries = self._threads << _WHO | np.uint64(self.now << _SITE)

    # -- what orders ---------------------------------------------------------------------------------------------------

    def meet(self, lanes: Any) -> None:
        """Let lanes know of each other: they met in their warp."""
        row = self.known[lanes].max(axis=0)
        row[lanes] = self.now
        self.known[lanes] = row
        if self.far:
            far: dict[int, int] = {}
            for lane in lanes:
                _merge(far, self.far.get(int(lane), {}))
            self.far.update((int(lane), dict(far)) for lane in lanes)
        self.advance()

    def fence(self, lanes: Any) -> None:
        """Let lanes know what they found, and hand on from now what they know."""
        for lane in map(int, lanes):
            if lane in self._found:
                _merge(self.far.setdefault(lane, {}), self._found.pop(lane))
            self._given[lane] = self._all_known(lane)
        self.advance()

    def _all_known(self, lane: int) -> dict[int, int]:
        stamps = np.repeat(self.block.seen[self.number], LANES)
        stamps[LANES * self.number : LANES * (self.number + 1)] = self.known[lane]
        stamps[LANES * self.number + lane] = self.now
        first = self.block.number << _THREAD
        found = {first + int(k): int(stamps[k]) for k in np.flatnonzero(stamps)}
        _merge(found, self.far.get(lane, {}))
        return found

    def pass_on(self, part: Part, access: Access, *, writes: bool) -> None:
        """Hand on, and find, what is known at the places of accesses with an order."""
        handed = self.block.launch.handed
        if access.releases:
            self.fence(part.lanes)
        if not (handed or self._given):
            return
        for lane, address in zip(map(int, part.lanes), map(int, part.addresses), strict=True):
            place = id(part.span), address
            if place in handed:
                _merge(self._found.setdefault(lane, {}), handed[place])
            if writes and lane in self._given:
                _merge(handed.setdefault(place, {}), self._given[lane])
        if access.acquires:
            self.fence(part.lanes)

    # -- accesses ------------------------------------------------------------------------------------------------------

    def read(
        self, part: Part, nbytes: int, access: Access, *, constantly: bool = False, touched: Lanes | None = None
    ) -> None:
        """Note a read, or what is like one.

        Parameters
        ----------
        constantly
            Whether others may have written, as long as they do not from now on.
        touched
            The bits that each lane has changed; by default it is for all of them.
        """
        shadow = part.span.shadow
        assert shadow is not None
        if touched is not None and access.around:
            part, nbytes = _bytes_of(part, touched), 1
        places = shadow.places(part.addresses, nbytes)
        mine = self._mine(part.lanes, access)
        if access.constant:
            mine = mine & np.uint64((1 << (_STAMP + _SITE)) - 1) | np.uint64(_NOBODY) << _WHO
        if not constantly:
            self._check(shadow.writers[places], part, places, access, access.does, "has written")
        self._note(shadow, places, mine)

    def write(self, part: Part, nbytes: int, access: Access) -> None:
        """Note a plain write that changes what is there."""
        shadow = part.span.shadow
        assert shadow is not None
        places = shadow.places(part.addresses, nbytes)
        self._check(shadow.writers[places], part, places, access, "writes", "has written")
        for readers in (shadow.readers, shadow.others):
            self._check(readers[places], part, places, access, "writes", "has read")
        shadow.writers[places] = self._mine(part.lanes, access)

    def collide(self, part: Part, row: int, access: Access) -> None:
        """Raise: what a lane writes is not there afterwards, since another lane writes to the place at once."""
        rivals = np.flatnonzero(part.addresses == part.addresses[row])
        rival = part.lanes[next(int(k) for k in rivals if k != row)]
        entry = int(self._mine(np.array([rival]), access)[0, 0])
        address = int(part.addresses[row])
        raise self._fault(
            part, int(part.lanes[row]), address, entry, access, "writes", "writes at once, something else"
        )

    def _mine(self, lanes: Any, access: Access) -> Entries:
        return (self._entries[lanes] | np.uint64(min(access.site, _LAST_SITE)))[:, None]

    def _note(self, shadow: Shadow, places: Any, mine: Entries) -> None:
        """Let lanes be the last readers; of other threads keep one, of another block if there is one."""
        before = shadow.readers[places]
        shifted, me = before >> _WHO, mine >> _WHO
        aside = (before != 0) & (shifted != me)
        if aside.any():
            kept = shadow.others[places]
            near = kept >> np.uint64(_THREAD) >> _WHO == me >> np.uint64(_THREAD)
            aside &= (kept == 0) | near | (shifted >> np.uint64(_THREAD) != me >> np.uint64(_THREAD))
            shadow.others[places[aside]] = before[aside]
        wide = np.broadcast_to(mine, places.shape)
        shadow.readers[places] = wide
        lost = shadow.readers[places] != wide
        if lost.any():  # several lanes at one place
            shadow.others[places[lost]] = wide[lost]

    def _check(self, entries: Entries, part: Part, places: Any, access: Access, does: str, did: str) -> None:
        """Raise if one of the entries is of another thread, and nothing orders it before the lane's access."""
        if not entries.any():
            return
        lanes = part.lanes
        who, mine = entries >> _WHO, self._threads[lanes][:, None]
        other = (entries != 0) & ((who != mine) | access.constant)
        if not other.any():
            return
        bad = other & ~self._ordered(who, entries, lanes) if not access.constant else other
        for row, column in zip(*np.nonzero(bad), strict=True):
            lane, entry = int(lanes[row]), int(entries[row, column])
            thread, stamp = entry >> int(_WHO), entry >> _SITE & _LAST_STAMP
            if access.constant or self.far.get(lane, {}).get(thread, -1) < stamp:
                address = part.span.shadow.offset(int(places[row, column]))  # type: ignore[union-attr]
                raise self._fault(part, lane, address, entry, access, does, did)

    def _ordered(self, who: Entries, entries: Entries, lanes: Any) -> Any:
        """Whether lanes know of entries by the barriers of their block and of their warp."""
        near = who >> np.uint64(_THREAD) == np.uint64(self.block.number)
        if not near.any():
            return near
        thread = np.where(near, who & np.uint64((1 << _THREAD) - 1), np.uint64(LANES * self.number)).astype(np.intp)
        warp, lane = thread // LANES, thread % LANES
        known = np.where(warp == self.number, self.known[lanes[:, None], lane], self.block.seen[self.number][warp])
        return near & (known >= (entries >> np.uint64(_SITE) & np.uint64(_LAST_STAMP)).astype(np.int64))

    def _fault(self, part: Part, lane: int, address: int, entry: int, access: Access, does: str, did: str) -> RaceFault:
        launch = self.block.launch
        sites, before = launch.sites, entry & _LAST_SITE
        here = sites[access.site]
        there = str(sites[before]) if before < min(len(sites), _LAST_SITE) else "unknown"
        thread = entry >> int(_WHO)
        how = "takes to be constant" if access.constant else does
        if thread == _NOBODY:
            did = "takes to be constant"
        return RaceFault(
            f"a race in {here.function}: {launch.who(int(self._threads[lane]))} {how} "
            f"{launch.place(part.span, address)}, which {launch.who(thread)} {did}, and nothing orders the two\n"
            f"  now:   {here}\n  other: {there}"
        )


def _bytes_of(part: Part, touched: Lanes) -> Part:
    """The bytes of an access that have changed, each as an access of its own."""
    changed = touched.view(np.uint8).reshape(len(touched), -1) != 0
    rows, offsets = np.nonzero(changed)
    return type(part)(part.lanes[rows], part.span, part.addresses[rows] + offsets)


def _merge(into: dict[int, int], more: dict[int, int]) -> None:
    for thread, stamp in more.items():
        into[thread] = max(stamp, into.get(thread, 0))
