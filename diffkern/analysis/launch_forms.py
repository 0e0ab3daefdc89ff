"""Integers of a kernel as linear forms whose coefficients a launch knows, and the comparisons that hold at an op.

:class:`LaunchForms` gives for an integer value a :class:`LinearForm`, in components of the thread index, variables of
loops, quotients and remainders and other values, with coefficients that are polynomials in extents of arrays and
integer arguments: in ``C[i * n + j]`` the coefficient of ``i`` is the argument ``n``, and ``(k // n) * n + k % n`` is
``k``. For an op, it gives the comparisons that hold in a thread that executes it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import field
from typing import TypeAlias

from diffkern.analysis.affine import AffineForms
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.memory import ARRAY_EXTENTS, THREAD_INDICES
from diffkern.ir.ops.scalar import AFFINE_PAIRS, CASTS, FLOORED, LITERALS, NEGATIVES
from diffkern.ir.types import Array, Kind, Scalar, is_exact_index
from diffkern.ir.views import For, If, is_branch, literal
from diffkern.process.dataclass import dataclass

__all__ = ["MINUS", "FormComparison", "Key", "LaunchForms", "LinearForm", "Polynomial"]

Key: TypeAlias = Hashable
Polynomial: TypeAlias = Mapping[tuple[tuple[int, int], ...], int]
"""By products of extents (parameter, axis) and arguments (parameter, -1) their coefficients; none is zero."""

_ORDERED = {"lt": ("less", 1), "le": ("less", 0), "gt": ("more", 1), "ge": ("more", 0)}
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "ne": "eq"}


def plus(a: Polynomial, b: Polynomial) -> Polynomial:
    """Return the sum of two polynomials."""
    out = dict(a)
    for product, c in b.items():
        out[product] = out.get(product, 0) + c
    return {product: c for product, c in out.items() if c}


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    """Return the product of two polynomials."""
    out: dict[tuple[tuple[int, int], ...], int] = {}
    for p, c in a.items():
        for q, d in b.items():
            product = tuple(sorted((*p, *q)))
            out[product] = out.get(product, 0) + c * d
    return {product: c for product, c in out.items() if c}


@dataclass(frozen=True, slots=True)
class LinearForm:
    """``const + sum(terms[k] * k)``; no coefficient is zero."""

    terms: Mapping[Key, Polynomial]
    const: Polynomial

    def __add__(self, other: LinearForm) -> LinearForm:
        terms = {k: plus(self.terms.get(k, {}), other.terms.get(k, {})) for k in {**self.terms, **other.terms}}
        return LinearForm({k: c for k, c in terms.items() if c}, plus(self.const, other.const))

    def scaled(self, factor: Polynomial) -> LinearForm:
        terms = {k: times(c, factor) for k, c in self.terms.items()}
        return LinearForm({k: c for k, c in terms.items() if c}, times(self.const, factor))

    @property
    def key(self) -> Key:
        """A hashable value that is equal for equal forms."""
        terms = frozenset((k, frozenset(c.items())) for k, c in self.terms.items())
        return terms, frozenset(self.const.items())


MINUS: Polynomial = {(): -1}


def number(n: int) -> LinearForm:
    """Return a constant form."""
    return LinearForm({}, {(): n} if n else {})


@dataclass(frozen=True, slots=True)
class FormComparison:
    """``less <= more``, or ``less == more``; ``divided``: ``more`` is the quotient times divisor plus remainder."""

    less: LinearForm
    more: LinearForm
    equal: bool = False
    divided: bool = False

    @property
    def keys(self) -> set[Key]:
        """The variables of both sides."""
        return {*self.less.terms, *self.more.terms}


@dataclass(slots=True)
class _Divided:
    """A form that was divided, with its quotient and remainder."""

    form: LinearForm
    divisor: Polynomial
    quotient: Key
    remainder: Key


@dataclass(slots=True)
class LaunchForms:
    """Forms of the values of one function, computed on demand."""

    fn: Function
    affine: AffineForms
    divided: dict[Key, _Divided] = field(default_factory=dict)
    place: dict[Op, tuple[tuple[Op, int], ...]] = field(default_factory=dict)
    _forms: dict[Value, LinearForm] = field(default_factory=dict)
    _params: dict[Value, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._params = {p: k for k, p in enumerate(self.fn.params)}
        self._visit(self.fn.body, ())

    def _visit(self, region: Region, around: tuple[tuple[Op, int], ...]) -> None:
        for op in region.ops:
            self.place[op] = around
            for k, sub in enumerate(op.regions):
                self._visit(sub, (*around, (op, k)))

    # -- forms -----------------------------------------------------------------------------------------------------

    def of(self, v: Value) -> LinearForm:
        """Return the form of an integer value; a value that is not linear is a term of its own."""
        known = self._forms.get(v)
        if known is None:
            known = self._forms[v] = self._compute(v)
        return known

    def _compute(self, v: Value) -> LinearForm:
        itself = LinearForm({v: {(): 1}}, {})
        op = self.affine.producer.get(v)
        if op is None:
            return self._given(v, itself)
        if op.name in LITERALS and isinstance(v.type, Scalar) and v.type.is_integer:
            return number(int(op.attrs["value"]))
        if op.name in THREAD_INDICES:
            return LinearForm({("tid", op.attrs["axis"]): {(): 1}}, {})
        if op.name in ARRAY_EXTENTS and op.operands[0] in self._params:
            return LinearForm({}, {((self._params[op.operands[0]], op.attrs["axis"]),): 1})
        # Integers that may wrap around do not obey linear arithmetic.
        if not all(is_exact_index(x.type) for x in (v, *op.operands)):
            return itself
        if op.name in CASTS:
            return self.of(op.operands[0]) if _bits(v) >= _bits(op.operands[0]) else itself
        if op.name in NEGATIVES:
            return self.of(op.operands[0]).scaled(MINUS)
        if op.name in AFFINE_PAIRS | FLOORED:
            return self._of_two(op.name, *map(self.of, op.operands)) or itself
        return itself

    def _given(self, v: Value, itself: LinearForm) -> LinearForm:
        """Return the form of a parameter or of a value that a loop carries."""
        if v in self._params:
            return LinearForm({}, {((self._params[v], -1),): 1}) if isinstance(v.type, Scalar) else itself
        loop = self.affine.loop_of.get(v)
        if loop is None or loop.name != "for" or v is not For(loop).index:
            return itself
        step = self.affine.constant(For(loop).step)
        if step is None or step in (0, 1, -1):
            # With other steps the variable is expressed by the number of the trip, which keeps its divisibility by the
            # step.
            return itself
        return self.of(For(loop).start) + LinearForm({("trip", v): {(): step}}, {})

    def _of_two(self, name: str, a: LinearForm, b: LinearForm) -> LinearForm | None:
        if name == "add":
            return self._whole(a + b)
        if name == "sub":
            return self._whole(a + b.scaled(MINUS))
        if name == "mul":
            if not b.terms:
                return a.scaled(b.const)
            return b.scaled(a.const) if not a.terms else None
        # A division by a value that the launch does not know is not linear; nor is one by a literal zero.
        if b.terms or not b.const:
            return None
        # Equal divisions share their quotient and remainder, so that both are recognised together.
        found = (a.key, frozenset(b.const.items()))
        quotient, remainder = ("quotient", found), ("remainder", found)
        if remainder not in self.divided:
            self.divided[quotient] = self.divided[remainder] = _Divided(a, b.const, quotient, remainder)
        return LinearForm({quotient if name == "floordiv" else remainder: {(): 1}}, {})

    def _whole(self, form: LinearForm) -> LinearForm:
        """Return a form in which quotient times divisor plus remainder is replaced by the divided form."""
        for key, c in form.terms.items():
            found = self.divided.get(key)
            if found is None or key != found.remainder:
                continue
            if form.terms.get(found.quotient) == times(c, found.divisor):
                left = {k: d for k, d in form.terms.items() if k not in (key, found.quotient)}
                return self._whole(LinearForm(left, form.const) + found.form.scaled(c))
        return form

    def is_bounded(self, key: Key) -> bool:
        """Return whether bounds of a variable are known."""
        found = self.divided.get(key)
        if found is not None and key == found.quotient:
            return all(map(self.is_bounded, found.form.terms))
        return next(iter(self.of_key(key)), None) is not None or (isinstance(key, tuple) and key[0] == "tid")

    def is_uniform(self, key: Key) -> bool:
        """Return whether a variable is the same for all threads of a launch."""
        found = self.divided.get(key)
        if found is not None:
            return all(map(self.is_uniform, found.form.terms))
        return isinstance(key, Value) and self.affine.invariant(key)

    # -- comparisons -------------------------------------------------------------------------------------------------

    def of_key(self, key: Key) -> Iterator[FormComparison]:
        """Iterate over the comparisons that hold of a variable wherever it has a value."""
        one = LinearForm({key: {(): 1}}, {})
        found = self.divided.get(key)
        if found is not None:
            if key == found.remainder:
                yield FormComparison(number(0), one)
                # remainder < divisor holds in Python's sense for a positive divisor; the launch checks the sign.
                yield FormComparison(one + number(1), LinearForm({}, found.divisor))
            parts = LinearForm({found.quotient: found.divisor, found.remainder: {(): 1}}, {})
            yield FormComparison(found.form, parts, equal=True, divided=True)
            return
        v = key[1] if isinstance(key, tuple) and key[0] == "trip" else key
        if not isinstance(v, Value) or (loop := self.affine.loop_of.get(v)) is None or loop.name != "for":
            return
        if v is For(loop).index:
            yield from self._of_index(For(loop), key, one)

    def _of_index(self, loop: For, key: Key, one: LinearForm) -> Iterator[FormComparison]:
        step = self.affine.constant(loop.step)
        if not step:
            return
        start, stop, index = self.of(loop.start), self.of(loop.stop), self.of(loop.index)
        if key is not loop.index:
            yield FormComparison(number(0), one)
        elif step > 0:
            yield FormComparison(start, one)
        else:
            yield FormComparison(one, start)
        if step > 0:
            yield FormComparison(index + number(1), stop)
        else:
            yield FormComparison(stop + number(1), index)

    def under(self, op: Op) -> Iterator[FormComparison]:
        """Iterate over the comparisons that the branches around an op imply for a thread that executes it."""
        for around, k in self.place[op]:
            if is_branch(around):
                yield from self._holds(If(around).condition, k == 0)

    def _holds(self, condition: Value, is_true: bool) -> Iterator[FormComparison]:
        """Iterate over the comparisons that follow from a condition that is true, or false."""
        for part, holds in self.conjuncts(condition, is_true):
            op = self.affine.producer.get(part)
            if op is not None and is_branch(op):
                yield from self._chosen(If(op), part, holds)
            elif (compared := self.comparison(part, holds)) is not None:
                yield compared

    def conjuncts(self, condition: Value, is_true: bool) -> Iterator[tuple[Value, bool]]:
        """Iterate over conditions, and whether each holds, that together are a condition that is true, or false."""
        op = self.affine.producer.get(condition)
        if op is not None and op.name == "not":
            yield from self.conjuncts(op.operands[0], not is_true)
        elif op is not None and op.name == ("and" if is_true else "or"):
            for v in op.operands:
                yield from self.conjuncts(v, is_true)
        else:
            yield condition, is_true

    def comparison(self, condition: Value, is_true: bool) -> FormComparison | None:
        """Return the comparison of integers that a condition is if it is true, or false; None if it is none."""
        op = self.affine.producer.get(condition)
        if op is None or not all(isinstance(v.type, Scalar) and v.type.kind is Kind.INT for v in op.operands):
            return None
        name = op.name if is_true else _NEGATED.get(op.name, "")
        return _compared(name, *map(self.of, op.operands)) if name == "eq" or name in _ORDERED else None

    def _chosen(self, choice: If, condition: Value, is_true: bool) -> Iterator[FormComparison]:
        """Iterate over what follows from the result of an ``if`` that only one of its branches can yield."""
        for result, then, orelse in choice.choices:
            if result is condition:
                for taken, other, k in ((then, orelse, True), (orelse, then, False)):
                    number = literal(self.affine.producer.get(other))
                    # One branch yields the literal opposite of what holds, so the other branch was taken.
                    if number is not None and bool(number) is not is_true:
                        yield from self._holds(choice.condition, k)
                        yield from self._holds(taken, is_true)


def _compared(name: str, a: LinearForm, b: LinearForm) -> FormComparison:
    if name == "eq":
        return FormComparison(a, b, equal=True)
    side, strict = _ORDERED[name]
    less, more = (a, b) if side == "less" else (b, a)
    return FormComparison(less + number(strict), more)


def _bits(v: Value) -> int:
    assert not isinstance(v.type, Array)
    return v.type.bits if isinstance(v.type, Scalar) else 0
