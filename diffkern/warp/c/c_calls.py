"""Functions of C's library and of Warp that C++ snippets call, with the types of their parameters and results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from diffkern.warp.c.c_types import SCALARS, OtherTextError, Typed, component, set_to

__all__ = ["CALLS", "OF_QUERIES", "OVERLOADED", "call_of_warp", "type_of_warp"]

_F, _D, _I, _U, _L, _UL = "float32", "float64", "int32", "uint32", "int64", "uint64"
_LOWEST_BIT: Final = "wp.bit_count(({0}) ^ (({0}) - wp.uint64(1)))"
_FIRST_BIT_OF_32: Final = (
    "wp.where(({0}) == wp.uint32(0), wp.int32(0), wp.int32(wp.bit_count(({0}) ^ (({0}) - wp.uint32(1)))))"
)
# x ^ (x - 1) has all bits up to and including the lowest set one, so its bit count is the position from 1.
_FIRST_BIT: Final = f"wp.where(({{0}}) == wp.uint64(0), wp.int32(0), wp.int32({_LOWEST_BIT}))"
CALLS: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    **{f"{name}f": (f"wp.{name}({{0}})", _F, (_F,)) for name in ("sqrt", "exp", "log", "sin", "cos", "floor")},
    **{f"f{name}f": (f"wp.{name}({{0}}, {{1}})", _F, (_F, _F)) for name in ("max", "min")},
    "fabsf": ("wp.abs({0})", _F, (_F,)),
    **dict.fromkeys(("__frsqrt_rn", "rsqrtf"), ("(wp.float32(1.0) / wp.sqrt({0}))", _F, (_F,))),
    **dict.fromkeys(("__popc", "__builtin_popcount"), ("wp.int32(wp.bit_count({0}))", _I, (_U,))),
    **dict.fromkeys(("__popcll", "__builtin_popcountll"), ("wp.int32(wp.bit_count({0}))", _I, (_UL,))),
    **dict.fromkeys(("__ffs", "__builtin_ffs"), (_FIRST_BIT_OF_32, _I, (_U,))),
    **dict.fromkeys(("__ffsll", "__builtin_ffsll"), (_FIRST_BIT, _I, (_UL,))),
    "__builtin_ctzll": (f"(wp.int32({_LOWEST_BIT}) - 1)", _I, (_UL,)),
    **dict.fromkeys(("nextafterf", "__builtin_nextafterf"), ("c_functions.next_after({0}, {1})", _F, (_F, _F))),
    "__float_as_int": ("wp.cast({0}, wp.int32)", _I, (_F,)), "__int_as_float": ("wp.cast({0}, wp.float32)", _F, (_I,)),
    "__float_as_uint": ("wp.cast({0}, wp.uint32)", _U, (_F,)),
    "__uint_as_float": ("wp.cast({0}, wp.float32)", _F, (_U,)),
    "__double_as_longlong": ("wp.cast({0}, wp.int64)", _L, (_D,)),
    "__longlong_as_double": ("wp.cast({0}, wp.float64)", _D, (_L,)),
}  # fmt: skip
"""Functions of C in Python, with the types of their results and parameters."""
OVERLOADED: Final[Mapping[str, str]] = {"sqrt": "wp.sqrt({0})", "fabs": "wp.abs({0})"}
"""Functions that C++ has for float as well as for double, which integers are converted to."""
_OF_ONE_TYPE: Final = frozenset(
    ("min", "max", "abs", "sin", "cos", "tan", "sqrt", "exp", "log", "floor", "ceil", "clamp")
)
"""Functions of Warp for numbers of one type, which is that of the result."""
OF_QUERIES: Final[Mapping[str, str]] = {
    "result": "bool", "sign": _F, "face": _I, "t": _F, "u": _F, "v": _F, "normal": "vec3<float32>",
}  # fmt: skip
"""The fields of what wp::mesh_query_point and wp::mesh_query_ray return."""


def type_of_warp(name: str) -> str:
    """Return the text of a vector type of Warp; an empty text for another name."""
    import diffkern.warp as wp

    return str(getattr(getattr(wp, name, None), "ir", ""))


def call_of_warp(name: str, arguments: list[Typed]) -> Typed:
    """Return a call of one of Warp's built-in functions."""
    called = _built_in(name)
    # Null pointers stand for optional outputs in Warp's C++ signatures, which the functions in Python do not have.
    arguments = [argument for argument in arguments if argument.kind != "nullptr"]
    kinds = {argument.kind for argument in arguments}
    kind = type_of_warp(name) if called.startswith("wp.") else ""
    if name in _OF_ONE_TYPE:
        if len(kinds) > 1:
            raise OtherTextError(f"the arguments of wp::{name} have several types; cast them to one")
        kind = next(iter(kinds), "")
        # For vectors, and for floating-point functions of integers, the type of the result is not known here.
        if kind not in ("", *SCALARS) or (name not in ("min", "max", "abs", "clamp") and not kind.startswith("float")):
            kind = ""
    # A constructor of a vector converts scalars to its component type, as C++ does.
    elif inner := component(kind):
        arguments = [Typed(set_to(a, inner), inner) if a.kind in SCALARS else a for a in arguments]
    elif name in ("dot", "length", "length_sq") and arguments:
        kind = component(arguments[0].kind)
    elif re.match("mesh_query_(point|ray)", name):
        kind = "query"
    return Typed(f"{called}({', '.join(argument.code for argument in arguments)})", kind)


def _built_in(name: str) -> str:
    """Return the name in Python of a function of Warp."""
    import diffkern.warp as wp
    from diffkern.warp.c import c_functions

    if name in c_functions.__all__:
        return f"c_functions.{name}"
    if not callable(getattr(wp, name, None)):
        raise OtherTextError(f"there is no function wp::{name} here")
    return f"wp.{name}"
