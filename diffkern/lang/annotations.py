"""Parameter annotations: ``dk.array(dtype=float, ndim=2)`` and the shorthands ``array1d`` to ``array4d``.

In: a dtype as the user spells it. Out: an :class:`ArrayAnnotation`, an immutable description of what a parameter
takes. The array class itself belongs to the run time, which returns the same annotations when called without data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from diffkern.ir.structs import Stored, StructArray
from diffkern.ir.types import Array
from diffkern.lang.structs import resolve_type

__all__ = ["ANY", "ArrayAnnotation", "array1d", "array2d", "array3d", "array4d", "array_annotation"]

MAX_NDIM: Final = 4


class _Any:
    """The dtype of an array annotation that takes any dtype."""

    def __repr__(self) -> str:
        return "dk.ANY"

    def __reduce__(self) -> str:
        return "ANY"  # the one of this module


ANY: Final = _Any()


@dataclass(frozen=True, slots=True)
class ArrayAnnotation:
    """An array parameter: its element type (None: any) and its number of axes.

    The layout is not part of it: it comes from the array that is passed.
    """

    dtype: Stored | None
    ndim: int = 1

    def __str__(self) -> str:
        return f"array{self.ndim}d<{self.dtype if self.dtype is not None else 'any'}>"

    def accepts(self, t: Array | StructArray) -> bool:
        """Whether an array of this type may be passed."""
        return t.ndim == self.ndim and (self.dtype is None or self.dtype == t.dtype)


def array_annotation(dtype: Any = ANY, ndim: int = 1) -> ArrayAnnotation:
    """Describe an array parameter.

    Parameters
    ----------
    dtype
        Anything :func:`~diffkern.lang.dtypes.resolve_dtype` accepts, a struct class, or ``dk.ANY``.
    ndim : int
        Number of axes, 1 to 4.
    """
    if not isinstance(ndim, int) or not 1 <= ndim <= MAX_NDIM:
        raise TypeError(f"an array has 1 to {MAX_NDIM} axes, not ndim={ndim!r}")
    return ArrayAnnotation(None if dtype is ANY or dtype is Any else resolve_type(dtype), ndim)


def array1d(dtype: Any = ANY) -> ArrayAnnotation:
    """Annotation of a one-dimensional array."""
    return array_annotation(dtype, 1)


def array2d(dtype: Any = ANY) -> ArrayAnnotation:
    """Annotation of a two-dimensional array."""
    return array_annotation(dtype, 2)


def array3d(dtype: Any = ANY) -> ArrayAnnotation:
    """Annotation of a three-dimensional array."""
    return array_annotation(dtype, 3)


def array4d(dtype: Any = ANY) -> ArrayAnnotation:
    """Annotation of a four-dimensional array."""
    return array_annotation(dtype, 4)
