"""Full unrolling of short loops whose trip count is a constant; in place.

Unrolled code needs no loop stack in the adjoint, and its index expressions are affine in the thread index. Loops around
barriers stay: their adjoint fills shared memory again in every trip, rather than keeping what was read there. Longer
loops over neighbours stay as well, unless the program benefits from constant indices: they gain neither advantage, and
their adjoint would be that many times as much code.
"""

from __future__ import annotations

from collections.abc import Iterable

from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Function, Op, Region, Value, count_ops, walk
from diffkern.ir.ops.block import BARRIERS
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.scalar import LITERALS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Tile
from diffkern.ir.views import For
from diffkern.opt.fold import fold
from diffkern.opt.stencil_loops import adds_up_neighbours

MAX_TRIPS = 8
MAX_OPS = 192
MAX_OPS_OF_NEIGHBOURS = 64
"""Of loops over neighbours, where these are to stay loops."""
MAX_OPS_OF_ARRAYS = 320
"""The limit for loops that change elements of a thread's array: unrolled, these are values, and no loop carries the
array."""


def unroll(fn: Function, *, neighbours: bool = False) -> Function:
    """Replace ``for`` loops of at most ``MAX_TRIPS`` constant trips and small bodies by their iterations.

    ``neighbours``: longer loops over neighbours as well.
    """
    unwritten = frozenset[Value]() if neighbours else _unwritten(fn)
    # Unrolling an outer loop makes the bounds of inner ones constant once they are folded.
    changed = True
    while changed:
        u = _Unroller(unwritten)
        u.region(fn.body)
        changed = bool(u.count)
        fold(fn)
    return fn


def _unwritten(fn: Function) -> frozenset[Value]:
    """Return the parameters whose elements a function only reads."""
    writes = (Effect.WRITE, Effect.ATOMIC)
    return frozenset(fn.params).difference(*(op.operands for op in walk(fn.body) if lookup(op.name).effect in writes))


def _changes_array(op: Op) -> bool:
    """Return whether an op changes an element of an array of the thread."""
    return bool(lookup(op.name).element) and isinstance(t := op.result.type, Tile) and t.own


class _Unroller:
    def __init__(self, unwritten: frozenset[Value]) -> None:
        self.unwritten = unwritten
        self.mapping: dict[Value, Value] = {}
        self.constants: dict[Value, int] = {}
        self.count = 0

    def resolve(self, vs: Iterable[Value]) -> tuple[Value, ...]:
        """Return values with the results of unrolled loops replaced; needed before a body is copied."""
        return tuple(self.mapping.get(v, v) for v in vs)

    def region(self, region: Region) -> None:
        kept: list[Op] = []
        for op in region.ops:
            op.operands = self.resolve(op.operands)
            for sub in op.regions:
                self.region(sub)
            if op.name in LITERALS and not isinstance(op.attrs["value"], float):
                self.constants[op.result] = int(op.attrs["value"])
            trips = self.trips(op)
            if trips is None:
                kept.append(op)
            else:
                kept.extend(self.expand(op, trips))
        region.ops[:] = kept
        region.yields = self.resolve(region.yields)

    def trips(self, op: Op) -> range | None:
        if op.name != "for" or any(inner.name in BARRIERS for inner in walk(For(op).body)):
            return None
        trips = For(op).trips(self.constants.get)
        if trips is None or len(trips) > MAX_TRIPS:
            return None
        return trips if len(trips) * count_ops(For(op).body) <= self.most(For(op)) else None

    def most(self, loop: For) -> int:
        """Return the most operations that an unrolled loop may have."""
        if any(map(_changes_array, walk(loop.body))):
            return MAX_OPS_OF_ARRAYS
        return MAX_OPS_OF_NEIGHBOURS if adds_up_neighbours(loop, self.unwritten) else MAX_OPS

    def expand(self, op: Op, trips: range) -> list[Op]:
        self.count += 1
        b = Builder(loc=op.loc)
        loop = For(op)
        carried = loop.init
        for i in trips:
            # A constant index per copy: the accesses become affine, and conditions on the index fold away.
            index = b.one("const", value=i, type=loop.start.type, hint=loop.index.name)
            carried = Cloner(b, {}).inline(loop.body, (index, *carried))
        self.mapping.update(zip(op.results, carried, strict=True))
        return b.region.ops
