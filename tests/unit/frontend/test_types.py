"""Types of expressions: weak literals, promotion, conversions, what loops and branches make of them."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.frontend.statements import lowering
from diffkern.ir.nodes import Function, Op, walk
from diffkern.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT8,
    Array,
    Mat,
    Scalar,
    Type,
    Vec,
)

from .sources import lower, text_of

VEC3 = Vec(FLOAT32, 3)


class Mode(enum.IntEnum):
    FAST = 3


class Plain(enum.Enum):
    RATE = 0.25


NAMES: dict[str, Any] = {
    "TEN": 10,
    "BIG": 5 + 2**32,
    "HALF": 0.5,
    "NUMPY64": np.float64(0.5),
    "NUMPY_INT": np.int64(3),
    "Mode": Mode,
    "Plain": Plain,
    "math": math,
    "UP": dk.vec3(0.0, 0.0, 1.0),
    "FLAG": False,
    "GRAVITY": (0.0, -9.81),
}


def ops(fn: Function, name: str) -> list[Op]:
    return [op for op in walk(fn.body) if op.name == name]


EXPRESSIONS: list[tuple[str, Type]] = [
    ("x[i] * 2", FLOAT32),
    ("0.5 * x[i]", FLOAT32),
    ("d[i] * 0.1", FLOAT64),
    ("x[i] * d[i]", FLOAT64),
    ("n * x[i]", FLOAT32),
    ("wide[i] * x[i]", FLOAT32),
    ("n * d[i]", FLOAT64),
    ("n + wide[i]", INT64),
    ("n + 1", INT32),
    ("0.5 * n", FLOAT32),
    ("bytes8[i] + 1", UINT8),
    ("bytes8[i] + n", INT32),
    ("x[i] * TEN", FLOAT32),
    ("x[i] * HALF", FLOAT32),
    ("x[i] * NUMPY64", FLOAT64),
    ("n + NUMPY_INT", INT64),
    ("x[i] * Mode.FAST * Plain.RATE", FLOAT32),
    ("x[i] * math.pi", FLOAT32),
    ("x[i] ** 2", FLOAT32),
    ("n ** 3", INT32),
    ("n // 2 % 3", INT32),
    ("n / 2.0", FLOAT32),
    ("float(n)", FLOAT32),
    ("int(x[i])", INT32),
    ("dk.int64(n)", INT64),
    ("np.float64(a)", FLOAT64),
    ("d.dtype(a)", FLOAT64),
    ("bool(n)", BOOL),
    ("x[i] > 0", BOOL),
    ("x[i] > 0 and n < 3", BOOL),
    ("0 < n < TEN", BOOL),
    ("not n", BOOL),
    ("x[i] if n > 1 else 0", FLOAT32),
    ("dk.where(n > 1, 1, d[i])", FLOAT64),
    ("dk.sin(n)", FLOAT32),
    ("dk.atan2(x[i], 1)", FLOAT32),
    ("np.arctan2(d[i], 2.0)", FLOAT64),
    ("math.floor(x[i])", INT32),
    ("dk.floor(x[i])", FLOAT32),
    ("round(x[i])", INT32),
    ("min(n, 3)", INT32),
    ("max(x[i], 0, n)", FLOAT32),
    ("dk.clamp(d[i], 0, 1)", FLOAT64),
    ("abs(-n)", INT32),
    ("len(x)", INT32),
    ("grid.shape[1]", INT32),
    ("v[i]", VEC3),
    ("v[i].x", FLOAT32),
    ("v[i][n]", FLOAT32),
    ("v[i] * 2", VEC3),
    ("2 * v[i] / n", VEC3),
    ("v[i] * d[i]", Vec(FLOAT64, 3)),
    ("-v[i] + UP", VEC3),
    ("dk.dot(v[i], UP)", FLOAT32),
    ("m[i]", Mat(FLOAT32, 3, 3)),
    ("m[i][0]", VEC3),
    ("m[i][0][1]", FLOAT32),
    ("m[i][0, n]", FLOAT32),
    ("m[i] @ v[i]", VEC3),
    ("v[i] @ m[i]", VEC3),
    ("m[i] * m[i]", Mat(FLOAT32, 3, 3)),
    ("dk.outer(v[i], v[i])", Mat(FLOAT32, 3, 3)),
    ("dk.identity(2)", Mat(FLOAT32, 2, 2)),
    ("dk.identity(n=3, dtype=dk.float64)", Mat(FLOAT64, 3, 3)),
    ("dk.vec3d(v[i])", Vec(FLOAT64, 3)),
    ("dk.vec3i(1, 2, n)", Vec(INT32, 3)),
    ("dk.mat33(v[i], v[i], v[i])", Mat(FLOAT32, 3, 3)),
    ("dk.matrix_from_cols(v[i], UP, v[0])", Mat(FLOAT32, 3, 3)),
    ("min(v[i], UP)", VEC3),
    ("max(v[i])", FLOAT32),
    ("v[i] == UP", BOOL),
    ("dk.atomic_add(y, 0, 1)", FLOAT32),
]


@pytest.mark.parametrize(("expression", "want"), EXPRESSIONS)
def test_type_of(expression: str, want: Type) -> None:
    fn = lower(f"result = ({expression})\nother = result", **NAMES)
    last = [r for op in fn.body.ops for r in op.results][-1]
    assert last.type == want


def test_a_literal_that_does_not_fit_is_refused_rather_than_wrapped() -> None:
    with pytest.raises(dk.KernelTypeError, match="4294967301 does not fit in int32"):
        lower("q = n + BIG", **NAMES)


@pytest.mark.parametrize(
    ("statements", "want"),
    [
        ("s = 0.0\nfor j in range(n):\n    s += x[j]", FLOAT32),
        ("s = 0\nfor j in range(n):\n    s += x[j]", FLOAT32),
        ("s = 0.0\nfor j in range(n):\n    s += d[j]", FLOAT64),
        ("s = 0\nfor j in range(n):\n    s += j", INT32),
        ("s = 0\nfor j in range(n):\n    s = s + wide[j]", INT64),
        ("s = 0\nfor j in range(n):\n    s = s * 31 + bytes8[j]", UINT8),
        ("s = 1\nwhile s < n:\n    s *= 2", INT32),
        ("s = 1\nwhile s < n:\n    s *= 1.5", FLOAT32),
        ("s = 0\nif n > 1:\n    s = x[i]", FLOAT32),
        ("s = False\nfor j in range(n):\n    s = x[j] > 0", BOOL),
        ("s = 0\nt = 0\nfor j in range(n):\n    s, t = t, d[j]", FLOAT64),
        (
            "s = 0\nfor j in range(n):\n    for k in range(j):\n        for q in range(k):\n            s += d[q]",
            FLOAT64,
        ),
        ("s = 0\nfor j in range(n):\n    t = s / 2.0\n    s = x[j] + t", FLOAT32),
        ("s = 0.0\nu = 0.0\nfor j in range(n):\n    u = s * n\n    s = s + d[j]\ns = u", FLOAT64),
        ("s = dk.vec3()\nfor j in range(n):\n    s += v[j]", VEC3),
        ("s = dk.float64(0.0)\nfor j in range(n):\n    s += 0.5", FLOAT64),
        ("s: dk.float64 = 0.0\nfor j in range(n):\n    s += 0.5", FLOAT64),
        ('s: "dk.float64" = 0.0\nfor j in range(n):\n    s += 0.5', FLOAT64),
    ],
)
def test_literals_take_the_type_they_meet(statements: str, want: Scalar) -> None:
    fn = lower(f"{statements}\nkeep = s", **NAMES)
    loops = [op for op in fn.body.ops if op.regions]
    assert [r.type for r in loops[-1].results if r.name == "s"] == [want]


def test_integers_become_floats_of_the_width_they_meet_in_division() -> None:
    lower("s = 0\nfor j in range(n):\n    t = s / x[j]\n    s = x[j]\ny[i] = s")


def test_no_float64_in_a_float32_kernel() -> None:
    fn = lower("s = 0.0\nfor j in range(n):\n    s += 0.1 * x[j] ** 2 + HALF / 3\ny[i] = dk.sin(s * math.pi)", **NAMES)
    assert all(r.type != FLOAT64 for op in walk(fn.body) for r in op.results)


def test_constants_keep_the_digits_that_were_written() -> None:
    fn = lower("y[i] = 0.1 * x[i]")
    assert ops(fn, "const")[-1].attrs["value"] == 0.1


def test_constant_expressions_are_folded_as_python_does() -> None:
    fn = lower("y[i] = 1 / 3 + 2**-2 - 7 // 2 + GRAVITY[-1] * math.sqrt(4)", **NAMES)
    (const,) = (op for op in ops(fn, "const") if op.attrs["type"] == FLOAT32)
    assert const.attrs["value"] == 1 / 3 + 2**-2 - 7 // 2 + -9.81 * 2.0


def test_a_constant_condition_selects_the_branch_now() -> None:
    fn = lower("if FLAG:\n    y[i] = undefined_here\nelse:\n    y[i] = 1.0", **NAMES)
    assert not ops(fn, "if")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a ** 2", ["mul"]),
        ("a ** 3.0", ["mul", "mul"]),
        ("a ** 8", ["mul", "mul", "mul"]),
        ("a ** -1", ["const", "div"]),
        ("a ** 0.5", ["sqrt"]),
        ("a ** -0.5", ["rsqrt"]),
        ("a ** 1.5", ["const", "pow"]),
        ("a ** a", ["pow"]),
        ("math.pow(a, 2)", ["mul"]),
    ],
)
def test_powers(expression: str, expected: list[str]) -> None:
    fn = lower(f"q = {expression}", math=math)
    assert [op.name for op in fn.body.ops if op.name != "tid"] == expected


def test_wrap_is_left_out_where_an_index_cannot_be_negative() -> None:
    fn = lower(
        """
        y[i] = x[i] + x[0] + x[-1] + x[n] + x[i + 1] + x[i - 1] + x[len(x) // 2]
        for j in range(n):
            y[j] = x[max(j - 1, 0)]
        for j in range(n, -1, -1):
            y[j] = x[bytes8[j]]
        """
    )
    wraps = [op.attrs["wrap"][0] for op in ops(fn, "load")]
    # Sums may wrap around; the pass that knows upper bounds clears the flag of x[i + 1].
    assert wraps == [False, False, True, True, True, True, False, False, False, False]
    assert not any(op.attrs["wrap"][0] for op in ops(fn, "store"))


def test_short_circuits_guard_what_must_not_be_evaluated() -> None:
    assert len(ops(lower("if n > 0 and x[n] > 0:\n    y[i] = 1.0"), "if")) == 2
    assert len(ops(lower("if n != 0 and 5 // n > 1:\n    y[i] = 1.0"), "if")) == 2
    eager = lower("if n > 0 and (n < 9 or i == 3):\n    y[i] = 1.0")
    assert len(ops(eager, "if")) == 1
    assert [op.name for op in eager.body.ops if op.name in ("and", "or")] == ["or", "and"]


def test_where_evaluates_only_the_side_it_takes() -> None:
    fn = lower("y[i] = dk.where(a > 0, dk.sqrt(a), 0.0)")
    (op,) = ops(fn, "if")
    assert [o.name for o in op.regions[0].ops] == ["sqrt"]
    assert len(ops(lower("q = dk.sqrt(a)\ny[i] = dk.where(a > 0, q, a)"), "select")) == 1


def test_storage_types_are_loaded_as_float32() -> None:
    def kernel(h, b):
        i = dk.tid()
        h[i] = h[i] * 0.5 + b[i]

    fn = lowering.lower(kernel, [Array(FLOAT16, 1), Array(BFLOAT16, 1)])
    assert all(r.type in (FLOAT32, INT32) for op in walk(fn.body) for r in op.results)


def test_kernel_facts() -> None:
    fn = lower("y[i] = 1.0")
    assert fn.tid_arity == 1
    assert fn.source_lines[3] == "    y[i] = 1.0"
    assert fn.loc.line == 1
    assert [op.loc.line for op in fn.body.ops] == [2, 3, 3]
    assert "%i: int32 = tid" in text_of("y[i] = 1.0")


def test_ops_of_a_func_carry_positions_in_its_file() -> None:
    fn = lower("y[i] = helper(a)", helper=helper)
    (op,) = ops(fn, "exp")
    assert op.loc.file.endswith("test_types.py")
    assert "dk.exp(x)" in op.loc.text


@dk.func
def helper(x):
    return dk.exp(x)


class _Mode(enum.IntEnum):
    FAST = 7


class _Factor(enum.Enum):
    HALF = 0.5


def test_values_of_enumerations_and_shapes_of_composites() -> None:
    @dk.kernel
    def facts(y: dk.array(dtype=float)):
        m, v = dk.mat22(1.0), dk.vec3(0.0)
        y[0] = float(_Mode.FAST.value) * _Factor.HALF.value
        y[1] = float(m.shape[0] + 10 * m.shape[1] + 100 * v.length + 1000 * v.shape[0])

    y = dk.zeros(2)
    dk.launch(facts, 1, inputs=[y])
    assert y.list() == [3.5, 3322.0]
