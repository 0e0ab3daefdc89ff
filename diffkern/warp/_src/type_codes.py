"""``warp._src.types``: short codes of types, as ``v3f4`` for a vector of three floats of four bytes.

A code is made for the type of a scalar, a vector, an array, a tile, a struct or a tuple of these. ``?`` stands for a
part of the type that is left open.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, Final, get_args, get_origin

from diffkern.ir import types as T
from diffkern.lang.annotations import ArrayAnnotation, TileAnnotation
from diffkern.lang.dtypes import CompositeType, DType
from diffkern.lang.patterns import Float, Int, Scalar
from diffkern.lang.structs import definition_of
from diffkern.runtime.arrays.array import array
from diffkern.transforms.indexed import indexedarray

__all__ = ["ARRAY_TYPE_INDEXED", "ARRAY_TYPE_REGULAR", "array_type_id", "get_type_code"]

ARRAY_TYPE_REGULAR: Final = 0
ARRAY_TYPE_INDEXED: Final = 1

_PYTHON: Final[Mapping[Any, str]] = {builtins.bool: "b", int: "i4", float: "f4", Any: "?"}
_OPEN: Final = ((Float, "f?"), (Int, "i?"), (Scalar, "s?"))
_ROLES: Final[Mapping[T.Role, str]] = {T.Role.QUATERNION: "q", T.Role.TRANSFORM: "t"}


def array_type_id(arr: Any) -> int:
    """Return 0 for an array or an array annotation, and 1 for an indexed one.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if isinstance(arr, ArrayAnnotation):
        return ARRAY_TYPE_INDEXED if arr.indexed else ARRAY_TYPE_REGULAR
    if isinstance(arr, array):
        return ARRAY_TYPE_REGULAR
    if isinstance(arr, indexedarray):
        return ARRAY_TYPE_INDEXED
    raise TypeError(f"{arr!r} is no array, nor the annotation of one")


def get_type_code(arg_type: Any) -> str:
    """Return the code of a type.

    Raises
    ------
    TypeError
        If kernels do not have this type.
    """
    if isinstance(arg_type, (ArrayAnnotation, array, indexedarray)):
        prefix = "ia" if array_type_id(arg_type) == ARRAY_TYPE_INDEXED else "a"
        return f"{prefix}{arg_type.ndim}{get_type_code(arg_type.dtype)}"
    if isinstance(arg_type, TileAnnotation):
        shape = "?" if arg_type.shape is None else ",".join(map(str, arg_type.shape))
        return f"tr{shape}{'?' if arg_type.dtype is None else _of_element(arg_type.dtype)}"
    if get_origin(arg_type) is tuple:
        items = get_args(arg_type)
        return f"tpl{len(items)}" + "".join("?" if item is Ellipsis else get_type_code(item) for item in items)
    if isinstance(arg_type, (DType, CompositeType)):
        return _of_element(arg_type.ir)
    # By identity, as the argument may be any object, also one whose comparison is no boolean.
    for variable, text in _OPEN:
        if arg_type is variable:
            return text
    if (definition := definition_of(arg_type) if isinstance(arg_type, type) else None) is not None:
        return str(definition.type.name)
    try:
        # An unhashable argument is no type either.
        return _PYTHON[arg_type]
    except (KeyError, TypeError):
        raise TypeError(f"Unrecognized type: {arg_type!r} is none that kernels have") from None


def _of_element(t: Any) -> str:
    if isinstance(t, T.Scalar):
        letter = "bf" if t == T.BFLOAT16 else "f" if t.is_float else "u" if t.name.startswith("uint") else "i"
        return "b" if t == T.BOOL else f"{letter}{t.bits // 8}"
    role = _ROLES.get(t.role) if isinstance(t, T.Vec) else None
    shape = "".join(map(str, t.shape))
    return f"{role or ('v' if isinstance(t, T.Vec) else 'm')}{'' if role else shape}{_of_element(t.dtype)}"
