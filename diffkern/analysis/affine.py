"""Index expressions as affine forms: integer combinations of thread index components, invariants and loop variables.

:class:`AffineForms` gives for each integer value of a function a form ``const + sum(coefficient * term)``; a value that
is not affine is a term of its own. Terms are canonical: two ``tid`` ops of one axis are one term, and so are two
``shape`` ops of one axis.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from diffkern.analysis.uniformity import is_pure
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ARRAY_EXTENTS, THREAD_INDICES
from diffkern.ir.ops.row import Uniformity
from diffkern.ir.ops.scalar import CASTS, DIFFERENCES, LITERALS, NEGATIVES
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Kind, Scalar, is_exact_index
from diffkern.ir.views import For, is_loop
from diffkern.process.dataclass import dataclass

Term = Hashable


@dataclass(frozen=True, slots=True)
class Affine:
    """``const + sum(terms[t] * t)``; no coefficient is zero."""

    terms: Mapping[Term, int]
    const: int

    def __add__(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for t, c in other.terms.items():
            total = terms.get(t, 0) + c
            if total:
                terms[t] = total
            else:
                terms.pop(t, None)
        return Affine(terms, self.const + other.const)

    def scaled(self, factor: int) -> Affine:
        if factor == 0:
            return Affine({}, 0)
        return Affine({t: c * factor for t, c in self.terms.items()}, self.const * factor)

    def __sub__(self, other: Affine) -> Affine:
        return self + other.scaled(-1)

    @property
    def is_constant(self) -> bool:
        return not self.terms


@dataclass(frozen=True, slots=True)
class IndexParts:
    """A decomposed index: coefficients of the thread index, invariant terms, and bounds of the remaining terms."""

    tids: Mapping[int, int]
    invariant: Mapping[Term, int]
    low: int
    high: int


def tid_term(axis: int) -> Term:
    """Return the term that stands for one component of the thread index."""
    return ("tid", axis)


class AffineForms:
    """Affine forms of the values of one function, computed on demand."""

    def __init__(self, fn: Function) -> None:
        self.producer: dict[Value, Op] = {}
        self.loop_of: dict[Value, Op] = {}
        self.params = set(fn.params)
        for op in walk(fn.body):
            for r in op.results:
                self.producer[r] = op
            for sub in op.regions:
                for p in sub.params:
                    self.loop_of[p] = op
        self._forms: dict[Value, Affine] = {}
        self._invariant: dict[Value, bool] = {}
        self._parts: dict[Value, IndexParts | None] = {}

    def of(self, v: Value) -> Affine:
        """Return the form of an integer value."""
        known = self._forms.get(v)
        if known is None:
            known = self._forms[v] = self._compute(v)
        return known

    def parts(self, v: Value) -> IndexParts | None:
        """Return the parts of an index; None if a term varies in a way that has no known bounds."""
        if v not in self._parts:
            self._parts[v] = self._split(self.of(v))
        return self._parts[v]

    def _split(self, form: Affine) -> IndexParts | None:
        tids: dict[int, int] = {}
        invariant: dict[Term, int] = {}
        low = high = form.const
        for term, c in form.terms.items():
            if isinstance(term, tuple) and term[0] == "tid":
                tids[term[1]] = c
            elif self.invariant(term):
                invariant[term] = c
            else:
                bounds = self.loop_bounds(term)
                if bounds is None:
                    return None
                # A negative coefficient swaps the ends of the range.
                low += min(c * bounds[0], c * bounds[1])
                high += max(c * bounds[0], c * bounds[1])
        return IndexParts(tids, invariant, low, high)

    def _compute(self, v: Value) -> Affine:
        op = self.producer.get(v)
        if op is None:
            return Affine({v: 1}, 0)
        if op.name in LITERALS and not isinstance(op.attrs["value"], float):
            return Affine({}, int(op.attrs["value"]))
        if op.name in THREAD_INDICES:
            return Affine({tid_term(op.attrs["axis"]): 1}, 0)
        if op.name in ARRAY_EXTENTS:
            return Affine({("shape", op.operands[0], op.attrs["axis"]): 1}, 0)
        if op.name in CASTS and widens(op):
            return self.of(op.operands[0])
        # Only integers that are taken not to wrap around obey the laws of integer arithmetic; see is_exact_index.
        if lookup(op.name).affine and is_exact_index(v.type):
            if op.name in NEGATIVES:
                return self.of(op.operands[0]).scaled(-1)
            a, b = (self.of(x) for x in op.operands)
            if op.name == "add":
                return a + b
            if op.name in DIFFERENCES:
                return a - b
            if b.is_constant:
                return a.scaled(b.const)
            if a.is_constant:
                return b.scaled(a.const)
        return Affine({v: 1}, 0)

    def invariant(self, term: Term | Value) -> bool:
        """Return whether a term has the same value in all threads of a launch (constants, parameters, array shapes)."""
        if isinstance(term, tuple):
            return bool(term[0] == "shape")
        if not isinstance(term, Value):
            return False
        known = self._invariant.get(term)
        if known is None:
            known = self._invariant[term] = self._is_invariant(term)
        return known

    def constant(self, v: Value) -> int | None:
        """Return the value of an integer that is a constant; None for other integers."""
        form = self.of(v)
        return form.const if form.is_constant else None

    def loop_bounds(self, term: Term) -> tuple[int, int] | None:
        """Return the least and greatest value of the variable of a ``for`` whose bounds and step are constants."""
        loop = self.loop_of.get(term) if isinstance(term, Value) else None
        if loop is None or loop.name != "for" or term is not For(loop).index:
            return None
        trips = For(loop).trips(self.constant)
        # A loop that makes no trip has no variable to bound.
        return (min(trips[0], trips[-1]), max(trips[0], trips[-1])) if trips else None

    def _is_invariant(self, v: Value) -> bool:
        if v in self.params:
            return True
        op = self.producer.get(v)
        if op is None or not is_pure(op) or lookup(op.name).uniformity is not Uniformity.LAUNCH:
            return False
        return all(self.invariant(x) for x in op.operands)


def widens(op: Op) -> bool:
    """Return whether a cast is one between integers, to a type that is no narrower."""
    source, to = op.operands[0].type, op.results[0].type
    return (
        isinstance(source, Scalar)
        and isinstance(to, Scalar)
        and source.kind is Kind.INT
        and to.kind is Kind.INT
        and to.bits >= source.bits
    )


def enclosing_loops(fn: Function) -> dict[Op, tuple[Op, ...]]:
    """Return for every op the ``for`` and ``while`` ops around it, outermost first."""
    out: dict[Op, tuple[Op, ...]] = {}

    def visit(region: Region, loops: tuple[Op, ...]) -> None:
        for op in region.ops:
            out[op] = loops
            inner = (*loops, op) if is_loop(op) else loops
            for sub in op.regions:
                visit(sub, inner)

    visit(fn.body, ())
    return out
