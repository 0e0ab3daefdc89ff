"""Stores and atomic updates of one array are differentiated if they are in branches of which a launch takes one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk

F1 = dk.array(dtype=float)
I1 = dk.array(dtype=int)
X = np.array([3.0, -1.0, 5.0, 2.0], np.float32)


def chain(x: F1, o: F1, r: int, c: I1):
    i = dk.tid()
    if r == 0:
        dk.atomic_add(o, 0, x[i] * x[i])
    elif r == 1:
        o[i] = x[i] * 3.0
    elif r == 2:
        dk.atomic_max(o, 1, x[i])
    else:
        dk.atomic_sub(o, i, x[i])


def apart(x: F1, o: F1, r: int, c: I1):
    i = dk.tid()
    for k in range(1):
        if r == 0:
            dk.atomic_add(o, k, x[i] * x[i])
    if r == 1 and c.shape[0] > 0:
        o[i] = x[i] * 3.0
    if not (r != 2 or c.shape[0] == 0):
        dk.atomic_max(o, 1, x[i])
    if r == 3:
        dk.atomic_sub(o, i, x[i])


def left(x: F1, o: F1, r: int, c: I1):
    i = dk.tid()
    if r == 0:
        dk.atomic_add(o, 0, x[i] * x[i])
        return
    if r == 2:
        dk.atomic_max(o, 1, x[i])
        return
    if r == 3:
        dk.atomic_sub(o, i, x[i])
        return
    o[i] = x[i] * 3.0


Z = np.array([0.5, 1.5, -2.0, 4.0], np.float32)
WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0], np.float32)


def wanted(r: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the kernels write, and the gradients of its weighted sum for x and for what was there before."""
    o, of_x, of_z = Z.copy(), np.zeros(4, np.float32), WEIGHTS.copy()
    if r == 0:
        o[0] += (X * X).sum()
        of_x = WEIGHTS[0] * 2 * X
    elif r == 1:
        o, of_x, of_z = X * 3, WEIGHTS * 3, np.zeros(4, np.float32)
    elif r == 2:
        o[1] = X.max()
        of_x[2], of_z[1] = WEIGHTS[1], 0
    else:
        o, of_x = Z - X, -WEIGHTS
    return o, of_x, of_z


@pytest.mark.parametrize("r", range(4))
@pytest.mark.parametrize("function", [chain, apart, left])
def test_gradients_by_the_way_that_a_launch_takes(function: Any, r: int) -> None:
    c = dk.zeros(1, dtype=int)
    value, of_x, of_z = wanted(r)
    for lanes in (False, True):
        kernel = dk.kernel(function, lanes=lanes)
        x, z = dk.array(X, requires_grad=True), dk.array(Z, requires_grad=True)
        with dk.Tape() as tape:
            o = dk.clone(z)
            dk.launch(kernel, 4, [x, o, r, c])
        tape.backward(grads={o: dk.array(WEIGHTS)})
        np.testing.assert_allclose(o.numpy(), value, rtol=1e-6)
        np.testing.assert_allclose(x.grad.numpy(), of_x, rtol=1e-6)
        np.testing.assert_allclose(z.grad.numpy(), of_z, rtol=1e-6)
    t_x, t_z = np.float32([1, -2, 0.5, 3]), np.float32([0.25, 1, 2, -1])
    t_o = dk.array(t_z)
    dk.kernel(function).jvp[4](dk.array(X), dk.array(Z), r, c, dk.array(t_x), t_o)
    assert WEIGHTS @ t_o.numpy() == pytest.approx(of_x @ t_x + of_z @ t_z, rel=1e-5)


def by_thread(x: F1, o: F1, r: int, c: I1):
    i = dk.tid()
    if i > r:
        dk.atomic_add(o, 0, x[i])  # here
    else:
        o[i] = x[i]


def by_trip(x: F1, o: F1, r: int, c: I1):
    i = dk.tid()
    for k in range(2):
        if k == r:
            dk.atomic_add(o, 0, x[i])  # here
        else:
            o[i] = x[i]


def by_an_element(x: F1, o: F1, r: int, c: I1):
    i = dk.tid()
    if c[0] == r:
        dk.atomic_add(o, 0, x[i])  # here
    else:
        o[i] = x[i]


def by_two_numbers(x: F1, o: F1, r: int, c: I1):
    i = dk.tid()
    if r == 0:
        dk.atomic_add(o, 0, x[i])  # here
    if c.shape[0] == 1:
        o[i] = x[i]


def both_may_hold(x: F1, o: F1, r: int, c: I1):
    i = dk.tid()
    if r != 0:
        dk.atomic_add(o, 0, x[i])  # here
    if r != 1:
        o[i] = x[i]


def one_beside_another(x: F1, o: F1, r: int, c: I1):
    i = dk.tid()
    if r != 1:
        dk.atomic_add(o, 0, x[i])  # here
    if r == 0:
        o[i] = x[i]


def one_of_two_reasons(x: F1, o: F1, r: int, c: I1):
    i = dk.tid()
    if r == 0 or c.shape[0] == 1:
        dk.atomic_add(o, 0, x[i])  # here
    if r == 1:
        o[i] = x[i]


def by_both_zeros(x: F1, o: F1, r: int, c: I1):
    i = dk.tid()
    if float(r) == 0.0:
        dk.atomic_add(o, 0, x[i])  # here
    if float(r) == -0.0:
        o[i] = x[i]


@pytest.mark.parametrize(
    "function",
    [
        by_both_zeros,
        by_thread,
        by_trip,
        by_an_element,
        by_two_numbers,
        both_may_hold,
        one_beside_another,
        one_of_two_reasons,
    ],
)
def test_what_one_launch_may_do_both_ways_is_refused(function: Any) -> None:
    with pytest.raises(dk.AutodiffError, match="o is stored to and updated atomically") as caught:
        dk.kernel(function).adjoint_source()
    assert "# here" in caught.value.loc.text
    assert "let a parameter that is no array choose" in caught.value.remedy
