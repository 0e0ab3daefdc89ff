"""Functions of literals: the result is a literal again, computed in double precision.

The name of a built-in and literals give a literal, or None for a function that has no row here.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Term
from diffkern.ir.ops.table import all_ops
from diffkern.lang.intrinsics import INTRINSICS

__all__ = ["fold"]


_OF_ANY_NUMBER: Final = frozenset({"sign", "step", "nonzero"})
"""Functions whose result has the type of the argument."""


def fold(cx: Context, name: str, terms: Sequence[Term], node: ast.AST) -> Const | None:
    """Return a function of literals as a literal."""
    numbers = [t.value for t in terms if isinstance(t, Const) and not isinstance(t.value, bool)]
    if len(numbers) != len(terms):
        return None
    try:
        row = all_ops().get(name)
        if name == "frac" or (row is not None and row.built_in is not None and row.built_in.of_floats):
            return Const(INTRINSICS[name](*map(float, numbers)))
        if name in _OF_ANY_NUMBER:
            return Const(type(numbers[0])(INTRINSICS[name](*numbers)))
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        remedy = "write numbers for which it has a value"
        cx.type_error(node, f"{name}({', '.join(map(str, numbers))}): {error}", remedy)
    return None
