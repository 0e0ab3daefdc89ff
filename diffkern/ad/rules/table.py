"""The shape of a derivative rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Value


@dataclass(frozen=True, slots=True)
class RuleArguments:
    """What a rule may use.

    Attributes
    ----------
    op
        The primal op, for its attributes.
    x
        Operand values, as the adjoint knows them.
    r
        The result's value.
    ct
        The result's cotangent.
    want
        Which operands need a cotangent.
    finite
        Whether the derivative is known to be finite for all inputs.
    steep
        Whether the cotangent may be infinite although the result is not: a partial derivative that is exactly zero then
        makes the contribution zero.
    again
        Whether the derivative is differentiated itself.
    norm
        Of a square root, whether it is that of a sum of squares, whose derivative at 0 is 0.
    """

    op: Op
    x: Sequence[Value]
    r: Value
    ct: Value
    want: Sequence[bool]
    finite: bool
    steep: bool = False
    again: bool = False
    norm: bool = False


Rule = Callable[[Builder, RuleArguments], Sequence[Value | None]]
