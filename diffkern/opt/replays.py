"""Removes dead replays in shared memory from an adjoint, and barriers without purpose.

The adjoint of a kernel whose threads cooperate replays stores to copies of the shared arrays (see
``diffkern.ad.blocks``), the *tracked* arrays. A store to one of them counts only if a load that is needed may come
after it: later in the program, or in another trip of a common loop. Barriers with the attribute ``replay`` order
accesses of tracked arrays alone, so they count only together with these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from diffkern.analysis.scopes import has_barrier
from diffkern.ir.nodes import Op, Region, Value, walk
from diffkern.ir.ops.block import BARRIERS
from diffkern.ir.ops.memory import LOADS, WRITES
from diffkern.ir.types import is_shared
from diffkern.ir.views import Access, is_loop
from diffkern.opt.dce import Liveness
from diffkern.process.dataclass import dataclass

__all__ = ["NeededValues", "find_needs", "merge_barriers", "remove_dead_replays"]


@dataclass(frozen=True, slots=True)
class NeededValues:
    """The values and stores that the effects of a region and its yields need.

    Attributes
    ----------
    values
        Values, those of the region and of outside.
    arrays
        Tracked arrays that are loaded.
    stores
        Stores to tracked arrays.
    """

    values: set[Value]
    arrays: frozenset[Value]
    stores: frozenset[Op]


def find_needs(
    region: Region, yields: Iterable[Value], tracked: Collection[Value], out: Collection[Value] = ()
) -> NeededValues:
    """Return the needs of a region for these of its yields, and for the contents of the arrays ``out`` at its end."""
    wanted = set(yields)
    stores = {op for op in walk(region) if op.name in WRITES and Access(op).array in tracked}
    loads = [op for op in walk(region) if op.name in LOADS and Access(op).array in tracked]
    barriers = {op for op in walk(region) if _of_replay(op)}
    place = _places(region)
    # Arrays whose contents are wanted at the end keep all of their stores.
    kept = {op for op in stores if Access(op).array in out}
    while True:
        # A store that is kept has operands that may keep further loads alive, and these further stores: a fixpoint.
        values = Liveness((stores - kept) | barriers).region(region, wanted)
        needed = [op for op in loads if op.result in values]
        more = {s for s in stores - kept if any(_may_see(place, load, s) for load in needed)}
        if not more:
            return NeededValues(values, frozenset(Access(op).array for op in needed), frozenset(kept))
        kept |= more


def remove_dead_replays(region: Region, tracked: Collection[Value]) -> None:
    """Remove stores to tracked arrays that are not read, and loops and branches left with only barriers, in place.

    A removed loop or branch with barriers leaves one behind: accesses before and after it stay ordered.
    """
    needs = find_needs(region, region.yields, tracked)
    _remove_stores(region, needs, tracked)
    barriers = {op for op in walk(region) if _of_replay(op)}
    liveness = Liveness(barriers)
    values = liveness.region(region, set(region.yields))

    def visit(region: Region) -> None:
        for k, op in enumerate(region.ops):
            if has_barrier(op) and not liveness.effect(op) and not values.intersection(op.results):
                region.ops[k] = Op("barrier", (), (), {"replay": True}, (), op.loc)
            else:
                for sub in op.regions:
                    visit(sub)

    visit(region)


def merge_barriers(region: Region, tracked: Collection[Value]) -> None:
    """Remove barriers without an access to shared memory between them, and those of empty replays, in place."""
    touched = {v for op in walk(region) if op.name in LOADS for v in op.operands[:1]}
    useless = touched.isdisjoint(tracked)

    def visit(region: Region) -> None:
        kept: list[Op] = []
        last: Op | None = None
        for op in region.ops:
            if op.name in BARRIERS:
                # With no load of a replayed value left, barriers of the replay order nothing.
                if useless and _of_replay(op):
                    continue
                if last is not None:
                    if not _of_replay(op):
                        # Of two adjacent barriers one stays; it orders cotangents if either of them does.
                        last.attrs = {}
                    continue
                last = op
            elif _touches(op):
                last = None
            kept.append(op)
            for sub in op.regions:
                visit(sub)
        region.ops[:] = kept

    visit(region)


def _of_replay(op: Op) -> bool:
    return op.name in BARRIERS and bool(op.attrs.get("replay"))


def _touches(op: Op) -> bool:
    """Return whether an op accesses shared memory, or is a barrier."""
    if op.regions:
        return any(_touches(inner) for sub in op.regions for inner in sub.ops)
    return op.name in BARRIERS or (op.name in LOADS | WRITES and is_shared(Access(op).array.type))


def _remove_stores(region: Region, needs: NeededValues, tracked: Collection[Value]) -> None:
    region.ops[:] = [
        op for op in region.ops if not (op.name in WRITES and Access(op).array in tracked and op not in needs.stores)
    ]
    for op in region.ops:
        for sub in op.regions:
            _remove_stores(sub, needs, tracked)


_Place = dict[Op, tuple[int, frozenset[Op]]]


def _places(region: Region) -> _Place:
    """Return for each op its number and the loops around it."""
    found: _Place = {}

    def visit(region: Region, loops: frozenset[Op]) -> None:
        for op in region.ops:
            found[op] = len(found), loops
            for sub in op.regions:
                visit(sub, loops | {op} if is_loop(op) else loops)

    visit(region, frozenset())
    return found


def _may_see(place: _Place, load: Op, store: Op) -> bool:
    if Access(load).array is not Access(store).array:
        return False
    (at, loops), (before, around) = place[load], place[store]
    # In a common loop a store of one trip is seen by a load of the next, wherever the two stand.
    return at > before or bool(loops & around)
