"""A test whether a thread stores to an element before, or after, it has loaded it, solved for iterations of loops.

Given a load and a store of one array, with the loops and branches around them, :func:`may_precede` tells whether there
may be iterations in which they name the same element, with the one or the other first. The bounds of the loops count,
which may depend on variables of other loops: in ``for i in range(n): for j in range(i): … a[j] … a[i] = …`` no ``a[j]``
is loaded before its store.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field

from diffkern.analysis.affine import Affine, AffineForms
from diffkern.analysis.inequalities import Inequality, unsolvable
from diffkern.ir.nodes import Op, Value, walk
from diffkern.ir.ops.scalar import LESS, STRICT
from diffkern.ir.views import Access, For, If
from diffkern.process.dataclass import dataclass

__all__ = ["AccessSite", "may_precede"]

Branches = Sequence[tuple[Op, int]]
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True, slots=True)
class AccessSite:
    """An access, the loops around it, outermost first, and the branches of ifs around it."""

    op: Op
    loops: tuple[Op, ...]
    branches: Branches


def may_precede(forms: AffineForms, first: AccessSite, second: AccessSite, in_order: bool) -> bool:
    """Return whether one access may come before another one, with the same element.

    Parameters
    ----------
    forms : AffineForms
        The forms of the function.
    first, second : Place
        The accesses.
    in_order : bool
        Whether the first comes before the second if both are in the same iteration of all common loops.
    """
    common = [a for a, b in zip(first.loops, second.loops, strict=False) if a is b]
    # Lexicographic order: the accesses share the iterations of k outer loops, and the next loop is in an earlier one.
    cases = [k for k in range(len(common)) if _System(forms, first, second, common, k).solvable()]
    return bool(cases) or (in_order and _System(forms, first, second, common, len(common)).solvable())


@dataclass(slots=True)
class _System:
    """The case that the outer `same` common loops are in the same iteration, and the next one in an earlier one."""

    forms: AffineForms
    first: AccessSite
    second: AccessSite
    common: Sequence[Op]
    same: int
    zero: list[Inequality] = field(default_factory=list)
    positive: list[Inequality] = field(default_factory=list)
    shared: dict[Hashable, bool] = field(default_factory=dict)

    def solvable(self) -> bool:
        """Return whether the case may happen."""
        places = (self.first, self.second)
        for side, place in enumerate(places):
            for loop in place.loops:
                if loop.name == "for":
                    self.bound(loop, side)
            for branch, taken in place.branches:
                self.condition(If(branch).condition, side, taken == 0)
        # Both name the same element: their indices are equal on every axis.
        for x, y, wraps in self.indices():
            if not wraps:
                self.zero.append(self.row(self.forms.of(x), 0).plus(self.row(self.forms.of(y), 1), -1))
        if self.same < len(self.common) and self.common[self.same].name == "for":
            earlier, later = (Inequality({("trip", self.common[self.same], side): 1}, 0) for side in (0, 1))
            # The earlier trip's number is smaller by at least one.
            self.positive.append(later.plus(earlier, -1).plus(Inequality({}, -1)))
        return not unsolvable(self.zero, self.positive)

    def indices(self) -> list[tuple[Value, Value, bool]]:
        """Return the indices of both accesses along each axis, and whether one of them may count from the end."""
        one, other = Access(self.first.op), Access(self.second.op)
        axes = zip(one.index, other.index, one.wrap, other.wrap, strict=True)
        return [(x, y, p or q) for x, y, p, q in axes]

    def bound(self, loop: Op, side: int) -> None:
        """Add the facts about the variable of a loop: its start and end, and the number of steps to it."""
        view = For(loop)
        variable = self.row(Affine({view.index: 1}, 0), side)
        start, step = self.row(self.forms.of(view.start), side), self.forms.of(view.step)
        if not step.is_constant or step.const == 0:
            return
        trip = Inequality({self.trip(loop, side): 1}, 0)
        self.positive.append(trip)
        # The variable is start + step * trip, with the trip as an integer of its own: that keeps the steps'
        # divisibility.
        self.zero.append(variable.plus(start, -1).plus(trip, -step.const))
        up = step.const > 0
        # A loop up to min(a, b) ends before both of them.
        for stop in self.limits(view.stop, "min" if up else "max"):
            end = self.row(self.forms.of(stop), side)
            self.positive.append((end.plus(variable, -1) if up else variable.plus(end, -1)).plus(Inequality({}, -1)))

    def limits(self, v: Value, name: str) -> list[Value]:
        """Return the values of which ``v`` is the minimum, or the maximum."""
        op = self.forms.producer.get(v)
        if op is None or op.name != name:
            return [v]
        return [limit for operand in op.operands for limit in self.limits(operand, name)]

    def condition(self, v: Value, side: int, holds: bool) -> None:
        """Add the facts about integers that follow from a condition that holds, or does not hold."""
        op = self.forms.producer.get(v)
        if op is None:
            return
        # A negated conjunction is a disjunction, which a system of rows cannot express; it is left out.
        if op.name == ("and" if holds else "or"):
            for operand in op.operands:
                self.condition(operand, side, holds)
        elif op.name == "not":
            self.condition(op.operands[0], side, not holds)
        # Only signed integers: comparisons of unsigned ones are not those of the affine forms.
        elif op.name in _NEGATED and str(op.operands[0].type).startswith("int"):
            x, y = (self.row(self.forms.of(operand), side) for operand in op.operands)
            name = op.name if holds else _NEGATED[op.name]
            if name == "eq":
                self.zero.append(x.plus(y, -1))
            elif name != "ne":
                more, less = (y, x) if name in LESS else (x, y)
                # Strict comparisons of integers are x + 1 <= y.
                self.positive.append(more.plus(less, -1).plus(Inequality({}, -1 if name in STRICT else 0)))

    def row(self, form: Affine, side: int) -> Inequality:
        """Return a form with the variables of one of the accesses."""
        row = Inequality({}, form.const)
        for term, c in form.terms.items():
            row = row.plus(Inequality({self.variable(term, side): c}, 0))
        return row

    def variable(self, term: Hashable, side: int) -> Hashable:
        """Return a term's variable, which both accesses share if it is the same in both iterations."""
        if self.is_shared(term):
            return term
        return (term, side)

    def trip(self, loop: Op, side: int) -> Hashable:
        """Return the variable for the number of a loop's trip, shared by both accesses if they are in the same trip."""
        return ("trip", loop) if loop in self.common[: self.same] else ("trip", loop, side)

    def is_shared(self, term: Hashable) -> bool:
        """Return whether a term has the same value at both accesses."""
        if not isinstance(term, Value):
            return True  # a component of the thread index, the shape of an array
        known = self.shared.get(term)
        if known is None:
            known = self.shared[term] = not any(_defines(loop, term) for loop in self.disjoint())
        return known

    def disjoint(self) -> list[Op]:
        """Return the loops in which the accesses are in different iterations, or that are around only one of them."""
        n = len(self.common)
        if self.same < n:
            return [self.common[self.same]]
        return [*self.first.loops[n : n + 1], *self.second.loops[n : n + 1]]


def _defines(loop: Op, v: Value) -> bool:
    """Return whether a value is defined in a loop, or is one of its variables."""
    for sub in loop.regions:
        if v in sub.params:
            return True
        for op in walk(sub):
            if v in op.results or any(v in nested.params for nested in op.regions):
                return True
    return False
