"""Load elements that are the same in every trip of a loop once, in front of it; in place.

A loop that reads ``x[i]`` and adds to ``ct_x[j]`` in every trip reads a number again that it has, for LLVM cannot tell
that the two elements are none. Lanes lose most: neighbouring elements with components are a load under a mask, and
shuffles, for each component.

A load moves only if all that the loop writes are contributions to other arrays. It is enough to look at the array's own
parameter: the launch of an adjoint ensures that a cotangent that shares memory with another array is only added to, and
that nobody loads from either. Without contributions the loop is left to LLVM. A loop that makes no trip leaves the
element alone, which may not exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.ir.builder import Builder
from diffkern.ir.clone import defined_in, substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ELEMENT_ACCUMULATES, ELEMENT_LOADS
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.views import Access, For
from diffkern.opt.repeated_loops import MOST_COMPONENTS, RepeatedLoops, components

__all__ = ["HARMLESS", "load_once"]

HARMLESS = (Effect.PURE, Effect.READ, Effect.CONSTANT, Effect.STACK_READ, Effect.STACK_WRITE, Effect.CONTROL)
"""Effects of ops that change no element of an array."""


def load_once(fn: Function) -> Function:
    """Move loads of elements that are the same in every trip in front of their loops."""
    return _Loads.run(fn)


class _Loads(RepeatedLoops):
    def loop(self, op: Op) -> list[Op]:
        """Return a loop, with the ops before it."""
        loop, loads, trips = For(op), self.loads(op), self.makes_trips(op)
        if not loads or trips is False:
            return [op]
        loop.body.ops[:] = [inner for inner in loop.body.ops if inner not in loads]
        return [*(loads if trips else self.guarded(loop, loads)), op]

    def guarded(self, loop: For, loads: Sequence[Op]) -> list[Op]:
        """Return ops that make the loads of a loop if it makes a trip; it uses what they find."""
        before = Builder(loc=loop.op.loc)
        some, skip = self.some(loop.op, before), Region()
        with before.into(skip):
            skip.yields = tuple(before.zero(load.result.type) for load in loads)
        then = Region((), [*loads], tuple(load.result for load in loads))
        found = before.if_(some, then, skip, names=[load.result.name for load in loads])
        substitute(loop.body, dict(zip((load.result for load in loads), found, strict=True)))
        return before.region.ops

    def loads(self, op: Op) -> list[Op]:
        """Return the loads that every trip makes of the same elements, as many as are kept in registers."""
        if not self.repeats(op):
            return []
        body = For(op).body
        written = self.written(body)
        if not written:
            return []
        inside, room, found = defined_in(body), MOST_COMPONENTS, []
        for inner in body.ops:
            if inner.name not in ELEMENT_LOADS or not inside.isdisjoint(inner.operands):
                continue
            size = components(inner.result)
            if Access(inner).array in self.arrays - written and size <= room:
                found.append(inner)
                room -= size
        return found

    def written(self, body: Region) -> set[Value]:
        """Return the arrays that a loop adds to; none if it does anything else to memory."""
        ops = list(walk(body))
        adding = {Access(inner).array for inner in ops if inner.name in ELEMENT_ACCUMULATES}
        others = (inner for inner in ops if inner.name not in ELEMENT_ACCUMULATES)
        return adding if all(lookup(inner.name).effect in HARMLESS for inner in others) else set()
