"""Functions of C's library and of Warp that texts in C++ call, with the types of their parameters and results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["CALLS", "OF_ONE_TYPE", "OF_QUERIES", "OVERLOADED"]

_F, _D, _I, _U, _L, _UL = "float32", "float64", "int32", "uint32", "int64", "uint64"
_LOWEST_BIT: Final = "wp.bit_count(({0}) ^ (({0}) - wp.uint64(1)))"
_FIRST_BIT: Final = f"wp.where(({{0}}) == wp.uint64(0), wp.int32(0), wp.int32({_LOWEST_BIT}))"
CALLS: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    **{f"{name}f": (f"wp.{name}({{0}})", _F, (_F,)) for name in ("sqrt", "exp", "log", "sin", "cos", "floor")},
    **{f"f{name}f": (f"wp.{name}({{0}}, {{1}})", _F, (_F, _F)) for name in ("max", "min")},
    "fabsf": ("wp.abs({0})", _F, (_F,)),
    **dict.fromkeys(("__frsqrt_rn", "rsqrtf"), ("(wp.float32(1.0) / wp.sqrt({0}))", _F, (_F,))),
    **dict.fromkeys(("__popc", "__builtin_popcount"), ("wp.int32(wp.bit_count({0}))", _I, (_U,))),
    **dict.fromkeys(("__popcll", "__builtin_popcountll"), ("wp.int32(wp.bit_count({0}))", _I, (_UL,))),
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
OF_ONE_TYPE: Final = frozenset(
    ("min", "max", "abs", "sin", "cos", "tan", "sqrt", "exp", "log", "floor", "ceil", "clamp")
)
"""Functions of Warp for numbers of one type, which is that of the result."""
OF_QUERIES: Final[Mapping[str, str]] = {
    "result": "bool", "sign": _F, "face": _I, "t": _F, "u": _F, "v": _F, "normal": "vec3<float32>",
}  # fmt: skip
"""The fields of what wp::mesh_query_point and wp::mesh_query_ray return."""
