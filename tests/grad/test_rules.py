"""Every derivative rule against an oracle: SymPy and high precision, central differences, the scalar expansion."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import sympy

from diffkern.ad.rules import RULES
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Value, walk
from diffkern.ir.ops.row import Diff
from diffkern.ir.ops.table import all_ops
from diffkern.ir.types import FLOAT64, INT32, Tile
from diffkern.lower.composites import expand_composites
from diffkern.testing.gradcheck import Vjp, check_function

from .build import lower
from .corpus import CASES
from .oneop import M2, M3, M4, V2, V3, V4, OneOp, Q, arguments, one_op_function

F = (FLOAT64,)
FF = (FLOAT64, FLOAT64)
INSIDE = [-0.8, -0.31, 0.12, 0.44, 0.9]
ANY = [-2.3, -0.7, 0.4, 1.1, 2.6]
POSITIVE = [0.05, 0.3, 0.9, 1.7, 6.0]
OTHER = [0.6, -1.3, 2.2, -0.2, 1.9]

SCALAR_ROWS = [
    OneOp("add", FF, (ANY, OTHER)),
    OneOp("sub", FF, (ANY, OTHER)),
    OneOp("neg", F, (ANY,)),
    OneOp("mul", FF, (ANY, OTHER)),
    OneOp("div", FF, (ANY, OTHER)),
    OneOp("mod", FF, (ANY, OTHER)),
    OneOp("rem", FF, (ANY, OTHER)),
    OneOp("abs", F, (ANY,)),
    OneOp("min", FF, (ANY, OTHER)),
    OneOp("max", FF, (ANY, OTHER)),
    OneOp("pow", FF, (POSITIVE, OTHER)),
    OneOp("atan2", FF, (ANY, OTHER)),
    OneOp("hypot", FF, (ANY, OTHER)),
    OneOp("copysign", FF, (ANY, OTHER)),
    OneOp("select", FF, (ANY, OTHER), build=lambda b, x: b.select(b.one("lt", x[0], x[1]), x[0], x[1])),
    OneOp("cast", F, (ANY,), attrs={"to": FLOAT64}),
    *(OneOp(name, F, (POSITIVE,)) for name in ("sqrt", "rsqrt", "log", "log2", "log10")),
    OneOp("log1p", F, ([-0.6, -0.1, 0.2, 1.5, 4.0],)),
    OneOp("acosh", F, ([1.05, 1.4, 2.0, 3.0, 8.0],)),
    *(OneOp(name, F, (INSIDE,)) for name in ("asin", "acos", "atanh")),
    *(OneOp(name, F, (ANY,)) for name in ("gamma", "lgamma", "digamma")),
    *(OneOp("polygamma", F, (ANY,), {"order": n}, tag=f"_{n}") for n in (1, 2, 5)),
    *(
        OneOp(name, F, (ANY,))
        for name in (
            "cbrt", "exp", "exp2", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "erf", "erfc",
        )
    ),
]  # fmt: skip


def _random(seed: int, *shape: int, diagonal: bool = False) -> np.ndarray:
    points = np.random.default_rng(seed).uniform(-1.0, 1.0, shape)
    return points + 2.0 * np.eye(shape[-1]) if diagonal else points


N = 3
S = _random(0, N) + 2.0


def _at(name: str, composite_type: Any, extra: list[Any]) -> Any:
    """Build an op whose index operand is an integer constant."""

    def build(b: Builder, x: list[Value]) -> Value:
        index = b.const(1, INT32)
        return b.one(name, x[0], *x[1:], index)

    return build


COMPOSITE_ROWS = [
    OneOp("construct", (FLOAT64,) * 3, (S, S + 1, S - 1), {"type": V3}),
    OneOp("construct", (FLOAT64,) * 4, (S, S + 1, S - 1, S * 2), {"type": M2}, tag="_m"),
    OneOp("extract", (V3,), (_random(1, N, 3),), {"index": 1}),
    OneOp("insert", (V3, FLOAT64), (_random(2, N, 3), S), {"index": 2}),
    OneOp("extract_dyn", (V4,), (_random(3, N, 4),), build=_at("extract_dyn", V4, [])),
    OneOp("insert_dyn", (V3, FLOAT64), (_random(4, N, 3), S), build=_at("insert_dyn", V3, [])),
    OneOp("add", (M2, M2), (_random(5, N, 2, 2), _random(6, N, 2, 2)), tag="_m"),
    OneOp("sub", (V3, V3), (_random(5, N, 3), _random(6, N, 3)), tag="_v"),
    OneOp("neg", (V3,), (_random(7, N, 3),), tag="_v"),
    OneOp("scale", (V3, FLOAT64), (_random(8, N, 3), S)),
    OneOp("scale", (M3, FLOAT64), (_random(9, N, 3, 3), S), tag="_m"),
    OneOp("unscale", (V3, FLOAT64), (_random(10, N, 3), S)),
    OneOp("cw_mul", (V3, V3), (_random(11, N, 3), _random(12, N, 3))),
    OneOp("cw_div", (V3, V3), (_random(13, N, 3), _random(14, N, 3) + 2.0)),
    OneOp("dot", (V4, V4), (_random(15, N, 4), _random(16, N, 4))),
    OneOp("dot", (M2, M2), (_random(17, N, 2, 2), _random(18, N, 2, 2)), tag="_m"),
    OneOp("cross", (V3, V3), (_random(19, N, 3), _random(20, N, 3))),
    OneOp("length", (V3,), (_random(21, N, 3),)),
    OneOp("length_sq", (V2,), (_random(22, N, 2),)),
    OneOp("normalize", (V3,), (_random(23, N, 3),)),
    OneOp("matvec", (M3, V3), (_random(24, N, 3, 3), _random(25, N, 3))),
    OneOp("vecmat", (V2, M2), (_random(26, N, 2), _random(27, N, 2, 2))),
    OneOp("quat_mul", (Q, Q), (_random(60, N, 4), _random(61, N, 4))),
    OneOp("outer", (V3, V2), (_random(28, N, 3), _random(29, N, 2))),
]  # fmt: skip

MATRIX_ROWS = [
    OneOp("matmul", (M2, M2), (_random(30, N, 2, 2), _random(31, N, 2, 2))),
    OneOp("matmul", (M3, M3), (_random(32, N, 3, 3), _random(33, N, 3, 3)), tag="_3"),
    OneOp("transpose", (M3,), (_random(34, N, 3, 3),)),
    OneOp("trace", (M3,), (_random(35, N, 3, 3),)),
    *(
        OneOp(op, (t,), (_random(36 + n, N, n, n, diagonal=True),), tag=f"_{n}")
        for op in ("determinant", "inverse")
        for n, t in ((2, M2), (3, M3), (4, M4))
    ),
    OneOp("determinant", (M3,), (np.array([[1.0, 2, 3], [2, 4, 6], [0.5, -1, 2]]),), tag="_singular"),
]


def _added_along(b: Builder, x: list[Value]) -> Value:
    """Three equal elements are added to one of four, and to none."""
    indices = b.one("tile_fill", b.i32(1), type=Tile(INT32, (3,)))
    whole, part = b.one("tile_fill", x[0], type=Tile(FLOAT64, (4,))), b.one("tile_fill", x[1], type=Tile(FLOAT64, (3,)))
    added = b.one("tile_add_along", b.each("mul", whole, whole), b.each("mul", part, part), indices, axis=0)
    return b.mul(*(b.one("tile_extract", added, b.i32(k)) for k in (1, 2)))


TILE_ROWS = [OneOp("tile_add_along", FF, (ANY, OTHER), build=_added_along)]
FAMILIES = {
    "scalar": (SCALAR_ROWS, 5),
    "composite": (COMPOSITE_ROWS, N),
    "matrix": (MATRIX_ROWS, N),
    "tile": (TILE_ROWS, 5),
}


def test_every_operation_is_in_exactly_one_place() -> None:
    for name, row in all_ops().items():
        has_rule = name in RULES
        # the sweep adds the derivative of an extract to one component, and differentiates a map's function itself
        if name in {"extract", "insert", "tile_extract", "tile_map", "tile_sort"}:
            assert not has_rule
            continue
        assert has_rule == (row.diff is Diff.RULE), name
    assert set(RULES) <= set(all_ops())
    assert {name for name, row in all_ops().items() if row.partials} <= set(RULES)


def test_every_rule_is_checked_here() -> None:
    checked = {row.op for rows, _ in FAMILIES.values() for row in rows}
    # Those of tiles are checked in whole kernels, in test_corpus.
    for name, case in CASES.items():
        if name.startswith("tiles."):
            checked |= {op.name for op in walk(lower(case).body) if op.name.startswith("tile_")}
    checked |= {"round_float16", "round_bfloat16"}  # in float64 nothing is rounded: test_narrow
    checked -= {name for name, row in all_ops().items() if row.diff is not Diff.RULE}
    assert checked == {name for name, row in all_ops().items() if row.diff is Diff.RULE}


@pytest.mark.parametrize("family", FAMILIES)
def test_rules_against_central_differences(family: str) -> None:
    rows, count = FAMILIES[family]
    fn = one_op_function(f"{family}_rules", rows)
    from diffkern.testing.gradcheck import Tolerances

    report = check_function(fn, (count,), arguments(fn, rows, count), tolerances=Tolerances(max_elements=10_000))
    assert not report.kinks, report


@pytest.mark.parametrize("family", ["composite", "matrix"])
def test_composite_rules_against_the_derivative_of_their_expansion(family: str) -> None:
    rows, count = FAMILIES[family]
    fn = one_op_function(f"{family}_rules", rows)
    args = arguments(fn, rows, count)
    whole = Vjp(fn)
    scalars = Vjp(expand_composites(fn))
    weights = whole.weights(args, np.random.default_rng(3))
    expected = scalars.gradients((count,), args, weights)
    for i, gradient in whole.gradients((count,), args, weights).items():
        np.testing.assert_allclose(gradient, expected[i], rtol=1e-11, atol=1e-12, err_msg=whole.names[i])


FORMULAS = {name: row.partials for name, row in all_ops().items() if row.partials}
x, y = sympy.symbols("x y", real=True)
DEFINITIONS: dict[str, Any] = {
    "mul": x * y, "div": x / y, "mod": x - y * sympy.floor(x / y), "abs": sympy.Abs(x), "pow": x**y,
    "atan2": sympy.atan2(x, y), "hypot": sympy.sqrt(x**2 + y**2),
    "sqrt": sympy.sqrt(x), "rsqrt": 1 / sympy.sqrt(x), "cbrt": sympy.cbrt(x),
    "exp": sympy.exp(x), "exp2": 2**x, "expm1": sympy.exp(x) - 1, "log": sympy.log(x),
    "log2": sympy.log(x) / sympy.log(2), "log10": sympy.log(x) / sympy.log(10), "log1p": sympy.log(1 + x),
    "sin": sympy.sin(x), "cos": sympy.cos(x), "tan": sympy.tan(x), "asin": sympy.asin(x), "acos": sympy.acos(x),
    "atan": sympy.atan(x), "sinh": sympy.sinh(x), "cosh": sympy.cosh(x), "tanh": sympy.tanh(x),
    "asinh": sympy.asinh(x), "acosh": sympy.acosh(x), "atanh": sympy.atanh(x), "erf": sympy.erf(x),
    "erfc": sympy.erfc(x), "gamma": sympy.gamma(x), "digamma": sympy.digamma(x),
}  # fmt: skip

POINTS = {row.op: row.points for row in SCALAR_ROWS}
NAMESPACE = {
    name: getattr(mpmath, name) for name in ("floor", "sign", "log", "exp", "sin", "cos", "sinh", "cosh", "sqrt")
}
NAMESPACE |= {"digamma": mpmath.digamma, "polygamma": lambda v, order: mpmath.psi(order, v)}
NAMESPACE |= {"trunc": lambda v: mpmath.mpf(int(v)), "pow": mpmath.power, "rsqrt": lambda v: 1 / mpmath.sqrt(v)}


@pytest.mark.parametrize("name", sorted(set(FORMULAS) - {"lgamma"}))  # SymPy has no logarithm of the absolute value
def test_formula_against_sympy(name: str) -> None:
    definition = DEFINITIONS.get(name)
    symbols = (x, y)[: len(FORMULAS[name])]
    with mpmath.workdps(40):
        points = list(zip(*([mpmath.mpf(str(v)) for v in column] for column in POINTS[name]), strict=True))
        if name == "cbrt":
            points = [(abs(v),) for (v,) in points]  # SymPy's principal root is another function below 0
        for point in points:
            at = dict(zip(symbols, point, strict=True))
            if name == "rem":
                definition = x - y * int(point[0] / point[1])
            value = _high_precision(definition, at)
            env = {"x": point[0], "y": point[-1], "r": value, **NAMESPACE}
            for symbol, text in zip(symbols, FORMULAS[name], strict=True):
                derivative = definition.diff(symbol)
                if name == "mod":
                    derivative = derivative.subs(sympy.Derivative(sympy.floor(x / y), symbol), 0).replace(
                        sympy.Subs, lambda *_: sympy.Integer(0)
                    )
                expected = _high_precision(derivative.doit(), at)
                assert mpmath.almosteq(eval(text, env), expected, rel_eps=1e-14, abs_eps=1e-14), (text, point)


def _high_precision(expression: Any, at: dict[Any, Any]) -> Any:
    return mpmath.mpf(str(expression.subs({s: sympy.Float(str(v), 40) for s, v in at.items()}).evalf(40)))


def test_formula_against_differences_in_high_precision() -> None:
    """The same without SymPy's knowledge of derivatives: mpmath's differences with 40 digits."""
    functions = {
        "cbrt": lambda v: mpmath.sign(v) * mpmath.cbrt(abs(v)), "erf": mpmath.erf, "erfc": mpmath.erfc,
        "tan": mpmath.tan, "atanh": mpmath.atanh, "acosh": mpmath.acosh, "asinh": mpmath.asinh,
        "rsqrt": lambda v: 1 / mpmath.sqrt(v), "log1p": lambda v: mpmath.log(1 + v),
        "exp2": lambda v: mpmath.power(2, v), "gamma": mpmath.gamma, "digamma": mpmath.digamma,
        "lgamma": lambda v: mpmath.log(abs(mpmath.gamma(v))),
    }  # fmt: skip
    with mpmath.workdps(40):
        for name, function in functions.items():
            for number in POINTS[name][0]:
                point = mpmath.mpf(str(number))
                env = {"x": point, "r": function(point), **NAMESPACE}
                found = eval(FORMULAS[name][0], env)
                assert mpmath.almosteq(found, mpmath.diff(function, point), rel_eps=1e-14, abs_eps=1e-14), name
