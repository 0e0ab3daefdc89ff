"""The operation table is complete and agrees with the derivative rules."""

from __future__ import annotations

import pytest

from diffkern.ad.rules import RULES
from diffkern.ir.ops.output import REPORTS
from diffkern.ir.ops.row import Diff, Effect, OpDef, TypeRuleError
from diffkern.ir.ops.table import all_ops, lookup, table_of
from diffkern.ir.types import BOOL, FLOAT16, FLOAT32, INT32, UINT32, Array, Mat, Type, Vec, quaternion

TILES = {"tile_load", "tile_store", "tile_atomic"}
SPECIAL = {"load", "store", "atomic", "if", "for", "while", "barrier", "shared_new", "ruled", "cotangent_array"} | TILES
WARPS = {"warp_shuffle", "warp_ballot", "warp_active", "warp_barrier", "warp_fence"}
SPECIAL |= {"fetch", "look", "poke", "refused"} | WARPS
BUFFERS = {"buffer_new", "buffer_get", "buffer_set", "buffer_add", "buffer_matmul", "buffer_product"}
PURE_INTERNAL = {"next_checkpoint", "tile_scatter", "aligned", "array_at"}
OF_ADDRESSES = {"peek", "inner_shape", "points"}
INTERNAL = (
    {"accumulate", "stack_new", "stack_get", "stack_set", "tile_accumulate", "lane_left", "deposit", "withdraw"}
    | BUFFERS
    | PURE_INTERNAL
)
# Their cotangents are collected by the reverse pass itself.
BY_THE_PASS = {"extract", "insert", "tile_extract", "tile_map", "tile_sort"}


def test_every_op_is_treated_in_exactly_one_way() -> None:
    by_rule = set(RULES) | BY_THE_PASS
    groups = {d: {name for name, row in all_ops().items() if row.diff is d} for d in Diff}
    assert groups[Diff.RULE] == by_rule
    assert groups[Diff.SPECIAL] == SPECIAL
    assert groups[Diff.INTERNAL] == INTERNAL
    assert not groups[Diff.ZERO] & by_rule
    assert sum(map(len, groups.values())) == len(all_ops())


def test_only_memory_control_and_reports_have_effects() -> None:
    effects = {name for name, row in all_ops().items() if row.effect is not Effect.PURE}
    assert effects == REPORTS | OF_ADDRESSES | (SPECIAL | INTERNAL) - PURE_INTERNAL - {"shared_new", "cotangent_array"}


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="two rows"):
        table_of([*all_ops().values(), OpDef("add", "scalar", 2, lookup("add").infer)])


def test_pure_scalar_ops_have_a_spelling_in_python() -> None:
    spelled = {name for name, row in all_ops().items() if row.family in ("scalar", "composite") and row.py}
    unspelled = {name for name, row in all_ops().items() if row.family in ("scalar", "composite")} - spelled
    assert unspelled == {"const", "construct", "extract", "insert"}


Q = quaternion(FLOAT32)
V3, M2, M23 = Vec(FLOAT32, 3), Mat(FLOAT32, 2, 2), Mat(FLOAT32, 2, 3)
A1 = Array(FLOAT16, 1)


@pytest.mark.parametrize(
    ("name", "types", "attrs", "results"),
    [
        ("add", (V3, V3), {}, (V3,)),
        ("mul", (INT32, INT32), {}, (INT32,)),
        ("cast", (V3,), {"to": Vec(INT32, 3)}, (Vec(INT32, 3),)),
        ("matmul", (M2, M23), {}, (M23,)),
        ("matvec", (M23, V3), {}, (Vec(FLOAT32, 2),)),
        ("vecmat", (Vec(FLOAT32, 2), M23), {}, (V3,)),
        ("outer", (Vec(FLOAT32, 2), V3), {}, (M23,)),
        ("quat_mul", (Q, Q), {}, (Q,)),
        ("transpose", (M23,), {}, (Mat(FLOAT32, 3, 2),)),
        ("dot", (M2, M2), {}, (FLOAT32,)),
        ("load", (A1, INT32), {"wrap": (False,)}, (FLOAT32,)),
        ("store", (A1, UINT32, FLOAT32), {"wrap": (False,)}, ()),
        ("atomic", (A1, INT32, FLOAT32), {"wrap": (False,), "kind": "max"}, (FLOAT32,)),
        ("shape", (A1,), {"axis": 0}, (INT32,)),
    ],
)
def test_result_types(name: str, types: tuple[Type, ...], attrs: dict[str, object], results: tuple[Type, ...]) -> None:
    assert lookup(name).infer(types, attrs) == results


@pytest.mark.parametrize(
    ("name", "types", "attrs", "message"),
    [
        ("mul", (V3, V3), {}, "needs a scalar"),
        ("add", (FLOAT16, FLOAT16), {}, "storage type"),
        ("neg", (UINT32,), {}, "signed"),
        ("div", (INT32, INT32), {}, "floats"),
        ("and", (FLOAT32, FLOAT32), {}, "bools or integers"),
        ("select", (INT32, FLOAT32, FLOAT32), {}, "bool condition"),
        ("select", (BOOL, A1, A1), {}, "scalar or composite"),
        ("cast", (V3,), {"to": FLOAT32}, "target of shape"),
        ("cross", (Vec(FLOAT32, 2),) * 2, {}, "length 3"),
        ("quat_mul", (Vec(FLOAT32, 4),) * 2, {}, "needs quaternions"),
        ("matmul", (M23, M2), {}, "inner sizes differ"),
        ("inverse", (M23,), {}, "square"),
        ("extract", (V3,), {"index": 3}, "component 3"),
        ("construct", (FLOAT32,), {"type": V3}, "needs 3 components"),
        ("load", (A1,), {}, "needs 1 indices, not 0"),
        ("load", (A1, FLOAT32), {}, "index must be an integer"),
        ("store", (A1, INT32, FLOAT16), {}, "takes values of type float32"),
        ("atomic", (A1, INT32, FLOAT32), {"kind": "swap"}, "atomic 'swap'"),
        ("atomic", (A1, INT32, FLOAT32), {"kind": "inc"}, "atomic inc of array1d<float16"),
        ("accumulate", (A1, INT32, FLOAT32), {"mode": "odd"}, "mode 'odd'"),
        ("for", (INT32, UINT32, INT32), {}, "integers of one type"),
        ("if", (INT32,), {"types": ()}, "bool condition"),
    ],
)
def test_type_rules_refuse(name: str, types: tuple[Type, ...], attrs: dict[str, object], message: str) -> None:
    with pytest.raises(TypeRuleError, match=message):
        lookup(name).infer(types, attrs)
