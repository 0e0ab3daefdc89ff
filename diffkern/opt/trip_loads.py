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
from diffkern.ir.types import Array, Mat, Vec
from diffkern.ir.views import Access, For, literals

__all__ = ["load_once"]

_LARGEST = 16
"""Components up to which the elements of a loop are kept in registers."""
_HARMLESS = (Effect.PURE, Effect.READ, Effect.CONSTANT, Effect.STACK_READ, Effect.STACK_WRITE, Effect.CONTROL)
"""Effects of ops that change no element of an array."""


def load_once(fn: Function) -> Function:
    """Move loads of elements that are the same in every trip in front of their loops."""
    arrays = {p: p.type for p in fn.params if isinstance(p.type, Array)}
    if not any(t.outer for t in arrays.values()):  # of these, two elements may be one array
        _Loads(fn, set(arrays)).region(fn.body)
    return fn


class _Loads:
    def __init__(self, fn: Function, arrays: set[Value]) -> None:
        self.arrays = arrays
        self.constants = literals(fn.body)

    def region(self, region: Region) -> None:
        out: list[Op] = []
        for op in region.ops:
            for sub in op.regions:
                self.region(sub)  # inner loops first: what they load once may be loaded once further out
            out += self.loop(op) if op.name == "for" else [op]
        region.ops[:] = out

    def loop(self, op: Op) -> list[Op]:
        """Return a loop, with the ops before it."""
        loop, loads = For(op), self.loads(op)
        trips = loop.trips(self.constants.get)
        if not loads or (trips is not None and not trips):
            return [op]
        loop.body.ops[:] = [inner for inner in loop.body.ops if inner not in loads]
        return [*(loads if trips else self.guarded(loop, loads)), op]

    def guarded(self, loop: For, loads: Sequence[Op]) -> list[Op]:
        """Return ops that make the loads of a loop if it makes a trip; it uses what they find."""
        before = Builder(loc=loop.op.loc)
        forwards = self.constants[loop.step] > 0
        some = before.one("lt" if forwards else "gt", loop.start, loop.stop)
        skip = Region()
        with before.into(skip):
            skip.yields = tuple(before.zero(load.result.type) for load in loads)
        then = Region((), [*loads], tuple(load.result for load in loads))
        found = before.if_(some, then, skip, names=[load.result.name for load in loads])
        substitute(loop.body, dict(zip((load.result for load in loads), found, strict=True)))
        return before.region.ops

    def loads(self, op: Op) -> list[Op]:
        """Return the loads that every trip makes of the same elements, as many as are kept in registers."""
        # One trip gains nothing, and which thread a loop over threads comes to is no matter of its index alone.
        if op.attrs.get("once") or op.attrs.get("threads") or not self.constants.get(For(op).step):
            return []
        body = For(op).body
        written = self.written(body)
        if not written:
            return []
        inside, room, found = defined_in(body), _LARGEST, []
        for inner in body.ops:
            if inner.name not in ELEMENT_LOADS or not inside.isdisjoint(inner.operands):
                continue
            size = _size(inner.result)
            if Access(inner).array in self.arrays - written and size <= room:
                found.append(inner)
                room -= size
        return found

    def written(self, body: Region) -> set[Value]:
        """Return the arrays that a loop adds to; none if it does anything else to memory."""
        ops = list(walk(body))
        adding = {Access(inner).array for inner in ops if inner.name in ELEMENT_ACCUMULATES}
        others = (inner for inner in ops if inner.name not in ELEMENT_ACCUMULATES)
        return adding if all(lookup(inner.name).effect in _HARMLESS for inner in others) else set()


def _size(v: Value) -> int:
    return v.type.size if isinstance(v.type, (Vec, Mat)) else 1
