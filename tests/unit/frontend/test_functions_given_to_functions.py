"""A func may be called inside itself for other functions, as a search whose objective is found by a search."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk

REAL = dk.float64


@dk.func
def newton(slope, x: REAL, given: REAL):
    """Where the slope of a quadratic function is zero."""
    at, further = slope(x, given), slope(x + 1.0, given)
    return x - at / (further - at)


@dk.func
def inner_slope(y: REAL, x: REAL):
    return 2.0 * (y - 3.0 * x)


@dk.func
def outer(x: REAL, given: REAL):
    y = newton(inner_slope, given, x)
    return (y - given) * (y - given)


@dk.func
def outer_slope(x: REAL, given: REAL):
    return dk.grad(outer)(x, given)[0]


@dk.kernel
def nested(given: dk.array[REAL], found: dk.array[REAL]):
    i = dk.tid()
    found[i] = newton(outer_slope, REAL(0.0), given[i])


def test_a_search_inside_a_search_with_derivatives():
    given = dk.array(np.array([1.0, -2.0, 4.5]), dtype=REAL, requires_grad=True)
    found = dk.zeros_like(given)
    with dk.Tape() as tape:
        dk.launch(nested, 3, [given], [found])
    np.testing.assert_allclose(found.numpy(), given.numpy() / 3.0, rtol=1e-12)
    tape.backward(grads={found: dk.ones_like(found)})
    np.testing.assert_allclose(given.grad.numpy(), np.full(3, 1.0 / 3.0), rtol=1e-9)


@dk.func
def forever(f, x: REAL):
    return forever(f, x) + f(x)


@dk.func
def deeper(f, x: REAL):
    return deeper(dk.grad(f), x)


@dk.func
def square(x: REAL):
    return x * x


@pytest.mark.parametrize("func", [forever, deeper])
def test_a_func_that_never_ends_is_refused(func):
    @dk.kernel
    def call(x: dk.array[REAL]):
        x[0] = func(square, x[0])

    with pytest.raises(dk.KernelError, match="calls itself"):
        dk.launch(call, 1, [dk.zeros(1, dtype=REAL)])
