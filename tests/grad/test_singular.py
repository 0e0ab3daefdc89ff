"""Exact zeros in front of derivatives that are infinite or not numbers, for every operation that has such a point."""

from __future__ import annotations

import linecache
import math
from typing import Any

import numpy as np
import pytest
from support.fuzz import load_module

import diffkern as dk
import diffkern.warp as wp
from diffkern.ir.ops.table import all_ops
from diffkern.testing import gradcheck

INF = math.inf

# operation, expression in a and b, the point
POINTS: list[tuple[str, str, tuple[float, float]]] = [
    ("sqrt", "dk.sqrt(a)", (0.0, 1.0)),
    ("sqrt", "dk.sqrt(a)", (-1.0, 1.0)),
    ("rsqrt", "dk.rsqrt(a)", (0.0, 1.0)),
    ("cbrt", "dk.cbrt(a)", (0.0, 1.0)),
    ("log", "dk.log(a)", (0.0, 1.0)),
    ("log", "dk.log(a)", (-1.0, 1.0)),
    ("log2", "dk.log2(a)", (0.0, 1.0)),
    ("log10", "dk.log10(a)", (0.0, 1.0)),
    ("log1p", "dk.log1p(a)", (-1.0, 1.0)),
    ("asin", "dk.asin(a)", (1.0, 1.0)),
    ("asin", "dk.asin(a)", (-1.0, 1.0)),
    ("acos", "dk.acos(a)", (1.0, 1.0)),
    ("acosh", "dk.acosh(a)", (1.0, 1.0)),
    ("acosh", "dk.acosh(a)", (0.5, 1.0)),
    ("atanh", "dk.atanh(a)", (1.0, 1.0)),
    ("pow", "dk.pow(a, b)", (0.0, 0.5)),
    ("pow", "dk.pow(a, b)", (0.0, -1.0)),
    ("pow", "dk.pow(a, b)", (-1.0, 0.5)),
    ("pow", "a ** 0.5", (0.0, 1.0)),
    ("pow", "a ** -2", (0.0, 1.0)),
    ("div", "a / b", (1.0, 0.0)),
    ("div", "a / b", (0.0, 0.0)),
    ("unscale", "(dk.vec3(a, 1.0, a) / b)[0]", (1.0, 0.0)),
    ("cw_div", "dk.cw_div(dk.vec3(a, 1.0, a), dk.vec3(b, 1.0, a))[0]", (1.0, 0.0)),
    ("hypot", "dk.hypot(a, b)", (0.0, 0.0)),
    ("atan2", "dk.atan2(a, b)", (0.0, 0.0)),
    ("length", "dk.length(dk.vec3(a, b, a))", (0.0, 0.0)),
    ("normalize", "dk.normalize(dk.vec3(a, b, a))[1]", (0.0, 0.0)),
    ("abs", "dk.abs(a)", (0.0, 1.0)),
    ("copysign", "dk.copysign(a, b)", (0.0, -0.0)),
]

# Operands that are almost bounded away from the singularity: some input, or a literal's type, takes them there.
POINTS += [
    ("sqrt", "dk.sqrt(a + 1.0)", (-1.0, 1.0)),
    ("sqrt", "dk.sqrt(1.0 + a)", (-1.0, 1.0)),
    ("sqrt", "dk.sqrt(dk.exp(a))", (-1e4, 1.0)),
    ("sqrt", "dk.sqrt(a * a + 1e-60)", (0.0, 1.0)),
    ("log", "dk.log(a * b + 1.0)", (1.0, -1.0)),
    ("log", "dk.log(dk.min(a, 0.5))", (0.0, 1.0)),
    ("rsqrt", "dk.rsqrt(dk.max(a, -1.0))", (0.0, 1.0)),
    ("div", "a / (b * b)", (1.0, 0.0)),
    ("div", "a / dk.max(b, 0.0)", (1.0, 0.0)),
    ("div", "a / 1e-60", (0.0, 1.0)),
    ("div", "1.0 / (b + 1.0)", (1.0, -1.0)),
    ("div", "2.0 / dk.sqrt(a * a + 1e-60)", (0.0, 1.0)),
]

# Bounded away from the singularity, but not from where the derivative overflows.
OVERFLOWING: list[tuple[Any, str, float]] = [
    (dk.float32, "1.0 / dk.max(b, 1e-20)", 1.5e-20),
    (dk.float32, "-3.0 / dk.max(b, 1e-20)", 1.5e-20),
    (dk.float32, "1e30 / dk.max(b, 1e-8)", 1.5e-8),
    (dk.float32, "a / dk.max(b, 1e-20)", 1.5e-20),
    (dk.float32, "a / dk.max(b, 1e-40)", 1.5e-40),
    (dk.float32, "dk.rsqrt(dk.max(b, 1e-30))", 1.5e-30),
    (dk.float64, "1.0 / dk.max(b, 1e-200)", 1.5e-200),
    (dk.float64, "1e200 / dk.sqrt(b * b + 1e-140)", 1e-72),
    (dk.float64, "dk.rsqrt(dk.max(b, 1e-250))", 1.5e-250),
]

# Their values overflow, and their derivatives with them: zeros are kept behind a choice.
OVERFLOWS: list[tuple[str, str, tuple[float, float]]] = [
    ("exp", "dk.exp(a)", (1e4, 1.0)),
    ("exp2", "dk.exp2(a)", (1e5, 1.0)),
    ("expm1", "dk.expm1(a)", (1e4, 1.0)),
    ("sinh", "dk.sinh(a)", (1e4, 1.0)),
    ("cosh", "dk.cosh(a)", (1e4, 1.0)),
    ("exp", "-dk.exp(a) * b", (1e4, 1.0)),
    ("mul", "dk.log(a) * b", (0.0, 1.0)),
    ("mul", "dk.log(a) * dk.log(a) * b + a", (0.0, -1.0)),
    ("gamma", "dk.gamma(a)", (0.0, 1.0)),
    ("lgamma", "dk.lgamma(a)", (0.0, 1.0)),
    ("digamma", "dk.digamma(a)", (0.0, 1.0)),
    ("mod", "a % b", (1.0, 0.0)),
    ("rem", "rest(a, b)", (1.0, 0.0)),
]


@wp.func
def rest(a: Any, b: Any):
    return a % b


# How the value comes to have no cotangent.
CHOICES = {
    "max": "dk.max({0}, 1e30) + dk.max(-1e30, dk.min({0}, -1e30))",
    "min": "dk.min({0}, -1e30) + dk.min(1e30, dk.max({0}, 1e30))",
    "clamp": "dk.clamp({0}, 1e30, 2e30) + dk.clamp({0}, -2e30, -1e30)",
    "where": "dk.where(c > 0.0, {0}, 1.0)",
}


def _kernel(lines: list[str]) -> Any:
    return load(["def k(x, z, s, y):", "    a = x[0]", "    b = z[0]", "    c = s[0]", *lines], {"rest": rest})


def load(lines: list[str], given: dict[str, Any]) -> Any:
    """The kernel k of a module's text, which sees some more names."""
    text = "\n".join([*lines, ""])
    file = f"<singular {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"dk": dk, **given}
    exec(compile(text, file, "exec"), names)
    return dk.kernel(names["k"])


def _gradient(lines: list[str], point: tuple[float, float], dtype: Any, seed: float = 1.0) -> list[float]:
    x, z = (dk.array([v], dtype=dtype, requires_grad=True) for v in point)
    s, y = dk.zeros(1, dtype=dtype), dk.zeros(1, dtype=dtype, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(_kernel(lines), dim=1, inputs=[x, z, s], outputs=[y])
    tape.backward(grads={y: dk.array([seed], dtype=dtype)})
    return [float(g.grad.numpy()[0]) for g in (x, z)]


def _ids(rows: list[tuple[str, str, tuple[float, float]]]) -> list[str]:
    return [f"{text} at {point}" for _, text, point in rows]


def test_every_operation_with_a_singular_derivative_is_in_the_table() -> None:
    named = {name for name, _, _ in (*POINTS, *OVERFLOWS)}
    singular = {name: row.singular for name, row in all_ops().items() if row.singular is not None}
    # Finite at every float; singular matrices have the inverse 0; what the derivative of digamma is made of.
    assert named >= set(singular) - {"tan", "inverse", "polygamma"}
    assert {name for name, facts in singular.items() if facts.guarded} >= {"sqrt", "log", "div", "pow", "asin"}


@pytest.mark.parametrize("dtype", [dk.float32, dk.float64])
@pytest.mark.parametrize(("name", "text", "point"), POINTS, ids=_ids(POINTS))
def test_a_zero_cotangent_stays_zero(name: str, text: str, point: tuple[float, float], dtype: Any) -> None:
    assert _gradient([f"    y[0] = {text}"], point, dtype, seed=0.0) == [0.0, 0.0]
    assert _gradient([f"    y[0] = c * ({text})"], point, dtype) == [0.0, 0.0]


@pytest.mark.parametrize(("dtype", "text", "z"), OVERFLOWING, ids=lambda v: getattr(v, "__name__", str(v)))
def test_zero_times_a_derivative_that_overflows(dtype: Any, text: str, z: float) -> None:
    assert _gradient([f"    y[0] = {text}"], (1.0, z), dtype, seed=0.0) == [0.0, 0.0]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(("name", "text", "point"), [*POINTS, *OVERFLOWS], ids=_ids([*POINTS, *OVERFLOWS]))
def test_what_is_not_chosen_has_gradient_zero(name: str, text: str, point: tuple[float, float], choice: str) -> None:
    line = CHOICES[choice].format(f"({text})")
    found = _gradient([f"    y[0] = {line}"], point, dk.float64)
    if math.isnan(_value(text, point)) and choice != "where":
        return  # min and max pass a NaN on: it is the result, and its derivative with it
    if math.isinf(_value(text, point)) and choice != "where":
        found = _losing(text, point, choice)
    assert found == [0.0, 0.0]


def _value(text: str, point: tuple[float, float]) -> float:
    x, z = (dk.array([v], dtype=dk.float64) for v in point)
    s, y = dk.zeros(1, dtype=dk.float64), dk.zeros(1, dtype=dk.float64)
    dk.launch(_kernel([f"    y[0] = {text}"]), dim=1, inputs=[x, z, s], outputs=[y])
    return float(y.numpy()[0])


def _losing(text: str, point: tuple[float, float], choice: str) -> list[float]:
    """The gradient where an infinite value loses."""
    sign = math.copysign(1.0, _value(text, point))
    if choice == "clamp":
        return _gradient([f"    y[0] = dk.clamp({text}, -1.0, 1.0)"], point, dk.float64)
    name = "min" if sign > 0 else "max"
    return _gradient([f"    y[0] = dk.{name}({text}, 1.0) + dk.{name}(1.0, {text})"], point, dk.float64)


@pytest.mark.parametrize("text", ["dk.sqrt(a)", "dk.log(a)", "-dk.exp(1e4 - a)"])
def test_losers_in_loops(text: str) -> None:
    lines = [
        "    m = -0.5",
        "    for j in range(3):",
        f"        m = dk.max(m, {text} - 1.0 - float(j))",
        "    y[0] = m + b",
    ]
    assert _gradient(lines, (0.0, 2.0), dk.float32) == [0.0, 1.0]


def test_other_cotangents_meet_infinite_derivatives() -> None:
    assert _gradient(["    y[0] = dk.sqrt(a)"], (0.0, 1.0), dk.float32)[0] == INF
    assert _gradient(["    y[0] = dk.log(a)"], (0.0, 1.0), dk.float32)[0] == INF


def test_components_of_a_quotient_keep_their_zeros_one_by_one() -> None:
    lines = ["    v = dk.cw_div(dk.vec3(a, a, a), dk.vec3(b, 2.0, 4.0))", "    y[0] = v[1] + v[2]"]
    assert _gradient(lines, (1.0, 0.0), dk.float32) == [0.75, 0.0]


def test_finite_choices_at_the_origin() -> None:
    for text in ("dk.hypot(a, b)", "dk.atan2(a, b)", "dk.length(dk.vec2(a, b))"):
        assert _gradient([f"    y[0] = {text}"], (0.0, 0.0), dk.float64) == [0.0, 0.0]
    assert _gradient(["    y[0] = dk.hypot(a, b)"], (3.0, -4.0), dk.float64) == pytest.approx([0.6, -0.8])
    assert _gradient(["    y[0] = dk.atan2(a, b)"], (3.0, -4.0), dk.float64) == pytest.approx([-0.16, -0.12])


def test_no_guard_where_the_operand_is_bounded_away() -> None:
    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        r = x[i]
        d = dk.sqrt(r * r + 1.0) + dk.log(3.0 * dk.abs(r) / 2.0 + 0.5) + r / dk.cosh(r) + 1.0 / dk.max(r, 0.1) + r / 3.0
        v = dk.vec3(r, 1.0, 2.0)
        y[i] = d + 1.0 / dk.sqrt(dk.dot(v, v) + 0.01)

    @dk.kernel
    def unbounded(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = dk.sqrt(x[i])

    assert "== " not in k.adjoint_source().split("def ")[1]
    assert "== " in unbounded.adjoint_source().split("def ")[1]


def test_a_reciprocal_needs_no_second_division() -> None:
    @dk.kernel
    def bounded(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = 1.0 / (x[i] * x[i] + 0.01)

    @dk.kernel
    def unbounded(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = 1.0 / x[i]

    for k in (bounded, unbounded):
        assert k.adjoint_source().split("def ")[1].count(" / ") == 2, k.adjoint_source()  # one stands in the comment


MIXING = (
    "m * v", "v * m", "(m * m) * v", "dk.cross(u, v)", "dk.normalize(v)", "dk.transpose(m) * v", "dk.inverse(m) * v",
    "dk.outer(u, v) * v", "v / dk.length(u)", "dk.cw_div(v, u)", "v * u[0]",
)  # fmt: skip


@pytest.mark.parametrize("text", MIXING)
def test_a_zero_in_one_component_leaves_the_others(text: str, tmp_path: Any) -> None:
    """A limit takes the cotangent away from one component of what operations on all of them have made."""
    source = (
        "import diffkern as dk\n\n@dk.kernel\n"
        "def kernel(a: dk.array(dtype=dk.mat33d), b: dk.array(dtype=dk.vec3d), y: dk.array(dtype=dk.vec3d)):\n"
        "    i = dk.tid()\n    m = a[i]\n    v = b[i]\n    u = b[i + 1] + dk.vec3d(0.5, 0.25, 1.0)\n"
        f"    y[i] = dk.max({text}, dk.vec3d(9.0, -9.0, -9.0)) * dk.exp(-v[0])\n"
    )
    kernel = load_module(source, str(tmp_path)).kernel
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.2, 1.0, (4, 3, 3)) + np.eye(3), rng.uniform(0.2, 1.0, (5, 3))
    gradcheck(kernel, 4, [a, b, np.zeros((4, 3))])
