"""Own mathematics of the CUDA target: accuracy over the whole range, special values, exact cases.

Run on the host, with approximate instructions that err by one unit in the last place wherever they can.
"""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require
from on_host import HostCuda, cpu_harness

import diffkern as dk
from diffkern.frontend.statements import lowering
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import FLOAT32, Array

F1 = Array(FLOAT32, 1)


def evaluate(name: str, *operands: np.ndarray, **settings: bool) -> np.ndarray:
    """A function of float32 of all elements."""

    def body(b, *arrays):
        (i,) = cpu_harness.tids(b)
        values = [cpu_harness.load(b, x, i) for x in arrays[:-1]]
        cpu_harness.store(b, arrays[-1], i, b.one(name, *values))

    names = ["x", "y", "z"][: len(operands)] + ["out"]
    fn = cpu_harness.kernel(dict.fromkeys(names, F1), body)
    out = np.zeros(len(operands[0]), np.float32)
    HostCuda(fn, **settings).launch(cpu_harness.pack(fn, [*operands, out], (len(out),), 0, 0))
    return out


def ulps(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units in the last place of float32."""
    finite = np.isfinite(exact) & (np.abs(exact) < np.finfo(np.float32).max)
    unit = np.maximum(np.spacing(np.abs(exact[finite]).astype(np.float32)).astype(np.longdouble), 2.0**-149)
    return float(np.max(np.abs(found[finite].astype(np.longdouble) - exact[finite]) / unit, initial=0))


def every_magnitude(n: int, seed: int, low: float = 2.0**-149, high: float = 3.4e38) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = np.exp(rng.uniform(np.log(low), np.log(high), n)) * rng.choice([-1, 1], n)
    return x.astype(np.float32)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize(("low", "high"), [(2.0**-149, 1.0), (0.5, 200.0), (100.0, 2.0e5), (1.0e5, 3.4e38)])
def test_trigonometry(name: str, low: float, high: float) -> None:
    mpmath = require("mpmath")
    x = every_magnitude(4000, 1, low, high)
    with mpmath.workprec(250):
        exact = np.array([np.longdouble(mpmath.nstr(getattr(mpmath, name)(float(v)), 25)) for v in x])
    assert ulps(evaluate(name, x), exact) < (3.5 if name == "tan" else 2.0)


def test_trigonometry_near_multiples_of_a_quarter_turn() -> None:
    mpmath = require("mpmath")
    k = np.concatenate([np.arange(1, 2000), np.random.default_rng(0).integers(1, 2**40, 2000)])
    x = (k * (np.pi / 2)).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), -x])
    for name in ("sin", "cos"):
        with mpmath.workprec(250):
            exact = np.array([np.longdouble(mpmath.nstr(getattr(mpmath, name)(float(v)), 25)) for v in x])
        assert ulps(evaluate(name, x), exact) < 2.0, name


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_special_arguments(name: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    found = evaluate(name, x)
    with np.errstate(invalid="ignore"):
        expected = getattr(np, name)(x)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(expected[:2]))


def test_division() -> None:
    x, y = every_magnitude(40000, 2), every_magnitude(40000, 3)
    y[:10000] = every_magnitude(10000, 4, 1e-3, 1e3)
    x[:10000] = every_magnitude(10000, 5, 1e-3, 1e3)
    with np.errstate(all="ignore"):
        exact = x.astype(np.longdouble) / y.astype(np.longdouble)
    found = evaluate("div", x, y)
    ordinary = (np.abs(x) > 2.0**-100) & (np.abs(exact) > 2.0**-126)
    assert ulps(found[ordinary], exact[ordinary]) <= 0.5001
    assert ulps(found, exact) <= 3.0


def test_exact_quotients_and_roots_are_exact() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.integers(1, 4096, (2, 20000)).astype(np.float32)
    np.testing.assert_array_equal(evaluate("div", a * b, b), a)
    np.testing.assert_array_equal(evaluate("sqrt", a * a), a)


def test_special_quotients() -> None:
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38], np.float32)
    x, y = (v.ravel().copy() for v in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        expected = x / y
    found = evaluate("div", x, y)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_array_equal(
        np.signbit(found), np.signbit(expected) & ~np.isnan(expected) | np.isnan(expected) & np.signbit(found)
    )


def test_square_root() -> None:
    x = np.abs(every_magnitude(40000, 7))
    assert ulps(evaluate("sqrt", x), np.sqrt(x.astype(np.longdouble))) <= 0.5001
    special = np.array([0.0, -0.0, np.inf, -1.0, -np.inf, np.nan, 1e-45], np.float32)
    with np.errstate(invalid="ignore"):
        expected = np.sqrt(special)
    found = evaluate("sqrt", special)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[:2]), [False, True])


def test_atan2() -> None:
    y, x = every_magnitude(40000, 8, 1e-6, 1e6), every_magnitude(40000, 9, 1e-6, 1e6)
    assert ulps(evaluate("atan2", y, x), np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))) < 3.0
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38], np.float32)
    y, x = (v.ravel().copy() for v in np.meshgrid(special, special))
    expected = np.arctan2(y, x)
    found = evaluate("atan2", y, x)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-44)
    ordered = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[ordered]), np.signbit(expected[ordered]))


FAST = "div sqrt rsqrt exp exp2 log log2 log10 sin cos tan tanh sinh cosh cbrt erf pow hypot atan2 min max".split()


@pytest.mark.parametrize("name", FAST)
def test_fast_mathematics_at_special_values(name: str) -> None:
    """No NaN where there is none otherwise, and infinities where they are, but for subnormal numbers taken as zero."""
    special = [0.0, 1.0, 2.0, 0.5, 3.0, 1e20, 3e38, 1e-20, 2.0**-126, np.inf]
    x = np.array([*special, *(-v for v in special), np.nan], np.float32)
    operands = [v.ravel().copy() for v in np.meshgrid(x, x)] if lookup(name).arity == 2 else [x]
    plain, fast = (evaluate(name, *operands, fast_math=flag) for flag in (False, True))
    np.testing.assert_array_equal(np.isnan(fast), np.isnan(plain))
    tiny = np.abs(plain) < 2.0**-120
    large = np.abs(plain) > 1e37
    np.testing.assert_allclose(fast[~tiny & ~large], plain[~tiny & ~large], rtol=1e-4)
    np.testing.assert_array_equal(np.abs(fast[large]) > 1e37, True)
    np.testing.assert_array_less(np.abs(fast[tiny]), 2.0**-119)


def before_a_branch(x, y):
    i = dk.tid()
    a = x[i]
    r = dk.sin(a)
    if a > 0.5:
        r += dk.cos(a)
    y[i] = r


def in_a_branch_and_after(x, y):
    i = dk.tid()
    a = x[i]
    r = 0.0
    if a > 0.5:
        r = dk.sin(a) + dk.cos(a)
    y[i] = r + dk.tan(a)


def in_a_loop_and_after(x, y):
    i = dk.tid()
    a = x[i]
    r = 0.0
    for _ in range(int(a * 2.0)):
        r += dk.sin(a)
    y[i] = r + dk.cos(a)


@pytest.mark.parametrize(
    ("function", "reductions"), [(before_a_branch, 1), (in_a_branch_and_after, 2), (in_a_loop_and_after, 2)]
)
def test_an_argument_is_reduced_once_where_that_serves_all(function, reductions: int) -> None:
    fn = lowering.lower(function, (Array(FLOAT32, 1), Array(FLOAT32, 1)))
    compiled = HostCuda(fn)
    assert compiled.module.text.count('= call {float, i32} @"dk_reduce_f32"') == reductions
    x = np.linspace(0.1, 3.9, 7, dtype=np.float32)
    y = np.zeros(7, np.float32)
    compiled.launch(cpu_harness.pack(fn, [x, y], (7,), 0, 0))
    t = x.astype(np.float64)
    exact = {
        "before_a_branch": np.sin(t) + np.where(t > 0.5, np.cos(t), 0.0),
        "in_a_branch_and_after": np.where(t > 0.5, np.sin(t) + np.cos(t), 0.0) + np.tan(t),
        "in_a_loop_and_after": np.trunc(t * 2.0) * np.sin(t) + np.cos(t),
    }[function.__name__]
    np.testing.assert_allclose(y, exact, rtol=2e-6, atol=2e-6)
