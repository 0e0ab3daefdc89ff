"""Annotations that stand for several types: type variables, vectors of any length, tuples.

A spelling of the user's becomes a :class:`Pattern`, which decides whether a type fits, or a :class:`TupleOf`.
``Scalar``, ``Float`` and ``Int`` are the type variables over all numbers, all floats and all integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, get_args, get_origin

from diffkern.ir import types as T
from diffkern.ir.structs import Stored
from diffkern.lang.dtypes import SCALARS, Alternative
from diffkern.lang.structs import resolve_type
from diffkern.process.dataclass import dataclass

__all__ = ["Float", "Int", "Pattern", "Scalar", "TupleOf", "is_callable", "pattern_of", "tuple_items"]

_FLOATS: Final = [dtype for dtype in SCALARS.values() if dtype.ir.is_float]
_INTEGERS: Final = [dtype for dtype in SCALARS.values() if dtype.ir.is_integer]

# Type checkers want the types written out; these are made of a table.
Float: Any = TypeVar("Float", *_FLOATS)  # type: ignore[misc]
Int: Any = TypeVar("Int", *_INTEGERS)  # type: ignore[misc]
Scalar: Any = TypeVar("Scalar", *_FLOATS, *_INTEGERS)  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Pattern(Alternative):
    """A type that is not determined by the annotation.

    Attributes
    ----------
    text
        Its text in messages.
    members
        The types that fit; None for all.
    shape
        Of a vector or matrix: its extents, None for any; its components are of one of the ``members``.
    variable
        The type variable: all its occurrences in one signature are one type.
    """

    text: str
    members: frozenset[Stored] | None = None
    shape: tuple[int | None, ...] = ()
    variable: Any = None

    def __str__(self) -> str:
        return self.text

    def accepts(self, t: Stored) -> bool:
        """Return whether a type fits."""
        if not self.shape:
            return self.members is None or t in self.members
        if not isinstance(t, (T.Vec, T.Mat)) or len(t.shape) != len(self.shape):
            return False
        extents = zip(self.shape, t.shape, strict=True)
        return all(want in (None, n) for want, n in extents) and (self.members is None or t.dtype in self.members)


@dataclass(frozen=True, slots=True)
class TupleOf(Alternative):
    """A tuple: the annotation of each item; for a variadic one, that of all items."""

    items: tuple[Any, ...]
    variadic: bool = False

    def __str__(self) -> str:
        inside = ", ".join("any" if item is None else str(item) for item in self.items)
        return f"tuple[{inside}{', ...' if self.variadic else ''}]"


def pattern_of(obj: Any) -> Pattern | None:
    """Return the pattern of a type variable, or None for anything else.

    Raises
    ------
    TypeError
        If the variable is constrained to something that is no type of a kernel.
    """
    if isinstance(obj, Pattern):
        return obj
    if not isinstance(obj, TypeVar):
        return None
    allowed = obj.__constraints__ or ((obj.__bound__,) if obj.__bound__ is not None else ())
    members = frozenset(resolve_type(item) for item in allowed) if allowed else None
    return Pattern(obj.__name__, members, variable=obj)


def tuple_items(obj: Any) -> tuple[tuple[Any, ...], bool] | None:
    """Return the items of ``tuple[...]`` and whether it ends in ``...``; None for anything else."""
    if get_origin(obj) is not tuple:
        return None
    items = get_args(obj)
    if items and items[-1] is ...:
        return items[:-1], True
    return items, False


def is_callable(obj: Any) -> bool:
    """Return whether an annotation is that of a function."""
    # `typing.Callable` without parameters has no origin of its own, and is recognized by its text.
    return obj is Callable or get_origin(obj) is Callable or str(obj).startswith("typing.Callable")
