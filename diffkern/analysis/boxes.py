"""Bounds on the elements of an array that a launch touches, from its dimensions and integer arguments.

:func:`boxes_of` gives for each array of a function a :class:`~diffkern.contracts.manifest.Box` per access whose index
along an axis is a linear form in bounded integers of a thread. A box tells a launch that it touches certain rows of the
array instead of all of it: for ``x[n + 1, i] = f(x[n, i])`` with an argument ``n``, that it reads row n and writes the
next one. Conditions are ignored, so fewer elements may be touched, never others. An array has no boxes if all elements
may be touched anyway, or if it is used by anything but an access of an element.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from diffkern.analysis.affine import AffineForms, enclosing_loops
from diffkern.analysis.launch_forms import MINUS, Key, LaunchForms, LinearForm, Polynomial, number
from diffkern.contracts import manifest
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ACCUMULATES, ARRAY_EXTENTS, ATOMICS, LOADS, WRITES
from diffkern.ir.ops.scalar import CASTS, FLOORED
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Array, Kind, Scalar
from diffkern.ir.views import Access, For
from diffkern.process.dataclass import dataclass

__all__ = ["Boxes", "boxes_of"]

_READS = LOADS | ATOMICS | ACCUMULATES
_MOST = 16
"""Accesses of one array beyond which it has no boxes."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """The boxes of the parameters of a function, by position; a parameter without boxes may be touched anywhere.

    ``stores``: the most elements of a parameter that a thread writes, if it does not write in a loop.
    """

    read: Mapping[int, tuple[manifest.Box, ...]]
    written: Mapping[int, tuple[manifest.Box, ...]]
    stores: Mapping[int, int]


def boxes_of(fn: Function, of: Mapping[int, int] | None = None) -> Boxes:
    """Return the boxes of a function's arrays.

    Parameters
    ----------
    fn : Function
        The function.
    of : mapping of int to int, optional
        Maps parameters to others of the same shape that accompany them and have their extents.
    """
    # Cooperating threads reach elements by more than their index, so boxes of single accesses would prove nothing.
    if {"block", "tile"} & {lookup(op.name).family for op in walk(fn.body)}:
        return Boxes({}, {}, {})
    accesses = _plain_accesses(fn)
    finder = _BoxFinder(fn, of or {})
    read = {k: finder.boxes([op for op in ops if op.name in _READS]) for k, ops in accesses.items()}
    written = {k: finder.boxes([op for op in ops if op.name in WRITES]) for k, ops in accesses.items()}
    stores = {k: [op for op in ops if op.name in WRITES] for k, ops in accesses.items()}
    counts = {k: len(ops) for k, ops in stores.items() if ops and not any(finder.loops[op] for op in ops)}
    return Boxes(_known(read), _known(written), counts)


def _known(found: Mapping[int, tuple[manifest.Box, ...] | None]) -> dict[int, tuple[manifest.Box, ...]]:
    return {k: boxes for k, boxes in found.items() if boxes is not None}


def _plain_accesses(fn: Function) -> dict[int, list[Op]]:
    """Return the accesses of each array that is used only by accesses of single elements."""
    position = {p: k for k, p in enumerate(fn.params) if isinstance(p.type, Array) and not p.type.outer}
    found: dict[int, list[Op]] = {k: [] for k in position.values()}
    for op in walk(fn.body):
        for v in (v for sub in op.regions for v in sub.yields):
            found.pop(position.get(v, -1), None)  # it goes by another name
        is_access = op.name in _READS | WRITES and "along" not in op.attrs
        for place, v in enumerate(op.operands):
            k = position.get(v)
            if k is None or op.name in ARRAY_EXTENTS:
                continue
            if is_access and place == 0:
                if k in found:
                    found[k].append(op)
            else:
                found.pop(k, None)
    return found


@dataclass(slots=True)
class _BoxFinder:
    """Computes the boxes of one function."""

    fn: Function
    of: Mapping[int, int]
    forms: LaunchForms = field(init=False)
    loops: Mapping[Op, tuple[Op, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.forms = LaunchForms(self.fn, AffineForms(self.fn))
        self.loops = enclosing_loops(self.fn)

    def boxes(self, ops: Collection[Op]) -> tuple[manifest.Box, ...] | None:
        """Return the boxes of some accesses; None if there are too many, or if they exclude nothing."""
        if not ops or len(ops) > _MOST:
            return None
        found = {_Box(self, op).made(): None for op in ops}
        return tuple(found) if any(map(_tells, found)) else None


def _tells(box: manifest.Box) -> bool:
    """Return whether a box may leave out elements that differ from launch to launch, or whole rows."""
    known = [form for form in box.index if form is not None]
    if any(axis < 0 for form in known for place in _places(form, box) for axis in [place[1]]):
        return True
    # With a constant form along one axis of several, whole rows are excluded.
    return len(box.index) > 1 and any(not form.terms for form in known)


def _places(form: manifest.IntegerForm, box: manifest.Box) -> set[tuple[int, int]]:
    """Return the extents and arguments that a form depends on."""
    sums = [form.const, *(c for _, c in form.terms)]
    found = {place for p in sums for one in p for place in one.of}
    for k, _ in form.terms:
        span = box.spans[k]
        found |= {place for one in span.divisor for place in one.of}
        for inner in (span.low, span.high):
            found |= set() if inner is None else _places(inner, box)
    return found


class _Box:
    """Computes the box of one access."""

    def __init__(self, finder: _BoxFinder, op: Op) -> None:
        self.op, self.forms, self.of = op, finder.forms, finder.of
        self.numbers: dict[Key, int] = {}
        self.spans: list[manifest.IntegerRange] = []

    def made(self) -> manifest.Box:
        access = Access(self.op)
        index = tuple(self.form(self.forms.of(v)) for v in access.index)
        # Whether the narrow intermediate results wrap around is checked by the launch, which knows the numbers.
        exact = [self.form(self.forms.of(v)) for at in access.index for v in self.widened(at)]
        known = tuple(dict.fromkeys(form for form in exact if form is not None))
        if None in exact:
            index = (None,) * len(index)
        return manifest.Box(index, access.wrap, tuple(self.spans), known)

    def form(self, linear: LinearForm) -> manifest.IntegerForm | None:
        """Return a form with the numbers of its integers; None where one of them has no bounds."""
        terms = []
        for key, c in linear.terms.items():
            k = self.number(key)
            if k is None:
                return None
            terms.append((k, self.known(c)))
        return manifest.IntegerForm(self.known(linear.const), tuple(terms))

    def known(self, p: Polynomial) -> tuple[manifest.Monomial, ...]:
        return tuple(
            manifest.Monomial(c, tuple((self.of.get(k, k), axis) for k, axis in product)) for product, c in p.items()
        )

    def number(self, key: Key) -> int | None:
        """Return the number of an integer, behind those that its bounds depend on; None where it has none."""
        if key not in self.numbers:
            span = self.span(key)
            if span is None:
                return None
            # The bounds are numbered first, as making the span may add further spans: it may only refer to earlier
            # ones.
            self.numbers[key] = len(self.spans)
            self.spans.append(span)
        return self.numbers[key]

    def span(self, key: Key) -> manifest.IntegerRange | None:
        divided = self.forms.divided.get(key)
        if divided is not None:
            form = self.form(divided.form)
            if form is None:
                return None
            kind = key[0] if isinstance(key, tuple) else None
            divisor = self.known(divided.divisor)
            return manifest.IntegerRange("quotient" if kind == "quotient" else "remainder", high=form, divisor=divisor)
        if isinstance(key, tuple) and key[0] == "tid":
            return manifest.IntegerRange("thread", key[1])
        v = key[1] if isinstance(key, tuple) and key[0] == "trip" else key
        loop = self.forms.affine.loop_of.get(v) if isinstance(v, Value) else None
        if loop is None or loop.name != "for" or v is not For(loop).index:
            return None
        return self.of_loop(For(loop), is_trip=v is not key)

    def of_loop(self, loop: For, *, is_trip: bool) -> manifest.IntegerRange | None:
        """Return the span of the variable of a loop, or of the number of a trip."""
        step = self.forms.affine.constant(loop.step)
        if not step:
            return None
        start, stop = self.forms.of(loop.start), self.forms.of(loop.stop)
        # The stop itself is excluded, whichever direction the loop counts in.
        last = stop + number(-1 if step > 0 else 1)
        if is_trip:
            low, high = number(0), last + start.scaled(MINUS) if step > 0 else start + last.scaled(MINUS)
        else:
            low, high = (start, last) if step > 0 else (last, start)
        bounds = self.form(low), self.form(high)
        if None in bounds:
            return None
        by = abs(step) if is_trip else 1
        return manifest.IntegerRange("loop", low=bounds[0], high=bounds[1], divisor=(manifest.Monomial(by),))

    def widened(self, v: Value) -> list[Value]:
        """Return the integers in an index that are cast to a wider type: forms do not show if they wrapped around."""
        producer = self.forms.affine.producer
        left, seen, found = [v], {v}, []
        while left:
            op = producer.get(left.pop())
            if op is None or not (lookup(op.name).affine or op.name in CASTS | FLOORED):
                continue
            made = producer.get(op.operands[0])
            if op.name in CASTS and made is not None and lookup(made.name).affine and _is_integer(op.operands[0]):
                found.append(op.operands[0])
            fresh = [operand for operand in op.operands if operand not in seen]
            seen.update(fresh)
            left += fresh
        return found


def _is_integer(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.kind is Kind.INT
