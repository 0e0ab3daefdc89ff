"""The text of an array in an interactive session: its values, shape, type and device.

Of a large array only the values at the ends of each axis are read, so that only these are copied from a GPU.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.ir.structs import Stored, Struct, holds_arrays
from diffkern.ir.types import BFLOAT16, scalar_of
from diffkern.lang.dtypes import bfloat16_values
from diffkern.runtime.arrays.complexes import shown
from diffkern.runtime.memory.device import CPU
from diffkern.runtime.memory.state import can_look
from diffkern.runtime.memory.stream import drain

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array

__all__ = ["to_repr", "values_of"]


def values_of(data: np.ndarray[Any, Any], element: Stored) -> np.ndarray[Any, Any]:
    """Return elements as a person reads them: complex numbers, and bfloat16 as floats."""
    if not isinstance(element, Struct) and scalar_of(element) == BFLOAT16:
        return bfloat16_values(data)
    return shown(data, element)


def to_repr(a: array) -> str:
    """Return the text of an array with its values, or without them where they cannot be read."""
    summary = a._summary()
    if not _has_values(a):
        return summary
    options = np.get_printoptions()
    ends: int = options["edgeitems"]
    is_long = a._data.size > options["threshold"]
    data = _ends(a, ends) if is_long else a._elements()
    text = np.array2string(
        values_of(data, a._element),
        separator=", ",
        prefix="array(",
        threshold=0 if is_long else data.size,
        edgeitems=ends,
    )
    facts = [summary.removeprefix("array(").removesuffix(")")]
    if a.device is not CPU:
        facts.append(f"device={a.device.alias}")
    if a.requires_grad:
        facts.append("requires_grad=True")
    rest = ", ".join(facts)
    last = text.rpartition("\n")[2]
    fits = "\n" not in text and len(f"array({last}, {rest})") <= options["linewidth"]
    return f"array({text}, {rest})" if fits else f"array({text},\n      {rest})"


def _has_values(a: array) -> bool:
    """Return whether values can be read: they are not addresses, and no work on the GPU is being captured."""
    if isinstance(a._element, Struct) and holds_arrays(a._element):
        return False
    # While a capture or a recorder that only records is active, the work that fills the array has not run.
    return can_look(a.device)


def _ends(a: array, ends: int) -> np.ndarray[Any, Any]:
    """Return the first and last elements along each axis, and one in between along each axis that NumPy shortens."""
    drain()
    data = a._data
    # NumPy prints "..." only for an axis longer than twice `ends`: one extra element makes it believe so.
    chosen = [[*range(ends), 0, *range(n - ends, n)] if n > 2 * ends else list(range(n)) for n in a.shape]
    inner = data.shape[a.ndim :]
    if a._memory.is_host:
        return data[np.ix_(*chosen, *map(range, inner))]
    # Single elements are copied: together they would be a strided part, from its first byte to its last.
    found = np.empty((*map(len, chosen), *inner), data.dtype)
    for at, where in zip(np.ndindex(*map(len, chosen)), itertools.product(*chosen), strict=True):
        found[at] = a._memory.contents(data[(*where, ...)])
    return found
