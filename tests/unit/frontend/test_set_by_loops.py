"""Which variables a loop has set: those that each of its trips sets, where there is surely a trip."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk

A = dk.array(dtype=dk.float64)
X = np.array([1.0, 2.0, 3.0, 4.0])


def _run(kernel: dk.Kernel, n: int = 3) -> tuple[np.ndarray, np.ndarray]:
    x, y = dk.array(X, requires_grad=True), dk.zeros(4, dtype=dk.float64, requires_grad=True)
    y.grad.fill_(1.0)
    dk.launch(kernel, 4, inputs=[x, n], outputs=[y])
    dk.launch(kernel, 4, inputs=[x, n], outputs=[y], adjoint=True)
    return y.numpy(), x.grad.numpy()


def _refused(kernel: dk.Kernel, reason: str) -> None:
    with pytest.raises(dk.KernelTypeError, match=f"'d' (may have|has) no value here: {reason}"):
        _run(kernel)


def test_the_last_of_a_known_number_of_trips() -> None:
    @dk.kernel
    def last(x: A, n: int, y: A):
        i = dk.tid()
        for k in range(3):
            d = x[i] * dk.float64(k)
        y[i] = d * d

    value, gradient = _run(last)
    np.testing.assert_array_equal(value, 4.0 * X * X)
    np.testing.assert_array_equal(gradient, 8.0 * X)


def test_after_a_break_that_comes_behind_it() -> None:
    @dk.kernel
    def left(x: A, n: int, y: A):
        i = dk.tid()
        for k in range(1, 4):
            d = x[i] * dk.float64(k)
            if d > 5.0:
                break
        y[i] = d * d

    trips = np.array([3.0, 3.0, 2.0, 2.0])
    value, gradient = _run(left)
    np.testing.assert_array_equal(value, (trips * X) ** 2)
    np.testing.assert_array_equal(gradient, 2.0 * trips**2 * X)


def test_a_sequence_of_known_length() -> None:
    @dk.kernel
    def elements(x: A, n: int, y: A):
        i = dk.tid()
        for a in dk.vec3d(x[i], 2.0 * x[i], 3.0 * x[i]):
            d = a * a
        y[i] = d

    value, gradient = _run(elements)
    np.testing.assert_array_equal(value, 9.0 * X * X)
    np.testing.assert_array_equal(gradient, 18.0 * X)


def test_a_loop_that_may_make_no_trip() -> None:
    @dk.kernel
    def at_run_time(x: A, n: int, y: A):
        i = dk.tid()
        for k in range(n):
            d = x[i] * dk.float64(k)
        y[i] = d

    @dk.kernel
    def never(x: A, n: int, y: A):
        i = dk.tid()
        for k in range(3, 3):
            d = x[i] * dk.float64(k)
        y[i] = d

    _refused(at_run_time, "the loop in line .* may make no trip that sets it")
    _refused(never, "the loop in line .* may make no trip that sets it")


def test_a_trip_that_may_not_set_it() -> None:
    @dk.kernel
    def under_a_condition(x: A, n: int, y: A):
        i = dk.tid()
        for k in range(3):
            if x[i] > 2.0:
                d = x[i] * dk.float64(k)
        y[i] = d

    @dk.kernel
    def broken(x: A, n: int, y: A):
        i = dk.tid()
        for k in range(3):
            if x[i] > 2.0:
                break
            d = x[i] * dk.float64(k)
        y[i] = d

    @dk.kernel
    def continued(x: A, n: int, y: A):
        i = dk.tid()
        for k in range(3):
            if x[i] > 2.0:
                continue
            d = x[i] * dk.float64(k)
        y[i] = d

    _refused(under_a_condition, "no trip before has set it")
    _refused(broken, "a break of the loop in line .* comes before it is set")
    _refused(continued, "a continue of the loop in line .* comes before it is set")


def test_a_continue_of_a_loop_that_is_unrolled() -> None:
    @dk.kernel
    def at_run_time(x: A, n: int, y: A):
        i = dk.tid()
        for k in range(2):
            if x[i] > 2.0:
                continue
            d = x[i] * dk.static(k + 1.0)
        y[i] = d

    @dk.kernel
    def known(x: A, n: int, y: A):
        i = dk.tid()
        for k in range(2):
            if dk.static(k == 1):
                continue
            d = x[i] * dk.static(k + 5.0)
        y[i] = d

    _refused(at_run_time, "a continue of the loop in line .* comes before it is set")
    np.testing.assert_array_equal(_run(known)[0], 5.0 * X)


def test_a_path_that_always_leaves_by_a_break_or_a_return() -> None:
    @dk.kernel
    def leaving(x: A, n: int, y: A):
        i = dk.tid()
        d = 0.0
        for k in range(4):
            if x[i] > 2.0:
                if k != n:
                    if x[i] > 3.0:
                        break
                    else:
                        d = 5.0 * x[i]  # it returns
                y[i] = 1.0
                return
            d = d + x[i]
        y[i] = d * d

    value, gradient = _run(leaving)
    np.testing.assert_array_equal(value, [16.0, 64.0, 1.0, 0.0])
    np.testing.assert_array_equal(gradient, [32.0, 64.0, 0.0, 0.0])
