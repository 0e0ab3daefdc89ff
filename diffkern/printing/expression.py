"""One spelled expression: its text, and what must be known to put it into a larger one or into a statement."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from diffkern.ir.types import BOOL, FLOAT32, Scalar

ATOM = 20
"""How tightly names, calls and subscripts bind."""

PRECEDENCE = {
    "add": 9, "sub": 9, "mul": 10, "div": 10, "scale": 10, "unscale": 10, "neg": 11, "invert": 11, "not": 3,
    "and": 7, "or": 5, "xor": 6, "shl": 8, "shr": 8, "lt": 4, "le": 4, "gt": 4, "ge": 4, "eq": 4, "ne": 4,
}  # fmt: skip
AUGMENTED = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
KEEPS_OPERAND = frozenset({"select", "min", "max"})
"""Operations that give back one of their operands: a bare literal would stay a bare Python number."""


@dataclass(frozen=True, slots=True)
class Expr:
    """A spelled expression.

    Attributes
    ----------
    text, precedence
        How it reads, and how tightly it binds.
    literal
        The type of a bare literal, None for anything else.
    reads
        The variables in it.
    update
        ``(left, sign, right)`` where it may be written as the augmented assignment ``left sign= right``.
    negated
        What it is the negative of, if it is one.
    bare
        The same without the cast that makes an integer wrap around, for operands of sums and products, which wrap
        around afterwards, and for indices, which do not.
    parts
        The components of a composite that is written out.
    """

    text: str
    precedence: int = ATOM
    literal: Scalar | None = None
    reads: frozenset[str] = frozenset()
    update: tuple[str, str, str] | None = None
    negated: str | None = None
    bare: Expr | None = None
    parts: tuple[str, ...] = ()

    def within(self, precedence: int) -> str:
        return self.text if self.precedence >= precedence else f"({self.text})"

    def assigned_to(self, name: str) -> str:
        """The statement that gives the value to a variable."""
        if self.update is not None and self.update[0] == name:
            return f"{name} {self.update[1]}= {self.update[2]}"
        return f"{name} = {self.text}"


def literal(t: Scalar, value: float) -> Expr:
    """A bare literal; ``inf`` and ``nan`` are names of primitives."""
    if t == BOOL:
        return Expr(str(bool(value)), literal=t)
    if not t.is_float:
        text = str(int(value))
    elif not math.isfinite(value):
        text = ("-" if value < 0 else "") + ("nan" if math.isnan(value) else "inf")
    else:
        text = _float_text(t, float(value))
    return Expr(text, ATOM if text[0] != "-" else PRECEDENCE["neg"], literal=t)


def _float_text(t: Scalar, value: float) -> str:
    """The shortest literal that gives the value after rounding to its type."""
    if t == FLOAT32:
        with np.errstate(over="ignore"):
            rounded = np.float32(value)
        short = str(rounded) if np.isfinite(rounded) else repr(value)
        return short if np.float32(float(short)) == rounded else repr(float(rounded))
    return repr(value)
