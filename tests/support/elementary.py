"""Elementary functions as kernels compute them, in lanes or one by one, for measurements of their error."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

import diffkern as dk

__all__ = ["launched"]

Array = npt.NDArray[Any]


@functools.cache
def _kernel(name: str, count: int, lanes: bool) -> Any:
    function = getattr(dk, name)

    def of_one(x, out):
        i = dk.tid()
        out[i] = function(x[i])

    def of_two(x, y, out):
        i = dk.tid()
        out[i] = function(x[i], y[i])

    return dk.kernel(of_one if count == 1 else of_two, lanes=lanes)


def launched(name: str, *args: Array, lanes: bool) -> Array:
    """Return what a kernel computes that applies a built-in function to arrays."""
    out = dk.array(np.zeros_like(args[0]))
    _kernel(name, len(args), lanes)[out.size](*map(dk.array, args), out)
    found: Array = out.numpy()
    return found
