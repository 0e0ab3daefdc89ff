"""Type keys: the spellings of argument types, which stand for them in launches, records and manifests.

There is one object for each type and one for its spelling, so that look-ups by identity are quick; and from a spelling
the type is found again.
"""

from __future__ import annotations

import functools

from diffkern.ir.structs import Argument, Stored, Struct, StructArray, carries_gradient
from diffkern.ir.types import Array, Element, Scalar, parse_type
from diffkern.lang.dtypes import NAMED, SCALARS, CompositeType, DType, composite_type

__all__ = ["array_type", "dtype_of", "is_long", "key_of_long", "key_on", "register_type", "type_of_key"]

_TYPES: dict[str, Argument] = {str(t): t for t in (*(d.ir for d in SCALARS.values()), *NAMED.values())}


def dtype_of(element: Element) -> DType | CompositeType:
    """Return the dtype that users know an element type by."""
    return SCALARS[element.name] if isinstance(element, Scalar) else composite_type(element)


@functools.cache
def array_type(element: Stored, ndim: int, layout: str) -> tuple[Array | StructArray, str, bool]:
    """Return an array type, its spelling, and whether it can have a gradient.

    Type and spelling are one object each, so that look-ups by identity are quick.
    """
    t = StructArray(element, ndim, layout) if isinstance(element, Struct) else Array(element, ndim, layout)
    return t, register_type(t), carries_gradient(t)


@functools.cache
def key_on(key: str, alias: str) -> str:
    """Return the key of a type of arrays on a GPU: their launches have programs of their own."""
    made = f"{key}@{alias}"
    _TYPES[made] = _TYPES[key]
    return made


@functools.cache
def key_of_long(key: str) -> str:
    """Return the key of arrays of a type with an extent that int32 does not hold."""
    made = f"{key}^"
    _TYPES[made] = _TYPES[key]
    return made


def is_long(key: str) -> bool:
    """Return whether a key stands for such arrays, or a struct that holds one."""
    return "^" in key


def register_type(t: Argument) -> str:
    """Return the key that stands for the type of an argument in a launch."""
    key = str(t)
    _TYPES[key] = t
    return key


def type_of_key(key: str) -> Argument:
    """Return the type of an argument from the key that stands for it in a launch."""
    return _TYPES.get(key) or parse_type(key)
