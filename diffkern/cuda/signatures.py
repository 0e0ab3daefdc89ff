"""Signatures in numba's spelling: ``"void(float32[:, :], int32)"``, or numba's types.

The signature of a kernel becomes the annotation of each parameter.
"""

from __future__ import annotations

import re
from typing import Any

from diffkern.errors import MisuseError
from diffkern.ir.types import Scalar
from diffkern.lang.annotations import ArrayAnnotation, array_annotation
from diffkern.lang.dtypes import resolve_dtype

__all__ = ["is_signature", "parse_signature"]

_SHORT = {"f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8",
          "u2": "uint16", "u4": "uint32", "u8": "uint64", "intp": "int64", "uintp": "uint64", "boolean": "bool",
          "int_": "int64", "intc": "int32", "uint": "uint64", "float_": "float32", "double": "float64",
          "b1": "bool", "bool_": "bool", "byte": "uint8", "char": "int8", "short": "int16"}  # fmt: skip
_PART = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(\[[^\]]*\])?\s*(?:,|$)")


def is_signature(obj: Any) -> bool:
    """Return whether an argument of ``cuda.jit`` is a signature, or a list of them."""
    return isinstance(obj, (str, tuple, list)) or hasattr(obj, "args")


def parse_signature(obj: Any) -> tuple[ArrayAnnotation | Scalar, ...] | None:
    """Return the annotations of the parameters; None for a list of several signatures, among which each launch chooses.

    Raises
    ------
    MisuseError
        If it is no signature.
    """
    if isinstance(obj, list):
        # Kernels are specialized by their arguments anyway, so several signatures are no restriction that needs a
        # check.
        return parse_signature(obj[0]) if len(obj) == 1 else None
    if isinstance(obj, str):
        return tuple(_parse(obj))
    return tuple(_of_type(t) for t in (obj if isinstance(obj, tuple) else obj.args))


def _parse(text: str) -> list[ArrayAnnotation | Scalar]:
    # The type in front of the parentheses is that of the result, which a kernel does not have.
    match = re.fullmatch(r"\s*(?:[\w.]+\s*)?\((.*)\)\s*", text, re.DOTALL)
    if match is None:
        raise _no_signature(text)
    inside, place = match[1].strip(), 0
    found: list[ArrayAnnotation | Scalar] = []
    while place < len(inside):
        part = _PART.match(inside, place)
        if part is None:
            raise _no_signature(text)
        # `numba.float32[:]`, `types.float32[:]` and `float32[:]` are the same type.
        name = part[1].rpartition(".")[2]
        try:
            element = resolve_dtype(_named(_SHORT.get(name, name)))
        except TypeError:
            raise _no_signature(text, f"{name} is no type of a kernel") from None
        assert isinstance(element, Scalar)
        found.append(element if part[2] is None else array_annotation(element, part[2].count(",") + 1))
        place = part.end()
    return found


def _named(name: str) -> Any:
    from diffkern.lang.dtypes import SCALARS

    return SCALARS.get(name, name)


def _of_type(t: Any) -> ArrayAnnotation | Scalar:
    """Return the annotation for one of numba's types, or for a dtype."""
    ndim = getattr(t, "ndim", None)
    try:
        # numba's types of arrays have the element type as `dtype` and axes as `ndim`; scalars have neither.
        if isinstance(ndim, int) and hasattr(t, "dtype") and ndim:
            element = resolve_dtype(t.dtype)
            assert isinstance(element, Scalar)
            return array_annotation(element, ndim)
        element = resolve_dtype(t)
    except TypeError:
        raise _no_signature(t) from None
    assert isinstance(element, Scalar)
    return element


def _no_signature(given: Any, why: str = "") -> MisuseError:
    return MisuseError(
        f"{given!r} is no signature of a kernel{': ' if why else ''}{why}",
        remedy='write it as "void(float32[:], int32)", or leave it out: a launch takes the types of its arguments',
    )
