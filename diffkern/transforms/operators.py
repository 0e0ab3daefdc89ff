"""The operators of arrays that have no built-in of their own, as functions of two elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["OPERATORS", "SIGNS"]


def equal(a: Any, b: Any) -> Any:
    return a == b


def not_equal(a: Any, b: Any) -> Any:
    return a != b


def less(a: Any, b: Any) -> Any:
    return a < b


def less_equal(a: Any, b: Any) -> Any:
    return a <= b


def greater(a: Any, b: Any) -> Any:
    return a > b


def greater_equal(a: Any, b: Any) -> Any:
    return a >= b


def bitwise_and(a: Any, b: Any) -> Any:
    return a & b


def bitwise_or(a: Any, b: Any) -> Any:
    return a | b


def bitwise_xor(a: Any, b: Any) -> Any:
    return a ^ b


def bitwise_invert(a: Any) -> Any:
    return ~a


def logical_not(a: Any) -> Any:
    return not a


OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    function.__name__: function
    for function in (
        equal, not_equal, less, less_equal, greater, greater_equal, bitwise_and, bitwise_or, bitwise_xor,
        bitwise_invert, logical_not,
    )
}  # fmt: skip
"""By the names that NumPy has for them."""

SIGNS: Final[Mapping[str, str]] = {
    "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "add": "+", "sub": "-", "mul": "*", "div": "/",
    "floordiv": "//", "mod": "%", "pow": "**",
}  # fmt: skip
"""The signs of operators in programs, for messages."""
