"""Parameter annotations: ``dk.array(dtype=float, ndim=2)``, or ``dk.array[float, 2]``, or ``dk.array2d[float]``.

In: a dtype as the user spells it. Out: an :class:`ArrayAnnotation`, an immutable description of what a parameter
takes. The array class itself belongs to the run time, which returns the same annotations when called without data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, get_args

from diffkern.ir.structs import Stored, StructArray
from diffkern.ir.types import Array
from diffkern.lang.structs import resolve_type

__all__ = [
    "ANY",
    "ArrayAnnotation",
    "ArrayOf",
    "array1d",
    "array2d",
    "array3d",
    "array4d",
    "array_annotation",
    "subscripted",
]

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


class ArrayOf:
    """Annotations of arrays with a number of axes: ``dk.array2d(dtype=float)`` or ``dk.array2d[float]``.

    Parameters
    ----------
    ndim : int
        Number of axes, 1 to 4.
    """

    __slots__ = ("ndim",)

    def __init__(self, ndim: int) -> None:
        self.ndim: Final = ndim

    def __call__(self, dtype: Any = ANY) -> ArrayAnnotation:
        return array_annotation(dtype, self.ndim)

    def __getitem__(self, dtype: Any) -> ArrayAnnotation:
        return array_annotation(dtype, self.ndim)

    def __repr__(self) -> str:
        return f"dk.array{self.ndim}d"


array1d: Final = ArrayOf(1)
array2d: Final = ArrayOf(2)
array3d: Final = ArrayOf(3)
array4d: Final = ArrayOf(4)


def subscripted(item: Any) -> ArrayAnnotation:
    """Describe the array parameter that ``dk.array[item]`` stands for.

    Parameters
    ----------
    item
        An element type, or a pair of an element type and a number of axes, ``Literal[n]`` for type checkers.
    """
    if not isinstance(item, tuple):
        return array_annotation(item)
    if len(item) != 2:
        raise TypeError(f"dk.array[...] takes an element type and a number of axes, not {len(item)} things")
    dtype, axes = item
    values = get_args(axes)  # those of Literal[n]
    return array_annotation(dtype, values[0] if values else axes)
