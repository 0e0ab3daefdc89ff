"""Integers given by users: extents, dimensions, positions.

They become Python integers. NumPy's are taken as well, and one-dimensional arrays of them where several are expected;
truth values and floating-point numbers are not, even if they have an integral value.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

__all__ = ["several", "whole_number"]


def whole_number(value: Any) -> int | None:
    """Return a Python or NumPy integer as a Python integer; None for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, (bool, np.bool_)):
        return None
    shape = getattr(value, "shape", ())
    if isinstance(shape, tuple) and shape != (1,) * len(shape):  # an array of several numbers
        return None
    try:
        return operator.index(value)
    except TypeError as error:
        trace = error.__traceback__
        if trace is not None and trace.tb_next is not None:  # it is an integer, whose own method failed
            raise
        return None


def several(value: Any) -> Any:
    """Return a sequence of numbers as a tuple; anything else unchanged."""
    if type(value) is int:
        return value
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return tuple(value.tolist())
    return tuple(value) if isinstance(value, (tuple, list)) else value
