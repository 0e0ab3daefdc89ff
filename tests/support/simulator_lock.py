"""One shared array per line of a kernel in numba's CUDA simulator, whichever threads come to the line at once.

The simulator looks up the array of a line and makes it where there is none, without a lock: two threads of a block that
come to the line at the same time have an array each, and the kernel computes something else. Importing this module
replaces the look-up; the process must have been started with ``NUMBA_ENABLE_CUDASIM=1``.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
from numba.core import types
from numba.cuda.simulator import kernelapi
from numba.np import numpy_support

__all__ = ["LockedShared"]


class LockedShared(kernelapi.FakeCUDAShared):  # type: ignore[misc]
    """Shared memory of a block whose arrays are made under a lock."""

    def __init__(self, dynshared_size: int) -> None:
        super().__init__(dynshared_size)
        self._making = threading.Lock()

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> np.ndarray[Any, Any]:
        """The array of the line that calls."""
        if alignment is not None or shape == 0:  # refused, or all of the memory: neither is looked up
            found: np.ndarray[Any, Any] = super().array(shape, dtype, alignment)
            return found
        caller = sys._getframe(1)
        place = caller.f_code.co_filename, caller.f_lineno
        with self._making:
            if place not in self._allocations:
                element = numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype
                self._allocations[place] = np.empty(shape, element)
            return self._allocations[place]


kernelapi.FakeCUDAShared = LockedShared
