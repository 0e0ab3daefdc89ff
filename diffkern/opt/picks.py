"""Pick components of vectors from memory where a loop picks them by numbers known at run time; in place.

``v[i]`` is a chain of selections, one for each component, as registers have no addresses. A loop that picks from a
vector made before it gains by storing the vector in front of it once, in a buffer: a pick is a load then. Single
threads alone gain: lanes would load one by one, where a selection is for all of them.

An index that names no component picks the first one, as in the chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from diffkern.ir.builder import Builder
from diffkern.ir.clone import defined_in
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import BOOL, Buffer, Kind, Scalar
from diffkern.ir.views import is_loop, literals, trips_of
from diffkern.opt.dce import eliminate

__all__ = ["pick_from_memory"]

_FEWEST: Final = 3
"""Components from which on a load is cheaper than the selections."""
_MOST_TRIPS: Final = 32
"""Of a loop that LLVM may unroll, which then knows what is picked."""


def pick_from_memory(fn: Function) -> Function:
    """Replace selections of components in loops by loads from buffers; return the function."""
    if any("picked" in op.attrs for op in walk(fn.body)):
        _Picks(fn).region(fn.body)
        eliminate(fn)
    return fn


class _Picks:
    def __init__(self, fn: Function) -> None:
        self.producers = {op.result: op for op in walk(fn.body) if len(op.results) == 1}
        self.constants = literals(fn.body)
        self.before: dict[Op, list[Op]] = {}

    def region(self, region: Region) -> None:
        ops: list[Op] = []
        for op in region.ops:
            if self.repeats(op):
                ops += self.filled(op)
            for sub in op.regions:
                self.region(sub)
            ops += [*self.before.pop(op, ()), op]
        region.ops[:] = ops

    def repeats(self, op: Op) -> bool:
        """Return whether an op is a loop of one thread that stays one."""
        if not is_loop(op) or op.attrs.get("once") or op.attrs.get("threads"):
            return False
        trips = trips_of(op, self.constants.get)
        return trips is None or len(trips) > _MOST_TRIPS

    def filled(self, loop: Op) -> list[Op]:
        """Return ops that fill buffers for the picks in a loop from what is there before it."""
        inside = {v for sub in loop.regions for v in defined_in(sub)}
        b = Builder(loc=loop.loc)
        buffers: dict[tuple[Value, ...], Value] = {}
        for op in [each for sub in loop.regions for each in self.picks(sub)]:
            parts, index = self.chain(op)
            if len(parts) < _FEWEST or not inside.isdisjoint(parts):
                continue
            if parts not in buffers:
                t = parts[0].type
                assert isinstance(t, Scalar)
                buffers[parts] = b.one("buffer_new", type=Buffer(t, len(parts)))
                for k, part in enumerate(parts):
                    b.op("buffer_set", buffers[parts], b.i32(k), part)
            self.load(op, buffers[parts], index, len(parts))
        return b.region.ops

    def picks(self, region: Region) -> Iterator[Op]:
        """Yield the picks of a region, but for those in loops that LLVM may unroll."""
        for op in region.ops:
            if "picked" in op.attrs:
                yield op
            if not is_loop(op) or self.repeats(op):
                for sub in op.regions:
                    yield from self.picks(sub)

    def chain(self, op: Op) -> tuple[tuple[Value, ...], Value]:
        """Return the components that a chain of selections chooses from, and the index."""
        parts: list[Value] = []
        index, part, rest = op.operands
        for _ in range(op.attrs["picked"] - 1):
            _, part, rest = op.operands
            parts.insert(0, part)
            op = self.producers.get(rest, op)
        # A test is for the number of the component, or for that or the one from the end.
        while index.type == BOOL:
            index = self.producers[index].operands[0]
        return (rest, *parts), index

    def load(self, op: Op, buffer: Value, index: Value, size: int) -> None:
        """Make a pick a load."""
        b, t = Builder(loc=op.loc), index.type
        assert isinstance(t, Scalar)
        known = b.one("lt", index, b.const(size, t))
        if t.kind is Kind.INT:
            zero = b.const(0, t)
            index = b.select(b.one("lt", index, zero), b.add(index, b.const(size, t)), index)
            known = b.one("and", b.one("lt", index, b.const(size, t)), b.one("ge", index, zero))
        self.before[op] = b.region.ops
        op.name, op.attrs = "buffer_get", {}
        op.operands = (buffer, b.select(known, index, b.const(0, t)))
