"""The signature of a derivative rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Value


@dataclass(frozen=True, slots=True)
class RuleArguments:
    """The arguments of a rule.

    Attributes
    ----------
    op
        The primal op, for its attributes.
    x
        The operand values, as recomputed in the adjoint.
    r
        The result's value.
    ct
        The result's cotangent.
    want
        For each operand whether a cotangent is needed.
    finite
        Whether the derivative is known to be finite for all inputs.
    steep
        Whether the cotangent may be infinite although the result is not: a partial derivative that is exactly zero then
        makes the contribution zero.
    again
        Whether the derivative is differentiated itself.
    norm
        For a square root, whether it is that of a sum of squares, whose derivative at 0 is 0.
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
