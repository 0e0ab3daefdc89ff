"""Numbers made of literals: they keep all their digits until they meet a type, and then take it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.testing import gradcheck

N = 4


@dk.func
def _choice(c: int):
    if c > 1:
        return 0.1
    return 0.7


@dk.func
def _scaled(x, s):
    return x * s


@dk.kernel
def ternary(c: dk.array(dtype=int), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = (0.1 if c[i] > 1 else 0.7) * x[i]


@dk.kernel
def where(c: dk.array(dtype=int), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = dk.where(c[i] > 1, 0.1, 0.7) + x[i]


@dk.kernel
def stored(c: dk.array(dtype=int), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = 0.1 if c[i] > 1 else 0.7
    y[i] = y[i] + x[i] * 0.0


@dk.kernel
def reassigned(c: dk.array(dtype=int), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    s = 0.1
    if c[i] > 1:
        s = 0.3
    elif c[i] == 1:
        s = dk.sqrt(0.3)
    y[i] = s * x[i]


@dk.kernel
def loop(c: dk.array(dtype=int), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    s = 0.0
    for _ in range(c[i]):
        s += 0.1
    y[i] = s * x[i]


@dk.kernel
def early_exit(c: dk.array(dtype=int), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    s = 1.0
    while True:
        s = s * 0.7
        if s < 0.1:
            break
    y[i] = s * x[i] + c[i] * 0.1


@dk.kernel
def func_result(c: dk.array(dtype=int), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = _scaled(_choice(c[i]), x[i])


@dk.kernel
def functions(c: dk.array(dtype=int), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    s = 0.1 if c[i] > 1 else 0.7
    y[i] = (dk.exp(s) + s**0.5 + s**3 + dk.max(s, 0.3) + dk.clamp(s, 0.2, 0.3) + dk.atan2(s, 0.3) - dk.abs(-s)) * x[i]


@dk.kernel
def integers(c: dk.array(dtype=int), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    n = 1 if c[i] > 1 else 3
    y[i] = n / 7 + i * 0.1 + dk.sqrt(c[i]) * x[i]


@dk.kernel
def literal_functions(c: dk.array(dtype=int), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    a = dk.rsqrt(0.3) + dk.cbrt(0.3) + dk.exp2(0.3) + dk.frac(1.3) + dk.atan2(0.3, 0.7) + dk.hypot(0.3, 0.7)
    b = (
        dk.copysign(0.3, -1.0)
        + dk.floor(2.7)
        + dk.round(-2.5)
        + dk.sign(-0.3)
        + dk.degrees(0.3)
        + dk.lerp(0.1, 0.7, 0.3)
    )
    y[i] = (a + b) * x[i] * float(c[i])


def _choose(c: int) -> float:
    return 0.1 if c > 1 else 0.7


def _sum(c: int) -> float:
    s = 0.0
    for _ in range(c):
        s += 0.1
    return s


def _halved() -> float:
    s = 1.0
    while s >= 0.1:
        s *= 0.7
    return s


def _functions(s: float) -> float:
    return math.exp(s) + s**0.5 + s**3 + max(s, 0.3) + min(max(s, 0.2), 0.3) + math.atan2(s, 0.3) - s


A = 0.3**-0.5 + float(np.cbrt(0.3)) + 2**0.3 + (1.3 - 1.0) + math.atan2(0.3, 0.7) + math.hypot(0.3, 0.7)
B = -0.3 + 2.0 - 3.0 - 1.0 + math.degrees(0.3) + (0.1 * 0.7 + 0.7 * 0.3)

REFERENCES: list[tuple[Any, Callable[[int, int, float], float]]] = [
    (ternary, lambda i, c, x: _choose(c) * x),
    (where, lambda i, c, x: _choose(c) + x),
    (stored, lambda i, c, x: _choose(c)),
    (reassigned, lambda i, c, x: (0.3 if c > 1 else math.sqrt(0.3) if c == 1 else 0.1) * x),
    (loop, lambda i, c, x: _sum(c) * x),
    (early_exit, lambda i, c, x: _halved() * x + c * 0.1),
    (func_result, lambda i, c, x: _choose(c) * x),
    (functions, lambda i, c, x: _functions(_choose(c)) * x),
    (integers, lambda i, c, x: (1 if c > 1 else 3) / 7 + i * 0.1 + math.sqrt(c) * x),
    (literal_functions, lambda i, c, x: (A + B) * x * c),
]


@pytest.mark.parametrize(("kernel", "reference"), REFERENCES, ids=[k.name for k, _ in REFERENCES])
def test_literals_in_a_float64_kernel_have_all_their_digits(
    kernel: Any, reference: Callable[[int, int, float], float]
) -> None:
    c, x = np.arange(N, dtype=np.int32), np.linspace(0.3, 1.7, N)
    y = dk.zeros(N, dtype=dk.float64)
    kernel[N](dk.array(c), dk.array(x, dtype=dk.float64), y)
    expected = [reference(i, int(c[i]), float(x[i])) for i in range(N)]
    np.testing.assert_allclose(y.numpy(), expected, rtol=4e-16, atol=1e-16)
    arguments = [dk.array(c), dk.array(x, dtype=dk.float64, requires_grad=True), dk.zeros(N, dtype=dk.float64)]
    assert gradcheck(kernel, dim=N, inputs=arguments[:2], outputs=arguments[2:])


def test_a_float32_kernel_computes_in_float32() -> None:
    @dk.kernel
    def k(c: dk.array(dtype=int), x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        s = 0.1 if c[i] > 0 else 0.2
        for _ in range(3):
            s = s * 1.1 + i * 0.5
        y[i] = s * x[i] + dk.sqrt(i)

    assert "float64" not in k.source()
    assert "float64" not in k.adjoint_source()
    assert "float64" not in k.source(target="cuda")


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_sources_compute_literals_in_the_type_they_meet(target: Any) -> None:
    for kernel, _ in REFERENCES:
        for text in (kernel.source(target=target), kernel.adjoint_source(target=target)):
            assert "float32(0." not in text, kernel.name


def test_one_value_that_meets_two_types_has_the_wider_one() -> None:
    @dk.kernel
    def k(c: int, x: dk.array(dtype=float), y: dk.array(dtype=dk.float64)):
        i = dk.tid()
        s = 0.1 if c > 0 else 0.2
        x[i] = s
        y[i] = s

    x, y = dk.zeros(1, dtype=float), dk.zeros(1, dtype=dk.float64)
    k[1](1, x, y)
    assert x.numpy()[0] == np.float32(0.1)
    assert y.numpy()[0] == 0.1


def test_integers_of_literals_take_64_bits_where_they_need_them() -> None:
    @dk.kernel
    def k(c: int, wide: dk.array(dtype=dk.int64), unsigned: dk.array(dtype=dk.uint64), narrow: dk.array(dtype=dk.int8)):
        n = 1
        for _ in range(40):
            n = n * 2
        wide[0] = n
        m = 5_000_000_000 if c > 0 else 1
        wide[1] = m + 1
        unsigned[0] = 18_446_744_073_709_551_615 if c > 0 else 1
        narrow[0] = 3 if c > 0 else 1

    wide, unsigned, narrow = (dk.zeros(2, dtype=t) for t in (dk.int64, dk.uint64, dk.int8))
    k[1](1, wide, unsigned, narrow)
    assert wide.numpy().tolist() == [2**40, 5_000_000_001]
    assert unsigned.numpy()[0] == 2**64 - 1
    assert narrow.numpy()[0] == 3


def test_integers_that_no_type_holds_are_refused_with_a_line() -> None:
    @dk.kernel
    def k(c: int, y: dk.array(dtype=dk.uint64)):
        y[0] = 18_446_744_073_709_551_615 if c > 0 else -1

    with pytest.raises(dk.KernelError, match=r"no integer type holds 18446744073709551615") as caught:
        k.source()
    assert caught.value.loc is not None


def test_weak_integers_as_indices_bounds_and_components() -> None:
    @dk.kernel
    def k(c: int, x: dk.array(dtype=float), y: dk.array(dtype=float)):
        n = 1 if c > 0 else -1
        s = 0.0
        for j in range(n + 1):
            s += x[j]
        v = dk.vec3(1.0, 2.0, 3.0)
        y[n] = s + v[n] + x[n]

    y = dk.zeros(3, dtype=float)
    k[1](1, dk.array([1.0, 2.0, 4.0], dtype=float), y)
    assert y.numpy().tolist() == [0.0, 7.0, 0.0]
    k[1](0, dk.array([1.0, 2.0, 4.0], dtype=float), y)
    assert y.numpy().tolist() == [0.0, 7.0, 7.0]


# -- the sign of zero --------------------------------------------------------------------------------------------------


def _signs(*numbers: float) -> list[float]:
    return [math.copysign(1.0, v) for v in numbers]


@pytest.mark.parametrize("dtype", [dk.float32, dk.float64])
def test_the_sign_of_zero_is_kept(dtype: Any) -> None:
    @dk.kernel
    def k(x, y):
        zero, minus, one = x[0], x[1], x[2]
        y[0] = -0.0
        y[1] = -zero
        y[2] = dk.copysign(1.0, minus)
        y[3] = dk.copysign(one, -0.0)
        y[4] = dk.copysign(1.0, -0.0)
        y[5] = dk.where(one > 0.0, -0.0, 0.0)
        y[6] = minus * 1.0
        y[7] = dk.abs(minus)
        y[8] = zero * -1.0
        y[9] = -(zero * 1.0) + -0.0
        y[10] = dk.max(-0.0, minus)
        y[11] = dk.sqrt(minus)
        y[12] = dk.copysign(dk.copysign(one, minus), zero)
        y[13] = -dk.abs(-0.0)

    y = dk.zeros(14, dtype=dtype)
    k[1](dk.array([0.0, -0.0, 1.0], dtype=dtype), y)
    assert _signs(*y.numpy()) == [-1, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, 1, -1]
    assert np.abs(y.numpy()[2:5]).tolist() == [1.0, 1.0, 1.0]


def test_derivative_of_copysign() -> None:
    @dk.kernel
    def k(a: dk.array(dtype=float), b: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = dk.copysign(a[i], b[i])

    points = [(2.0, 3.0), (2.0, -3.0), (-2.0, 3.0), (-2.0, -3.0), (2.0, 0.0), (2.0, -0.0), (-2.0, -0.0), (0.0, -1.0)]
    a, b = (dk.array([p[k] for p in points], dtype=float, requires_grad=True) for k in (0, 1))
    y = dk.zeros(len(points), dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(k, dim=len(points), inputs=[a, b], outputs=[y])
    tape.backward(grads={y: dk.ones(len(points), dtype=float)})
    assert y.numpy().tolist() == [math.copysign(p, q) for p, q in points]
    assert a.grad.numpy().tolist() == [1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0]
    assert not b.grad.numpy().any()


@dk.kernel
def counted_down(start: dk.array(dtype=dk.uint32), counts: dk.array(dtype=int)):
    i = dk.tid()
    for _ in range(start[i], 0, -2):
        counts[i] += 1


def test_a_range_of_unsigned_numbers_may_go_down():
    counts = np.zeros(6, np.int32)
    counted_down[6](np.arange(6, dtype=np.uint32), counts)
    assert counts.tolist() == [0, 1, 1, 2, 2, 3]


@dk.kernel
def counted_down_from_far(start: dk.array(dtype=dk.uint64), counts: dk.array(dtype=int)):
    i = dk.tid()
    for _ in range(start[i], 0, -2):
        counts[i] += 1


def test_a_range_of_uint64_does_not_go_down():
    with pytest.raises(dk.KernelTypeError, match="range with uint64 and a negative number"):
        counted_down_from_far[6](np.arange(6, dtype=np.uint64), np.zeros(6, np.int32))
