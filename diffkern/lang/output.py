"""Built-ins that print, on the host."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np

__all__ = ["expect_eq", "expect_near", "expect_neq", "printf"]

_LENGTH = re.compile(r"(%[-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|j|z|t|L)(?=[diuoxXeEfFgGc])")


def printf(text: str, *values: Any) -> None:
    """Print a text with values in its fields, as C's ``printf`` does."""
    # Python's formats know no C length modifiers such as `%lld`: they are removed, since Python's integers have no
    # width.
    sys.stdout.write(_LENGTH.sub(r"\1", text) % values)


def expect_eq(a: Any, b: Any) -> None:
    """Print both where they are not equal."""
    if not np.array_equal(a, b):
        print(f"expect_eq failed: {a} is not {b}")


def expect_neq(a: Any, b: Any) -> None:
    """Print both where they are equal."""
    if np.array_equal(a, b):
        print(f"expect_neq failed: {a} is {b}")


def expect_near(a: Any, b: Any, tolerance: float = 1e-6) -> None:
    """Print both where they are further apart than the tolerance."""
    if not np.allclose(a, b, rtol=0.0, atol=tolerance):
        print(f"expect_near failed: {a} is not near {b}")
