"""Literals of LLVM vectors as text, which llvmlite would put together from one object for each lane.

In: what the lanes hold. Out: a constant. Vectors of 32 lanes are most of the text of a kernel in lanes: where all lanes
hold the same it is ``splat (…)``, which is also quicker to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

__all__ = ["Literal", "numbers", "splat", "undefined", "zero"]


class Literal(ir.Constant):  # type: ignore[misc]
    """A constant of a type whose text is known."""

    def __init__(self, t: Any, text: str) -> None:
        self.type, self.constant, self.text = t, (), text  # llvmlite looks at what a shuffle's literal holds

    def _get_reference(self) -> str:
        return self.text


def splat(value: Any, lanes: int) -> Literal:
    """The vector with a scalar constant in every lane."""
    return Literal(ir.VectorType(value.type, lanes), f"splat ({value.type} {value.get_reference()})")


def numbers(t: Any, values: Sequence[int]) -> Literal:
    """The vector of some integers."""
    return Literal(ir.VectorType(t, len(values)), f"<{', '.join([f'{t} {v}' for v in values])}>")


def zero(t: Any) -> Literal:
    """The zeros of a type."""
    return Literal(t, "zeroinitializer")


def undefined(t: Any) -> Literal:
    """A value of a type that is nothing in particular."""
    return Literal(t, "undef")
