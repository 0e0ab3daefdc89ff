"""Types of vectors, matrices, quaternions and transforms of any size over any scalar type.

The same sizes and scalar dtype always give the same dtype object: named types, such as ``dk.vec3``, are identical to
``dk.types.vector(3, float)``.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeVar

from diffkern.ir import types as T
from diffkern.lang.dtypes import CompositeType, composite_type, resolve_dtype
from diffkern.lang.patterns import Pattern, pattern_of

__all__ = ["matrix", "quaternion", "transformation", "vector"]


def vector(length: int, dtype: Any) -> Any:
    """Return the type of vectors of a length.

    Parameters
    ----------
    length : int
        Number of components.
    dtype
        The type of the components: any scalar type, ``dk.float32``, ``float``, ``dk.uint8``, ``bool``, … In an
        annotation the length and the type may be ``Any`` or a type variable.

    Returns
    -------
    CompositeType
        The vector type: it annotates parameters, is a dtype of arrays, and makes vectors when it is called.

    Raises
    ------
    TypeError
        If the length is no whole number, or dtype is no scalar type.
    ValueError
        If the length is less than 0.

    Examples
    --------
    >>> dk.types.vector(5, float)
    vec5<float32>
    >>> dk.types.vector(3, dk.float64)
    vec3d
    """
    if _is_open(length) or _is_open(dtype):
        return _pattern("vector", (length,), dtype)
    return composite_type(T.Vec(_scalar(dtype), _size(length, "length", 0)))


def matrix(shape: tuple[int, int], dtype: Any) -> Any:
    """Return the type of matrices of a shape.

    Parameters
    ----------
    shape : tuple of two ints
        Number of rows and of columns, each at least 1.
    dtype
        The type of the components: any scalar type. In an annotation it and the extents may be ``Any`` or a type
        variable.

    Returns
    -------
    CompositeType
        The matrix type: it annotates parameters, is a dtype of arrays, and makes matrices when it is called.

    Raises
    ------
    TypeError
        If the shape is not a pair of whole numbers, or dtype is no scalar type.
    ValueError
        If a number of rows or columns is less than 1.

    Examples
    --------
    >>> dk.types.matrix((2, 3), dk.float64)
    mat2x3<float64>
    """
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise TypeError(f"the shape of a matrix is a number of rows and one of columns, not {shape!r}")
    if _is_open(dtype) or any(map(_is_open, shape)):
        return _pattern("matrix", shape, dtype)
    rows, cols = (_size(n, "shape", 0) for n in shape)
    return composite_type(T.Mat(_scalar(dtype), rows, cols))


def _is_open(given: Any) -> bool:
    return given is Any or isinstance(given, TypeVar)


def _pattern(word: str, shape: Sequence[Any], dtype: Any) -> Pattern:
    """An annotation of parameters: what is ``Any`` or a type variable is decided by the argument."""
    kinds = pattern_of(dtype)
    shown = "any" if dtype is Any else getattr(dtype, "__name__", str(dtype))
    members = frozenset({_scalar(dtype)}) if not _is_open(dtype) else kinds.members if kinds is not None else None
    extents = tuple(None if _is_open(n) else _size(n, "shape", 0) for n in shape)
    text = f"{word}<{', '.join('any' if n is None else str(n) for n in extents)}, {shown}>"
    return Pattern(text, members, extents, kinds.variable if kinds is not None else None)


def quaternion(dtype: Any = float) -> CompositeType:
    """Return the type of quaternions, whose components are (x, y, z, w).

    Parameters
    ----------
    dtype
        The type of the components: float16, bfloat16, float32 or float64.

    Returns
    -------
    CompositeType
        ``dk.quat`` for float32.

    Raises
    ------
    TypeError
        If dtype is no type of floats.

    Examples
    --------
    >>> dk.types.quaternion(dk.float64)
    quatd
    """
    return composite_type(T.quaternion(_floats(dtype, "a quaternion")))


def transformation(dtype: Any = float) -> CompositeType:
    """Return the type of transforms: a translation and a quaternion, seven numbers.

    Parameters
    ----------
    dtype
        The type of the components: float16, bfloat16, float32 or float64.

    Returns
    -------
    CompositeType
        ``dk.transform`` for float32.

    Raises
    ------
    TypeError
        If dtype is no type of floats.

    Examples
    --------
    >>> dk.types.transformation(dk.float64)
    transformd
    """
    return composite_type(T.transform(_floats(dtype, "a transform")))


def _size(n: Any, name: str, least: int) -> int:
    size = operator.index(n)
    if size < least:
        raise ValueError(f"{name} is at least {least}, not {size}")
    return size


def _scalar(dtype: Any) -> T.Scalar:
    found = resolve_dtype(dtype)
    if not isinstance(found, T.Scalar):
        raise TypeError(f"the components are scalars, not {found}")
    return found


def _floats(dtype: Any, what: str) -> T.Scalar:
    scalar = _scalar(dtype)
    if not scalar.is_float:
        raise TypeError(f"{what} has floats as components, not {scalar}")
    return scalar
