"""Thread-level vocabulary of C++ snippets for a GPU, in Python: names, shuffles, votes, barriers and atomic updates.

The functions take a name, and a call's arguments that are already translated. They give expressions and statements in
Python, and None for other names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from diffkern.warp.c.c_types import SCALARS, OtherTextError, Typed, as_kind, promoted

__all__ = ["NAMES", "WAITS", "atomic_update", "called", "of_bits", "update_named"]

NAMES: Final[Mapping[str, Typed]] = {
    "threadIdx.x": Typed("c_warps.thread()", "uint32"), "blockDim.x": Typed("wp.block_dim()", "uint32"),
    "warpSize": Typed("32", "int32", True),
}  # fmt: skip
"""Variables that every thread has."""
_WHOLE: Final = "wp.uint32(0xFFFFFFFF)"
WAITS: Final[Mapping[str, str]] = {
    "WP_TILE_SYNC()": "c_warps.block_wait()", "__syncthreads()": "c_warps.block_wait()",
    "__syncwarp()": f"c_warps.wait({_WHOLE})",
    "__threadfence()": "c_warps.fence()", "__threadfence_block()": "c_warps.fence()",
}  # fmt: skip
"""Statements that order what threads do, without white space."""
_SHUFFLES: Final[Mapping[str, str]] = {
    "__shfl_sync": "shuffle", "__shfl_up_sync": "shuffle_up", "__shfl_down_sync": "shuffle_down",
    "__shfl_xor_sync": "shuffle_xor",
}  # fmt: skip
_VOTES: Final[Mapping[str, tuple[str, str]]] = {
    "__ballot_sync": ("c_warps.ballot({0}, {1})", "uint32"),
    "__any_sync": ("wp.int32(c_warps.ballot({0}, {1}) != wp.uint32(0))", "int32"),
    "__all_sync": ("wp.int32(c_warps.ballot({0}, not {1}) == wp.uint32(0))", "int32"),
}
_UPDATE: Final = re.compile(r"atomic(Add|Sub|Min|Max|Exch|CAS|And|Or|Xor)(?:_block|_system)?")


def called(name: str, arguments: Sequence[Typed]) -> Typed | None:
    """Return a call of a function that the lanes of a warp call together; None for another function."""
    if name in _SHUFFLES and len(arguments) in (3, 4):
        mask, value, lane, *rest = arguments
        # CUDA's shuffles have overloads for int and wider types only, so that narrow integers are promoted.
        kind = promoted(value.kind)
        if kind not in SCALARS:
            raise OtherTextError(f"{name} of {value.code}, which is no number")
        # The width is a segment of the warp; without one it is the whole warp.
        width = as_kind(rest[0], "int32") if rest else "32"
        code = f"{_mask(mask)}, wp.{kind}({value.code}), {as_kind(lane, 'int32')}, {width}"
        return Typed(f"c_warps.{_SHUFFLES[name]}({code})", kind)
    if name in _VOTES and len(arguments) == 2:
        pattern, kind = _VOTES[name]
        return Typed(pattern.format(_mask(arguments[0]), as_kind(arguments[1], "bool")), kind)
    if name == "__activemask" and not arguments:
        return Typed("c_warps.active()", "uint32")
    if name == "__syncwarp" and len(arguments) == 1:
        return Typed(f"c_warps.wait({_mask(arguments[0])})", "")
    return None


def _mask(value: Typed) -> str:
    # A literal such as 0xFFFFFFFF is no int32 in Python; it gets its type by construction, not by conversion.
    return f"wp.uint32({value.code})" if value.constant else as_kind(value, "uint32")


def update_named(name: str) -> str:
    """Return the name in Python of an atomic update in C; an empty text for another function."""
    found = _UPDATE.fullmatch(name)
    return f"atomic_{found[1].lower()}" if found else ""


def atomic_update(name: str, place: str, kind: str, values: Sequence[Typed]) -> Typed:
    """Return an atomic update of an element, whose value is the old content."""
    if len(values) != 1 + (name == "atomic_cas"):
        raise OtherTextError(f"{name} takes another number of arguments")
    if kind not in SCALARS:
        raise OtherTextError(f"{name} of an element of {kind or 'a type that is not known here'}")
    given = ", ".join(f"wp.{kind}({v.code})" if v.constant else as_kind(v, kind) for v in values)
    return Typed(f"wp.{name}({place}, {given})", kind)


def of_bits(name: str, array: Typed, indices: Sequence[str], wanted: str, values: Sequence[Typed]) -> Typed:
    """Return an atomic update of an element's bits, reinterpreted as another type; the old content is not returned."""
    # The usual idiom for a maximum of floats of one sign; others have no loop of compare-and-swap here.
    known = name in ("atomic_max", "atomic_min") and (array.kind, wanted) == ("float32", "int32")
    if not known or len(indices) != 1 or len(values) != 1:
        raise OtherTextError(f"{name} of elements of {array.kind} read as {wanted}")
    return Typed(f"c_warps.{name}_of_bits({array.code}, {indices[0]}, {as_kind(values[0], 'int32')})", "nothing")
