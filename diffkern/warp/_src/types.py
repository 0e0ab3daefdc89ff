"""``warp._src.types``: types and what asks about them, with the hints that take parameters in brackets."""

from __future__ import annotations

import builtins
from typing import Any, get_args

import diffkern.warp.types as public
from diffkern.lang.annotations import Reference
from diffkern.lang.patterns import Float, Int, Scalar
from diffkern.runtime.arrays.array_protocols import ArrayC as array_t
from diffkern.types import matrix, quaternion, transformation, vector
from diffkern.warp._src.type_codes import ARRAY_TYPE_INDEXED, ARRAY_TYPE_REGULAR, array_type_id, get_type_code
from diffkern.warp.types import (
    float_types,
    int_types,
    np_dtype_to_warp_type,
    scalar_types,
    type_ctype,
    type_size_in_bytes,
)

__all__ = [
    "ARRAY_TYPE_INDEXED",
    "ARRAY_TYPE_REGULAR",
    "Any",
    "Float",
    "Int",
    "Matrix",
    "Quaternion",
    "Reference",
    "Scalar",
    "Transformation",
    "Vector",
    "array_t",
    "array_type_id",
    "float_types",
    "get_type_code",
    "int_types",
    "np_dtype_to_warp_type",
    "scalar_types",
    "type_ctype",
    "type_length",
    "type_scalar_type",
    "type_size_in_bytes",
    "type_to_warp",
]


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


# -- hints with parameters in brackets ---------------------------------------------------------------------------------
# Type hints with parameters in brackets: ``Vector[float, Literal[3]]``, ``Matrix[Any, Any, Any]``.
#
# The element type and each size may be left open by ``Any`` or a type variable. The result is a type, or a pattern for
# the parameters of funcs if something is open.


def _size(extent: Any) -> Any:
    """An extent; that of ``Literal[n]`` is n."""
    values = get_args(extent)
    return values[0] if values else extent


class Vector:
    """Vectors: ``Vector[dtype, length]``."""

    def __class_getitem__(cls, item: Any) -> Any:
        if not isinstance(item, tuple) or len(item) != 2:
            raise TypeError(f"Vector[...] takes a type and a length, as in Vector[float, Literal[3]], not {item!r}")
        return vector(_size(item[1]), item[0])


class Matrix:
    """Matrices: ``Matrix[dtype, rows, columns]``."""

    def __class_getitem__(cls, item: Any) -> Any:
        if not isinstance(item, tuple) or len(item) != 3:
            raise TypeError(f"Matrix[...] takes a type, rows and columns, not {item!r}")
        return matrix((_size(item[1]), _size(item[2])), item[0])


class Quaternion:
    """Quaternions: ``Quaternion[dtype]``."""

    def __class_getitem__(cls, dtype: Any) -> Any:
        return quaternion(dtype)


class Transformation:
    """Transforms: ``Transformation[dtype]``."""

    def __class_getitem__(cls, dtype: Any) -> Any:
        return transformation(dtype)
