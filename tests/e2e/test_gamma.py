"""The gamma function, its logarithm and digamma: values, derivatives of every order, poles; in lanes and on GPUs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from grad.oneop import OneOp, arguments, one_op_function
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern import cuda
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Value
from diffkern.ir.ops.polygamma import MAX_ORDER, polygamma
from diffkern.ir.types import FLOAT32, FLOAT64, Array
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import CompiledFunction

INF, NAN = math.inf, math.nan
ROOT = 1.4616321449683622
POSITIVE = [1e-4, 0.01, 0.3, 0.5, 0.97, 1.0, 1.4, ROOT, 1.5, 2.0, 2.5, 3.3, 7.0, 9.5, 20.0, 33.3]
NEGATIVE = [-1e-4, -0.3, -0.5, -0.9, -1.2, -1.5, -2.7, -6.1, -10.4]
FLOATS = pytest.mark.parametrize("dtype", [dk.float32, dk.float64])


def psi(order: int) -> Callable[[Any], Any]:
    return lambda v: mpmath.psi(order, v)


def logarithm(v: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(v)))


def close(found: Any, function: Callable[[Any], Any], points: Any, ulps: float, floor: float = 0.0) -> None:
    """Whether numbers are so many units in the last place from a function, or from ``floor`` where that is larger."""
    eps = float(np.finfo(found.dtype).eps)
    with mpmath.workdps(60):
        for value, point in zip(found, points, strict=True):
            true = function(mpmath.mpf(float(point)))
            assert abs(mpmath.mpf(float(value)) - true) <= ulps * eps * max(abs(true), floor), (point, value, true)


def launched(kernel: Any, points: Any, rows: int, dtype: Any) -> Any:
    y = dk.zeros((rows, len(points)), dtype=dtype)
    dk.launch(kernel, dim=len(points), inputs=[dk.array(points)], outputs=[y])
    return y.numpy()


@pytest.mark.parametrize("fast_math", [False, True])
@pytest.mark.parametrize("lanes", [False, True])
@FLOATS
def test_values(dtype: Any, lanes: bool, fast_math: bool) -> None:
    @dk.kernel(lanes=lanes, fast_math=fast_math)
    def k(x, y):
        i = dk.tid()
        y[0, i] = dk.gamma(x[i])
        y[1, i] = dk.lgamma(x[i])
        y[2, i] = dk.digamma(x[i])

    points = np.array(POSITIVE + NEGATIVE, dtype.__name__)
    gamma, log, of_log = launched(k, points, 3, dtype)
    close(gamma, mpmath.gamma, points, 10)
    close(log, logarithm, points, 8, floor=1.0)  # the C library says nothing near zeros
    # Where sums may be made in another order, the root is rounded.
    close(of_log[: len(POSITIVE)], mpmath.digamma, points[: len(POSITIVE)], 4, floor=1.0 if fast_math else 0.0)
    close(of_log, mpmath.digamma, points, 8, floor=1.0)


@FLOATS
def test_derivatives_to_order_four(dtype: Any) -> None:
    first = dk.grad(dk.lgamma)
    second, of_gamma = dk.grad(first), dk.grad(dk.grad(dk.gamma))

    @dk.kernel
    def k(x, y):
        i = dk.tid()
        y[0, i] = first(x[i])
        y[1, i] = second(x[i])
        y[2, i] = dk.grad(second)(x[i])
        y[3, i] = dk.grad(dk.grad(second))(x[i])
        y[4, i] = of_gamma(x[i])
        _, y[5, i] = dk.jvp(dk.lgamma)(x[i], 1.0)
        _, y[6, i] = dk.jvp(dk.jvp(dk.gamma))(x[i], 1.0, 1.0, 0.0)[1]
        _, y[7, i] = dk.jvp(second)(x[i], 1.0)
        _, y[8, i] = dk.jvp(dk.grad(second))(x[i], 1.0)

    points = np.array([v for v in POSITIVE if v > 0.1] + [-0.3, -2.7, -6.1], dtype.__name__)
    found = launched(k, points, 9, dtype)
    bends = functools.partial(mpmath.diff, mpmath.gamma, n=2)
    functions = (*map(psi, range(4)), bends, psi(0), bends, psi(2), psi(3))
    for row, function in zip(found, functions, strict=True):
        close(row, function, points, 40, floor=1.0)


def _orders(dtype: Any, orders: tuple[int, ...]) -> Any:
    """A function of the IR that computes polygamma functions."""
    b = Builder()
    (i,) = b.op("tid", axis=0)
    x, y = Value(Array(dtype, 1), "x"), Value(Array(dtype, 2), "y")
    v = b.one("load", x, i, wrap=(False,))
    for row, order in enumerate(orders):
        b.op("store", y, b.i32(row), i, b.one("polygamma", v, order=order), wrap=(False, False))
    return Function("orders", (x, y), b.region, tid_arity=1)


@pytest.mark.parametrize("t", [FLOAT32, FLOAT64])
def test_every_order(t: Any) -> None:
    orders = (1, 2, 3, 4, 5, 8, 12, 13, 20, 31, 50, 77, MAX_ORDER)
    points = np.array([0.3, 1.0, 4.7, 18.0, 60.0, -0.3, -0.6, -3.2], t.name)
    y = np.zeros((len(orders), len(points)), t.name)
    CompiledFunction(_orders(t, orders)).run((len(points),), [points, y])
    largest, least = float(np.finfo(t.name).max), float(np.finfo(t.name).tiny)
    for order, row in zip(orders, y, strict=True):
        with mpmath.workdps(60):
            true = [mpmath.psi(order, mpmath.mpf(float(v))) for v in points]
        for value, point, exact in zip(row, points, true, strict=True):
            if abs(exact) > largest:
                assert value == math.copysign(INF, exact), (order, point)
            elif abs(exact) > least:
                assert value == pytest.approx(float(exact), rel=3e2 * float(np.finfo(t.name).eps)), (order, point)


@pytest.mark.parametrize("order", range(5))
def test_calls_outside_of_kernels(order: int) -> None:
    points = np.array(POSITIVE + NEGATIVE)
    close(np.array([polygamma(order, v) for v in points]), psi(order), points, 40, floor=1.0)
    assert dk.digamma(0.5) == polygamma(0, 0.5)
    assert dk.gamma(5.0) == 24.0
    assert dk.lgamma(3.0) == pytest.approx(math.log(2.0), rel=1e-15)


@FLOATS
@pytest.mark.parametrize("lanes", [False, True])
def test_poles(dtype: Any, lanes: bool) -> None:
    @dk.kernel(lanes=lanes)
    def k(x, y):
        i = dk.tid()
        y[0, i] = dk.gamma(x[i])
        y[1, i] = dk.lgamma(x[i])
        y[2, i] = dk.digamma(x[i])
        y[3, i] = dk.grad(dk.digamma)(x[i])
        y[4, i] = dk.grad(dk.grad(dk.digamma))(x[i])

    points = np.array([0.0, -0.0, -1.0, -2.0, -17.0, INF, -INF, NAN], dtype.__name__)
    expected = [
        [INF, -INF, NAN, NAN, NAN, INF, NAN, NAN],
        [INF, INF, INF, INF, INF, INF, INF, NAN],
        [-INF, INF, NAN, NAN, NAN, INF, NAN, NAN],
        [INF, INF, INF, INF, INF, 0.0, NAN, NAN],
        [-INF, INF, NAN, NAN, NAN, 0.0, NAN, NAN],
    ]
    found = launched(k, points, 5, dtype)
    np.testing.assert_array_equal(found, np.array(expected))
    np.testing.assert_array_equal([polygamma(0, v) for v in points], expected[2])
    np.testing.assert_array_equal([polygamma(1, v) for v in points], expected[3])
    np.testing.assert_array_equal([polygamma(2, v) for v in points], expected[4])


def test_a_zero_cotangent_stays_zero_at_poles() -> None:
    @dk.kernel
    def chosen(x, y):
        i = dk.tid()
        y[0, i] = dk.where(x[i] > 0.0, dk.lgamma(x[i]), 0.0)
        y[1, i] = dk.where(x[i] > 0.0, dk.gamma(x[i]), 0.0)
        y[2, i] = dk.where(x[i] > 0.0, dk.digamma(x[i]), 0.0)
        y[3, i] = dk.where(x[i] > 0.0, dk.grad(dk.digamma)(x[i]), 0.0)

    x = dk.array(np.array([0.0, -1.0, -3.0], np.float32), requires_grad=True)
    y = dk.zeros((4, 3), requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(chosen, dim=3, inputs=[x], outputs=[y])
    tape.backward(grads={y: dk.ones((4, 3))})
    np.testing.assert_array_equal(x.grad.numpy(), 0.0)


def test_an_order_too_high_is_refused() -> None:
    rows = [OneOp("polygamma", (FLOAT64,), ([0.5],), {"order": MAX_ORDER})]
    fn = one_op_function("highest", rows)
    assert np.isfinite(arguments(fn, rows, 1)[0]).all()
    with pytest.raises(AutodiffError, match=f"a derivative of digamma of order {MAX_ORDER + 1}"):
        Vjp(fn)


# -- numba's spelling --------------------------------------------------------------------------------------------------


@cuda.jit
def of_math(x, y, z):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.gamma(x[i])
        z[i] = math.lgamma(x[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_python_in_numbas_spelling(dtype: Any) -> None:
    points = np.array(POSITIVE + NEGATIVE, dtype)
    x = dk.array(points, requires_grad=True)
    y, z = (dk.zeros(len(points), dtype=dtype, requires_grad=True) for _ in range(2))
    with dk.Tape() as tape:
        of_math[1, 32](x, y, z)
    close(y.numpy(), mpmath.gamma, points, 10)
    close(z.numpy(), logarithm, points, 8, floor=1.0)
    tape.backward(grads={z: dk.array(np.ones(len(points), dtype))})
    close(x.grad.numpy(), mpmath.digamma, points, 8, floor=1.0)


# -- on a GPU ----------------------------------------------------------------------------------------------------------


@FLOATS
def test_executed_code_of_a_gpu(dtype: Any) -> None:
    @dk.kernel
    def k(x, y):
        i = dk.tid()
        y[0, i] = dk.gamma(x[i])
        y[1, i] = dk.lgamma(x[i])
        y[2, i] = dk.digamma(x[i])

    points = np.array([0.0, 0.3, 1.5, 4.2, 17.0, -0.4, -2.5, -1.0], dtype.__name__)

    def run(device: str) -> tuple[Any, Any]:
        x = dk.array(points, requires_grad=True, device=device)
        y = dk.zeros((3, len(points)), dtype=dtype, requires_grad=True, device=device)
        with dk.Tape() as tape:
            dk.launch(k, dim=len(points), inputs=[x], outputs=[y], device=device)
        tape.backward(grads={y: dk.ones((3, len(points)), dtype=dtype, device=device)})
        return y.numpy(), x.grad.numpy()

    with fake_cuda(run="ptx"):
        found = run("cuda:0")
    for ours, expected in zip(found, run("cpu"), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=40 * np.finfo(points.dtype).eps, equal_nan=True)
