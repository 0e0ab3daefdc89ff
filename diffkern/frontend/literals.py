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

__all__ = ["INTEGER_ROUNDING", "fold"]


def _half_away(x: float) -> float:
    whole = float(np.trunc(x))
    return whole + math.copysign(1.0, x) if abs(x - whole) >= 0.5 else whole


_FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = {
    **{
        name: getattr(math, name)
        for name in (
            "sqrt", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
            "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "atan2", "hypot", "copysign",
        )
    },
    "rsqrt": lambda x: 1.0 / math.sqrt(x),
    "cbrt": lambda x: float(np.cbrt(x)),
    "exp2": lambda x: 2.0**x,
    "frac": lambda x: x - float(np.trunc(x)),
    "floor": lambda x: float(np.floor(x)),
    "ceil": lambda x: float(np.ceil(x)),
    "trunc": lambda x: float(np.trunc(x)),
    "rint": lambda x: float(np.rint(x)),
    "round": _half_away,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
}  # fmt: skip
"""Functions of floats."""

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
        if name in _FUNCTIONS:
            return Const(_FUNCTIONS[name](*map(float, numbers)))
        if name in _OF_ANY_NUMBER:
            return Const(_OF_ANY_NUMBER[name](*numbers))
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        cx.type_error(node, f"{name}({', '.join(map(str, numbers))}): {error}")
    return None
