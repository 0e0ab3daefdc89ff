"""Collect like terms of sums of products, and factor out common factors, in place.

The rules of derivatives leave ``x y + x y`` for a square, and the product ``m r r r`` gives three terms of one value.
Where a thread computes the contribution of another one, both contain the same factors. As the sums of an adjoint they
may be rounded differently; the kernel's own computations, and those that an adjoint's control flow depends on, are
rounded as written. Factors may be multiplied in another order, and so leave the range of a type where they would not
have: this is for kernels that may be reassociated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from diffkern.analysis.control_dependence import compared
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.composite import PRODUCTS
from diffkern.ir.ops.scalar import DIFFERENCES, LITERALS, NEGATIVES, SUMS
from diffkern.ir.types import Scalar, Vec, scalar_of
from diffkern.ir.views import literal
from diffkern.process.dataclass import dataclass

__all__ = ["collect_terms"]

_LARGEST = 16
"""Factors beyond which products are not compared."""
_SMALLEST = 1e-30
"""Products of numbers up to this, or from its reciprocal on, are not made: they may leave the range of a type."""


@dataclass(frozen=True)
class _Term:
    """A product of a number, scalars, and possibly a vector."""

    number: float
    scalars: tuple[Value, ...]
    vector: Value | None = None


def collect_terms(fn: Function) -> Function:
    """Collect the terms of each sum of floating-point scalars or vectors."""
    _Collector(fn).region(fn.body)
    return fn


class _Collector:
    def __init__(self, fn: Function) -> None:
        self.source = {r: op for op in walk(fn.body) for r in op.results}
        self.uses: Counter[Value] = Counter()
        self.within: set[tuple[Value, frozenset[str]]] = set()  # terms of sums, and factors
        self.carried = {p for op in walk(fn.body) for region in op.regions for p in region.params}
        for op in walk(fn.body):
            self.uses.update(op.operands)
            for region in op.regions:
                self.uses.update(region.yields)
            for names in (SUMS, PRODUCTS):
                if op.name in names and self.carried.isdisjoint(op.operands):
                    self.within.update((v, names) for v in op.operands)
        self.fn = fn
        self.mapping: dict[Value, Value] = {}
        self.b = Builder()

    @cached_property
    def decisive(self) -> set[Value]:
        """The values that control flow or indices depend on."""
        return compared(self.fn)

    def region(self, region: Region) -> None:
        """Collect the terms of the sums in a region."""
        out = Region()
        here = {r for op in region.ops for r in op.results}
        for op in region.ops:
            if not self.mapping.keys().isdisjoint(op.operands):
                op.operands = tuple(map(self.resolved, op.operands))
            for sub in op.regions:
                self.region(sub)
            if op.name in (*SUMS, *PRODUCTS) and self.is_whole(op) and op.result not in self.decisive:
                with self.b.into(Region()) as made, self.b.at(op.loc):
                    new = (self.collected if op.name in SUMS else self.multiplied)(op.result, here)
                if new is not None:
                    out.ops += made.ops
                    here.update(r for x in made.ops for r in x.results)
                    self.uses[new] = self.uses[op.result]
                    self.mapping[op.result] = new
                    continue
            out.ops.append(op)
        region.ops[:] = out.ops
        region.yields = tuple(map(self.resolved, region.yields))

    def resolved(self, v: Value) -> Value:
        """Return the value that has replaced a value."""
        while v in self.mapping:
            v = self.mapping[v]
        return v

    # Only maximal expressions are rewritten; their parts are taken apart together with them.
    def is_whole(self, op: Op) -> bool:
        """Return whether a sum or product is no part of another one, nor a carried sum, which must stay as it is."""
        v = op.result
        if not isinstance(v.type, (Scalar, Vec)) or not scalar_of(v.type).is_float:
            return False
        names = SUMS if op.name in SUMS else PRODUCTS
        return self.carried.isdisjoint(op.operands) and not ((v, names) in self.within and self.uses[v] == 1)

    def collected(self, v: Value, here: set[Value]) -> Value | None:
        """Return a sum with its terms collected, None if there is nothing to collect."""
        leaves = self.leaves(v, 1.0, here, top=True)
        counts = Counter(leaf for leaf, _ in leaves)
        terms = []
        for leaf, sign in leaves:
            # A leaf that occurs in this sum only may be taken apart: nothing else needs it as it is.
            term = self.product(leaf, here, top=counts[leaf] == self.uses[leaf])
            terms.append(replace(term, number=sign * term.number))
        found, changed = self.collect(terms)
        return self.total(found, v.type) if changed else None

    def multiplied(self, v: Value, here: set[Value]) -> Value | None:
        """Return a product with its numbers multiplied, None if it has fewer than two."""
        numbers = sum(self.numbers(x, here) for x in self.source[v].operands)
        if numbers < 2:
            return None
        term = self.product(v, here, top=True)
        if v in term.scalars or v is term.vector:
            return None  # its numbers are too large or too small
        return self.total([term], v.type) if abs(term.number) == 1.0 else self.made(term, 1.0, v.type)

    def numbers(self, v: Value, here: set[Value]) -> int:
        """Return the number of constants and signs in a product."""
        op = self.source.get(v)
        if op is None or (op.name not in LITERALS and not (v in here and self.uses[v] == 1)):
            return 0
        own = sum(self.numbers(x, here) for x in op.operands) if op.name in PRODUCTS | NEGATIVES else 0
        return own + (op.name in LITERALS or op.name in NEGATIVES)

    # -- taking apart ------------------------------------------------------------------------------------------------

    def leaves(self, v: Value, sign: float, here: set[Value], top: bool = False) -> list[tuple[Value, float]]:
        """Return the terms of a sum, and the sign of each."""
        op = self.source.get(v)
        is_inner = op is not None and v in here and (top or self.uses[v] == 1)
        if op is not None and is_inner and op.name in SUMS | NEGATIVES and self.carried.isdisjoint(op.operands):
            if op.name in NEGATIVES:
                return self.leaves(op.operands[0], -sign, here)
            a, b = op.operands
            return [*self.leaves(a, sign, here), *self.leaves(b, -sign if op.name in DIFFERENCES else sign, here)]
        return [(v, sign)]

    def product(self, v: Value, here: set[Value] | None, top: bool = False) -> _Term:
        """Return the factors of a value: of products without other uses, or of all if ``here`` is None."""
        op = self.source.get(v)
        if op is not None and (here is None or (v in here and (top or self.uses[v] == 1))):
            if op.name in NEGATIVES:
                term = self.product(op.operands[0], here)
                return replace(term, number=-term.number)
            if op.name in PRODUCTS:
                a, b = (self.product(x, here) for x in op.operands)
                number = a.number * b.number
                if _SMALLEST < abs(number) < 1.0 / _SMALLEST:
                    return _Term(number, (*a.scalars, *b.scalars), a.vector or b.vector)
                return self.whole(v)
        literally = literal(op)
        if literally:
            return _Term(literally, ())
        return self.whole(v)

    def whole(self, v: Value) -> _Term:
        """Return a term for a value that is not taken apart."""
        return _Term(1.0, (v,)) if isinstance(v.type, Scalar) else _Term(1.0, (), v)

    def key(self, term: _Term) -> tuple[object, float] | None:
        """Return a key that is equal for terms differing by a number, and this number; None with too many factors."""
        number, scalars = term.number, Counter[Value]()
        vector = None if term.vector is None else self.product(term.vector, None)
        parts = [*(self.product(v, None) for v in term.scalars), *(() if vector is None else (vector,))]
        for part in parts:
            number *= part.number
            scalars.update(part.scalars)
            # Counting the factors of deep products costs time and rarely finds anything.
            if scalars.total() > _LARGEST:
                return None
        return (frozenset(scalars.items()), None if vector is None else vector.vector), number

    # -- putting together --------------------------------------------------------------------------------------------

    def collect(self, terms: Sequence[_Term]) -> tuple[list[_Term], bool]:
        """Return fewer terms with the same sum, and whether anything has changed."""
        found: dict[object, tuple[_Term, float, float]] = {}
        for k, term in enumerate(terms):
            key = self.key(term)
            name, number = (k, 1.0) if key is None else key
            # Terms with one key differ by their numbers only: these are added, and the first term scaled.
            first, own, total = found.get(name, (term, number, 0.0))
            found[name] = first, own, total + number
        # Terms that cancel to zero are left alone: 0 * x is not 0 for every x.
        changed = len(found) < len(terms) and all(total for _, _, total in found.values())
        if changed:
            terms = [replace(first, number=first.number * total / own) for first, own, total in found.values()]
        vectors = Counter(term.vector for term in terms if term.vector is not None)
        shared = [v for v, count in vectors.items() if count > 1]
        # Terms with one vector are scaled once, by the sum of their scalar factors.
        for vector in shared:
            own_terms = [replace(term, vector=None) for term in terms if term.vector is vector]
            others = [term for term in terms if term.vector is not vector]
            factor, number = self.factored(own_terms, scalar_of(vector.type))
            terms = [*others, _Term(number, factor, vector)]
        scalars_only = len(terms) > 1 and all(term.vector is None for term in terms)
        if scalars_only and (common := _common(terms)):
            factor, number = self.factored(terms, common[0].type)
            return [_Term(number, factor)], True
        return list(terms), changed or bool(shared)

    def factored(self, terms: Sequence[_Term], t: object) -> tuple[tuple[Value, ...], float]:
        """Return factors and a number whose product is the sum of terms of scalars."""
        assert isinstance(t, Scalar)
        common = _common(terms)
        # A number that all terms share is multiplied once, outside of the sum.
        number = abs(terms[0].number) if len({abs(term.number) for term in terms}) == 1 else 1.0
        rest = [_Term(term.number / number, _without(term.scalars, common)) for term in terms]
        return (self.total(rest, t), *common), number

    def total(self, terms: Sequence[_Term], t: object) -> Value:
        """Emit ops that sum terms of a type."""
        first = next((k for k, term in enumerate(terms) if term.number > 0), 0)
        # A positive term goes first, so that no negation is needed unless all are negative.
        ordered = [terms[first], *terms[:first], *terms[first + 1 :]]
        sign = 1.0 if ordered[0].number > 0 else -1.0
        total = self.made(ordered[0], sign, t)
        for term in ordered[1:]:
            positive = sign * term.number > 0
            value = self.made(term, sign if positive else -sign, t)
            total = self.emit("add" if positive else "sub", total, value)
        return total if sign > 0 else self.emit("neg", total)

    def made(self, term: _Term, sign: float, t: object) -> Value:
        """Emit ops that multiply a term, and a sign."""
        number = sign * term.number
        scalars = list(term.scalars)
        like = t if isinstance(t, Scalar) else t.dtype if isinstance(t, Vec) else None
        assert isinstance(like, Scalar)
        if number != 1.0 or (not scalars and term.vector is None):
            c = self.b.const(number, like)
            self.source[c], self.uses[c] = self.b.region.ops[-1], 1
            scalars.append(c)
        factor: Value | None = None
        for v in scalars:
            factor = v if factor is None else self.emit("mul", factor, v)
        if term.vector is None:
            assert factor is not None
            return factor
        return term.vector if factor is None else self.emit("scale", term.vector, factor)

    def emit(self, name: str, *operands: Value) -> Value:
        v = self.b.one(name, *operands)
        self.source[v], self.uses[v] = self.b.region.ops[-1], 1
        return v


def _common(terms: Iterable[_Term]) -> tuple[Value, ...]:
    """Return the scalars that all terms contain."""
    first, *others = terms
    left: list[Value] = []
    counts = [Counter(term.scalars) for term in others]
    for v in first.scalars:
        if all(count[v] > 0 for count in counts):
            left.append(v)
            for count in counts:
                count[v] -= 1
    return tuple(left)


def _without(scalars: Sequence[Value], common: Sequence[Value]) -> tuple[Value, ...]:
    gone, left = Counter(common), []
    for v in scalars:
        if gone[v]:
            gone[v] -= 1
        else:
            left.append(v)
    return tuple(left)
