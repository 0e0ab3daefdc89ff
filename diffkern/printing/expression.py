"""A printed expression: its text, and the facts needed to put it into a larger one or into a statement."""

from __future__ import annotations

import math

import numpy as np

from diffkern.ir.types import BOOL, FLOAT32, Scalar
from diffkern.process.dataclass import dataclass

ATOM = 20
"""The precedence of names, calls and subscripts."""

NOT = 3
COMPARED = 4
PRODUCT = 10
SIGNED = 11
_BINARY = {
    "<": COMPARED, "<=": COMPARED, ">": COMPARED, ">=": COMPARED, "==": COMPARED, "!=": COMPARED,
    "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": PRODUCT, "/": PRODUCT,
}  # fmt: skip
_UNARY = {"not ": NOT, "-": SIGNED, "~": SIGNED}


def sign_of(spelling: str) -> tuple[str, int]:
    """Return the operator in the Python form of an operation, or "" for a call, and its precedence."""
    if spelling.startswith("{0} "):
        sign = spelling.split()[1]
        return sign, _BINARY[sign]
    sign = spelling.partition("{")[0]
    return (sign, _UNARY[sign]) if sign in _UNARY else ("", ATOM)


@dataclass(frozen=True, slots=True)
class Expr:
    """A printed expression.

    Attributes
    ----------
    text, precedence
        Its text, and how tightly it binds.
    literal
        The type of a bare literal, None for anything else.
    reads
        The variables in it.
    update
        ``(left, sign, right)`` if it may be written as the augmented assignment ``left sign= right``.
    negated
        The expression it is the negative of, if it is one.
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
        """Return the statement that assigns the value to a variable."""
        if self.update is not None and self.update[0] == name:
            return f"{name} {self.update[1]}= {self.update[2]}"
        return f"{name} = {self.text}"


def literal(t: Scalar, value: float) -> Expr:
    """Return a bare literal; ``inf`` and ``nan`` are names of primitives."""
    if t == BOOL:
        return Expr(str(bool(value)), literal=t)
    if not t.is_float:
        text = str(int(value))
    elif not math.isfinite(value):
        text = ("-" if value < 0 else "") + ("nan" if math.isnan(value) else "inf")
    else:
        text = _float_text(t, float(value))
    return Expr(text, ATOM if text[0] != "-" else SIGNED, literal=t)


def _float_text(t: Scalar, value: float) -> str:
    """Return the shortest literal that gives the value after rounding to its type."""
    if t == FLOAT32:
        # A literal beyond float32 rounds to infinity there; its own digits are kept.
        with np.errstate(over="ignore"):
            rounded = np.float32(value)
        short = str(rounded) if np.isfinite(rounded) else repr(value)
        return short if np.float32(float(short)) == rounded else repr(float(rounded))
    return repr(value)
