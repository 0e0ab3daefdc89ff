"""The primitives of generated CUDA source in numba's CUDA simulator: pure Python, on NumPy's scalars.

In: nothing. Out: :func:`primitives`, by name.
"""

from __future__ import annotations

import operator
import threading
from typing import Any

import numpy as np

from diffkern.forks import free_in_child
from diffkern.ops.table import lookup
from diffkern.printing import prims
from diffkern.targets.cuda.device_portable import LIBDEVICE, PORTABLE, SATURATED, carries

__all__ = ["primitives"]


def primitives() -> dict[str, Any]:
    """Return the primitives by name."""
    names: dict[str, Any] = {n: getattr(prims, n) for n in (*PORTABLE, "abs", "sign", "irange")}
    names.update({name: lookup(name).twin for name in LIBDEVICE})
    for name, to in SATURATED.items():
        names[name] = lambda x, to=to: prims.cast(x, to)
    names["from_bfloat16"] = lambda bits: (np.asarray(bits, np.uint32) << np.uint32(16)).view(np.float32)[()]
    names["to_bfloat16"] = _to_bfloat16
    names["exchange"] = _exchange
    # As a kernel has its index. Compiled kernels have an unsigned one, which NumPy would not take below 0 in a sum.
    names["index"] = np.int32
    names["at"] = lambda place: place
    names.update(carries(np.int32, operator.floordiv))
    return names


_EXCHANGING = free_in_child(threading.Lock())


def _exchange(array: Any, index: Any, value: Any) -> Any:
    """Replace an element at once; the simulator's threads are threads of Python."""
    with _EXCHANGING:
        old = array[index]
        array[index] = value
    return old


def _to_bfloat16(value: Any) -> Any:
    """The bits of a float32 rounded to the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    if np.isnan(value):
        return np.uint16((bits >> np.uint32(16)) | np.uint32(0x40))
    return np.uint16((bits + ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)) >> np.uint32(16))
