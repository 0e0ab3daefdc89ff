"""Type hints with parameters in brackets: ``Vector[float, Literal[3]]``, ``Matrix[Any, Any, Any]``.

The element type and each size may be left open by ``Any`` or a type variable. The result is a type, or a pattern for
the parameters of funcs if something is open.
"""

from __future__ import annotations

from typing import Any, get_args

from diffkern.types import matrix, quaternion, transformation, vector

__all__ = ["Matrix", "Quaternion", "Transformation", "Vector"]


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
