"""Primitives of generated CUDA source that are the same Python in numba's simulator and in compiled kernels.

In: nothing. Out: functions that numba-cuda compiles and Python runs, and the names of those that are neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from diffkern.ops.table import all_ops
from diffkern.printing import prims

__all__ = ["LIBDEVICE", "PORTABLE", "SATURATED", "carries"]

_INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)

SATURATED: dict[str, Any] = {f"saturated_{t.__name__}": t for t in _INTEGERS}
"""Casts to integers."""

LIBDEVICE: dict[str, str] = {
    name: row.library.libdevice for name, row in all_ops().items() if row.library is not None and row.library.libdevice
}
"""The functions of libdevice that operations are."""


def _hypot(x: Any, y: Any) -> Any:
    return math.sqrt(x * x + y * y)


def _isnan(x: Any) -> Any:
    return x != x


def _isinf(x: Any) -> Any:
    return x == math.inf or x == -math.inf


def _isfinite(x: Any) -> Any:
    return x - x == 0


def _floordiv(a: Any, b: Any) -> Any:
    return a // b if b != 0 else a * 0


def _mod(a: Any, b: Any) -> Any:
    return a % b if b != 0 else a * 0


PORTABLE: dict[str, Callable[..., Any]] = {
    "select": prims.select,
    "hypot": _hypot,
    "min": prims.min,
    "max": prims.max,
    "isnan": _isnan,
    "isinf": _isinf,
    "isfinite": _isfinite,
    "floordiv": _floordiv,
    "mod": _mod,
    "next_checkpoint": prims.schedule,
}
"""By name."""


def carries(index: Any, quotient: Any) -> dict[str, Callable[..., Any]]:
    """Return the functions that make the index of a thread: what the last component has too much is carried left.

    Parameters
    ----------
    index
        The type of a component.
    quotient
        The division of two components.
    """

    def carry_2(dim: Any, i: Any, j: Any) -> Any:
        j = index(j)
        more = quotient(j, index(dim[1]))
        return index(i + more), index(j - more * dim[1])

    def carry_3(dim: Any, i: Any, j: Any, k: Any) -> Any:
        k = index(k)
        more = quotient(k, index(dim[2]))
        k = index(k - more * dim[2])
        j = index(j + more)
        more = quotient(j, index(dim[1]))
        return index(i + more), index(j - more * dim[1]), k

    def carry_4(dim: Any, i: Any, j: Any, k: Any, m: Any) -> Any:
        m = index(m)
        more = quotient(m, index(dim[3]))
        m = index(m - more * dim[3])
        k = index(k + more)
        more = quotient(k, index(dim[2]))
        k = index(k - more * dim[2])
        j = index(j + more)
        more = quotient(j, index(dim[1]))
        return index(i + more), index(j - more * dim[1]), k, m

    return {"carry_2": carry_2, "carry_3": carry_3, "carry_4": carry_4}
