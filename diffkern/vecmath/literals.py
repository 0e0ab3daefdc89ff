"""LLVM vector constants as text, which llvmlite would assemble from one object for each lane.

Vectors of 32 lanes are most of the text of a kernel in lanes. Where all lanes hold the same value, the constant is
``splat (…)``, which is also faster to parse.
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
    """Return the vector with a scalar constant in every lane."""
    return Literal(ir.VectorType(value.type, lanes), f"splat ({value.type} {value.get_reference()})")


def numbers(t: Any, values: Sequence[int]) -> Literal:
    """Return the vector of some integers."""
    return Literal(ir.VectorType(t, len(values)), f"<{', '.join([f'{t} {v}' for v in values])}>")


def zero(t: Any) -> Literal:
    """Return the zero value of a type."""
    return Literal(t, "zeroinitializer")


def undefined(t: Any) -> Literal:
    """Return an undefined value of a type."""
    return Literal(t, "undef")
