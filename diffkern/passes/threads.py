"""When can two accesses of one buffer, made by two different threads of a launch, meet in one element?

The question behind plain accumulation in adjoints (no atomic needed) and behind the refusal of kernels in which a
thread reads what another one writes. Given two index tuples, :func:`relate` bounds the difference ``t - t'`` of the
thread indices under which they name the same element:

``Never()``         no pair of threads, not even a thread with itself;
``Distance(d)``     only if ``t - t'`` is ``d`` on the axes that ``d`` names, whatever it is on the others;
``Distance({})``    nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diffkern.ir.nodes import Op, Value
from diffkern.passes.affine import Affine, AffineForms


@dataclass(frozen=True, slots=True)
class Never:
    """The accesses never name the same element."""


@dataclass(frozen=True, slots=True)
class Distance:
    """Meeting threads differ by exactly this much on each named axis of the thread index."""

    axes: Mapping[int, int]

    def pins(self, arity: int) -> bool:
        """Whether all components of the thread index are determined."""
        return arity > 0 and all(axis in self.axes for axis in range(arity))

    def same_thread(self, arity: int) -> bool:
        """Whether only a thread and itself can meet."""
        return self.pins(arity) and all(self.axes[axis] == 0 for axis in range(arity))


Relation = Never | Distance


def access_index(op: Op) -> tuple[Value, ...]:
    """Index operands of a load, store, atomic or accumulate."""
    return op.operands[1:] if op.name == "load" else op.operands[1:-1]


def relate(forms: AffineForms, a: Op, b: Op) -> Relation:
    """Relation of two accesses (see the module's text); indices that may be negative and wrap tell nothing."""
    axes: dict[int, int] = {}
    wraps = zip(a.attrs["wrap"], b.attrs["wrap"], strict=True)
    for x, y, (wrap_x, wrap_y) in zip(access_index(a), access_index(b), wraps, strict=True):
        if wrap_x or wrap_y:
            continue
        solved = _solve(forms, forms.of(x), forms.of(y))
        if isinstance(solved, Never):
            return solved
        for axis, d in solved.axes.items():
            if axes.setdefault(axis, d) != d:
                return Never()
    return Distance(axes)


def _solve(forms: AffineForms, x: Affine, y: Affine) -> Relation:
    """Solve ``x(t) = y(t')`` on one axis of the array for ``t - t'``."""
    tid_x, rest_x = _split(forms, x)
    tid_y, rest_y = _split(forms, y)
    if rest_x is None or rest_y is None or rest_x != rest_y or tid_x != tid_y:
        return Distance({})
    if not tid_x:
        return Distance({}) if x.const == y.const else Never()
    if len(tid_x) > 1:
        return Distance({})
    ((axis, c),) = tid_x.items()
    d, remainder = divmod(y.const - x.const, c)
    return Never() if remainder else Distance({axis: d})


def _split(forms: AffineForms, form: Affine) -> tuple[dict[int, int], dict[object, int] | None]:
    """Thread-index coefficients and invariant terms; None for the latter if a term varies in another way."""
    tids: dict[int, int] = {}
    rest: dict[object, int] = {}
    for term, c in form.terms.items():
        if isinstance(term, tuple) and term[0] == "tid":
            tids[term[1]] = c
        elif forms.invariant(term):
            rest[term] = c
        else:
            return tids, None
    return tids, rest


def uniform(forms: AffineForms, index: Sequence[Value]) -> bool:
    """Whether an index tuple is the same for all threads of a launch."""
    return all(forms.invariant(v) for v in index)
