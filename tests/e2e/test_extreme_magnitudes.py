"""hypot, atan2 and abs of complex numbers where squares overflow or vanish: values, and derivatives of both modes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import diffkern as dk

SIZES = {
    dk.float32: [0.0, 1e-44, 1e-38, 1e-25, 1e-20, 3e-10, 1.0, 2.5, 1e10, 1e20, 1.5e38],
    dk.float64: [0.0, 1e-320, 1e-308, 1e-200, 1e-160, 3e-10, 1.0, 2.5, 1e10, 1e160, 1e308],
}


@dk.kernel
def hypot32(x: dk.array(dtype=dk.float32), z: dk.array(dtype=dk.float32), y: dk.array(dtype=dk.float32)):
    i = dk.tid()
    y[i] = dk.hypot(x[i], z[i])


@dk.kernel
def hypot64(x: dk.array(dtype=dk.float64), z: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = dk.hypot(x[i], z[i])


@dk.kernel
def angle32(x: dk.array(dtype=dk.float32), z: dk.array(dtype=dk.float32), y: dk.array(dtype=dk.float32)):
    i = dk.tid()
    y[i] = dk.atan2(x[i], z[i])


@dk.kernel
def angle64(x: dk.array(dtype=dk.float64), z: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = dk.atan2(x[i], z[i])


@dk.kernel
def modulus32(x: dk.array(dtype=dk.float32), z: dk.array(dtype=dk.float32), y: dk.array(dtype=dk.float32)):
    i = dk.tid()
    y[i] = dk.abs(dk.complex(x[i], z[i]))


@dk.kernel
def modulus64(x: dk.array(dtype=dk.float64), z: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = dk.abs(dk.complex(x[i], z[i]))


LENGTHS = [(hypot32, dk.float32), (hypot64, dk.float64), (modulus32, dk.float32), (modulus64, dk.float64)]
ANGLES = [(angle32, dk.float32), (angle64, dk.float64)]


def _numpy(dtype: Any) -> Any:
    return np.float32 if dtype is dk.float32 else np.float64


def _points(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    signed = [*SIZES[dtype], *(-v for v in SIZES[dtype][1:])]
    x, z = zip(*itertools.product(signed, signed), strict=True)
    return np.array(x, _numpy(dtype)), np.array(z, _numpy(dtype))


def _derivatives(kernel: Any, x: np.ndarray, z: np.ndarray, dtype: Any) -> tuple[np.ndarray, ...]:
    """The values, the gradients, and the tangents along each argument."""
    a, b = (dk.array(v, dtype=dtype, requires_grad=True) for v in (x, z))
    y = dk.zeros(len(x), dtype=dtype, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, dim=len(x), inputs=[a, b], outputs=[y])
    tape.backward(grads={y: dk.ones(len(x), dtype=dtype)})
    along = []
    for k in range(2):
        t = [dk.ones(len(x), dtype=dtype) if i == k else None for i in range(2)]
        ty = dk.zeros(len(x), dtype=dtype)
        dk.launch(kernel.jvp, dim=len(x), inputs=[a, b, dk.zeros(len(x), dtype=dtype), *t, ty])
        along.append(ty.numpy())
    return (y.numpy(), a.grad.numpy(), b.grad.numpy(), *along)


@pytest.mark.parametrize(("kernel", "dtype"), LENGTHS, ids=lambda v: getattr(v, "__name__", ""))
def test_lengths(kernel: Any, dtype: Any) -> None:
    x, z = _points(dtype)
    value, *slopes = _derivatives(kernel, x, z, dtype)
    wide_x, wide_z = x.astype(np.longdouble), z.astype(np.longdouble)
    exact = np.hypot(wide_x, wide_z)
    tiny = 64 * np.finfo(_numpy(dtype)).smallest_subnormal
    largest = np.finfo(_numpy(dtype)).max
    fits = exact <= largest
    np.testing.assert_allclose(value[fits], exact[fits].astype(_numpy(dtype)), rtol=3e-7, atol=tiny)
    assert np.isinf(value[~fits]).all()
    safe = np.where(exact == 0, 1, exact)
    digits = (
        fits & ((exact > 1e-38) | (exact == 0)) if dtype is dk.float32 else fits & ((exact > 1e-307) | (exact == 0))
    )
    for found, of in zip(slopes, (wide_x, wide_z, wide_x, wide_z), strict=True):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found[digits], (of / safe)[digits].astype(_numpy(dtype)), rtol=1e-6, atol=tiny)


@pytest.mark.parametrize(("kernel", "dtype"), ANGLES, ids=lambda v: getattr(v, "__name__", ""))
def test_slopes_of_angles(kernel: Any, dtype: Any) -> None:
    y, x = _points(dtype)
    _, *slopes = _derivatives(kernel, y, x, dtype)
    wide_y, wide_x = y.astype(np.longdouble), x.astype(np.longdouble)
    r = np.hypot(wide_x, wide_y)
    safe = np.where(r == 0, 1, r)
    tiny = np.finfo(_numpy(dtype)).tiny  # of the greatest numbers
    for found, of in zip(slopes, (wide_x, -wide_y, wide_x, -wide_y), strict=True):
        exact = (of / safe) / safe
        fits = np.abs(exact) <= np.finfo(_numpy(dtype)).max
        assert not np.isnan(found).any()
        np.testing.assert_allclose(found[fits], exact[fits].astype(_numpy(dtype)), rtol=2e-6, atol=tiny)
        assert np.isinf(found[~fits]).all()


def test_infinite_components() -> None:
    inf, nan = np.inf, np.nan
    x, z = np.array([inf, -inf, inf, nan, nan, 1.0], np.float32), np.array([1.0, nan, inf, -inf, 1.0, nan], np.float32)
    y = dk.zeros(6)
    dk.launch(hypot32, dim=6, inputs=[dk.array(x), dk.array(z)], outputs=[y])
    np.testing.assert_array_equal(y.numpy(), np.hypot(x, z))
