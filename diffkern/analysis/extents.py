"""Facts that hold in every launch: accesses that no condition guards, and updates that all threads make.

They can be checked against the dimensions and shapes of a launch before it runs.

``accesses`` an access whose index is an affine form of the thread index, made by every thread of any launch. Along each
             axis the least and the greatest index are attained in corners of the launch, so a launch is wrong if one of
             them lies outside the array, and never otherwise refused. An index whose integers wrap around is kept as
             the steps that compute it.
``alone``    a plain store to an element that is the same for all threads, of a value computed from that very element:
             with more than one thread the result depends on their order.

An access under a condition, in a ``while`` or behind an early ``return`` is none of these; in a ``for`` it is if the
bounds are literals and shapes, and it counts if these make at least one trip.
"""

from __future__ import annotations

from collections.abc import Iterator

from diffkern.analysis.affine import Affine, AffineForms
from diffkern.contracts import manifest
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ARRAY_EXTENTS, ELEMENT_LOADS, ELEMENT_STORES, PRIMAL_ELEMENTS, THREAD_INDICES
from diffkern.ir.ops.scalar import CASTS, LITERALS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Array, Scalar, is_exact_index, is_shared, scalar_of
from diffkern.ir.views import Access, For
from diffkern.process.dataclass import dataclass

__all__ = ["certain_extents", "update_by_all"]


@dataclass(frozen=True, slots=True)
class _CountedLoop:
    """A ``for`` that counts by one from ``lo`` to before ``hi``, both affine in shapes."""

    lo: Affine
    hi: Affine


def certain_extents(fn: Function) -> tuple[manifest.AxisAccess, ...]:
    """Return the accesses that every thread makes, one entry per axis of an array and form of the index."""
    forms = AffineForms(fn)
    position = {p: k for k, p in enumerate(fn.params)}
    found: dict[manifest.AxisAccess, None] = {}
    for op, loops in _executed(forms, fn.body, {}):
        if op.name not in PRIMAL_ELEMENTS or Access(op).array not in position:
            continue
        # A loop whose trips depend on shapes may make none; then the access does not happen and must not be checked.
        trips = tuple(_linear(loop.hi - loop.lo, position) for loop in loops.values() if not _trips(loop))
        for axis, (v, wrap) in enumerate(zip(Access(op).index, Access(op).wrap, strict=True)):
            if axis >= _ndim(Access(op).array):
                continue
            bounds = _bounds(forms.of(v), loops)
            steps: tuple[manifest.IndexStep, ...] = ()
            if bounds is None:
                # No affine form, as an integer may wrap around: keep the computation itself for the launch to evaluate.
                steps = tuple(_steps(forms, v, position, exact=True) or ())
                bounds = ((), Affine({}, 0), Affine({}, 0)) if steps else None
            if bounds is None:
                continue
            tids, low, high = bounds[0], _linear(bounds[1], position), _linear(bounds[2], position)
            array = position[Access(op).array]
            # A launch can evaluate the check only if it has all these arrays with the expected number of axes.
            shapes = {array, *(t[0] for form in (low, high, *trips) for t in form.terms)}
            shapes |= {step.a for step in steps if step.op == "shape"}
            ranks = tuple((k, _ndim(fn.params[k])) for k in sorted(shapes))
            found[manifest.AxisAccess(array, axis, wrap, tids, low, high, trips, ranks, steps)] = None
    return tuple(found)


def _steps(forms: AffineForms, v: Value, position: dict[Value, int], *, exact: bool) -> list[manifest.IndexStep] | None:
    """Return the steps that compute an integer from literals, the thread index and extents; None if it uses more.

    ``exact``: if this is part of an index computation, in which some types do not wrap.
    """
    op, t = forms.producer.get(v), v.type
    if op is None or not isinstance(t, Scalar) or not t.is_integer:
        return None
    if op.name in LITERALS:
        return [manifest.IndexStep("const", int(op.attrs["value"]))]
    if op.name in THREAD_INDICES:
        return [manifest.IndexStep("tid", op.attrs["axis"])]
    if op.name in ARRAY_EXTENTS:
        known = op.operands[0] in position
        return [manifest.IndexStep("shape", position[op.operands[0]], op.attrs["axis"])] if known else None
    if not (lookup(op.name).affine or op.name in CASTS):
        # Any other op (a load, a division) may depend on more than the launch knows.
        return None
    keeps = exact and all(is_exact_index(x.type) for x in (v, *op.operands))
    if op.name in CASTS:
        keeps = keeps and t.bits >= scalar_of(op.operands[0].type).bits
    operands = [_steps(forms, x, position, exact=keeps) for x in op.operands]
    out: list[manifest.IndexStep] = []
    for steps in operands:
        if steps is None:
            return None
        out += steps
    if op.name not in CASTS:
        out.append(manifest.IndexStep(op.name))
    # An operation whose type wraps is followed by an explicit wrap, so that the host's big integers do the same.
    return out if keeps else [*out, manifest.IndexStep("wrap", type=t.name)]


def _ndim(p: Value) -> int:
    """Return the axes of an array; those of arrays in its elements are not counted."""
    assert isinstance(p.type, Array)
    return p.type.outer or p.type.ndim


def update_by_all(fn: Function) -> Op | None:
    """Return the first store by which all threads change one element they have read; None if there is none."""
    forms = AffineForms(fn)
    for op in walk(fn.body):
        if op.attrs.get("alone"):
            return op
    for op, loops in _executed(forms, fn.body, {}):
        if op.name not in ELEMENT_STORES or is_shared(Access(op).array.type):
            continue
        if all(_trips(loop) for loop in loops.values()):
            same = all(_same_for_all(forms, v, loops) for v in Access(op).index)
            if same and _reads_element(forms, op):
                return op
    return None


def _executed(
    forms: AffineForms, region: Region, loops: dict[Value, _CountedLoop]
) -> Iterator[tuple[Op, dict[Value, _CountedLoop]]]:
    """Iterate over the ops that all threads execute, each with the loops around it by their variables."""
    for op in region.ops:
        yield op, loops
        loop = _counted(forms, op) if op.name == "for" else None
        if loop is not None:
            # Only ops inside of certain loops are visited: branches and whiles are left out, and with them all they
            # contain.
            yield from _executed(forms, For(op).body, {**loops, For(op).index: loop})


def _counted(forms: AffineForms, op: Op) -> _CountedLoop | None:
    lo, hi, step = map(forms.of, For(op).bounds)
    if not (step.is_constant and step.const == 1):
        return None
    if not all(isinstance(t, tuple) and t[0] == "shape" for t in (*lo.terms, *hi.terms)):
        return None
    trips = hi - lo
    return None if trips.is_constant and trips.const < 1 else _CountedLoop(lo, hi)


def _trips(loop: _CountedLoop) -> bool:
    return (loop.hi - loop.lo).is_constant


def _bounds(
    form: Affine, loops: dict[Value, _CountedLoop]
) -> tuple[tuple[tuple[int, int], ...], Affine, Affine] | None:
    """Return a decomposed index: coefficients of the thread index, and the least and greatest value of the rest."""
    tids: list[tuple[int, int]] = []
    low = high = Affine({}, form.const)
    for term, c in form.terms.items():
        if isinstance(term, tuple) and term[0] == "tid":
            tids.append((term[1], c))
        elif isinstance(term, tuple) and term[0] == "shape" and isinstance(term[1], Value):
            low, high = low + Affine({term: c}, 0), high + Affine({term: c}, 0)
        elif isinstance(term, Value) and term in loops:
            first, last = loops[term].lo, loops[term].hi - Affine({}, 1)
            # A negative coefficient takes its least value at the loop's last variable.
            low += (first if c > 0 else last).scaled(c)
            high += (last if c > 0 else first).scaled(c)
        else:
            return None
    return tuple(tids), low, high


def _linear(form: Affine, position: dict[Value, int]) -> manifest.Linear:
    terms = ((position[t[1]], t[2], c) for t, c in form.terms.items() if isinstance(t, tuple))
    return manifest.Linear(form.const, tuple(terms))


def _same_for_all(forms: AffineForms, v: Value, loops: dict[Value, _CountedLoop]) -> bool:
    return all(t in loops or forms.invariant(t) for t in forms.of(v).terms)


def _reads_element(forms: AffineForms, store: Op) -> bool:
    """Return whether the stored value is computed from the element's old value."""

    def place(access: Op) -> list[Affine]:
        return [forms.of(v) for v in Access(access).index]

    seen: set[Value] = set()
    left = [Access(store).value]
    while left:
        v = left.pop()
        op = forms.producer.get(v)
        if op is None or v in seen:
            continue
        seen.add(v)
        if op.name in ELEMENT_LOADS and Access(op).array is Access(store).array and place(op) == place(store):
            return True
        if not op.regions:
            left += op.operands
    return False
