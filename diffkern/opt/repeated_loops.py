"""Loops in which every trip does the same to some elements of arrays: the scaffold of passes that do it once."""

from __future__ import annotations

from abc import ABC, abstractmethod

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.types import Array, Mat, Vec
from diffkern.ir.views import For, literals

__all__ = ["MOST_COMPONENTS", "RepeatedLoops", "components"]

MOST_COMPONENTS = 16
"""Components up to which what is kept of a loop stays in registers."""


class RepeatedLoops(ABC):
    """A pass over the loops of a function, in place.

    Attributes
    ----------
    arrays : set of Value
        The parameters that are arrays.
    constants : mapping of Value to number
        The literals of the function.
    """

    def __init__(self, fn: Function, arrays: set[Value]) -> None:
        self.arrays = arrays
        self.constants = literals(fn.body)

    @classmethod
    def run(cls, fn: Function) -> Function:
        """Apply the pass to a function, and return it."""
        arrays = {p: p.type for p in fn.params if isinstance(p.type, Array)}
        if not any(t.outer for t in arrays.values()):  # of these, two elements may be one array
            cls(fn, set(arrays)).region(fn.body)
        return fn

    def region(self, region: Region) -> None:
        """Apply the pass to the loops of a region."""
        out: list[Op] = []
        for op in region.ops:
            for sub in op.regions:
                self.region(sub)  # inner loops first: what is done once there may be done once further out
            out += self.loop(op) if op.name == "for" else [op]
        region.ops[:] = out

    @abstractmethod
    def loop(self, op: Op) -> list[Op]:
        """Return a loop, with the ops that stand before it and after it."""

    def repeats(self, op: Op) -> bool:
        """Return whether a loop makes several trips of one thread, with a known step.

        One trip gains nothing, and each trip of a loop over threads is another thread's.
        """
        once = op.attrs.get("once") or op.attrs.get("threads")
        return not once and bool(self.constants.get(For(op).step))

    def makes_trips(self, op: Op) -> bool | None:
        """Return whether a loop makes a trip, None if that is known at run time alone."""
        trips = For(op).trips(self.constants.get)
        return None if trips is None else bool(trips)

    def some(self, op: Op, b: Builder) -> Value:
        """Emit the question whether a loop makes a trip."""
        loop = For(op)
        return b.one("lt" if self.constants[loop.step] > 0 else "gt", loop.start, loop.stop)


def components(v: Value) -> int:
    """Return how many numbers a value has."""
    return v.type.size if isinstance(v.type, (Vec, Mat)) else 1
