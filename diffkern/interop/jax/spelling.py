"""Types by their spelling in a manifest: a process that loads a program need not have made an array of its types."""

from __future__ import annotations

import functools
import re

from diffkern.ir.types import SCALARS, Array, Element, Mat, Vec

__all__ = ["array_type", "type_of"]

_ARRAY = re.compile(r"array(\d+)d<(.+),([A-Z])>")
_VEC = re.compile(r"vec(\d+)<(\w+)>")
_MAT = re.compile(r"mat(\d+)x(\d+)<(\w+)>")


@functools.cache
def type_of(spelling: str) -> Array | Element:
    """Return the type of a parameter.

    Raises
    ------
    ValueError
        If nothing is spelled like that.
    """
    if found := _ARRAY.fullmatch(spelling):
        element = type_of(found[2])
        assert not isinstance(element, Array)
        return Array(element, int(found[1]), found[3])
    if found := _VEC.fullmatch(spelling):
        return Vec(SCALARS[found[2]], int(found[1]))
    if found := _MAT.fullmatch(spelling):
        return Mat(SCALARS[found[3]], int(found[1]), int(found[2]))
    if spelling in SCALARS:
        return SCALARS[spelling]
    raise ValueError(f"{spelling!r} is no type of a parameter")


def array_type(spelling: str) -> Array:
    """Return the type of a parameter that is an array."""
    t = type_of(spelling)
    assert isinstance(t, Array)
    return t
