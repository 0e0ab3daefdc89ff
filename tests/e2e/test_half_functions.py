"""Every function of numbers on elements of float16 and bfloat16, forward and backward: values of float32, rounded."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import diffkern as dk

ONE = (
    "sqrt rsqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf erfc gamma lgamma digamma floor ceil trunc round rint abs sign step nonzero frac degrees radians"
).split()
TWO = "atan2 hypot copysign pow min max mod floordiv add sub mul div".split()
THREE = ("clamp", "lerp", "smoothstep")
COUNT = {**dict.fromkeys(ONE, 1), **dict.fromkeys(TWO, 2), **dict.fromkeys(THREE, 3)}
X = [0.5, 0.25, 0.75, 1.0]


def _kernel(dtype: str, element: str, functions: list[str]) -> Any:
    """A kernel that stores each function of an element in a row of its own."""
    lines = []
    for row, name in enumerate(functions):
        arguments = ", ".join([element, f"0.5 + {element}", f"0.25 * {element}"][: COUNT[name]])
        value = f"dk.{name}({arguments})"
        lines.append(
            f"    y[{row}, i] = {value if element == 'x[i]' and dtype != 'float64' else f'dk.float32({value})'}"
        )
    text = "\n".join(["def k(x, y):", "    i = dk.tid()", *lines, ""])
    file = f"<half functions of {dtype} {element} {len(functions)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"dk": dk}
    exec(compile(text, file, "exec"), names)
    return dk.kernel(names["k"])


def _run(kernel: Any, rows: int, source: Any, target: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = dk.array(X, dtype=source, requires_grad=True)
    y = dk.zeros((rows, len(X)), dtype=target, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, dim=len(X), inputs=[x], outputs=[y])
    tape.backward(grads={y: dk.ones((rows, len(X)), dtype=target)})
    return _numbers(y), _numbers(x.grad)


def _numbers(a: Any) -> np.ndarray[Any, Any]:
    """What NumPy, which has no bfloat16 of its own, shows as bits or as numbers."""
    bits = a.numpy()
    if bits.dtype == np.uint16:
        bits = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits.astype(np.float64)


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_every_function_of_numbers(source: str, target: str) -> None:
    functions = list(COUNT)
    rows = len(functions)
    kernel = _kernel(source, "x[i]", functions)
    got, gradient = _run(kernel, rows, getattr(dk, source), getattr(dk, target))
    wanted, expected = _run(_kernel("float32", "x[i]", functions), rows, dk.float32, dk.float32)
    # An argument of bfloat16 is exact, so only the result is rounded.
    digits = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[target]
    finite = np.isfinite(wanted)
    np.testing.assert_allclose(got[finite], wanted[finite], rtol=digits, atol=digits)
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    assert np.array_equal(np.isfinite(gradient), np.isfinite(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dk.float16(0.1)", float(np.float16(0.1))),
        ("dk.bfloat16(x[i])", 0.10009765625),
        ("dk.float16()", 0.0),
        ("dk.vec3h(0.1)[2]", float(np.float16(0.1))),
        ("dk.vec3h()[1]", 0.0),
        ("dk.mat22h(0.1)[1, 1]", float(np.float16(0.1))),
    ],
)
def test_conversions_round(text: str, expected: float) -> None:
    file = f"<{text}>"
    source = f"def k(x, y):\n    i = dk.tid()\n    v = {text}\n    y[i] = v\n"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names: dict[str, Any] = {"dk": dk}
    exec(compile(source, file, "exec"), names)
    y = dk.zeros(1)
    dk.launch(dk.kernel(names["k"]), dim=1, inputs=[dk.full(1, 0.1, dtype=float), y])
    assert y.numpy().tolist() == [expected]
