"""What an object with an id can do; run by ``test_new_object`` whose package has the ``Curve`` of the documentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference
import typing_stub

import diffkern as dk
from diffkern.lang.intrinsics import INTRINSICS

KEYS, VALUES = np.float32([3.0, -1.0, 0.5, 4.0]), np.float32([1.0, -3.0, 2.0, 7.0])
X = np.float32([-5.0, -0.25, 1.75, 3.5, 9.0])
SLOPES = np.float32([0.0, -4 / 1.5, 2.0, 5.0, 0.0])
WEIGHTS = np.float32([1.5, 1.0, 1.0, 1.5])
"""Sums of the derivatives of the five results, by value."""


@dk.kernel
def read(curve: dk.uint64, x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.curve_value(curve, x[i])


@dk.kernel
def squares(curve: dk.uint64, x: dk.array(dtype=float), s: dk.array(dtype=float)):
    i = dk.tid()
    y = dk.curve_value(curve, x[i])
    dk.atomic_add(s, 0, 0.5 * y * y)


def values_at(keys: Any) -> Any:
    return np.interp(X, np.sort(keys), VALUES).astype(np.float32)


def given(requires_grad: bool = True) -> tuple[Any, Any, Any]:
    values = dk.array(VALUES, requires_grad=requires_grad)
    return dk.Curve(KEYS, values), values, dk.array(X, requires_grad=True)


def refused(message: str) -> Any:
    return pytest.raises((dk.LaunchError, dk.AutodiffError), match=message)


def values() -> None:
    curve, _, x = given()
    y = dk.zeros(5)
    dk.launch(read, 5, [curve.id, x], [y])
    np.testing.assert_allclose(y.numpy(), values_at(KEYS), atol=1e-6)
    identity = curve.id
    curve.move([0, 1, 2, 3])
    assert curve.id == identity
    dk.launch(read, 5, [curve.id, x], [y])
    np.testing.assert_allclose(y.numpy(), values_at([0, 1, 2, 3]), atol=1e-6)
    del curve
    grid = dk.HashGrid(4, 4, 4)
    dk.launch(read, 5, [grid.id, x], [y])
    assert not y.numpy().any()
    for wrong in (identity, 7):
        with refused("there is no object with it"):
            dk.launch(read, 5, [wrong, x], [y])
    with refused("an array of float32 along one axis"):
        dk.Curve(KEYS, dk.zeros(4, dtype=dk.float64))
    with refused("contiguous"):
        dk.Curve(KEYS, dk.zeros(8)[::2])
    with refused("2 different keys for 3 values"):
        dk.Curve([0, 1, 1], dk.zeros(3))


def tapes() -> None:
    curve, values, x = given()
    y, z = dk.zeros(5, requires_grad=True), dk.zeros(5, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(read, 5, [curve.id, x], [y])
        curve.move([-20, -10, 10, 20])
        dk.launch(read, 5, [curve.id, x], [z])
    curve.move([0, 1, 2, 3])
    for _ in range(2):
        x.grad.zero_()
        values.grad.zero_()
        tape.backward(grads={y: dk.ones(5)})
        np.testing.assert_allclose(x.grad.numpy(), SLOPES, rtol=1e-6)
        np.testing.assert_allclose(values.grad.numpy(), WEIGHTS, rtol=1e-6)
    x.grad.zero_()
    tape.backward(grads={z: dk.ones(5)})
    np.testing.assert_allclose(x.grad.numpy(), 0.25, rtol=1e-6)
    dk.launch(read, 5, [curve.id, x], [y])  # the object is as it was before the sweeps
    np.testing.assert_allclose(y.numpy(), values_at([0, 1, 2, 3]), atol=1e-6)
    values.zero_()
    with refused("the values of a Curve, was changed after"):
        tape.backward(grads={z: dk.ones(5)})


def functions() -> None:
    curve, _, x = given(False)
    t = dk.array(np.arange(5, dtype=np.float32))

    def loss(x: Any) -> Any:
        s = dk.zeros(1)
        dk.launch(squares, 5, [curve.id, x, s])
        return s

    first = values_at(KEYS) * SLOPES
    np.testing.assert_allclose(dk.grad(loss)(x).numpy(), first, rtol=1e-5)
    np.testing.assert_allclose(dk.jvp(loss, (x,), (t,))[1].numpy(), [first @ t.numpy()], rtol=1e-5)
    np.testing.assert_allclose(dk.hvp(loss, (x,), (t,))[-1].numpy(), SLOPES**2 * t.numpy(), rtol=1e-5)
    curve, values, x = given()
    # Values with a gradient of their own are constants here, and no derivative of the gradient by them is lost.
    np.testing.assert_allclose(dk.grad(loss)(x).numpy(), first, rtol=1e-5)
    with refused("looks at objects by their ids"):
        dk.jvp(lambda _: dk.grad(loss)(x), (values,), (dk.clone(values),))
    # What is read is linear in the values, so that along themselves it changes as much as it is.
    with dk.Tangents({values: dk.clone(values)}) as tangents:
        s = loss(x)
    np.testing.assert_allclose(tangents[s].numpy(), [np.sum(values_at(KEYS) ** 2)], rtol=1e-5)


def recordings() -> None:
    curve, _, x = given(False)
    y = dk.zeros(5, requires_grad=True)
    with dk.record() as sequence:
        curve.move([-20, -10, 10, 20])
        with dk.Tape() as tape:
            dk.launch(read, 5, [curve.id, x], [y])
        tape.backward(grads={y: dk.ones(5)})
    curve.move([0, 1, 2, 3])
    for _ in range(2):
        x.grad.zero_()
        sequence.replay()
        np.testing.assert_allclose(x.grad.numpy(), 0.25, rtol=1e-6)
        np.testing.assert_allclose(y.numpy(), values_at([-20, -10, 10, 20]), atol=1e-6)
    curve, _, x = given()
    with dk.record(), refused("outside of records and sequences"):
        with dk.Tape() as tape:
            dk.launch(read, 5, [curve.id, x], [y])
        tape.backward(grads={y: dk.ones(5)})
    curve, _, x = given(False)
    curve.move([-20, -10, 10, 20])
    with dk.Tape() as tape:
        dk.checkpoint(lambda k: dk.launch(read, 5, [curve.id, dk.clone(x), x]), 2, 1)
    x.grad.zero_()
    tape.backward(grads={x: dk.ones(5)})
    np.testing.assert_allclose(x.grad.numpy(), 0.25**2, rtol=1e-6)


def debug_mode() -> None:
    @dk.kernel(mode="debug")
    def checked(curve: dk.uint64, y: dk.array(dtype=float)):
        y[0] = dk.curve_value(curve, 1.0)

    with pytest.raises(dk.KernelRuntimeError, match="the id is that of no Curve"):
        dk.launch(checked, 1, [7, dk.zeros(1)])


def main() -> None:
    values()
    tapes()
    functions()
    recordings()
    debug_mode()
    for adjoint in (False, True):
        assert ".entry" in dk.compile(read, target="sm_90", adjoint=adjoint).ptx
    assert "the values of the curve" in dk.curve_value.__doc__
    assert ".. py:function:: curve_value(id, x)" in "\n".join(reference.entry(INTRINSICS["curve_value"]))
    stub = typing_stub.stub()
    assert "def curve_value(" in stub
    assert "import Curve as Curve" in stub


if __name__ == "__main__":
    main()
