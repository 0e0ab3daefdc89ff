"""The part of Warp's compiled library that published programs call: array sums over memory named by its address.

Addresses and strides are turned into arrays over that memory, and the sum is one of :mod:`diffkern.utils`, so it is
recorded on tapes and captured like any other.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

import diffkern.warp as wp
from diffkern.lang.dtypes import float32, float64
from diffkern.lang.intrinsics import lowering_key
from diffkern.runtime.arrays.array import array
from diffkern.runtime.memory.allocations import tracker
from diffkern.types import vector
from diffkern.utils import array_inner, array_sum

__all__ = ["Core"]

_SUM: Final = re.compile("wp_array_(inner|sum)_(float|double)_host")
_BUILT_IN: Final = "wp_builtin_"
_OF_PYTHON: Final[Mapping[type, Any]] = {float: np.float32, int: np.int32, bool: np.bool_}
_SCALARS: Final = {"float": float32, "double": float64}


class Core:
    """Stands for Warp's compiled library."""

    # As after Warp's start.
    _error_output = 1

    def wp_alloc_tracker_is_enabled(self) -> int:
        """Return whether new arrays are noted."""
        return int(tracker.is_on)

    def wp_alloc_tracker_enable(self, enable: int) -> None:
        """Let new arrays be noted, or no longer."""
        tracker.is_on = bool(enable)

    def wp_alloc_tracker_reset(self) -> None:
        """Forget what was noted."""
        tracker.clear()

    def wp_alloc_tracker_get_live_count(self) -> int:
        """Return how many of the noted arrays are there."""
        return tracker.live

    def wp_alloc_tracker_get_current_bytes(self) -> int:
        """Return their bytes."""
        return tracker.now

    def wp_alloc_tracker_get_peak_bytes(self) -> int:
        """Return the most bytes that there have been at a time."""
        return tracker.peak

    def wp_alloc_tracker_get_total_alloc_count(self) -> int:
        """Return how many arrays were noted."""
        return tracker.count

    def wp_alloc_tracker_get_total_alloc_bytes(self) -> int:
        """Return the bytes of all of them."""
        return tracker.nbytes

    def wp_is_mathdx_enabled(self) -> int:
        """Return 0: the library was built without libmathdx."""
        return 0

    def wp_is_error_output_enabled(self) -> int:
        """Return what was set last; errors are exceptions, whatever it is."""
        return self._error_output

    def wp_set_error_output_enabled(self, enable: int) -> None:
        """Keep whether errors are to be printed."""
        self._error_output = int(enable)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith(_BUILT_IN):
            return _built_in(name)
        found = _SUM.fullmatch(name)
        if found is None:
            raise AttributeError(
                f"{name} is a function of Warp's compiled library, which is not part of diffkern; "
                "call the function of the public module"
            )
        scalar = _SCALARS[found[2]]
        return _inner(scalar) if found[1] == "inner" else _sum(scalar)


def _built_in(name: str) -> Callable[..., None]:
    """A built-in function of values of the host, which writes its result where its last argument says."""
    words = name.removeprefix(_BUILT_IN).split("_")
    # The exported names end with the types of the arguments: the longest prefix that names a built-in is meant.
    known = ("_".join(words[:n]) for n in range(len(words), 0, -1))
    function = next((getattr(wp, key) for key in known if lowering_key(getattr(wp, key, None)) is not None), None)
    if function is None:
        raise AttributeError(f"there is no built-in function whose name begins {name}")

    def call(*given: Any) -> None:
        # The C signature returns by a pointer, the last argument.
        *values, target = given
        result = function(*values)
        # Python's numbers have 32 bits in Warp.
        plain = np.asarray(result, _OF_PYTHON.get(type(result)))
        ctypes.memmove(target, plain.ctypes.data, plain.nbytes)

    return call


def _over(scalar: Any, address: int, count: int, stride: int, length: int) -> array:
    """The elements at an address, of so many components each."""
    # The memory belongs to the caller, which keeps it alive during the call.
    element = scalar if length == 1 else vector(length, scalar)
    made: array = array(ptr=address, dtype=element, shape=(count,), strides=(stride,))
    return made


def _result(scalar: Any, address: int, length: int) -> array:
    return _over(scalar, address, 1, length * scalar.numpy.itemsize, length)


def _inner(scalar: Any) -> Callable[..., None]:
    def inner(a: int, b: int, out: int, count: int, stride_a: int, stride_b: int, length: int) -> None:
        x, y = (_over(scalar, at, count, stride, length) for at, stride in ((a, stride_a), (b, stride_b)))
        array_inner(x, y, _result(scalar, out, 1))

    return inner


def _sum(scalar: Any) -> Callable[..., None]:
    def total(a: int, out: int, count: int, stride: int, length: int) -> None:
        array_sum(_over(scalar, a, count, stride, length), _result(scalar, out, length))

    return total
