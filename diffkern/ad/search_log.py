"""The log of what searches find, so that the adjoint of a launch does not search once more.

:func:`logged_searches` finds the loops of a kernel of which its adjoint needs integers alone
(:mod:`diffkern.ad.searches`). :class:`FoundSearches` has the forward program that writes these integers to a log, and
the function that reads them there, which is the one that is differentiated. In that function the loops still stand:
what the sweep does not need of them, dead code elimination removes. A loop that is left is not logged, so that an
adjoint with a log never computes anything else than one without.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from diffkern.ad.adjoint import Swept
from diffkern.ad.log_index import Logged, Sites, components
from diffkern.ad.searches import MOST_SLOTS, searches_of
from diffkern.contracts.manifest import Log
from diffkern.errors import AutodiffError, Loc
from diffkern.ir.nodes import Function, Op, walk
from diffkern.ir.ops.memory import LOADS
from diffkern.ir.types import INT32, INT64, UINT32, Scalar, Vec
from diffkern.ir.views import is_loop
from diffkern.process.dataclass import dataclass

__all__ = ["FoundSearches", "logged_searches"]

_Found = Mapping[Op, tuple[int, ...]]
"""Searches, and which of their results are logged."""


class _SearchSites(Sites):
    def __init__(self, fn: Function, found: _Found) -> None:
        self.found = found
        types = {r.dtype if isinstance(r, Vec) else r for op in found for r in _types(op, found)}
        super().__init__(fn, found, INT64 if types & {INT64, UINT32} else INT32)

    def width(self, op: Op) -> int:
        return sum(components(op.results[k]) for k in self.found[op])


@dataclass(frozen=True, slots=True)
class FoundSearches:
    """The searches of a function whose integers are logged."""

    base: Function
    sites: _SearchSites

    def writing(self) -> Function:
        """Return a copy of the function that writes the integers to a log, its last parameter."""
        return _SearchWriting(self.base, self.sites).function()

    def reading(self) -> tuple[Function, Mapping[Op, Mapping[int, Loc]]]:
        """Return the copy that reads the integers from a log, and how to tell what is left of it after a sweep.

        That is for each search a position that its loops have, as result -1, and one for each result read.
        """
        copy = _SearchReading(self.base, self.sites)
        return copy.function(), copy.marks

    def log(self, active: Collection[int]) -> Log:
        """Return the description of the log, for the adjoint with respect to some parameters."""
        first = next(op for op in walk(self.base.body) if op in self.sites.ops)
        slots = self.sites.of(self.base.body)
        return Log(str(self.sites.type), slots, "what this loop found", first.loc, tuple(sorted(active)), True)


def logged_searches(base: Function, sweep: Callable[[Function], Swept]) -> tuple[FoundSearches, Swept] | None:
    """Find the searches of a function that its adjoint does without if their integers are logged.

    Parameters
    ----------
    base : Function
        The function, as it was lowered.
    sweep : callable
        The reverse sweep through a copy of it, tidied up.

    Returns
    -------
    FoundSearches
        The searches.
    Swept
        The function with its reverse sweep, which reads a log.
    """
    searches = searches_of(base)
    if searches is None:
        return None
    found = {op: searches.found(op) for op in searches.of(base.body)}
    while found:
        made = FoundSearches(base, _SearchSites(base, found))
        slots = made.sites.of(base.body)
        if slots is None or slots > MOST_SLOTS:
            return None
        function, marks = made.reading()
        try:
            swept = sweep(function)
        except AutodiffError:
            return None  # the sweep without a log says what is the matter
        if swept.lost():
            return None
        # Positions are told by identity: copies of an op share the object.
        left = {id(op.loc) for op in walk(swept.fn.body) if is_loop(op) or op.name in LOADS}
        wanted: dict[Op, tuple[int, ...]] = {}
        for op, kept in found.items():
            if id(marks[op][-1]) not in left:
                wanted[op] = tuple(k for k in kept if id(marks[op][k]) in left)
            else:  # the adjoint needs more of it than integers; that need not hold for what is in it
                wanted.update((inner, searches.found(inner)) for inner in searches.inside(op))
        if wanted == found:
            return made, swept
        found = {op: kept for op, kept in wanted.items() if kept}
    return None


class _SearchWriting(Logged):
    sites: _SearchSites

    def site(self, op: Op) -> None:
        super().site(op)
        at = 0
        for k in self.sites.found[op]:
            self.write(self.env[op.results[k]], at)
            at += components(op.results[k])


class _SearchReading(Logged):
    sites: _SearchSites

    def __init__(self, fn: Function, sites: _SearchSites) -> None:
        super().__init__(fn, sites)
        self.marks: dict[Op, dict[int, Loc]] = {}

    def site(self, op: Op) -> None:
        super().site(op)
        assert op.loc is not None
        loops, marks, at = replace(op.loc), {}, 0
        copy = self.b.region.ops[-1]
        copy.loc = loops
        for inner in (each for sub in copy.regions for each in walk(sub) if is_loop(each)):
            inner.loc = loops
        for k in self.sites.found[op]:
            t = op.results[k].type
            assert isinstance(t, (Scalar, Vec))
            marks[k] = replace(op.loc)
            with self.b.at(marks[k]):
                self.env[op.results[k]] = self.read(t, at)
            at += components(op.results[k])
        self.marks[op] = {-1: loops, **marks}


def _types(op: Op, found: _Found) -> list[Scalar | Vec]:
    return [op.results[k].type for k in found[op]]  # type: ignore[misc]  # scalars and vectors, as searches have them
