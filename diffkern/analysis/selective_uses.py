"""Maps of tiles in whose adjoint some elements may have no cotangent, because the result is used selectively.

:func:`maps_with_choices` returns the ``tile_map`` ops of which a result is used in a branch or a loop around which it
stands, in the function of a map or a reduction that chooses, or by an operation that picks elements; and the maps whose
results those use.
"""

from __future__ import annotations

from diffkern.ir.clone import free_values
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.row import TileUse
from diffkern.ir.ops.scalar import SELECTIONS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Tile
from diffkern.ir.views import is_branch

__all__ = ["maps_with_choices"]


def maps_with_choices(fn: Function) -> list[Op]:
    """Return the maps of a function whose results are not used for all elements in the same way."""
    if not any("body" in op.attrs for op in walk(fn.body)):
        return []
    chosen: set[Value] = set()
    found: dict[Op, None] = {}
    _backwards(fn.body, chosen, found)
    return list(found)


def _backwards(region: Region, chosen: set[Value], found: dict[Op, None]) -> None:
    """Collect the tiles that are used selectively, from the end of a region to its beginning."""
    for op in reversed(region.ops):
        if is_branch(op):
            for sub in op.regions:
                # In the trip that takes the other branch, the yields and all outer values used here get no cotangent.
                chosen.update(sub.yields)
                _backwards(sub, chosen, found)
                chosen.update(free_values(sub))
        elif op.regions:
            _through_loop(op, chosen, found)
        else:
            is_chosen = not chosen.isdisjoint(op.results)
            if is_chosen and "body" in op.attrs:
                found[op] = None
            # Selectivity is inherited backwards: an operand of a selectively used result may be needed in parts only.
            if is_chosen or not _keeps_all(op):
                chosen.update(v for v in op.operands if isinstance(v.type, Tile))


def _through_loop(op: Op, chosen: set[Value], found: dict[Op, None]) -> None:
    """Visit a loop: a selective use in one trip is one of the values that the trips before it have carried."""
    if not chosen.isdisjoint(op.results):
        chosen.update(v for sub in op.regions for v in sub.yields)
    before = -1
    # The set only grows, so this ends; a carried value may become selective in a later round.
    while len(chosen) > before:
        before = len(chosen)
        for sub in op.regions:
            _backwards(sub, chosen, found)
        if any(v in chosen for sub in op.regions for v in sub.params):
            chosen.update(v for sub in op.regions for v in sub.yields)
            chosen.update(op.operands)


def _keeps_all(op: Op) -> bool:
    """Return whether all elements of the tiles that an op takes contribute to its results."""
    use = lookup(op.name).use
    if use is TileUse.OF_BODIES:
        return not any(_chooses(inner) for inner in walk(op.attrs["body"]))
    return use is TileUse.ALL or (use is TileUse.OF_SUMS and op.attrs.get("kind", "add") == "add")


def _chooses(op: Op) -> bool:
    return bool(op.regions) or op.name in SELECTIONS or lookup(op.name).chooses
