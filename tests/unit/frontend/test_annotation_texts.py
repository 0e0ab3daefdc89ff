"""Annotations that are text, within kernels and funcs: what they mean counts, and a change of it is noticed."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.frontend.syntax.canonical import fingerprint
from diffkern.lang.dialects import WARP, bind_dialect

from .sources import function_from

WITHIN = {
    "a variable": 'a: "T" = x[0]',
    "a variable without a value": 'a: "T"',
    "text in text": "a: \"'T'\" = x[0]",
    "an attribute of a class": 'a: "N.T" = x[0]',
    "an attribute of an object": 'a: "cfg.T" = x[0]',
    "a call of a type": 'a: "dk.types.vector(length=2, dtype=T)" = dk.vec2(x[0], x[0])',
    "a call": 'a: "pick()" = x[0]',
    "an item": 'a: "box[0]" = x[0]',
    "a condition": 'a: "T if n else T" = x[0]',
    "a variable of an inner function": 'def g(b):\n        c: "T" = b\n        return c\n    a = g(x[0])',
    "a parameter of an inner function": 'def g(b: "T"): return b\n    a = g(x[0])',
    "a parameter by keyword": 'def g(*, b: "N.T"): return b\n    a = g(b=x[0])',
    "an item of an inner function's parameter": "def g(b: box[0]): return b\n    a = g(x[0])",
    "a tuple in an inner function": 'def g(b: tuple["T", float]): return b[0]\n    a = g((x[0], 1.0))',
}
FUNCS = {
    "text": 'def f(v: "T"): return v',
    "an array": 'def f(v: float, w: "dk.array(dtype=T)" = 0): return v',
    "an item": 'def f(v: "box[0]"): return v',
    "a tuple": 'def f(v: float, w: tuple["T", float] = 0): return v',
    "annotations of the future": "from __future__ import annotations\n@dk.func\ndef f(v: N.T): return v",
}


def names(t: Any = dk.float32) -> dict[str, Any]:
    box = [t]
    of_class = type("N", (), {"T": t})
    return {"T": t, "N": of_class, "cfg": types.SimpleNamespace(T=t), "box": box, "pick": lambda: box[0], "n": 1}


def change(found: dict[str, Any], t: Any) -> None:
    found["T"] = found["N"].T = found["cfg"].T = found["box"][0] = t


def kernel_with(statement: str, t: Any = dk.float32) -> Any:
    text = f"def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):\n    {statement}\n    y[0] = x[0]\n"
    return dk.kernel(function_from(text, **names(t)))


def calling(definition: str, t: Any = dk.float32) -> Any:
    text = definition if "@" in definition else f"@dk.func\n{definition}"
    return dk.kernel(
        function_from(f"{text}\ndef k(x: dk.array(dtype=float), y: dk.array(dtype=float)): y[0] = f(x[0])", **names(t))
    )


CASES = [(kernel_with, text) for text in WITHIN.values()] + [(calling, text) for text in FUNCS.values()]


@pytest.mark.parametrize(("make", "text"), CASES, ids=[*WITHIN, *(f"a func: {name}" for name in FUNCS)])
def test_what_it_means_counts(make: Callable[..., Any], text: str) -> None:
    kernel = make(text)
    first = fingerprint(kernel.func)
    assert ("annotation 0 x", b"array1d<float32>") in first
    assert fingerprint(make(text).func) == first or "token" in dict(first)  # of which each is its own
    assert fingerprint(make(text, dk.float64).func) != first
    assert kernel.may_change in (False, True)  # whereby it looks at what it captures
    numbers = [kernel.generation()]
    for t in (dk.float64, dk.float32, dk.float32):
        change(kernel.func.__globals__, t)
        numbers.append(kernel.generation())
    assert numbers[0] < numbers[1] < numbers[2] == numbers[3]


def test_programs_and_adjoints() -> None:
    text = """
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        a: "T" = 16777217.0
        def g(b: "N.T"):
            return b - 16777216.0
        c: "pick()" = 1.0
        y[i] = x[i] * float(g(a) + c)
    """
    kernel = dk.kernel(function_from(text, **names()))
    x, y = dk.ones(1, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        kernel[1](x, y)
    assert y.list() == [1.0]
    change(kernel.func.__globals__, dk.float64)
    kernel[1](x, y)
    assert y.list() == [2.0]
    tape.backward(grads={y: np.ones(1, np.float32)})  # of the program that was launched
    assert x.grad.list() == [1.0]


@pytest.mark.parametrize("order", [("dk.float32", "dk.float64"), ("dk.float64", "")])
@pytest.mark.parametrize("inner", ["def g(a{}, b{}): return p", "def g(a{}): return p\n    def h(a{}): return p"])
def test_which_parameter_of_an_inner_function_has_an_annotation(inner: str, order: tuple[str, str]) -> None:
    found = []
    for types_ in (order, order[::-1]):
        annotations = [f": {t}" if t else "" for t in types_]
        statement = "p = dk.float32(dk.float64(1.0))\n    " + inner.format(*annotations)
        found.append(fingerprint(kernel_with(statement).func))
    assert found[0] != found[1]


def test_a_reference_to_a_variable_of_the_caller_counts() -> None:
    text = "def f(x: R):\n    x = x * 10.0\n    return x\n"
    found = []
    for annotation in (float, wp.ref[float], "wp.ref[float]"):
        f = function_from(text, R=annotation, wp=wp)
        found.append(fingerprint(bind_dialect(f, WARP)))
    assert found[0] != found[1]
    assert found[1] == found[2]


def test_what_a_func_says_that_it_returns_counts_where_it_is_held_to_that() -> None:
    text = "def f(x: float) -> R: return x\n"
    found = [fingerprint(bind_dialect(function_from(text, R=t), WARP)) for t in (float, int, "float")]
    assert found[0] != found[1]
    assert found[0] == found[2]
