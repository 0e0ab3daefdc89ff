"""``wp.types.is_…`` and ``type_is_…``: of which kind a value or a type is."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from diffkern.ir.structs import Struct
from diffkern.ir.types import BOOL, Mat, Role, Scalar, Vec
from diffkern.lang.annotations import ArrayAnnotation, TileAnnotation
from diffkern.lang.dtypes import element_of_value
from diffkern.lang.structs import definition_of, resolve_type
from diffkern.runtime.arrays.array import array

__all__ = [
    "is_array", "is_composite", "is_float", "is_int", "is_matrix", "is_quaternion", "is_scalar", "is_struct",
    "is_tile", "is_transformation", "is_value", "is_vector", "type_is_array", "type_is_composite", "type_is_float",
    "type_is_int", "type_is_matrix", "type_is_quaternion", "type_is_scalar", "type_is_struct", "type_is_tile",
    "type_is_transformation", "type_is_value", "type_is_vector", "type_repr", "type_size", "types_equal",
]  # fmt: skip


def _element(t: Any) -> Any:
    """The element type that a type is, or None."""
    try:
        return resolve_type(t)
    except TypeError:
        return None


def type_is_array(t: Any) -> builtins.bool:
    """Return whether a type is an array class or an array annotation."""
    # An annotation describes arrays, and `wp.array` is a class of them: programs ask this of both.
    return isinstance(t, ArrayAnnotation) or (isinstance(t, type) and issubclass(t, array))


def type_is_tile(t: Any) -> builtins.bool:
    """Return whether a type is an annotation of a tile."""
    return isinstance(t, TileAnnotation)


def type_is_struct(t: Any) -> builtins.bool:
    """Return whether a type is a struct."""
    return definition_of(t) is not None or isinstance(t, Struct)


def type_is_int(t: Any) -> builtins.bool:
    """Return whether a type is an integer."""
    element = _element(t)
    return isinstance(element, Scalar) and element.is_integer


def type_is_float(t: Any) -> builtins.bool:
    """Return whether a type is a float."""
    element = _element(t)
    return isinstance(element, Scalar) and element.is_float


def type_is_scalar(t: Any) -> builtins.bool:
    """Return whether a type is a number or a bool."""
    return isinstance(_element(t), Scalar)


def type_is_vector(t: Any) -> builtins.bool:
    """Return whether a type is a vector."""
    element = _element(t)
    return isinstance(element, Vec) and element.role is Role.VECTOR


def type_is_quaternion(t: Any) -> builtins.bool:
    """Return whether a type is a quaternion."""
    element = _element(t)
    return isinstance(element, Vec) and element.role is Role.QUATERNION


def type_is_transformation(t: Any) -> builtins.bool:
    """Return whether a type is a transform."""
    element = _element(t)
    return isinstance(element, Vec) and element.role is Role.TRANSFORM


def type_is_matrix(t: Any) -> builtins.bool:
    """Return whether a type is a matrix."""
    return isinstance(_element(t), Mat)


def type_is_composite(t: Any) -> builtins.bool:
    """Return whether a type is a vector, matrix, quaternion or transform."""
    return isinstance(_element(t), (Vec, Mat))


def type_is_value(t: Any) -> builtins.bool:
    """Return whether a type is a number or of a composite."""
    return isinstance(_element(t), (Scalar, Vec, Mat))


def is_array(x: Any) -> builtins.bool:
    """Return whether a value is an array."""
    return isinstance(x, (array, ArrayAnnotation))


def is_struct(x: Any) -> builtins.bool:
    """Return whether a value is a struct."""
    return definition_of(type(x)) is not None


def is_tile(x: Any) -> builtins.bool:
    """Return whether a value is a tile annotation; tiles themselves exist in kernels only."""
    return isinstance(x, TileAnnotation)


def is_int(x: Any) -> builtins.bool:
    """Return whether a value is an integer."""
    return type_is_int(element_of_value(x))


def is_float(x: Any) -> builtins.bool:
    """Return whether a value is a float."""
    return type_is_float(element_of_value(x))


def is_scalar(x: Any) -> builtins.bool:
    """Return whether a value is a number or a bool."""
    return type_is_scalar(element_of_value(x))


def is_vector(x: Any) -> builtins.bool:
    """Return whether a value is a vector."""
    return type_is_vector(element_of_value(x))


def is_quaternion(x: Any) -> builtins.bool:
    """Return whether a value is a quaternion."""
    return type_is_quaternion(element_of_value(x))


def is_transformation(x: Any) -> builtins.bool:
    """Return whether a value is a transform."""
    return type_is_transformation(element_of_value(x))


def is_matrix(x: Any) -> builtins.bool:
    """Return whether a value is a matrix."""
    return type_is_matrix(element_of_value(x))


def is_composite(x: Any) -> builtins.bool:
    """Return whether a value is a vector, matrix, quaternion or transform."""
    return type_is_composite(element_of_value(x))


def is_value(x: Any) -> builtins.bool:
    """Return whether a value is a number or a composite."""
    return type_is_value(element_of_value(x))


def types_equal(a: Any, b: Any) -> builtins.bool:
    """Return whether two types are equal, where Python's ``float`` stands for float32 and ``int`` for int32."""
    if isinstance(a, (ArrayAnnotation, TileAnnotation)) or isinstance(b, (ArrayAnnotation, TileAnnotation)):
        return builtins.bool(a == b)
    # Element types are compared as resolved, so that `float` equals `wp.float32`.
    first, second = _element(a), _element(b)
    return builtins.bool(a == b) if first is None or second is None else builtins.bool(first == second)


def type_size(dtype: Any) -> int:
    """Return how many numbers an element has."""
    element = _element(dtype)
    if not isinstance(element, (Scalar, Vec, Mat)):
        raise TypeError(f"{dtype!r} has no number of components")
    return int(np.prod(getattr(element, "shape", ())))


def type_repr(t: Any) -> str:
    """Return a type in words: ``float32``, ``vec3f``, ``array(ndim=1, dtype=float32)``."""
    if isinstance(t, ArrayAnnotation):
        return f"array(ndim={t.ndim}, dtype={'Any' if t.element is None else type_repr(t.element)})"
    element = _element(t)
    if isinstance(element, (Scalar, Struct)):
        return element.name
    return _composite(element) if isinstance(element, (Vec, Mat)) else str(getattr(t, "__name__", t))


def _composite(t: Vec | Mat) -> str:
    # The letters of Warp's names of types, as in `vec3f`.
    suffixes = {
        "float32": "f",
        "float64": "d",
        "float16": "h",
        "int8": "b",
        "uint8": "ub",
        "int16": "s",
        "uint16": "us",
    }
    suffixes |= {"int32": "i", "uint32": "ui", "int64": "l", "uint64": "ul"}
    suffix = suffixes.get(t.dtype.name)
    if isinstance(t, Mat):
        # Warp names only square matrices of floats.
        named = t.rows == t.cols and t.rows <= 4 and t.dtype.is_float and suffix is not None
        return f"mat{t.rows}{t.cols}{suffix}" if named else f"matrix(shape=({t.rows}, {t.cols}), dtype={t.dtype})"
    # Quaternions and transforms have one length each, so it is not part of their names.
    if t.role is not Role.VECTOR:
        return f"{'quat' if t.role is Role.QUATERNION else 'transform'}{suffix}"
    if t.length <= 4 and suffix is not None and t.dtype != BOOL:
        return f"vec{t.length}{suffix}"
    return f"vector(length={t.length}, dtype={t.dtype})"
