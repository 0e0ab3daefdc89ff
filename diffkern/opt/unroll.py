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
from diffkern.ir.ops.composite import AT_RUN_TIME
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.scalar import LITERALS, SELECTIONS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Scalar, Tile
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


def unroll_components(fn: Function) -> Function:
    """Do so with the loops whose index selects components of vectors and matrices, and leave the others.

    A component at a place found at run time is a chain of selections, one for each component of the whole.
    """
    if any(op.name in AT_RUN_TIME for op in walk(fn.body)):
        _until_none(fn, frozenset(), components=True)
    return fn


def unroll(fn: Function, *, neighbours: bool = False) -> Function:
    """Replace ``for`` loops of at most ``MAX_TRIPS`` constant trips and small bodies by their iterations.

    ``neighbours``: longer loops over neighbours as well.
    """
    unwritten = frozenset[Value]() if neighbours else _unwritten(fn)
    _until_none(fn, unwritten)
    return fn


def _until_none(fn: Function, unwritten: frozenset[Value], *, components: bool = False) -> None:
    # Unrolling an outer loop makes the bounds of inner ones constant once they are folded.
    changed = True
    while changed:
        u = _Unroller(unwritten, components=components)
        u.region(fn.body)
        changed = bool(u.count)
        fold(fn)


def _unwritten(fn: Function) -> frozenset[Value]:
    """Return the parameters whose elements a function only reads."""
    writes = (Effect.WRITE, Effect.ATOMIC)
    return frozenset(fn.params).difference(*(op.operands for op in walk(fn.body) if lookup(op.name).effect in writes))


def _changes_array(op: Op) -> bool:
    """Return whether an op changes an element of an array of the thread."""
    return bool(lookup(op.name).element) and isinstance(t := op.result.type, Tile) and t.own


def _folds(op: Op, known: set[Value]) -> bool:
    """Return whether an op is free once some values are constants; its results join these where they are, too."""
    row = lookup(op.name)
    if op.regions or row.effect is not Effect.PURE:
        return False
    if op.name in AT_RUN_TIME or op.name in SELECTIONS:
        free = op.operands[-1 if op.name in AT_RUN_TIME else 0] in known
    else:
        free = not row.cost
    if known.issuperset(op.operands) and all(isinstance(v.type, Scalar) for v in op.results):
        known.update(op.results)
        return True
    return free


class _Unroller:
    def __init__(self, unwritten: frozenset[Value], *, components: bool) -> None:
        self.unwritten = unwritten
        self.components = components  # whether loops stay whose index selects none
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
        loop = For(op)
        known = {loop.index, *self.constants}
        folded = [op for op in walk(loop.body) if _folds(op, known)]
        # Where the index selects components, exactly that is counted which is left without it: an access of a component
        # at run time is a chain of selections, and the adjoint of it one for each component of the whole.
        chosen = any(op.name in AT_RUN_TIME for op in folded)
        if self.components and not chosen:
            return None
        size = count_ops(loop.body) - len(folded) * chosen
        return trips if len(trips) * size <= self.most(loop) else None

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
