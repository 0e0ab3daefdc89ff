"""Does a thread come to a store before, or after, it has loaded the same element? Solved for the iterations of loops.

In: a load and a store of one array, with the loops and branches around them. Out: whether there may be iterations in
which they name the same element, with the store first, and with the load first. The bounds of the loops count, which
may depend on variables of other loops: in ``for i in range(n): for j in range(i): … a[j] … a[i] = …`` no ``a[j]`` is
loaded before its store.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from diffkern.analysis.affine import Affine, AffineForms
from diffkern.analysis.inequalities import Row, unsolvable
from diffkern.ir.nodes import Op, Value, walk
from diffkern.ir.views import Access, For, If

__all__ = ["Place", "may_precede"]

Branches = Sequence[tuple[Op, int]]
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True, slots=True)
class Place:
    """An access, the loops around it, outermost first, and the branches of ifs around it."""

    op: Op
    loops: tuple[Op, ...]
    branches: Branches


def may_precede(forms: AffineForms, first: Place, second: Place, in_order: bool) -> bool:
    """Return whether one access may come before another one, with the same element.

    Parameters
    ----------
    forms : AffineForms
        Of the function.
    first, second : Place
        The accesses.
    in_order : bool
        Whether the first comes before the second where both are in the same iteration of all loops around both.
    """
    common = [a for a, b in zip(first.loops, second.loops, strict=False) if a is b]
    cases = [k for k in range(len(common)) if _System(forms, first, second, common, k).solvable()]
    return bool(cases) or (in_order and _System(forms, first, second, common, len(common)).solvable())


@dataclass(slots=True)
class _System:
    """The case in which the outer `same` common loops are in the same iteration, and the next one in an earlier one."""

    forms: AffineForms
    first: Place
    second: Place
    common: Sequence[Op]
    same: int
    zero: list[Row] = field(default_factory=list)
    positive: list[Row] = field(default_factory=list)
    shared: dict[Hashable, bool] = field(default_factory=dict)

    def solvable(self) -> bool:
        """Whether it may happen."""
        places = (self.first, self.second)
        for side, place in enumerate(places):
            for loop in place.loops:
                if loop.name == "for":
                    self.bound(loop, side)
            for branch, taken in place.branches:
                self.condition(If(branch).condition, side, taken == 0)
        for x, y, wraps in self.indices():
            if not wraps:
                self.zero.append(self.row(self.forms.of(x), 0).plus(self.row(self.forms.of(y), 1), -1))
        if self.same < len(self.common) and self.common[self.same].name == "for":
            earlier, later = (Row({("trip", self.common[self.same], side): 1}, 0) for side in (0, 1))
            self.positive.append(later.plus(earlier, -1).plus(Row({}, -1)))
        return not unsolvable(self.zero, self.positive)

    def indices(self) -> list[tuple[Value, Value, bool]]:
        """The indices of both accesses along each axis, and whether one of them may count from the end."""
        one, other = Access(self.first.op), Access(self.second.op)
        axes = zip(one.index, other.index, one.wrap, other.wrap, strict=True)
        return [(x, y, p or q) for x, y, p, q in axes]

    def bound(self, loop: Op, side: int) -> None:
        """What is known of the variable of a loop: where it begins and ends, and how often it was stepped."""
        view = For(loop)
        variable = self.row(Affine({view.index: 1}, 0), side)
        start, step = self.row(self.forms.of(view.start), side), self.forms.of(view.step)
        if not step.is_constant or step.const == 0:
            return
        trip = Row({self.trip(loop, side): 1}, 0)
        self.positive.append(trip)
        self.zero.append(variable.plus(start, -1).plus(trip, -step.const))
        up = step.const > 0
        for stop in self.limits(view.stop, "min" if up else "max"):
            end = self.row(self.forms.of(stop), side)
            self.positive.append((end.plus(variable, -1) if up else variable.plus(end, -1)).plus(Row({}, -1)))

    def limits(self, v: Value, name: str) -> list[Value]:
        """The values of which one is the least, or the greatest."""
        op = self.forms.producer.get(v)
        if op is None or op.name != name:
            return [v]
        return [limit for operand in op.operands for limit in self.limits(operand, name)]

    def condition(self, v: Value, side: int, holds: bool) -> None:
        """What a condition says of integers, where it holds or where it does not."""
        op = self.forms.producer.get(v)
        if op is None:
            return
        if op.name == ("and" if holds else "or"):
            for operand in op.operands:
                self.condition(operand, side, holds)
        elif op.name == "not":
            self.condition(op.operands[0], side, not holds)
        elif op.name in _NEGATED and str(op.operands[0].type).startswith("int"):
            x, y = (self.row(self.forms.of(operand), side) for operand in op.operands)
            name = op.name if holds else _NEGATED[op.name]
            if name == "eq":
                self.zero.append(x.plus(y, -1))
            elif name != "ne":
                more, less = (y, x) if name in ("lt", "le") else (x, y)
                self.positive.append(more.plus(less, -1).plus(Row({}, -1 if name in ("lt", "gt") else 0)))

    def row(self, form: Affine, side: int) -> Row:
        """A form with the variables of one of the accesses."""
        row = Row({}, form.const)
        for term, c in form.terms.items():
            row = row.plus(Row({self.variable(term, side): c}, 0))
        return row

    def variable(self, term: Hashable, side: int) -> Hashable:
        """A term, which both accesses share where it is the same in both iterations."""
        if self.is_shared(term):
            return term
        return (term, side)

    def trip(self, loop: Op, side: int) -> Hashable:
        """The number of a trip of a loop, which both accesses share where they are in the same one."""
        return ("trip", loop) if loop in self.common[: self.same] else ("trip", loop, side)

    def is_shared(self, term: Hashable) -> bool:
        """Whether a term has the same value at both accesses."""
        if not isinstance(term, Value):
            return True  # a component of the thread index, the shape of an array
        known = self.shared.get(term)
        if known is None:
            known = self.shared[term] = not any(_defines(loop, term) for loop in self.apart())
        return known

    def apart(self) -> list[Op]:
        """The loops of which the accesses are in different iterations, or which are around only one of them."""
        n = len(self.common)
        if self.same < n:
            return [self.common[self.same]]
        return [*self.first.loops[n : n + 1], *self.second.loops[n : n + 1]]


def _defines(loop: Op, v: Value) -> bool:
    """Whether a value is made in a loop, or is one of its variables."""
    for sub in loop.regions:
        if v in sub.params:
            return True
        for op in walk(sub):
            if v in op.results or any(v in nested.params for nested in op.regions):
                return True
    return False
