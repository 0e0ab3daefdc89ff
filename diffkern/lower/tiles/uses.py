"""Lifetimes of tiles: those that need memory, and the last read of each.

:class:`Uses` tells for each op whether it is *lazy*, and up to which position of each region a tile is read. The
elements of a lazy op are computed where they are read: this applies to ops whose row says so, and to maps with a single
reader. The operands of a lazy op are read where its result is.

Position ``k`` of a region is its k-th op; position ``len(ops)`` is its yield.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import STORAGE_ONLY, Tile, scalar_of
from diffkern.process.dataclass import dataclass


@dataclass(slots=True)
class Uses:
    """Facts about the tiles of a function.

    Attributes
    ----------
    lazy
        Ops whose result has no memory of its own.
    last
        Value → by the id of a region the last position of the region at which the value is read.
    home
        The region in which a value is defined.
    read
        Values that are read.
    """

    lazy: set[Op] = field(default_factory=set)
    last: dict[Value, dict[int, int]] = field(default_factory=dict)
    home: dict[Value, Region] = field(default_factory=dict)
    read: set[Value] = field(default_factory=set)

    def until(self, v: Value, region: Region) -> int:
        """Return the last position of a region that reads a value; -1 if none does."""
        return self.last.get(v, {}).get(id(region), -1)


def uses(fn: Function) -> Uses:
    """Return the facts about a function."""
    out = Uses()
    counts: dict[Value, int] = {}
    readers: dict[Value, tuple[Op, Region]] = {}
    _count(fn.body, counts, readers)
    for op in walk(fn.body):
        if lookup(op.name).lazy:
            out.lazy.add(op)
    for op in walk(fn.body):
        out.read.update(op.operands)
        for sub in op.regions:
            out.read.update(sub.yields)
    _homes(fn.body, out, counts, readers)
    _region(fn.body, [], out)
    return out


def _count(region: Region, counts: dict[Value, int], readers: dict[Value, tuple[Op, Region]]) -> None:
    for op in region.ops:
        for v in op.operands:
            if isinstance(v.type, Tile):
                counts[v] = counts.get(v, 0) + 1
                readers[v] = (op, region)
        for sub in op.regions:
            _count(sub, counts, readers)
    for v in region.yields:
        counts[v] = counts.get(v, 0) + 1


def _homes(region: Region, out: Uses, counts: dict[Value, int], readers: dict[Value, tuple[Op, Region]]) -> None:
    out.home.update(dict.fromkeys(region.params, region))
    for op in region.ops:
        out.home.update(dict.fromkeys(op.results, region))
        # A map with several readers would be computed once for each of them.
        if "body" in op.attrs and len(op.results) == 1 and counts.get(op.result) == 1 and not _rounds(op):
            reader = readers.get(op.result)
            if reader is not None and reader[1] is region and lookup(reader[0].name).once:
                out.lazy.add(op)
        for sub in op.regions:
            _homes(sub, out, counts, readers)


def _rounds(op: Op) -> bool:
    """Return whether memory rounds an element."""
    return scalar_of(op.result.type) in STORAGE_ONLY


def _region(region: Region, outer: list[tuple[Region, int]], out: Uses) -> None:
    end = len(region.ops)
    for v in region.yields:
        _use(v, [(region, end), *outer], out)
    # Backwards, so that the last reads of a lazy result are known when its operands are visited.
    for k in range(end - 1, -1, -1):
        op = region.ops[k]
        here = [(region, k), *outer]
        for sub in op.regions:
            _region(sub, here, out)
        lazy = op in out.lazy
        for v in op.operands:
            _use(v, here, out)
            if lazy and isinstance(v.type, Tile):
                _later(v, op.result, out)


def _use(v: Value, places: list[tuple[Region, int]], out: Uses) -> None:
    if isinstance(v.type, Tile):
        _extend(v, {id(r): k for r, k in places}, out)


def _later(v: Value, result: Value, out: Uses) -> None:
    """Note that a value is read wherever a lazy result computed from it is."""
    _extend(v, out.last.get(result, {}), out)


def _extend(v: Value, places: Mapping[int, int], out: Uses) -> None:
    known = out.last.setdefault(v, {})
    for r, k in places.items():
        # The latest of several reads counts.
        known[r] = max(known.get(r, -1), k)
