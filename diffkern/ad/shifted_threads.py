"""Threads at a constant distance from a thread that executes their operations for itself.

A :class:`ShiftedThread` copies the operations by which such a thread finds what it adds to elements, with its index in
place of the own one. It need not exist: :func:`is_inside` asks, and :func:`is_harmless` says of an operation whether it
may be executed without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.memory import ARRAY_EXTENTS, ELEMENT_LOADS, LAUNCH_INDICES, THREAD_INDICES
from diffkern.ir.ops.scalar import CASTS, DIFFERENCES, LITERALS, NEGATIVES, SUMS
from diffkern.ir.types import Scalar
from diffkern.ir.views import Access, If, is_branch

__all__ = ["ShiftedThread", "is_harmless", "is_inside"]

_HARMLESS = SUMS | DIFFERENCES | NEGATIVES | CASTS | LITERALS | LAUNCH_INDICES | ARRAY_EXTENTS


def is_harmless(op: Op) -> bool:
    """Return whether a thread that does not exist may execute an op, whose index is a little outside of the launch."""
    if op.name in ELEMENT_LOADS:
        return False
    # An integer that is divided, or the like, may be one for which that has no result.
    are_integers = any(isinstance(r.type, Scalar) and r.type.is_integer for r in op.results)
    return not are_integers or is_branch(op) or op.name in _HARMLESS


def is_inside(b: Builder, own: Value, axis: int, c: int) -> Value:
    """Return whether the launch has a thread whose index along an axis is less by a number."""
    # The extent less a distance does not overflow, as the index and a distance might.
    return b.one("ge", own, b.i32(c)) if c > 0 else b.one("lt", own, b.sub(b.one("extent", axis=axis), b.i32(-c)))


class ShiftedThread(Cloner):
    """A thread at a distance, whose operations another one executes to know what it adds.

    Parameters
    ----------
    b
        The builder.
    moved
        The other thread's index.
    needed
        The ops that it executes for this.
    sites
        The accumulations, each with its array.
    params
        The parameters of the function.
    taken
        The branches of which it is known which way the thread takes.
    """

    def __init__(
        self,
        b: Builder,
        moved: Sequence[Value],
        needed: Set[Op],
        sites: Mapping[Op, Value],
        params: Iterable[Value],
        taken: Mapping[Op, int] | None = None,
    ) -> None:
        super().__init__(b)
        self.taken = taken or {}
        self.moved, self.needed, self.sites = moved, needed, sites
        self.known = {*params, *(r for op in needed for r in op.results)}

    def sums(self, region: Region) -> dict[Value, Value]:
        """Copy the ops of a region; return what it adds to each array."""
        found: dict[Value, Value] = {}
        for op in region.ops:
            self.b.loc = op.loc
            if op in self.sites:
                self._add(found, self.sites[op], self.value(Access(op).value))
            elif op not in self.needed:
                continue
            elif op.name in THREAD_INDICES:
                self.env[op.result] = self.moved[op.attrs["axis"]]
            elif is_branch(op):
                for array, value in self._branch(op).items():
                    self._add(found, array, value)
            else:
                self.op(op)
        return found

    def _add(self, found: dict[Value, Value], array: Value, value: Value) -> None:
        found[array] = self.b.add(found[array], value) if array in found else value

    def _branch(self, op: Op) -> dict[Value, Value]:
        """Copy a branch, which then yields what it adds as well, or the way that is taken."""
        kept = [k for k, values in enumerate(zip(*(r.yields for r in op.regions), strict=True)) if self._has(values)]
        if op in self.taken:
            region = op.regions[self.taken[op]]
            found = self.sums(region)
            self.env.update((op.results[k], self.value(region.yields[k])) for k in kept)
            return found
        copies, added = [Region() for _ in op.regions], []
        for copy, region in zip(copies, op.regions, strict=True):
            with self.b.into(copy):
                added.append(self.sums(region))
        types = {array: value.type for one in added for array, value in one.items()}
        for copy, region, one in zip(copies, op.regions, added, strict=True):
            with self.b.into(copy):
                own = [one[array] if array in one else self.b.zero(t) for array, t in types.items()]
            copy.yields = (*(self.value(region.yields[k]) for k in kept), *own)
        then, orelse = copies
        results = self.b.if_(self.value(If(op).condition), then, orelse)
        self.env.update(zip((op.results[k] for k in kept), results, strict=False))
        return dict(zip(types, results[len(kept) :], strict=True))

    def value_of(self, v: Value, source: Mapping[Value, Op]) -> Value:
        """Copy what a value is computed by, which has no regions."""
        op = source.get(v)
        if op is None or v in self.env:
            return self.value(v)
        if op.name in THREAD_INDICES:
            axis: int = op.attrs["axis"]
            return self.moved[axis]
        operands = tuple(self.value_of(x, source) for x in op.operands)
        self.emit(op, operands, ())
        return self.env[v]

    def _has(self, values: Iterable[Value]) -> bool:
        """Return whether values are known here: copied, or from outside."""
        return self.known.issuperset(values)
