"""float16 and bfloat16 as values: computed with in float32, rounded where they are named or converted; gradients."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp

HALF = dk.types.vector(3, dk.float16)


def half(x: Any) -> Any:
    return np.float32(np.float16(x))


@dk.kernel
def named(x: dk.array(dtype=float), s: dk.float16, o: dk.array(dtype=float), v: dk.array(dtype=HALF)):
    i = dk.tid()
    a = dk.float16(x[i]) * s
    b = a * a + dk.float16(0.1)
    total = dk.float16(0.0)
    for _ in range(3):
        total = total + b * a
    w = dk.vec3h(a, b, 1.0) * s
    v[i] = w
    o[i] = float(total) + dk.float32(dk.dot(w, w)) + x[i]


def test_values_are_rounded_where_they_are_named() -> None:
    x = np.array([0.3, 1.7, -2.9], np.float32)
    arrays = [dk.array(x), 0.7, dk.zeros(3, dtype=float), dk.zeros(3, dtype=HALF)]
    dk.launch(named, dim=3, inputs=arrays)
    s = half(0.7)
    for k, given in enumerate(x):
        a = half(half(given) * s)
        b = half(a * a + half(0.1))
        total = np.float32(0.0)
        for _ in range(3):
            total = half(total + b * a)
        w = half(np.array([a, b, 1.0], np.float32) * s)
        np.testing.assert_array_equal(arrays[3].numpy()[k], w.astype(np.float16))
        assert arrays[2].numpy()[k] == pytest.approx(total + w @ w + given, rel=1e-6)


def test_gradients_pass_through_roundings() -> None:
    x = np.array([0.3, 1.7, -2.9])
    arrays = [dk.array(x, dtype=float, requires_grad=True), 0.7, dk.zeros(3, dtype=float, requires_grad=True)]
    with dk.Tape() as tape:
        dk.launch(named, dim=3, inputs=[*arrays, dk.zeros(3, dtype=HALF)])
    tape.backward(grads={arrays[2]: dk.ones(3, dtype=float)})
    a = x * 0.7
    b = a * a + 0.1
    by_a = 3.0 * (b + 2.0 * a * a) + 2.0 * 0.49 * (a + 2.0 * a * b)
    np.testing.assert_allclose(arrays[0].grad.numpy(), 0.7 * by_a + 1.0, rtol=1e-2)


@dk.kernel
def brain(x: dk.array(dtype=float), o: dk.array(dtype=float)):
    i = dk.tid()
    a = dk.bfloat16(x[i]) * dk.bfloat16(3.0)
    o[i] = float(a) + float(dk.bfloat16(x[i] * x[i]))


def test_bfloat16_rounds_to_even() -> None:
    x = np.array([0.3, 1.0 + 2.0**-8, -2.9, 1e38, np.nan], np.float32)
    o = dk.zeros(5, dtype=float)
    dk.launch(brain, dim=5, inputs=[dk.array(x), o])
    with np.errstate(over="ignore"):
        a = (x.astype(ml_dtypes.bfloat16).astype(np.float32) * np.float32(3.0)).astype(ml_dtypes.bfloat16)
        expected = a.astype(np.float32) + (x * x).astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(o.numpy(), expected)


def body(x, y):
    i = wp.tid()
    a = x[i] * x[i]
    y[i] = float(a)


def test_what_is_read_is_a_number_of_the_array_in_warps_dialect_alone() -> None:
    x = np.array([0.3, 1.7, -2.9], np.float16)
    wide = x.astype(np.float32) ** 2
    for module, expected in ((dk, wide), (wp, half(wide))):
        y = dk.zeros(3, dtype=float)
        dk.launch(module.kernel(body), dim=3, inputs=[dk.array(x), y])
        np.testing.assert_array_equal(y.numpy(), expected)


def test_both_targets_spell_the_rounding() -> None:
    given = [dk.zeros(3, dtype=float), 0.7, dk.zeros(3, dtype=float), dk.zeros(3, dtype=HALF)]
    for target in ("cpu", "cuda"):
        assert "round_float16(" in named.source(*given, target=target)
        assert named.adjoint_source(*given, target=target)


@dk.kernel
def from_doubles(x: dk.array(dtype=dk.float64), o: dk.array(dtype=dk.float64), v: dk.array2d(dtype=dk.float64)):
    i = dk.tid()
    a = dk.float16(x[i])
    b = dk.bfloat16(x[i])
    w = dk.vec2h(dk.vec2d(x[i], -x[i]))
    o[i] = dk.float64(a)
    v[i, 0] = dk.float64(b)
    v[i, 1] = dk.float64(w[0]) + 2.0 * dk.float64(w[1])


def test_doubles_are_rounded_once() -> None:
    rng = np.random.default_rng(4)
    middles = np.concatenate([1.0 + (2 * np.arange(40) + 1) * 2.0**-11, (2 * np.arange(40) + 1) * 2.0**-25])
    x = np.concatenate([middles * f for f in (1.0, 1.0 + 2.0**-40, 1.0 - 2.0**-40)])
    wide = np.ldexp(1.0 + (2 * np.arange(64) + 1) * 2.0**-8, rng.integers(-100, 100, 64))
    x = np.concatenate([x, wide * (1.0 + 2.0**-40), wide * (1.0 - 2.0**-40), rng.normal(size=100)])
    x = np.concatenate([x, -x, [0.0, -0.0, np.inf, 65519.99999999, 65520.0, 1e300, 1e-300, 3.3961775292304e38]])
    o, v = dk.zeros(len(x), dtype=dk.float64, requires_grad=True), dk.zeros((len(x), 2), dtype=dk.float64)
    given = dk.array(x, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(from_doubles, len(x), inputs=[given], outputs=[o, v])
    with np.errstate(over="ignore"):
        right = x.astype(np.float16).astype(float)
    np.testing.assert_array_equal(o.numpy(), right)
    np.testing.assert_array_equal(np.signbit(o.numpy()), np.signbit(right))
    usual = np.isfinite(right)
    np.testing.assert_array_equal(v.numpy()[usual, 1], -right[usual])
    mantissa, exponent = np.frexp(x[(np.abs(x) > 1e-37) & np.isfinite(x)])
    brains = np.ldexp(np.rint(np.ldexp(mantissa, 8)), exponent - 8)
    brains = np.where(np.abs(brains) > 3.3896e38, np.copysign(np.inf, brains), brains)
    np.testing.assert_array_equal(v.numpy()[(np.abs(x) > 1e-37) & np.isfinite(x), 0], brains)
    tape.backward(grads={o: dk.ones(len(x), dtype=dk.float64)})
    assert (given.grad.numpy() == 1.0).all()


def test_conversions_round_first_in_warps_dialect() -> None:
    @wp.kernel
    def converted(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.float16), o: wp.array2d(dtype=float)):
        i = wp.tid()
        o[i, 0] = float(x[i] + y[i])
        o[i, 1] = float(wp.int32(x[i] + y[i]))
        o[i, 2] = wp.vec2(wp.vec2h(x[i], y[i]) * y[i])[0]
        o[i, 3] = float(wp.float64(x[i] * y[i]))

    x, y = np.array([1.0, 2048.0, 0.1], np.float16), np.array([2.0**-11, 1.0, 0.3], np.float16)
    o = wp.zeros((3, 4), dtype=float)
    wp.launch(converted, 3, inputs=[wp.array(x, dtype=wp.float16), wp.array(y, dtype=wp.float16)], outputs=[o])
    total = x + y
    right = np.stack([total, np.trunc(total), x * y, x * y], axis=1).astype(np.float32)
    np.testing.assert_array_equal(o.numpy(), right)
