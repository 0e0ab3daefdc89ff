"""``wp.types``: types that have no name of their own, and the tables of those that have one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from diffkern.ir.types import scalar_of
from diffkern.lang.dtypes import SCALARS, DType, resolve_dtype
from diffkern.types import matrix, quaternion, transformation, vector
from diffkern.warp.kinds import (
    is_array,
    is_composite,
    is_float,
    is_int,
    is_matrix,
    is_quaternion,
    is_scalar,
    is_struct,
    is_tile,
    is_transformation,
    is_value,
    is_vector,
    type_is_array,
    type_is_composite,
    type_is_float,
    type_is_int,
    type_is_matrix,
    type_is_quaternion,
    type_is_scalar,
    type_is_struct,
    type_is_tile,
    type_is_transformation,
    type_is_value,
    type_is_vector,
    type_repr,
    type_size,
    types_equal,
)  # fmt: skip

__all__ = [
    "float_types", "handle", "int_types", "is_array", "is_composite", "is_float", "is_int", "is_matrix",
    "is_quaternion", "is_scalar", "is_struct", "is_tile", "is_transformation", "is_value", "is_vector", "matrix",
    "np_dtype_to_warp_type", "quaternion", "scalar_types", "transformation", "type_ctype", "type_is_array",
    "type_is_composite", "type_is_float", "type_is_int", "type_is_matrix", "type_is_quaternion", "type_is_scalar",
    "type_is_struct", "type_is_tile", "type_is_transformation", "type_is_value", "type_is_vector", "type_repr",
    "type_size", "type_size_in_bytes", "types_equal", "vector",
]  # fmt: skip

handle: Final = SCALARS["uint64"]
"""The type of what names an object of Warp's libraries."""

int_types: Final = tuple(t for t in SCALARS.values() if t.ir.is_integer)
"""The integer types, by width."""

float_types: Final = tuple(t for t in SCALARS.values() if t.ir.is_float)
"""The types of floats."""

scalar_types: Final = int_types + float_types
"""The types of numbers."""


def _of_numpy() -> dict[Any, DType]:
    table: dict[Any, DType] = {}
    for t in (*scalar_types, SCALARS["bool"]):
        if t.name != "bfloat16":
            table[t.numpy] = table[t.numpy.type] = t
    return table


np_dtype_to_warp_type: Final[dict[Any, DType]] = _of_numpy()
"""The types of numbers and bool by NumPy's types."""


def type_size_in_bytes(dtype: Any) -> int:
    """Return how many bytes an element takes.

    Parameters
    ----------
    dtype
        An element type.
    """
    element = resolve_dtype(dtype)
    return SCALARS[scalar_of(element).name].numpy.itemsize * int(np.prod(getattr(element, "shape", ())))


def type_ctype(dtype: Any) -> Any:
    """Return the type of ctypes for an element: of what has components, that of an array of them.

    Parameters
    ----------
    dtype
        An element type.
    """
    element = resolve_dtype(dtype)
    made = SCALARS[scalar_of(element).name]._type_
    for extent in reversed(getattr(element, "shape", ())):
        made = made * extent
    return made


def __getattr__(name: str) -> Any:
    import diffkern.warp as wp

    if not name.startswith("_") and name in wp.__all__:
        return getattr(wp, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
