"""Sum the contributions of branches to one element in a register, and add them to the element once; in place.

An unrolled loop that reads ``x[i]`` under a condition in each trip has an adjoint with a branch for each trip, all of
which add to ``ct_x[i]``. The sum becomes a result of these branches, which stays in a register. Lanes save most: an
update of an element with components, under a mask, is a load, a store and several shuffles.

A sum is formed only if the thread adds to the element outside of all branches as well: then the element exists, which
one that only branches add to need not. Sums may be formed in any order, so accumulations stay where they are only if
the function loads or stores elements of their array, or updates them otherwise. It is enough to look at the array's own
parameter: the launch of an adjoint ensures that a cotangent that shares memory with another array is only added to, and
so is the other one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ARRAY_EXTENTS, ELEMENT_ACCUMULATES
from diffkern.ir.types import Array, Mat, Vec
from diffkern.ir.views import Access, is_branch

__all__ = ["sum_branches"]

_LARGEST = 16
"""Components up to which the sums of a region are kept in registers."""

Key: TypeAlias = tuple[Value, tuple[Value, ...], tuple[bool, ...], str]
"""An element, and the mode in which it is added to."""


def sum_branches(fn: Function) -> Function:
    """Sum what branches and the code around them add to the same element."""
    arrays = {p: p.type for p in fn.params if isinstance(p.type, Array)}
    if any(t.outer for t in arrays.values()):  # of these, two elements may be one array
        return fn
    # An array that the function uses in any other way may be read between two accumulations.
    others = (op for op in walk(fn.body) if op.name not in ELEMENT_ACCUMULATES | ARRAY_EXTENTS)
    used = {v for op in others for v in (*op.operands, *(v for region in op.regions for v in region.yields))}
    _region(fn.body, {array for array in arrays if array not in used})
    return fn


def _region(region: Region, arrays: Collection[Value]) -> None:
    """Form the sums of a region, then those of the regions in it."""
    room = _LARGEST
    for key in dict.fromkeys(key for op in region.ops if (key := _key(op, arrays)) is not None):
        adding = [op for op in region.ops if _key(op, arrays) == key]
        branches = [op for op in region.ops if is_branch(op) and any(_inside(op, key, arrays))]
        size = _size(Access(adding[0]).value)
        if branches and size <= room:
            room -= size
            _sum(region, key, arrays, [op for op in region.ops if op in adding or op in branches])
    for op in region.ops:
        for sub in op.regions:
            _region(sub, arrays)


def _key(op: Op, arrays: Collection[Value]) -> Key | None:
    """Return the element that an op adds to, if its contributions may be summed."""
    if op.name not in ELEMENT_ACCUMULATES or op.results or op.attrs["mode"] == "reduce":
        return None
    to = Access(op)
    if to.array not in arrays or to.along:
        return None
    return to.array, tuple(to.index), to.wrap, op.attrs["mode"]


def _inside(branch: Op, key: Key, arrays: Collection[Value]) -> Iterator[Op]:
    """Iterate over the accumulations to an element in a branch, and in branches in it, but not in loops."""
    for region in branch.regions:
        for op in region.ops:
            if is_branch(op):
                yield from _inside(op, key, arrays)
            elif _key(op, arrays) == key:
                yield op


def _sum(region: Region, key: Key, arrays: Collection[Value], contributing: list[Op]) -> None:
    """Add the contributions of several ops of a region to an element, after the last of them."""
    example = next(op for op in contributing if not is_branch(op))
    first = contributing[0]
    if first is example:
        region.ops.remove(first)
        total = Access(first).value
    else:
        start = Builder(loc=first.loc)
        total = start.zero(Access(example).value.type)
        place = region.ops.index(first)
        region.ops[place:place] = start.region.ops
    for op in contributing[first is example :]:
        total = _added(region, op, total, key, arrays)
    # The index is defined there, as an accumulation outside of all branches has used it.
    after = next(k for k, op in enumerate(region.ops) if total in op.results) + 1
    last = Op(example.name, (*example.operands[:-1], total), (), example.attrs, (), example.loc)
    region.ops.insert(after, last)


def _added(region: Region, op: Op, total: Value, key: Key, arrays: Collection[Value]) -> Value:
    """Let an op of a region contribute to a sum instead of an element; return the sum after it."""
    result = Value(total.type, key[0].name)
    if not is_branch(op):
        region.ops[region.ops.index(op)] = Op("add", (total, Access(op).value), (result,), {}, (), op.loc)
        return result
    for sub in op.regions:
        so_far = total
        for inner in [*sub.ops]:
            if _key(inner, arrays) == key or (is_branch(inner) and any(_inside(inner, key, arrays))):
                so_far = _added(sub, inner, so_far, key, arrays)
        sub.yields = (*sub.yields, so_far)
    op.results = (*op.results, result)
    op.attrs = {**op.attrs, "types": tuple(r.type for r in op.results)}
    return result


def _size(v: Value) -> int:
    return v.type.size if isinstance(v.type, (Vec, Mat)) else 1
