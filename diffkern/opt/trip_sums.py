"""Sum a loop's contributions to one element in a register, and add them to the element behind the loop; in place.

A loop that reads ``x[i]`` in every trip has an adjoint that adds to ``ct_x[i]`` in every trip. The sum becomes a
carried value of the loop, which stays in a register. LLVM does so itself only where it knows that nothing else in the
loop touches the element, and never under a mask.

Sums may be formed in any order, so an accumulation stays where it is only if the loop loads or stores elements of its
array, or updates them otherwise. It is enough to look at the array's own parameter: the launch of an adjoint ensures
that a cotangent that shares memory with another array is only added to, and so is the other one. A loop that makes no
trip leaves the element alone, which may not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from diffkern.ir.builder import Builder
from diffkern.ir.clone import defined_in
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ARRAY_EXTENTS, ELEMENT_ACCUMULATES
from diffkern.ir.views import Access, For
from diffkern.opt.repeated_loops import MOST_COMPONENTS, RepeatedLoops, components

__all__ = ["sum_trips"]

Key: TypeAlias = tuple[Value, tuple[Value, ...], tuple[bool, ...]]


def sum_trips(fn: Function) -> Function:
    """Sum the contributions of loops to elements that are the same in every trip."""
    return _Sums.run(fn)


class _Sums(RepeatedLoops):
    def loop(self, op: Op) -> list[Op]:
        """Return a loop, with the ops before and behind it."""
        sums = self.sums(op)
        if not sums:
            return [op]
        before, behind = Builder(loc=op.loc), Builder(loc=op.loc)
        totals = [self.total(op, before, adding) for adding in sums]
        target = self.reached(op, behind)
        for adding, total in zip(sums, totals, strict=True):
            first = adding[0]
            target.ops.append(Op(first.name, (*first.operands[:-1], total), (), first.attrs, (), first.loc))
        return [*before.region.ops, op, *behind.region.ops]

    def sums(self, op: Op) -> list[list[Op]]:
        """Return the accumulations of each trip to each element that is the same in every trip."""
        if not self.repeats(op):
            return []
        body = For(op).body
        inside = defined_in(body)
        found: dict[Key, list[Op]] = {}
        for inner in body.ops:
            if inner.name in ELEMENT_ACCUMULATES and inner.attrs["mode"] != "reduce":
                to = Access(inner)
                if to.array in self.arrays and inside.isdisjoint(to.index) and components(to.value) <= MOST_COMPONENTS:
                    found.setdefault((to.array, tuple(to.index), to.wrap), []).append(inner)
        if not found:
            return []
        # An array that the loop uses in any other way may be read between two accumulations.
        others = (inner for inner in walk(body) if inner.name not in ELEMENT_ACCUMULATES | ARRAY_EXTENTS)
        kept = {v for inner in others for v in inner.operands}
        return [ops for (array, _, _), ops in found.items() if array not in kept]

    def total(self, op: Op, before: Builder, adding: Sequence[Op]) -> Value:
        """Let a loop sum its contributions to an element; return the sum."""
        array, t, body = Access(adding[0]).array, Access(adding[0]).value.type, For(op).body
        carried, result = Value(t, array.name), Value(t, array.name)
        total = carried
        for inner in adding:
            sum_so_far = Value(t, array.name)
            body.ops[body.ops.index(inner)] = Op("add", (total, Access(inner).value), (sum_so_far,), {}, (), inner.loc)
            total = sum_so_far
        op.operands = (*op.operands, before.zero(t))
        body.params, body.yields, op.results = (*body.params, carried), (*body.yields, total), (*op.results, result)
        return result

    def reached(self, op: Op, behind: Builder) -> Region:
        """Return the region behind a loop that is executed only if the loop makes at least one trip."""
        trips = self.makes_trips(op)
        if trips is not None:
            return behind.region if trips else Region()
        # The element is accessed only if a trip would have accessed it.
        then = Region()
        behind.if_(self.some(op, behind), then, Region())
        return then
