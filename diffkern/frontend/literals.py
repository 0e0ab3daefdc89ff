"""Functions of literals: what they give is a literal again, computed in double precision.

In: the name of a built-in and literals. Out: a literal, or None for a function that has no row here.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from diffkern.frontend.context import Context
from diffkern.frontend.terms import Const, Term
from diffkern.ops.table import all_ops

__all__ = ["INTEGER_ROUNDING", "fold"]


_OF_ANY_NUMBER: Final[Mapping[str, Callable[[Any], Any]]] = {
    "sign": lambda x: type(x)(-1 if x < 0 else 1),
    "step": lambda x: type(x)(1 if x < 0 else 0),
    "nonzero": lambda x: type(x)(x != 0),
}
"""Functions whose result has the type of the argument."""

INTEGER_ROUNDING: Final[Mapping[str, Callable[[float], int]]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "rint": round,
}


def fold(cx: Context, name: str, terms: Sequence[Term], node: ast.AST) -> Const | None:
    """A function of literals as a literal."""
    numbers = [t.value for t in terms if isinstance(t, Const) and not isinstance(t.value, bool)]
    if len(numbers) != len(terms):
        return None
    try:
        built_in = all_ops()[name].built_in if name in all_ops() else None
        if built_in is not None and built_in.of_floats and built_in.host is not None:
            return Const(built_in.host(*map(float, numbers)))
        if name == "frac":
            return Const(numbers[0] - float(np.trunc(numbers[0])))
        if name in _OF_ANY_NUMBER:
            return Const(_OF_ANY_NUMBER[name](*numbers))
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        cx.type_error(node, f"{name}({', '.join(map(str, numbers))}): {error}")
    return None
