"""Random texts in C++ have the values that a compiler gives them, and derivatives as differences have them."""

from __future__ import annotations

import json
import linecache
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.c_texts import Text, compiled_values, inputs, texts

import diffkern as dk
import diffkern.warp as wp
from diffkern.warp.c.c_text import translated
from diffkern.warp.c.c_types import OtherTextError

_STORED = Path(__file__).parent / "c_texts.json"


def made(text: Text) -> Any:
    """The func of a text."""

    def f(x: Any, y: Any) -> Any: ...

    f.__annotations__ = {"x": getattr(wp, text.x), "y": getattr(wp, text.y), "return": getattr(wp, text.result)}
    return wp.func_native(text.body)(f)


def values(found: list[Text], name: str) -> list[list[float | int]]:
    """What diffkern makes of texts, in one kernel."""
    kinds = sorted({(text.x, 0) for text in found} | {(text.y, 1) for text in found})
    lines = ["i = wp.tid()"]
    for k, text in enumerate(found):
        to, out = ("float64", "numbers") if text.result.startswith("float") else ("int64", "whole")
        value = f"f{k}({text.x}_0[i], {text.y}_1[i])"
        lines.append(f"{out}[i, {k}] = wp.{to}({f'wp.int32({value})' if text.result == 'bool' else value})")
    parameters = [f"{kind}_{place}: wp.array(dtype=wp.{kind})" for kind, place in kinds]
    parameters += ["numbers: wp.array2d(dtype=wp.float64)", "whole: wp.array2d(dtype=wp.int64)"]
    source = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"wp": wp, "__name__": __name__, **{f"f{k}": made(text) for k, text in enumerate(found)}}
    exec(compile(source, file, "exec"), space)
    numbers = wp.zeros((6, len(found)), dtype=wp.float64)
    whole = wp.zeros((6, len(found)), dtype=wp.int64)
    arrays = [wp.array(inputs(kind, place), dtype=getattr(wp, kind)) for kind, place in kinds]
    wp.launch(wp.kernel(space[name]), 6, inputs=[*arrays, numbers, whole])
    return [
        (numbers.numpy()[:, k] if text.result.startswith("float") else _as(whole.numpy()[:, k], text.result)).tolist()
        for k, text in enumerate(found)
    ]


def _as(values: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    return values.view(np.uint64) if kind == "uint64" else values


def check(found: list[Text], expected: list[list[float | int]], name: str) -> None:
    for text, got, want in zip(found, values(found, name), expected, strict=True):
        if text.result.startswith("float"):
            np.testing.assert_allclose(got, want, rtol=2e-6, err_msg=str(text))
        else:
            assert got == want, text


def test_values_of_a_compiler() -> None:
    stored = json.loads(_STORED.read_text())
    check([Text(**each["text"]) for each in stored], [each["values"] for each in stored], "stored_texts")


@pytest.mark.full
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("part", range(10))
def test_values_of_many_texts(part: int, tmp_path: Path) -> None:
    found = texts(1000 + 30 * part, 30)
    check(found, compiled_values(found, tmp_path), f"texts_{part}")


@wp.func_native("""
    double t = x;
    for (int i = 0; i < 3; ++i) {
        float t = x * (i + 1);
        if (t > 1) { float t = 2; r0 += t * x; }
        r0 += sqrtf(1 + t * t) / 3;
    }
    t = t * 0.3 + sqrt(1.0 + fabs(x));
    int k = x * 4;
    float is = k / 2u > 1 ? t * y : y - t;
    return r0 + is * expf(y) + fmaxf(x, 1);
""")
def smooth_between_kinks(x: float, y: wp.float64, r0: float) -> wp.float64: ...


@wp.kernel
def apply_smooth(x: wp.array(dtype=float), y: wp.array(dtype=wp.float64), z: wp.array(dtype=wp.float64)):
    i = wp.tid()
    z[i] = smooth_between_kinks(x[i], y[i], 0.0)


def test_derivatives_pass_conversions_and_scopes() -> None:
    def value(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        r = sum(2 * x * (x * k > 1) + np.sqrt(1 + (x * k) ** 2) / 3 for k in (1, 2, 3))
        t = x * 0.3 + np.sqrt(1 + np.abs(x))
        chosen = np.where((x * 4).astype(int).astype(np.uint32) // 2 > 1, t * y, y - t)
        return r + chosen * np.exp(y) + np.maximum(x, 1)

    x, y = np.array([0.1, 0.4, 0.7, 1.2, -0.3, 2.1]), np.array([0.5, -0.2, 0.9, 0.3, -0.7, 0.1])
    xs = wp.array(x.astype(np.float32), dtype=float, requires_grad=True)
    ys, z = wp.array(y, dtype=wp.float64, requires_grad=True), wp.zeros(6, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(apply_smooth, 6, inputs=[xs, ys, z])
    tape.backward(grads={z: wp.ones(6, dtype=wp.float64)})
    np.testing.assert_allclose(z.numpy(), value(x, y), rtol=1e-5)
    h = 1e-6
    np.testing.assert_allclose(xs.grad.numpy(), (value(x + h, y) - value(x - h, y)) / (2 * h), rtol=1e-4)
    np.testing.assert_allclose(ys.grad.numpy(), (value(x, y + h) - value(x, y - h)) / (2 * h), rtol=1e-4)


@wp.func_native("int i = 0; float* p = wp::address(a, i); i = 2; { int p = 1; i += p; } if (v > *p) *p = v;")
def raise_first(a: wp.array(dtype=float), v: float): ...


@wp.kernel
def raise_elements(a: wp.array(dtype=float)):
    raise_first(a, 5.0)


def test_an_address_keeps_its_index() -> None:
    a = wp.zeros(4)
    wp.launch(raise_elements, 1, inputs=[a])
    assert a.numpy().tolist() == [5.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("body", "line", "reason"),
    [
        ("int k = x++ + x;\nreturn k;", 1, "x within an expression: give it a statement of its own"),
        ("int k = 1;\nk = k++;\nreturn k;", 2, "k is counted and set by one statement"),
        ("// first\nreturn x > 0 && ++y;", 2, "y within an expression"),
        ("\n\nwhile (x--) y++;\nreturn y;", 3, "give them a statement of their own"),
        ("int k = 1;\nint k = 2;\nreturn k;", 2, "k is declared twice"),
        ("{ int k = 1; }\nreturn k;", 2, "k is not known here"),
        ("if (x > 0) {\nint y = y;\n}\nreturn y;", 2, "y is read before it has a value"),
        ("return x +\n 089;", 1, "089 is no number in base 8"),
        ("return 1ul2;", 1, "not translated"),
        ("return (float)x % 3;", 1, "% takes integers"),
        ("return ~(0.5f);", 1, "~ takes integers"),
        ("return 99999999999999999999;", 1, "too large"),
        ("\n#if defined(__CUDA_ARCH__)\nreturn x;\n#elif defined(OTHER)\nreturn y;\n#endif", 4, "#elif"),
        ("#if OTHER\nreturn x;\n#endif", 1, "nothing is known"),
        ("return wp::max(x, 1.5f);", 1, "several types"),
        ("return powerf(x);", 1, "a call of powerf with 1 arguments"),
        ("return sqrtf(x, y);", 1, "a call of sqrtf with 2 arguments"),
    ],
)
def test_what_is_refused(body: str, line: int, reason: str) -> None:
    with pytest.raises(OtherTextError) as caught:
        translated(body, {"x": "int32", "y": "int32"}, False, result="int32")
    assert caught.value.args[1] == line
    assert re.search(reason, caught.value.args[0])


@wp.func_native("int k = x;\nreturn k++ + k;")
def counted_twice(x: int) -> int: ...


@wp.kernel
def count_twice(a: wp.array(dtype=int)):
    a[0] = counted_twice(1)


def test_a_refusal_says_the_line_and_the_reason() -> None:
    with pytest.raises(dk.KernelError, match=r"(?s)line 2 of it: \+\+ of k within an expression"):
        wp.launch(count_twice, 1, inputs=[wp.zeros(1, dtype=int)])


def test_what_a_variable_was_has_a_name_of_its_own() -> None:
    lines = translated("int x_before = 5; return x++ + x_before;", {"x": "int32"}, False, result="int32")
    assert lines[-1] == "return (x_before_2 + x_before)"
