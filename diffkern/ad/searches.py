"""Searches: loops that change nothing, and of whose results a kernel uses integers.

An integer has no derivative, so that a loop which finds one needs no reverse sweep. What it takes to run the loop again
in the adjoint can be saved if the forward keeps the integer. :func:`searches_of` returns the loops of which that may be
right and is worth it; whether an adjoint then really does without a loop is seen by making it
(:mod:`diffkern.ad.search_log`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from diffkern.analysis.blocks import is_simt
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ACCESSES, WRITES
from diffkern.ir.ops.tile import of_block
from diffkern.ir.types import BOOL, UINT64, Scalar, Vec
from diffkern.ir.views import Access, For, is_branch, is_loop, literals, trips_of
from diffkern.opt.dce import Liveness

__all__ = ["Searches", "searches_of"]

MOST_SLOTS: Final = 16
"""Integers that a thread keeps at most."""
_FEW_TRIPS: Final = 64
"""Most trips of a loop that is no search, where their number is known to the compiler."""


class Searches:
    """The searches of a function, and which of their results it uses.

    Parameters
    ----------
    fn : Function
        The function, as it was lowered.
    """

    def __init__(self, fn: Function) -> None:
        self._constants = literals(fn.body)
        self._used = _NeededResults()
        self._used.region(fn.body, set(fn.body.yields))
        self._written = {Access(op).array for op in walk(fn.body) if op.name in WRITES}

    def of(self, region: Region) -> Iterator[Op]:
        """Yield the outermost searches of a region that execute a number of times known to the compiler."""
        for op in region.ops:
            if self.is_search(op):
                yield op
            else:
                yield from self.inside(op)

    def inside(self, op: Op) -> Iterator[Op]:
        """Yield the searches within an op that is none."""
        trips = self._trips(op)
        if is_branch(op) or (trips is not None and len(trips) <= MOST_SLOTS):
            for sub in op.regions:
                yield from self.of(sub)

    def found(self, op: Op) -> tuple[int, ...]:
        """Return the positions of the results of a search that are used and are no floats."""
        used = self._used.results.get(op, ())
        return tuple(k for k, r in enumerate(op.results) if k in used and not _is_float(r))

    def is_search(self, op: Op) -> bool:
        """Return whether an op is a loop, of some length, that finds integers and does nothing else."""
        if not is_loop(op) or op.loc is None or self._used.effect(op) or not self._is_long(op):
            return False
        found = self.found(op)
        if not found or not all(_fits(op.results[k]) for k in found):
            return False
        # What the kernel itself writes is another matter in the adjoint than in the forward.
        read = (Access(inner).array for sub in op.regions for inner in walk(sub) if inner.name in ACCESSES)
        return self._written.isdisjoint(read)

    def _trips(self, op: Op) -> range | None:
        """Return the trips of a loop, if they are known to the compiler."""
        return trips_of(op, self._constants.get)

    def _is_long(self, op: Op) -> bool:
        """Return whether a loop makes a number of trips that only the launch knows, or many."""
        if op.attrs.get("once"):
            return False
        trips = self._trips(op)
        if isinstance(trips, range):
            inner = (self._is_long(each) for each in walk(For(op).body) if is_loop(each))
            return len(trips) > _FEW_TRIPS or any(inner)
        return True


def searches_of(fn: Function) -> Searches | None:
    """Return the searches of a function as it was lowered; None if it has none, or is of blocks of threads."""
    if not any(is_loop(op) for op in walk(fn.body)) or is_simt(fn, knowing=True) or any(map(of_block, walk(fn.body))):
        return None
    found = Searches(fn)
    return found if any(found.of(fn.body)) else None


class _NeededResults(Liveness):
    """The results of loops that something needs."""

    def __init__(self) -> None:
        super().__init__()
        self.results: dict[Op, set[int]] = {}

    def op(self, op: Op, live: set[Value]) -> None:
        """Note which results of a loop are needed, as what it needs itself depends on them."""
        if is_loop(op):
            # A loop in another one is looked at until nothing more is needed.
            self.results.setdefault(op, set()).update(k for k, r in enumerate(op.results) if r in live)
        super().op(op, live)


def _is_float(value: Value) -> bool:
    t = value.type.dtype if isinstance(value.type, Vec) else value.type
    return not isinstance(t, Scalar) or t.is_float


def _fits(value: Value) -> bool:
    """Return whether an integer can be kept as one of 64 bits with a sign, or less."""
    t = value.type.dtype if isinstance(value.type, Vec) else value.type
    return isinstance(t, Scalar) and (t.is_integer or t == BOOL) and t != UINT64
