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
