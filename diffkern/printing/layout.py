"""Decides, before any text is written, which values of a function become variables and which are written in place.

:class:`PrintPlan` tells for each value whether its expression is folded into the one place that uses it, and up to
which position of each region a value is still needed. Position ``k`` of a region is its k-th op; position ``len(ops)``
is its yield.

A value is folded if exactly one op of the same region uses it, the user gave it no name, and nothing that happens
between its definition and that use could change it: literals, arithmetic, and loads without a store between.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from dataclasses import field

from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.block import SHARED_ARRAYS
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.scalar import LITERALS
from diffkern.ir.ops.table import lookup
from diffkern.process.dataclass import dataclass

_READS = frozenset({Effect.READ, Effect.CONSTANT, Effect.STACK_READ})
_WRITES = frozenset({Effect.WRITE, Effect.ATOMIC, Effect.STACK_WRITE, Effect.BARRIER})


@dataclass(slots=True)
class PrintPlan:
    """The decisions.

    Attributes
    ----------
    folded
        Values that have no statement of their own.
    last_use
        ``(value, region)`` → the last position of the region that needs the value.
    home
        The region and position at which a value is defined.
    writing
        Whether ops, or some in them, write something, as far as that was queried.
    """

    folded: set[Value] = field(default_factory=set)
    last_use: dict[tuple[Value, int], int] = field(default_factory=dict)
    home: dict[Value, tuple[Region, int]] = field(default_factory=dict)
    writing: dict[Op, bool] = field(default_factory=dict)

    def needed_until(self, value: Value, region: Region) -> int:
        """Return the last position of ``region`` that needs the value; -1 if none does."""
        return self.last_use.get((value, id(region)), -1)

    def writes(self, op: Op) -> bool:
        """Return whether an op, or one in it, writes something."""
        known = self.writing.get(op)
        if known is None:
            inside = any(self.writes(inner) for sub in op.regions for inner in sub.ops)
            known = self.writing[op] = inside or (not op.regions and lookup(op.name).effect in _WRITES)
        return known


def plan(fn: Function) -> PrintPlan:
    """Decide for a whole function."""
    out = PrintPlan()
    uses: dict[Value, int] = {}
    _count(fn.body, uses)
    for p in fn.params:
        out.home[p] = (fn.body, -1)
    _region(fn.body, [], uses, out)
    for op in walk(fn.body):
        body = op.attrs.get("body")
        if body is not None:  # a function over the elements of tiles, of which other ops may have the same
            inner: dict[Value, int] = {}
            # Uses are counted per function, as the same body may belong to several maps.
            _count(body, inner)
            _region(body, [], inner, out)
    return out


def _count(region: Region, uses: dict[Value, int]) -> None:
    for op in region.ops:
        for v in op.operands:
            uses[v] = uses.get(v, 0) + 1
        for sub in op.regions:
            _count(sub, uses)
    for v in region.yields:
        uses[v] = uses.get(v, 0) + 1


def _region(region: Region, outer: list[tuple[Region, int]], uses: dict[Value, int], out: PrintPlan) -> None:
    end = len(region.ops)
    only_user: dict[Value, int] = {}
    for p in region.params:
        out.home[p] = (region, -1)
    for k, op in enumerate(region.ops):
        for r in op.results:
            out.home[r] = (region, k)

    def use(v: Value, position: int) -> None:
        # Going backwards, the last entry is the first use; it counts only if there is no other.
        only_user[v] = position
        for r, k in ((region, position), *outer):
            key = (v, id(r))
            # A use in a nested region keeps the value alive in all regions around it too.
            out.last_use[key] = max(out.last_use.get(key, -1), k)

    writes = [k for k, op in enumerate(region.ops) if out.writes(op)]
    for v in region.yields:
        use(v, end)
    # Backwards, so that a folded value's operands are used at the position of the statement it ends up in.
    for k in range(end - 1, -1, -1):
        op = region.ops[k]
        position = k
        if _may_fold(op):
            (result,) = op.results
            # Literals are always written in place, however often they are used.
            if op.name in LITERALS:
                out.folded.add(result)
            elif uses.get(result, 0) == 1 and result in only_user and not result.name:
                where = only_user[result]
                reads = lookup(op.name).effect in _READS
                # A load may not move over a store, which could change the element.
                if not (reads and any(k < w < where for w in writes)):
                    out.folded.add(result)
                    position = where
        for sub in op.regions:
            _region(sub, [(region, k), *outer], uses, out)
        for v in op.operands:
            use(v, position)


def _may_fold(op: Op) -> bool:
    if op.name in SHARED_ARRAYS:
        return False
    effect = lookup(op.name).effect
    return len(op.results) == 1 and not op.regions and (effect is Effect.PURE or effect in _READS)


# -- names -------------------------------------------------------------------------------------------------------------
# The user's where possible, valid, and never two live values under one name.


class Names:
    """Allocates names. Names taken inside a ``scope`` can be reused after it."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._reserved = frozenset(reserved) | frozenset(keyword.kwlist)
        self._taken: list[tuple[str, str]] = []  # (base, name) in the order in which they were given out
        self._live: set[str] = set()
        self._next: dict[str, int] = {}  # base → the first number not known to be taken

    def taken(self) -> int:
        """Return a mark for :meth:`release`."""
        return len(self._taken)

    def release(self, mark: int) -> None:
        """Release all names taken since the mark."""
        for base, name in self._taken[mark:]:
            self._live.discard(name)
            # The numbers are searched from the start again, as some of them are free now.
            self._next[base] = 0
        del self._taken[mark:]

    def fresh(self, hint: str) -> str:
        """Return a name like ``hint`` that is not in use."""
        base = re.sub(r"\W", "_", hint) or "t"
        if base[0].isdigit():
            base = f"t{base}"
        n = self._next.get(base, 0)
        name = f"{base}_{n}" if n else base
        while name in self._reserved or name in self._live:
            n += 1
            name = f"{base}_{n}"
        self._next[base] = n + 1
        self._live.add(name)
        self._taken.append((base, name))
        return name
