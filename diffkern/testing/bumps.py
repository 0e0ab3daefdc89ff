"""The operation with a wrong derivative in reverse mode, found by moving every operand by itself.

The checked function, of the stage ``primal`` in float64, gets an array with an element for each use of a number by an
operation, and adds it there: the cotangent of the element is that of the use, and differences by the element are its
reference. The result is the last use of a number whose cotangent disagrees with differences. Later uses have the right
cotangents, so the operation there is the one with the wrong derivative. In loops the last trip is examined, or all
trips together if a use is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from diffkern.contracts.options import Variant
from diffkern.ir.builder import Builder
from diffkern.ir.clone import clone_function, substitute
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.trip_count import is_last_trip
from diffkern.ir.types import BOOL, FLOAT64, INT64, Array, Mat, Scalar, Type, Vec, scalar_of
from diffkern.ir.views import For, Ruled, is_branch, is_control
from diffkern.process.dataclass import dataclass
from diffkern.testing.adjoints import Engine, Vjp, agreement
from diffkern.testing.comparison import Tolerances
from diffkern.testing.differences import Differences
from diffkern.testing.instruments import as_coordinates, thread_index

__all__ = ["NumberUse", "WrongUse", "last_wrong"]

_THREADS: Final = 3
"""Threads whose uses are moved."""


@dataclass(frozen=True, slots=True)
class NumberUse:
    """A number that an operation uses; for a vector, one component."""

    op: Op
    operand: Value
    component: int


@dataclass(frozen=True, slots=True)
class WrongUse:
    """A use whose cotangent is wrong: the cotangent by reverse mode, and by differences."""

    use: NumberUse
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
        The callable that makes programs, and the variant.
    tol
        Tolerances; the seed of the projection and of the choice of threads.

    Raises
    ------
    AutodiffError
        If the function cannot be differentiated.
    """
    # The last trip alone first: there only one use of each operand is moved, so the last one in program order is the
    # culprit. Summed over all trips an earlier trip may be at fault, which still names the operation.
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
    # The bumps are inputs only; as an output their own cotangent would be added.
    weights = {k: w for k, w in vjp.weights(args, rng).items() if k != place}
    found = vjp.gradients(dims, args, weights)[place]
    differences = Differences(vjp.primal_program, dims, args, weights, tol.eps)
    threads = sorted(rng.permutation(count)[:_THREADS])
    # From the end: reverse mode is right up to the last wrong use, and everything before it inherits the error.
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
    """A function with an array of numbers that are added to the operands of operations.

    Attributes
    ----------
    fn
        The function; the array is its last parameter.
    uses
        The use to which each column of the array is added, in the order of the program.
    has_loops
        Whether a use is in a loop.
    """

    def __init__(self, fn: Function, last_trips: bool) -> None:
        self.uses: list[NumberUse] = []
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
                        # One set of bumps for all uses of the inputs: the rule's derivative is of the whole func, which
                        # uses them many times.
                        given[id(ruled)] = {v: self._with_bump(ruled, v, inside) for v in inputs}
                    _replace(op, given.get(id(ruled), {}))
                elif is_control(op):
                    self._nested(op, inside)
                else:
                    with self._b.at(op.loc):
                        op.operands = tuple(self._with_bump(op, v, inside) for v in op.operands)
                region.ops.append(op)

    def _nested(self, op: Op, inside: Value) -> None:
        if not is_branch(op):
            self.has_loops = True
        for sub in op.regions:
            begin = Region()
            # The flag is computed at the start of each trip, from the index of that trip.
            with self._b.into(begin):
                within = self._in_last_trip(For(op), inside) if op.name == "for" and self._last_trips else inside
            self._region(sub, within)
            sub.ops[:0] = begin.ops

    def _in_last_trip(self, loop: For, inside: Value) -> Value:
        return self._b.one("and", inside, is_last_trip(self._b, loop.index, loop.stop, loop.step))

    def _with_bump(self, op: Op, v: Value, inside: Value) -> Value:
        """Return a number with its bump in this use added; a value that is no number is returned unchanged."""
        if not _is_number(v.type):
            return v
        b = self._b
        bumps = []
        for k in range(1 if isinstance(v.type, Scalar) else v.type.size):  # type: ignore[union-attr]
            place = b.const(len(self.uses), INT64)
            bump = b.one("load", self._bumps, self._thread, place, wrap=(False, False))
            # Outside of the trip that is examined the bump is 0, and so is its cotangent.
            bumps.append(b.select(inside, bump, b.const(0.0, FLOAT64)))
            self.uses.append(NumberUse(op, v, k))
        return b.add(v, b.construct(v.type, bumps))


def _is_number(t: Type) -> bool:
    return isinstance(t, (Scalar, Vec, Mat)) and scalar_of(t) == FLOAT64


def _body(ruled: Op, ops: Sequence[Op]) -> Iterator[Op]:
    """Yield the ops by which a func with a rule computes its results and writes from its arguments, and
    the op itself.
    """
    view = Ruled(ruled)
    inputs, wanted = set(view.inputs), set(view.returned)
    yield ruled
    # Backwards from the results: every op that something wanted uses is wanted, up to the arguments.
    for op in reversed(ops[: ops.index(ruled)]):
        if inputs.isdisjoint(op.results) and (not wanted.isdisjoint(op.results) or _is_opaque(op)):
            yield op
            wanted.update(_used(op))


def _is_opaque(op: Op) -> bool:
    """Return whether no derivative passes through the op's writes."""
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
