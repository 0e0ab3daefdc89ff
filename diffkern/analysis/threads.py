"""A test whether two accesses of one buffer, made by two different threads of a launch, can race in one element.

This decides about plain accumulation in adjoints (no atomic needed) and about refusing kernels in which a thread reads
elements that another one writes. Given two index tuples, :func:`relate` bounds the difference ``t - t'`` of the thread
indices under which they name the same element:

``Never()`` no pair of threads, not even a thread with itself; ``Distance(d)`` only if ``t - t'`` lies in the interval
that ``d`` gives for an axis, whatever it is on others; ``Distance({})`` nothing is known.

Loop variables with constant bounds count with their range: ``x[8 * i + k]`` with ``k in range(8)`` is one thread's own,
and ``x[i + k]`` with ``k in range(-9, 10)`` is shared with at most eighteen neighbours on each side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from diffkern.analysis.affine import Affine, AffineForms, tid_term
from diffkern.analysis.tile_access import shadow
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ELEMENT_STORES
from diffkern.ir.views import Access, For
from diffkern.process.dataclass import dataclass

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Never:
    """The accesses never name the same element."""


@dataclass(frozen=True, slots=True)
class Distance:
    """Bounds of the difference of two threads that access one element, on each named axis of the thread index."""

    axes: Mapping[int, Interval]

    def pins(self, arity: int) -> bool:
        """Return whether the difference is bounded on all axes of the thread index."""
        return arity > 0 and all(axis in self.axes for axis in range(arity))

    def same_thread(self, arity: int) -> bool:
        """Return whether only a thread and itself access one element."""
        return self.pins(arity) and all(self.axes[axis] == (0, 0) for axis in range(arity))


Relation = Never | Distance


def relate(forms: AffineForms, a: Op, b: Op) -> Relation:
    """Return the relation of two accesses (see the module); indices that may be negative and wrap are ignored."""
    one, other = Access(a), Access(b)
    known_signs = [not (p or q) for p, q in zip(one.wrap, other.wrap, strict=True)]
    pairs = [pair for pair, known in zip(zip(one.index, other.index, strict=True), known_signs, strict=True) if known]
    if any(_differ(forms.of(x), forms.of(y)) for x, y in pairs):
        return Never()
    axes: dict[int, Interval] = {}
    for x, y in pairs:
        solved = _solve(forms, x, y)
        if isinstance(solved, Never):
            return solved
        # The same element means equality on every axis of the array, so intervals are intersected.
        for axis, (low, high) in solved.axes.items():
            known = axes.get(axis, (low, high))
            axes[axis] = (max(low, known[0]), min(high, known[1]))
            if axes[axis][0] > axes[axis][1]:
                return Never()
    return Distance(axes)


def _differ(x: Affine, y: Affine) -> bool:
    """Return whether two indices are different constants."""
    return x.const != y.const and x.is_constant and y.is_constant


def _solve(forms: AffineForms, x: Value, y: Value) -> Relation:
    """Solve ``x(t) = y(t')`` on one axis of the array for ``t - t'``."""
    row = _row(forms, forms.of(x))
    if row is not None and row == _row(forms, forms.of(y)):
        return Distance({row[0]: (0, 0)})
    a, b = forms.parts(x), forms.parts(y)
    # Only if the parts that are neither thread index nor bounded are the same do they cancel in the difference.
    if a is None or b is None or a.invariant != b.invariant or a.tids != b.tids:
        return Distance({})
    low, high = b.low - a.high, b.high - a.low  # the range of coefficient * (t - t')
    # Both indices are uniform ranges; they meet for any pair of threads, or for none.
    if not a.tids:
        return Distance({}) if low <= 0 <= high else Never()
    # Two thread axes in one index of an array determine a combination of the differences, but neither alone.
    if len(a.tids) > 1:
        return Distance({})
    ((axis, c),) = a.tids.items()
    if c < 0:
        low, high, c = -high, -low, -c
    # Integer solutions only: the lower end is rounded up, the upper one down.
    first, last = -(-low // c), high // c
    return Never() if first > last else Distance({axis: (first, last)})


def _row(forms: AffineForms, form: Affine) -> tuple[int, Affine] | None:
    """Return the axis and ``n`` of an index ``t * n + j`` with thread index ``t``, ``0 <= j < n``: a row per thread."""
    # The width n may be known to the launch alone, so this is no affine form; it is matched by its shape.
    if form.const or len(form.terms) != 2:
        return None
    variable = next((t for t in form.terms if isinstance(t, Value) and t in forms.loop_of), None)
    product = next((t for t in form.terms if isinstance(t, Value) and t in forms.producer), None)
    if variable is None or product is None or dict(form.terms) != {variable: 1, product: 1}:
        return None
    loop, op = forms.loop_of[variable], forms.producer[product]
    if op.name != "mul" or loop.name != "for" or variable is not For(loop).index:
        return None
    lo, hi, step = map(forms.of, For(loop).bounds)
    if not (lo.is_constant and lo.const >= 0 and step.is_constant and step.const > 0):
        return None
    for a, b in (op.operands, op.operands[::-1]):
        index, width = forms.of(a), forms.of(b)
        axis = next((t[1] for t in index.terms if isinstance(t, tuple) and t[0] == "tid"), None)
        if axis is not None and index == Affine({tid_term(axis): 1}, 0) and width == hi:
            return (axis, width) if all(forms.invariant(t) for t in width.terms) else None
    return None


def uniform(forms: AffineForms, index: Sequence[Value]) -> bool:
    """Return whether an index tuple is the same for all threads of a launch."""
    return all(forms.invariant(v) for v in index)


# -- one storing thread per element ------------------------------------------------------------------------------------
# Arrays with at most one storing thread per element, whatever the arguments.
#
# The proof takes all plain stores to a parameter together; it holds for launches with no more axes than the kernel
# asks for.


def one_writer_each(fn: Function) -> frozenset[Value]:
    """Return the parameters whose plain stores are one-to-one in the thread index."""
    fn = shadow(fn).fn
    forms = AffineForms(fn)
    stores: dict[Value, list[Op]] = {}
    for op in walk(fn.body):
        if op.name in ELEMENT_STORES:
            stores.setdefault(Access(op).array, []).append(op)
    return frozenset(array for array, ops in stores.items() if _one_writer(forms, ops, fn.tid_arity))


def _one_writer(forms: AffineForms, stores: list[Op], arity: int) -> bool:
    relations = (relate(forms, a, b) for k, a in enumerate(stores) for b in stores[k:])
    return all(isinstance(r, Never) or r.same_thread(arity) for r in relations)
