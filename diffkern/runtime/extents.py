"""Integers that are given from outside: extents, dimensions, positions.

In: what the user passes. Out: Python's integers. NumPy's are taken as well, and one-dimensional arrays of them where
several may stand; truth values and floating-point numbers are not, whatever they are worth.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

__all__ = ["several", "whole_number"]


def whole_number(value: Any) -> int | None:
    """Return an integer of Python's or NumPy's as Python's; None for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError as error:
        trace = error.__traceback__
        if trace is not None and trace.tb_next is not None:  # it is an integer, whose own method failed
            raise
        return None


def several(value: Any) -> Any:
    """Return what stands for several numbers as a tuple; anything else as it is."""
    if type(value) is int:
        return value
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return tuple(value.tolist())
    return tuple(value) if isinstance(value, (tuple, list)) else value
