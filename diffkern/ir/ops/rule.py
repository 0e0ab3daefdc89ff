"""Calls of funcs whose author has written a derivative or a replay.

The func itself is inlined like any other. After it stands one ``ruled`` op, whose results are those of the func and
whose regions are used instead where the func is differentiated. Until then, only its results matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.ir.ops.row import Diff, Effect, OpDef, TypeRuleError
from diffkern.ir.types import Array, Type

Attrs = Mapping[str, Any]


def _ruled(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if not 0 <= attrs["results"] <= len(types):
        raise TypeRuleError(f"{attrs['results']} results of {len(types)} operands")
    return tuple(types[: attrs["results"]])


def _nothing(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return ()


def _cotangent_array(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if not isinstance(types[0], Array):
        raise TypeRuleError(f"needs an array, not {types[0]}")
    return (types[0],)


ROWS = (
    # (*returned, *inputs); results: the number of values returned. Its regions, each if present: the derivative, from a
    # cotangent for each result to those of the inputs, and the replay, which yields the results.
    OpDef(
        "ruled", "rule", None, _ruled, Effect.CONTROL, Diff.SPECIAL,
        attrs={"results": int, "derivative": bool, "replayed": bool}, cost=0.0,
    ),
    # (*arrays of cotangents in use): stands in a derivative that does what none may do; the text says what
    OpDef("refused", "rule", None, _nothing, Effect.REPORT, Diff.SPECIAL, attrs={"text": str}, cost=0.0),
    # The array of cotangents of an array, in a derivative
    OpDef("cotangent_array", "rule", 1, _cotangent_array, diff=Diff.SPECIAL, cost=0.0),
)  # fmt: skip

COTANGENT_ARRAYS = frozenset(row.name for row in ROWS if row.infer is _cotangent_array)
