"""The differences between ``for`` and ``while`` that the reverse sweep has to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Value
from diffkern.ir.trip_count import PYTHON, count_trips, counter_type, index_of_trip, trip_count
from diffkern.ir.types import INT32, Scalar
from diffkern.ir.views import For, While

__all__ = ["LoopShape", "for_shape", "while_shape"]


@dataclass(slots=True)
class LoopShape:
    """The type of the trip counter of a loop, its carried values, and the binding of the body's parameters."""

    counter: Scalar
    init: Sequence[Value]
    params: Sequence[Value]
    bind: Callable[[Value, Sequence[Value]], Sequence[Value]]
    trips: Callable[[], Value]


def for_shape(b: Builder, op: Op, env: Mapping[Value, Value], constants: Mapping[Value, Any]) -> LoopShape:
    """Return the shape of a ``for``; ``constants`` are the numbers among the primal's values."""
    loop = For(op)
    start, stop, step = (env[v] for v in loop.bounds)
    literal = constants.get(loop.step)
    known = int(literal) if literal is not None else None
    from_zero = constants.get(loop.start) == 0

    def bind(it: Value, state: Sequence[Value]) -> list[Value]:
        value = index_of_trip(b, it, start, step, known, from_zero=from_zero)
        value.name = value.name or loop.index.name
        return [value, *state]

    assert isinstance(start.type, Scalar)
    counter = counter_type(start.type)
    first, end = (constants.get(v) for v in (loop.start, loop.stop))
    all_known = first is not None and end is not None and known is not None
    # The 32-bit counter of trips would overflow; literal bounds show it at compile time.
    if counter == INT32 and all_known and trip_count(PYTHON, first, end, known, known) >= 1 << 31:
        raise AutodiffError(
            "the adjoint of a loop over 32 bits makes fewer than 2**31 trips", loc=op.loc,
            remedy="let the bounds of the range be of 64 bits, as in dk.int64(n)",
        )  # fmt: skip
    return LoopShape(counter, loop.init, loop.carried, bind, lambda: count_trips(b, (start, stop, step), known))


def while_shape(op: Op, env: Mapping[Value, Value], counter: Value) -> LoopShape:
    """Return the shape of a ``while`` whose trips were counted in ``env[counter]``."""
    loop = While(op)
    return LoopShape(INT32, loop.init, loop.carried, lambda it, state: list(state), lambda: env[counter])
