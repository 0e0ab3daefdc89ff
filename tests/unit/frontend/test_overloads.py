"""Overloads of funcs, generic parameters, tuples as arguments: which is chosen, what is refused, gradients."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.frontend.syntax.canonical import fingerprint

T = TypeVar("T")


@dk.func
def norm(x: float):
    return abs(x)


@norm.overload
def norm(x: dk.vec3):
    return dk.length(x)


@norm.overload
def norm(x: int):
    return 1000.0 * float(x)


@norm.overload
def norm(x: Any, scale: float):
    return scale * norm(x)


@dk.func
def first(a: dk.array[Any], t: tuple[int, float]):
    return a.dtype(t[0]) * a[0] + type(a[0])(t[1])


@dk.func
def total(values: tuple[float, ...], f: Any):
    s = 0.0
    for v in values:
        s += f(v)
    return s, len(values)


@dk.kernel
def chosen(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    v = dk.vec3(x[i], 0.0, 2.0)
    sums, n = total((x[i], 2.0 * x[i]), norm)
    y[i] = norm(x[i]) + norm(v) + norm(2) + norm(v, scale=0.5) + norm(x[i], 3.0) + first(x, (2, 0.5)) + sums * float(n)


def test_values_and_gradients() -> None:
    at = np.array([-1.0, 2.0, 3.0])
    x, y = dk.array(at, dtype=float, requires_grad=True), dk.zeros(3, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        chosen[3](x, y)
    tape.backward(grads={y: np.ones(3, np.float32)})
    length = np.sqrt(at**2 + 4.0)
    np.testing.assert_allclose(y.numpy(), 10 * abs(at) + 1.5 * length + 2000.0 + 2.0 * at[0] + 0.5, rtol=1e-6)
    expected = 10 * np.sign(at) + 1.5 * at / length
    expected[0] += 2.0 * 3
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)


def test_the_host_chooses_too() -> None:
    assert norm(-2.0) == 2.0
    assert norm(3) == 3000.0
    assert norm(-2.0, 4.0) == 8.0


def refused(kernel: Any, *args: Any) -> str:
    with pytest.raises(dk.KernelError) as info:
        kernel[1](*args)
    return str(info.value)


def test_no_overload_fits() -> None:
    @dk.kernel
    def k(y: dk.array(dtype=float)):
        y[0] = norm(dk.vec2(1.0, 2.0))

    message = refused(k, dk.zeros(1, dtype=float))
    assert "no overload of norm takes vec2<float32>" in message
    assert "norm(x: float32) or norm(x: vec3<float32>) or norm(x: int32) or norm(x, scale: float32)" in message


def test_redefinition_in_the_dialect_of_warp_adds_an_overload() -> None:
    @wp.func
    def twice(x: float):
        return 2.0 * x

    before = twice

    @wp.func
    def twice(x: wp.vec2):
        return x + x

    @wp.func
    def twice(x: float):
        return x + x + 1.0

    @wp.kernel
    def k(y: wp.array[float]):
        v = twice(wp.vec2(1.0, 2.0))
        y[0] = twice(v[1]) + before(10.0)

    y = dk.zeros(1, dtype=float)
    k[1](y)
    assert y.numpy()[0] == 9.0 + 20.0
    assert len(twice.overloads) == 2
    funcs = [value for label, value in fingerprint(k.func) if label.endswith(" twice")]
    assert funcs == [b"func:1,2"]


@dk.func
def same(a: T, b: T):
    return a + b


@dk.func
def of_floats(x: dk.Float):
    return x * x


@dk.func
def any_length(v: dk.types.vector(length=Any, dtype=dk.Scalar)):
    return v[0] + v[len(v) - 1]


@dk.kernel
def generic(a: dk.array(dtype=T), b: dk.array(dtype=T), s: dk.Float):
    i = dk.tid()
    b[i] = same(a[i], a[i]) * a.dtype(of_floats(s)) + any_length(dk.types.vector(4, a.dtype)(a[i]))


@pytest.mark.parametrize("dtype", [dk.float32, dk.float64, dk.int32])
def test_type_variables(dtype: Any) -> None:
    a, b = dk.array([1, 2, 3], dtype=dtype), dk.zeros(3, dtype=dtype)
    generic[3](a, b, 2.0)
    assert b.numpy().tolist() == [10, 20, 30]


def test_type_variables_stand_for_one_type() -> None:
    a, b = dk.zeros(1, dtype=dk.float32), dk.zeros(1, dtype=dk.float64)
    assert "T is float32 for the parameter a of generic and float64 for b" in refused(generic, a, b, 1.0)
    assert "the parameter s of generic takes Float, not int32" in refused(generic, a, a, 1)

    @dk.kernel
    def k(a: dk.array(dtype=float), b: dk.array(dtype=dk.float64)):
        b[0] = same(b[0], a[0])

    assert "same: T is float64 and float32" in refused(k, a, b)

    @dk.kernel
    def j(a: dk.array(dtype=float), n: int):
        a[0] = of_floats(n)

    assert "the parameter x of of_floats takes Float, not int32" in refused(j, a, 1)


def test_a_launch_takes_no_tuples() -> None:
    @dk.kernel
    def k(t: tuple[float, int], y: dk.array(dtype=float)):
        y[0] = t[0]

    assert "is a tuple, which a launch does not take" in refused(k, (1.0, 2), dk.zeros(1, dtype=float))


@dk.func
def weighted(a: float, b: float, c: float, d: float = 0.0):
    return a + 2.0 * b + 3.0 * c + 4.0 * d


@dk.kernel
def unpacked(x: dk.array(dtype=float), m: dk.array2d(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    v = dk.vec3(x[i], 1.0, 2.0)
    t = (*dk.vec4(*v, 5.0), x[i])
    y[i] = weighted(*v) + weighted(*x[0:3], d=x[i]) + weighted(*m[i, 0:6:2]) * t[4] + float(dk.static(len(t)))
    y[i] += dk.clamp(high=1.5, low=0.0, x=x[i]) + dk.where(x[i] > 2.0, value_if_false=0.0, value_if_true=x[i])
    y[i] += dk.lerp(t=1.0, a=0.0, b=x[i])


def test_stars_and_names_in_calls() -> None:
    at, rows = np.array([1.0, 2.0, 3.0]), np.arange(18.0).reshape(3, 6)
    x, y = dk.array(at, dtype=float, requires_grad=True), dk.zeros(3, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        unpacked[3](x, dk.array(rows, dtype=float), y)
    tape.backward(grads={y: np.ones(3, np.float32)})
    of_rows = rows[:, 0] + 2 * rows[:, 2] + 3 * rows[:, 4]
    values = at + 8 + 14 + 4 * at + of_rows * at + 5 + np.minimum(at, 1.5) + np.where(at > 2, at, 0) + at
    np.testing.assert_allclose(y.numpy(), values, rtol=1e-6)
    slopes = 1 + 4 + of_rows + (at < 1.5) + (at > 2) + 1 + 3 * np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-6)
