"""Which operation has a wrong derivative in reverse mode? Every operand moved by itself.

In: a function of the stage ``primal`` in float64. Out: the last use of a number whose cotangent disagrees with
differences. The function gets an array with an element for each use of a number by an operation, and adds it there:
the cotangent of the element is that of the use, and differences by the element are what it has to be. What is used
later has the right cotangents, so it is the operation there whose derivative is wrong. In loops the last trip is looked
at, or all trips together where a use is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from diffkern.ir.builder import Builder
from diffkern.ir.clone import clone_function, substitute
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.trip_count import is_last_trip
from diffkern.ir.types import BOOL, FLOAT64, INT64, Array, Mat, Scalar, Type, Vec, scalar_of
from diffkern.ir.views import For, Ruled
from diffkern.options import Variant
from diffkern.testing.adjoints import Engine, Vjp, agreement
from diffkern.testing.comparison import Tolerances
from diffkern.testing.differences import Differences
from diffkern.testing.instruments import as_coordinates, thread_index

__all__ = ["Use", "WrongUse", "last_wrong"]

_THREADS: Final = 3
"""Threads whose uses are moved."""


@dataclass(frozen=True, slots=True)
class Use:
    """A number that an operation uses; of a vector a component."""

    op: Op
    operand: Value
    component: int


@dataclass(frozen=True, slots=True)
class WrongUse:
    """A use whose cotangent is wrong: by reverse mode, and by differences."""

    use: Use
    thread: tuple[int, ...]
    analytic: float
    numeric: float


def last_wrong(
    fn: Function, dims: Sequence[int], point: Sequence[Any], engine: Engine, variant: Variant, tol: Tolerances
) -> WrongUse | None:
    """Return the last use in the order of the program whose cotangent is wrong.

    Parameters
    ----------
    fn
        The function; it is not changed.
    dims, point
        The launch's dimensions, and the arguments.
    engine, variant
        What makes programs, and which ones.
    tol
        Tolerances; the seed of the projection and of the choice of threads.

    Raises
    ------
    AutodiffError
        If the function cannot be differentiated.
    """
    for last_trips in (True, False):
        moved = _Moved(fn, last_trips)
        found = _last_wrong(moved, dims, point, engine, variant, tol)
        if found is not None or not moved.has_loops:
            return found
    return None


def _last_wrong(
    moved: _Moved, dims: Sequence[int], point: Sequence[Any], engine: Engine, variant: Variant, tol: Tolerances
) -> WrongUse | None:
    vjp = Vjp(moved.fn, engine, variant=variant)
    count, place = int(np.prod(dims)), len(point)
    args = vjp.arguments([*point, np.zeros((count, max(1, len(moved.uses))))])
    rng = np.random.default_rng(tol.seed)
    weights = {k: w for k, w in vjp.weights(args, rng).items() if k != place}
    found = vjp.gradients(dims, args, weights)[place]
    differences = Differences(vjp.primal_program, dims, args, weights, tol.eps)
    threads = sorted(rng.permutation(count)[:_THREADS])
    for k in range(len(moved.uses) - 1, -1, -1):
        for thread in threads:
            change = np.zeros(args[place].shape)
            change[thread, k] = 1.0
            analytic = float(found[thread, k])
            agrees = agreement(analytic, 0.0, tol)
            estimate = differences.along({place: change}, agrees=agrees)
            if not estimate.kink and not agrees(estimate):
                return WrongUse(moved.uses[k], as_coordinates(thread, dims), analytic, estimate.value)
    return None


class _Moved:
    """A function with an array of numbers that are added to what operations use.

    Attributes
    ----------
    fn
        The function; the array is its last parameter.
    uses
        What each column of the array is added to, in the order of the program.
    has_loops
        Whether a use stands in a loop.
    """

    def __init__(self, fn: Function, last_trips: bool) -> None:
        self.uses: list[Use] = []
        self.has_loops, self._last_trips = False, last_trips
        self._bumps = Value(Array(FLOAT64, 2, "A"), "moved")
        made, self._b = clone_function(fn), Builder()
        head = Region()
        with self._b.into(head):
            axes = max(fn.tid_arity, 1)
            self._thread = thread_index(self._b, axes)
            inside = self._b.const(True, BOOL)
        self._region(made.body, inside)
        made.body.ops[:0] = head.ops
        self.fn = replace(made, params=(*fn.params, self._bumps), tid_arity=axes)

    def _region(self, region: Region, inside: Value) -> None:
        ops, region.ops = region.ops, []
        rules = [op for op in reversed(ops) if op.name == "ruled"]  # what is before two belongs to the first
        group = {id(op): ruled for ruled in rules for op in _body(ruled, ops)}
        given: dict[int, dict[Value, Value]] = {}
        with self._b.into(region):
            for op in ops:
                ruled = group.get(id(op))
                if ruled is not None:  # the func with a rule is one operation
                    inputs = Ruled(ruled).inputs
                    if id(ruled) not in given and not set(inputs).isdisjoint(_used(op)):
                        given[id(ruled)] = {v: self._with_bump(ruled, v, inside) for v in inputs}
                    _replace(op, given.get(id(ruled), {}))
                elif op.name in ("if", "for", "while"):
                    self._nested(op, inside)
                else:
                    with self._b.at(op.loc):
                        op.operands = tuple(self._with_bump(op, v, inside) for v in op.operands)
                region.ops.append(op)

    def _nested(self, op: Op, inside: Value) -> None:
        if op.name != "if":
            self.has_loops = True
        for sub in op.regions:
            begin = Region()
            with self._b.into(begin):
                within = self._in_last_trip(For(op), inside) if op.name == "for" and self._last_trips else inside
            self._region(sub, within)
            sub.ops[:0] = begin.ops

    def _in_last_trip(self, loop: For, inside: Value) -> Value:
        return self._b.one("and", inside, is_last_trip(self._b, loop.index, loop.stop, loop.step))

    def _with_bump(self, op: Op, v: Value, inside: Value) -> Value:
        """A number with what is added to it in this use; anything else as it is."""
        if not _is_number(v.type):
            return v
        b = self._b
        bumps = []
        for k in range(1 if isinstance(v.type, Scalar) else v.type.size):  # type: ignore[union-attr]
            place = b.const(len(self.uses), INT64)
            bump = b.one("load", self._bumps, self._thread, place, wrap=(False, False))
            bumps.append(b.select(inside, bump, b.const(0.0, FLOAT64)))
            self.uses.append(Use(op, v, k))
        return b.add(v, b.construct(v.type, bumps))


def _is_number(t: Type) -> bool:
    return isinstance(t, (Scalar, Vec, Mat)) and scalar_of(t) == FLOAT64


def _body(ruled: Op, ops: Sequence[Op]) -> Iterator[Op]:
    """The ops that compute what a func with a rule returns and writes, from its arguments, and the op itself."""
    view = Ruled(ruled)
    inputs, wanted = set(view.inputs), set(view.returned)
    yield ruled
    for op in reversed(ops[: ops.index(ruled)]):
        if inputs.isdisjoint(op.results) and (not wanted.isdisjoint(op.results) or _is_opaque(op)):
            yield op
            wanted.update(_used(op))


def _is_opaque(op: Op) -> bool:
    """Whether no derivative passes through what an op writes."""
    return bool(op.attrs.get("opaque")) or any(_is_opaque(inner) for sub in op.regions for inner in sub.ops)


def _used(op: Op) -> Iterator[Value]:
    yield from op.operands
    for sub in op.regions:
        yield from sub.yields
        for inner in sub.ops:
            yield from _used(inner)


def _replace(op: Op, given: dict[Value, Value]) -> None:
    op.operands = tuple(given.get(v, v) for v in op.operands)
    for sub in op.regions:
        substitute(sub, given)
