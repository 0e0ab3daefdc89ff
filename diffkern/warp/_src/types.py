"""``warp._src.types``: types and what asks about them, with the hints that take parameters in brackets."""

from __future__ import annotations

import builtins
from typing import Any

import diffkern.warp.types as public
from diffkern.lang.patterns import Float, Int, Scalar
from diffkern.lang.references import Reference
from diffkern.runtime.arrays.array_protocols import ArrayC as array_t
from diffkern.warp._src.type_codes import ARRAY_TYPE_INDEXED, ARRAY_TYPE_REGULAR, array_type_id, get_type_code
from diffkern.warp.hints import Matrix, Quaternion, Transformation, Vector
from diffkern.warp.types import (
    float_types,
    int_types,
    np_dtype_to_warp_type,
    scalar_types,
    type_ctype,
    type_size_in_bytes,
)

__all__ = [
    "ARRAY_TYPE_INDEXED", "ARRAY_TYPE_REGULAR", "Any", "Float", "Int", "Matrix", "Quaternion", "Reference", "Scalar",
    "Transformation", "Vector", "array_t", "array_type_id", "float_types", "get_type_code", "int_types",
    "np_dtype_to_warp_type", "scalar_types", "type_ctype", "type_length", "type_scalar_type", "type_size_in_bytes",
    "type_to_warp",
]  # fmt: skip


def type_scalar_type(dtype: Any) -> Any:
    """Return the type of the components of a type, or the type itself if it has none."""
    return getattr(dtype, "_wp_scalar_type_", dtype)


def type_length(obj: Any) -> int:
    """Return the number of components of a vector's type, of rows of a matrix's, or of items."""
    shape = getattr(obj, "_shape_", None)
    return int(shape[0]) if shape else len(obj)


def type_to_warp(dtype: Any) -> Any:
    """Return the type that Python's number, or bool, stands for; any other type as it is."""
    named = {float: "float32", int: "int32", builtins.bool: "bool"}
    name = named.get(dtype) if isinstance(dtype, type) else None
    return dtype if name is None else getattr(public, name)


def __getattr__(name: str) -> Any:
    return getattr(public, name)
