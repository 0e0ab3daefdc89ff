"""``fast_math`` on processors at zeros, subnormal and extreme numbers, infinities and NaN: beside the usual program."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import numpy as np
import pytest

import diffkern as dk

SPECIAL = {
    dk.float32: [0.0, 1e-45, 1e-42, 2.0**-126, 1e-20, 0.5, 1.0, 2.0, 89.0, 128.0, 1e20, 3.4e38, np.inf],
    dk.float64: [0.0, 5e-324, 1e-310, 2.0**-1022, 1e-160, 0.5, 1.0, 2.0, 710.0, 1024.0, 1e160, 1.7e308, np.inf],
}
OF_ONE = (
    *(f"dk.{name}(a)" for name in (
        "sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
        "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "floor", "round", "abs",
        "gamma", "lgamma", "digamma",
    )),
    "1.0 / dk.sqrt(a)", "1.0 / a", "a ** -0.5", "dk.min(dk.rsqrt(a), 10.0)", "dk.max(dk.rsqrt(a), 10.0)",
    "dk.sqrt(1.0 / a)", "1.0 / dk.rsqrt(a)", "1.0 / (10.0 * dk.sqrt(a))", "1.0 / dk.exp(a)",
)  # fmt: skip
OF_TWO = (
    "a / b", "a / dk.sqrt(b)", "a * dk.rsqrt(b)", "a / (10.0 * dk.sqrt(b))", "dk.pow(a, b)", "dk.hypot(a, b)",
    "dk.atan2(a, b)", "a % b", "a // b", "dk.min(a, b)", "dk.max(a, b)", "dk.length(vec2(a, b))",
    "dk.normalize(vec2(a, b))[0]",
)  # fmt: skip
DIFFERENTIATED = ("dk.min(dk.rsqrt(a), 10.0)", "1.0 / dk.sqrt(a)", "a / dk.sqrt(b)", "dk.hypot(a, b)", "dk.atan2(a, b)")


def _kernel(texts: tuple[str, ...], dtype: Any, **options: Any) -> Any:
    """A kernel that writes the value of each expression to a row."""
    lines = ["def k(x, z, y):", "    i = dk.tid()", "    a = x[i]", "    b = z[i]"]
    lines += [f"    y[{row}, i] = {text}" for row, text in enumerate(texts)]
    source = "\n".join([*lines, ""])
    file = f"<fast {hash((texts, str(dtype), str(options)))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names: dict[str, Any] = {"dk": dk, "vec2": dk.vec2 if dtype is dk.float32 else dk.vec2d}
    exec(compile(source, file, "exec"), names)
    return dk.kernel(names["k"], **options)


def _points(dtype: Any, of_two: bool) -> tuple[np.ndarray, np.ndarray]:
    numbers = [v for n in SPECIAL[dtype] for v in (n, -n)] + [np.nan]
    pairs = itertools.product(numbers, numbers) if of_two else ((v, 1.0) for v in numbers)
    x, z = zip(*pairs, strict=True)
    dt = np.float32 if dtype is dk.float32 else np.float64
    return np.array(x, dt), np.array(z, dt)


def _values(texts: tuple[str, ...], dtype: Any, of_two: bool, **options: Any) -> np.ndarray:
    x, z = _points(dtype, of_two)
    y = dk.zeros((len(texts), len(x)), dtype=dtype)
    dk.launch(_kernel(texts, dtype, **options), dim=len(x), inputs=[dk.array(x), dk.array(z)], outputs=[y])
    return y.numpy()


def _same(fast: np.ndarray, plain: np.ndarray, where: object) -> None:
    np.testing.assert_array_equal(np.isnan(fast), np.isnan(plain), err_msg=str(where))
    np.testing.assert_array_equal(np.isinf(fast), np.isinf(plain), err_msg=str(where))
    np.testing.assert_allclose(fast, plain, rtol=2e-6, atol=2e-38, err_msg=str(where))


@pytest.mark.parametrize("lanes", [True, False])
@pytest.mark.parametrize("dtype", [dk.float32, dk.float64])
@pytest.mark.parametrize("texts", [OF_ONE, OF_TWO], ids=["one", "two"])
def test_values(texts: tuple[str, ...], dtype: Any, lanes: bool) -> None:
    of_two = texts is OF_TWO
    plain = _values(texts, dtype, of_two, lanes=lanes)
    fast = _values(texts, dtype, of_two, lanes=lanes, fast_math=True)
    for row, text in enumerate(texts):
        _same(fast[row], plain[row], (text, dtype, lanes))


@pytest.mark.parametrize("text", DIFFERENTIATED)
def test_gradients(text: str) -> None:
    """Without subnormal numbers: the derivatives share divisors, whose reciprocals would be infinite."""
    x, z = _points(dk.float32, of_two="b" in text)
    usual = np.logical_and(*((v == 0) | ~(np.abs(v) < 2.0**-126) for v in (x, z)))
    x, z = x[usual], z[usual]
    found = []
    for fast in (None, True):
        a, b = (dk.array(v, requires_grad=True) for v in (x, z))
        y = dk.zeros((1, len(x)), requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(_kernel((text,), dk.float32, fast_math=fast), dim=len(x), inputs=[a, b], outputs=[y])
        tape.backward(grads={y: dk.ones((1, len(x)))})
        found.append((a.grad.numpy(), b.grad.numpy()))
    for plain, fast in zip(*found, strict=True):
        _same(fast, plain, text)
