"""Tile operations as accesses of single elements, for the memory analyses.

:func:`shadow` returns a copy of a function in which every load, store, update or accumulation of a tile has become a
loop nest around the same access of single elements. The shadow is never executed: the values stored in it are
placeholders, and the test whether an element lies inside the array is left out, so it accesses more elements than the
function, never fewer. Ops that are not tile accesses are the same objects in both, so attributes set by an analysis
count for the function.
"""

from __future__ import annotations

from dataclasses import replace

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import LOADS
from diffkern.ir.types import INT32, Array, Tile, value_type
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass

_ELEMENT = {"tile_load": "load", "tile_store": "store", "tile_atomic": "atomic", "tile_accumulate": "accumulate"}


@dataclass(frozen=True, slots=True)
class Shadow:
    """A function for analyses, with the op that each tile access of the original is represented by."""

    fn: Function
    accesses: dict[Op, Op]  # access of an element in the shadow → op of the function

    def original(self, op: Op) -> Op:
        """Return the op of the function that an op of the shadow stands for."""
        return self.accesses.get(op, op)


def shadow(fn: Function) -> Shadow:
    """Return the shadow of a function; the function itself if it accesses no tiles."""
    if not any(op.name in _ELEMENT for op in walk(fn.body)):
        return Shadow(fn, {})
    accesses: dict[Op, Op] = {}
    body = _region(fn.body, accesses)
    return Shadow(replace(fn, body=body), accesses)


def _region(region: Region, accesses: dict[Op, Op]) -> Region:
    out = Region(region.params, [], region.yields)
    b = Builder(out)
    for op in region.ops:
        if op.name in _ELEMENT:
            with b.at(op.loc):
                _access(b, op, accesses)
        elif op.regions:
            regions = tuple(_region(sub, accesses) for sub in op.regions)
            out.ops.append(Op(op.name, op.operands, op.results, op.attrs, regions, op.loc))
        else:
            out.ops.append(op)
    return out


def _access(b: Builder, op: Op, accesses: dict[Op, Op]) -> None:
    array = Access(op).array
    assert isinstance(array.type, Array)
    offsets = Access(op).index
    t = op.result.type if op.name in LOADS else Access(op).value.type
    assert isinstance(t, Tile)
    outer = b.region
    index: list[Value] = []
    nests: list[tuple[Region, Value]] = []
    for axis, (offset, extent) in enumerate(zip(offsets, t.shape, strict=True)):
        found = Access(op).along.get("along") == axis
        # An axis of extent one needs no loop: the offset alone is the index, which analyses understand better.
        if extent == 1 and not found:
            index.append(offset)
            continue
        k = Value(INT32)
        nests.append((b.region, b.i32(extent)))
        b.region = Region((k,))
        if found:
            # Along this axis the elements are at places of a tile of indices, so the element's index is read from it.
            k = b.one("tile_extract", Access(op).places[-1], k)
        index.append(b.add(b.cast(offset, INT32), k))
    wrap = (False,) * len(index)
    if op.name in LOADS:
        b.op("load", array, *index, wrap=wrap)
    else:
        attrs = {k: v for k, v in op.attrs.items() if k in ("kind", "mode")}
        b.op(_ELEMENT[op.name], array, *index, b.zero(value_type(array.type.dtype)), wrap=wrap, **attrs)
    accesses[b.region.ops[-1]] = op
    while nests:
        # The nest is closed from the inside out; the access is in its innermost region.
        body = b.region
        b.region, extent_value = nests.pop()
        b.for_(b.i32(0), extent_value, b.i32(1), (), body)
    assert b.region is outer
