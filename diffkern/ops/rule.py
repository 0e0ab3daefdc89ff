"""Calls of funcs with a derivative, or a replay, that their author has written.

The func itself is inlined like any other. Behind it stands one ``ruled`` op whose results are what the func returned,
and which has what is done instead where the function is differentiated: until then nothing but its results counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.ir.types import Array, Type
from diffkern.ops.row import Diff, Effect, OpDef, TypeRuleError

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
    # (*returned, *inputs); results: what was returned. Regions, each if it is there: the derivative, from a cotangent
    # for each result to those of the inputs, and the replay, which yields the results.
    OpDef(
        "ruled", "rule", None, _ruled, Effect.CONTROL, Diff.SPECIAL,
        attrs={"results": int, "derivative": bool, "replayed": bool}, cost=0.0,
    ),
    # In a derivative that does what none may do; of the arrays of cotangents that it has
    OpDef("refused", "rule", None, _nothing, Effect.REPORT, Diff.SPECIAL, attrs={"text": str}, cost=0.0),
    # The array of cotangents of an array, in a derivative
    OpDef("cotangent_array", "rule", 1, _cotangent_array, diff=Diff.SPECIAL, cost=0.0),
)  # fmt: skip
