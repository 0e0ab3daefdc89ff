"""What distinguishes ``for`` from ``while`` for the reverse sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diffkern.ad.loops import trip_count
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import INT32, Kind, Scalar
from diffkern.ir.views import For, While

__all__ = ["LoopShape", "for_shape", "while_shape"]


@dataclass(slots=True)
class LoopShape:
    """How iterations are counted and how the body's parameters are bound."""

    counter: Scalar
    init: Sequence[Value]
    params: Sequence[Value]
    bind: Callable[[Value, Sequence[Value]], Sequence[Value]]
    trips: Callable[[], Value]


def for_shape(b: Builder, op: Op, env: Mapping[Value, Value], constants: Mapping[Value, Any]) -> LoopShape:
    """Return the shape of a ``for``; ``constants`` are the numbers among the primal's values."""
    loop = For(op)
    lo, hi, step = (env[v] for v in loop.bounds)
    constant_step = constants.get(loop.step)

    def index(it: Value) -> Value:
        offset = it if constant_step == 1 else b.mul(it, step)
        return offset if constants.get(loop.start) == 0 else b.add(lo, offset)

    def bind(it: Value, state: Sequence[Value]) -> list[Value]:
        value = index(it)
        value.name = value.name or loop.index.name
        return [value, *state]

    def trips() -> Value:
        return trip_count(b, op, lo, hi, step, constant_step if isinstance(constant_step, int) else None)

    counter = lo.type
    assert isinstance(counter, Scalar)
    if counter.kind is not Kind.INT:
        raise AutodiffError(
            "the adjoint of a loop over unsigned integers is not available", loc=op.loc,
            remedy="use int() bounds in range()",
        )  # fmt: skip
    return LoopShape(counter, loop.init, loop.carried, bind, trips)


def while_shape(op: Op, env: Mapping[Value, Value], counter: Value) -> LoopShape:
    """Return the shape of a ``while`` whose trips were counted in ``env[counter]``."""
    loop = While(op)
    return LoopShape(INT32, loop.init, loop.carried, lambda it, state: list(state), lambda: env[counter])
