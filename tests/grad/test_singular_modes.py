"""Singular points in forward mode, reverse mode and second order: one convention for all."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import diffkern as dk

from .test_singular import POINTS, load

INF = math.inf

# expression in a and b, the point, the gradient
CHOSEN: list[tuple[str, tuple[float, float], tuple[float, float]]] = [
    # the root of a sum of squares is a norm
    ("dk.sqrt(a * a + b * b)", (0.0, 0.0), (0.0, 0.0)),
    ("dk.sqrt(a * a)", (0.0, 1.0), (0.0, 0.0)),
    ("dk.sqrt(a ** 2 + b ** 2)", (0.0, 0.0), (0.0, 0.0)),
    ("(a * a + b * b) ** 0.5", (0.0, 0.0), (0.0, 0.0)),
    ("dk.sqrt(dk.pow(a, 2.0) + dk.pow(b, 4.0))", (0.0, 0.0), (0.0, 0.0)),
    ("dk.sqrt(dk.dot(dk.vec2d(a, b), dk.vec2d(a, b)))", (0.0, 0.0), (0.0, 0.0)),
    ("dk.sqrt(dk.length_sq(dk.vec2d(a, b)))", (0.0, 0.0), (0.0, 0.0)),
    ("dk.sqrt(4.0 * (a * a) + b * b / 2.0 + 0.0)", (0.0, 0.0), (0.0, 0.0)),
    ("dk.sqrt(squares(a, b))", (0.0, 0.0), (0.0, 0.0)),
    ("dk.sqrt(summed(a, b))", (0.0, 0.0), (0.0, 0.0)),
    ("dk.sqrt(chosen(a, b))", (0.0, 0.0), (0.0, 0.0)),
    ("dk.max(dk.sqrt(a * a + b * b) - 0.0, -1.0)", (0.0, 0.0), (0.0, 0.0)),
    # a partial derivative of zero beside an infinite one
    ("dk.sqrt(a) * 0.0", (0.0, 1.0), (0.0, 0.0)),
    ("dk.sqrt(a) * b", (0.0, 0.0), (0.0, 0.0)),
    ("dk.sqrt(1.0 - dk.cos(a))", (0.0, 1.0), (0.0, 0.0)),
    ("dk.sqrt(a * b)", (0.0, 0.0), (0.0, 0.0)),
    ("dk.sqrt(dk.dot(dk.vec2d(a, b), dk.vec2d(b, 0.0)))", (0.0, 0.0), (0.0, 0.0)),
    ("dk.acos(dk.cos(a))", (0.0, 1.0), (0.0, 0.0)),
    ("dk.cbrt(a * a * a)", (0.0, 1.0), (0.0, 0.0)),
    ("(dk.vec2d(a, 1.0) * dk.sqrt(b))[0]", (0.0, 0.0), (0.0, 0.0)),
    ("rooted(a) * b", (0.0, 0.0), (0.0, 0.0)),
    # infinite where nothing is zero
    ("dk.sqrt(a)", (0.0, 1.0), (INF, 0.0)),
    ("dk.sqrt(a) * b", (0.0, 2.0), (INF, 0.0)),
    ("dk.sqrt(dk.abs(a) + b)", (0.0, 0.0), (0.0, INF)),
    ("dk.asin(a)", (1.0, 1.0), (INF, 0.0)),
    ("dk.acos(a)", (1.0, 1.0), (-INF, 0.0)),
    ("dk.cbrt(a)", (0.0, 1.0), (INF, 0.0)),
    ("dk.pow(a, b)", (0.0, 0.5), (INF, 0.0)),
    # chosen, and finite
    ("dk.hypot(a, b)", (0.0, 0.0), (0.0, 0.0)),
    ("dk.atan2(a, b)", (0.0, 0.0), (0.0, 0.0)),
    ("dk.length(dk.vec2d(a, b))", (0.0, 0.0), (0.0, 0.0)),
    ("dk.normalize(dk.vec2d(a, b))[0]", (0.0, 0.0), (0.0, 0.0)),
    ("dk.abs(a) * b", (0.0, 1.0), (0.0, 0.0)),
    ("dk.pow(a, b)", (0.0, 0.0), (0.0, 0.0)),
    ("dk.pow(a, b)", (3.0, 0.0), (0.0, math.log(3.0))),
]

# expression, point, the matrix of second derivatives: where a cotangent or a tangent is exactly zero at a usual point
SECOND: list[tuple[str, tuple[float, float], tuple[float, float, float]]] = [
    ("dk.sqrt(a) * b", (4.0, 0.0), (0.0, 0.25, 0.0)),
    ("dk.sqrt(a * b + 1.0)", (0.0, 0.0), (0.0, 0.5, 0.0)),
    ("dk.log(a * b + 2.0)", (0.0, 0.0), (0.0, 0.5, 0.0)),
    ("dk.asin(a) * b", (0.0, 0.0), (0.0, 1.0, 0.0)),
    ("dk.asin(a * b)", (0.0, 0.0), (0.0, 1.0, 0.0)),
    ("dk.pow(a + 1.0, b)", (2.0, 0.0), (0.0, 1.0 / 3.0, math.log(3.0) ** 2)),
    ("b / dk.rsqrt(a)", (4.0, 0.0), (0.0, 0.25, 0.0)),
    ("looped(a, b)", (1.0, 0.0), (0.0, 2.25, 0.0)),
]
# at norms and finite choices, whose second derivatives are zero there
FLAT = ("a * a", "a ** 2", "dk.pow(a, 2.0)", "dot(", "length", "squares(", "summed(", "hypot", "atan2", "normalize")
SECOND += [(text, at, (0.0, 0.0, 0.0)) for text, at, _ in CHOSEN if any(part in text for part in FLAT)]


@dk.func
def squares(x: Any, y: Any):
    total = x * x
    total += y * y
    return total


@dk.func
def summed(x: dk.float64, y: dk.float64):
    total = dk.float64(0.0)
    for j in range(int(x) + 2):
        z = dk.where(j == 0, x, y)
        total += z * z
    return total


@dk.func
def chosen(x: dk.float64, y: dk.float64):
    total = x * x
    if y > x:
        total = total + y * y
    else:
        total = 2.0 * (y * y)
    return total


@dk.func
def rooted(x: dk.float64):
    root = dk.sqrt(x)
    for _ in range(2):
        root = root * 2.0
    return root


@dk.func
def looped(x: dk.float64, y: dk.float64):
    """A branch takes a loop's result, whose cotangent is zero with y."""
    product = x * 1.0
    for j in range(int(x) + 1):
        product = product * dk.sqrt(x + dk.float64(j))
    result = dk.float64(0.0)
    if x > 0.0:
        result = product * y / dk.sqrt(dk.float64(2.0)) * dk.sqrt(x)
    return result


FUNCS = {"squares": squares, "summed": summed, "chosen": chosen, "rooted": rooted, "looped": looped}


def _kernel(texts: list[str], zero: bool = False) -> Any:
    """A kernel that adds all expressions up in y, each of two numbers of its own."""
    factor = "x[0] * " if zero else ""
    lines = [line for k, text in enumerate(texts) for line in (
        f"    a, b = x[{2 * k + 1}], x[{2 * k + 2}]", f"    y[{k}] = {factor}({text})",
    )]  # fmt: skip
    return load(["def k(x, y):", *lines], FUNCS)


def _numbers(points: list[tuple[float, float]]) -> np.ndarray:
    return np.array([0.0, *itertools.chain(*points)])


def _gradients(kernel: Any, x: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The values, and the gradient of their sum in both modes."""
    given, y = dk.array(x, requires_grad=True), dk.zeros(count, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, dim=1, inputs=[given], outputs=[y])
    tape.backward(grads={y: dk.ones(count, dtype=dk.float64)})
    tangents = np.zeros(len(x))
    for parity in (1, 2):  # each expression has two numbers: along all first ones, then along all second ones
        t, ty = np.zeros(len(x)), dk.zeros(count, dtype=dk.float64)
        t[parity::2] = 1.0
        dk.launch(kernel.jvp, dim=1, inputs=[given, dk.zeros_like(y), dk.array(t), ty])
        tangents[parity::2] = ty.numpy()
    return y.numpy(), given.grad.numpy()[1:], tangents[1:]


def test_chosen_derivatives_in_both_modes() -> None:
    texts, points, right = (list(column) for column in zip(*CHOSEN, strict=True))
    _, reverse, forward = _gradients(_kernel(texts), _numbers(points), len(texts))
    for k, text in enumerate(texts):
        for mode, found in (("reverse", reverse), ("forward", forward)):
            given = found[2 * k : 2 * k + 2]
            np.testing.assert_allclose(given, right[k], rtol=1e-14, err_msg=f"{mode}: {text} at {points[k]}")


@pytest.mark.parametrize("zero", [False, True])
def test_modes_agree_where_values_are_finite(zero: bool) -> None:
    """``zero``: each expression is multiplied by a number that is zero."""
    rows = [(text.replace("vec3", "vec3d"), at) for _, text, at in POINTS]
    texts, points = [text for text, _ in rows], [at for _, at in rows]
    values, *_ = _gradients(_kernel(texts), _numbers(points), len(rows))
    kept = [k for k, value in enumerate(values) if math.isfinite(value)]
    texts, points = [texts[k] for k in kept], [points[k] for k in kept]
    _, reverse, forward = _gradients(_kernel(texts, zero), _numbers(points), len(kept))
    assert len(kept) > 15
    for k, text in enumerate(texts):
        np.testing.assert_array_equal(forward[2 * k : 2 * k + 2], reverse[2 * k : 2 * k + 2], err_msg=text)
        if zero:
            assert not reverse[2 * k : 2 * k + 2].any(), text


def _products(kernel: Any, x: np.ndarray, v: np.ndarray, count: int, order: str) -> np.ndarray:
    """The matrices of second derivatives times a vector."""
    t = dk.array(v)

    def run(given: dk.array) -> dk.array:
        y = dk.zeros(count, dtype=dk.float64, requires_grad=True)
        dk.launch(kernel, dim=1, inputs=[given], outputs=[y])
        return total(y)

    def total(y: dk.array) -> dk.array:
        z = dk.zeros(1, dtype=dk.float64, requires_grad=True)
        dk.launch(add_up, dim=1, inputs=[y], outputs=[z])
        return z

    given = dk.array(x, requires_grad=True)
    if order == "reverse over forward":
        return dk.hvp(run, (given,), (t,))[0].numpy()
    return dk.jvp(dk.grad(run), (given,), (t,))[1].numpy()


@dk.kernel
def add_up(y: dk.array(dtype=dk.float64), z: dk.array(dtype=dk.float64)):
    total = dk.float64(0.0)
    for k in range(y.shape[0]):
        total += y[k]
    z[0] = total


@pytest.mark.parametrize("order", ["reverse over forward", "forward over reverse"])
def test_second_derivatives_of_launches(order: str) -> None:
    texts, points, right = (list(column) for column in zip(*SECOND, strict=True))
    kernel, x = _kernel(texts), _numbers(points)
    columns = []
    for parity in (1, 2):
        v = np.zeros(len(x))
        v[parity::2] = 1.0
        columns.append(_products(kernel, x, v, len(texts), order)[1:].reshape(-1, 2))
    for k, text in enumerate(texts):
        aa, ab, bb = right[k]
        found = [column[k] for column in columns]
        np.testing.assert_allclose(found, [[aa, ab], [ab, bb]], rtol=1e-12, atol=1e-14, err_msg=text)


def test_second_derivatives_in_kernels() -> None:
    """Derivatives of derivatives of funcs, of which the inner one is by reverse mode."""
    rows = [row for row in SECOND if row[2] != (0.0, 0.0, 0.0)]
    lines, values = [], []
    for k, (text, at, (_, mixed, _)) in enumerate(rows):
        lines += [f"def f{k}(a, b):", f"    return {text}", "", f"f{k} = dk.func(f{k})", ""]
        lines += [f"def slope{k}(a, b):", f"    return dk.grad(f{k})(a, b)[0]", "", f"slope{k} = dk.func(slope{k})", ""]
        values.append((at, mixed))
    lines.append("def k(x, y):")
    lines += [f"    y[{k}] = dk.grad(slope{k})(x[{2 * k + 1}], x[{2 * k + 2}])[1]" for k in range(len(rows))]
    y = dk.zeros(len(rows), dtype=dk.float64)
    kernel = load(lines, FUNCS)
    dk.launch(kernel, dim=1, inputs=[dk.array(_numbers([at for at, _ in values]))], outputs=[y])
    np.testing.assert_allclose(y.numpy(), [mixed for _, mixed in values], rtol=1e-12, err_msg=str(rows))
