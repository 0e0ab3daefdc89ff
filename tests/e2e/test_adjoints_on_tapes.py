"""Adjoints launched by hand in a tape's block: no gradient passes them silently."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import LaunchError


@dk.kernel
def cube(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = x[i] * x[i] * x[i]


@dk.kernel
def double(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


def one(value: float, requires_grad: bool = True) -> Any:
    return dk.array(np.array([value]), dtype=dk.float64, requires_grad=requires_grad)


def by_hand(x: Any, y: Any, ct_x: Any, ct_y: Any = None, **options: Any) -> Any:
    """d(x ** 3) / dx, added to `ct_x`."""
    given: Any = {"adj_inputs": [ct_x], "adj_outputs": [one(1.0, False) if ct_y is None else ct_y]}
    return dk.launch(cube, dim=1, inputs=[x], outputs=[y], adjoint=True, **given, **options)


def launched(x: Any, y: Any, ct_x: Any) -> None:
    by_hand(x, y, ct_x)


def from_a_record(x: Any, y: Any, ct_x: Any) -> None:
    by_hand(x, y, ct_x, record_cmd=True).launch()


def in_a_sequence(x: Any, y: Any, ct_x: Any) -> None:
    ct_y = one(1.0, False)
    with dk.no_grad(), dk.record() as sequence:
        by_hand(x, y, ct_x, ct_y)
    ct_x.zero_()
    ct_y.fill_(1.0)  # the adjoint has consumed it
    sequence.replay()


WAYS = pytest.mark.parametrize("way", [launched, from_a_record, in_a_sequence], ids=lambda way: way.__name__)


@WAYS
@pytest.mark.parametrize("requires_grad", [True, False])
def test_no_gradient_passes_it_silently(way: Any, requires_grad: bool) -> None:
    x, y, ct_x, z = one(2.0), one(0.0), one(0.0, requires_grad), one(0.0)
    with dk.Tape() as tape:
        way(x, y, ct_x)
        dk.launch(cube, dim=1, inputs=[ct_x], outputs=[z])
    with pytest.raises(LaunchError, match="'cube' was launched by hand, and a gradient passes its results") as error:
        tape.backward(grads={z: np.array([1.0])})
    assert error.value.loc is not None
    np.testing.assert_array_equal(x.grad, [0.0])


def test_nor_one_that_begins_with_what_it_computed() -> None:
    x, y, ct_x = one(2.0), one(0.0), one(0.0)
    with dk.Tape() as tape:
        by_hand(x, y, ct_x)
    with pytest.raises(LaunchError, match="launched by hand"):
        tape.backward(grads={ct_x: np.array([1.0])})


@WAYS
def test_gradients_that_do_not_pass_it_are_as_without_it(way: Any) -> None:
    x, y, z = one(2.0), one(0.0), one(0.0)
    other = one(0.0, False)
    with dk.Tape() as tape:
        dk.launch(cube, dim=1, inputs=[x], outputs=[y])
        way(x, z, other)
    tape.backward(grads={y: np.array([1.0])})
    np.testing.assert_array_equal(x.grad, [12.0])
    np.testing.assert_array_equal(other, [12.0])


def test_adjoints_of_constants_may_be_used() -> None:
    fixed, y, ct, scale, z = one(2.0, False), one(0.0, False), one(0.0, False), one(3.0), one(0.0)
    with dk.Tape() as tape:
        by_hand(fixed, y, ct)
        dk.launch(double, dim=1, inputs=[scale], outputs=[z])
        dk.launch(cube, dim=1, inputs=[ct], outputs=[y])
    tape.backward(grads={z: np.array([1.0])})
    np.testing.assert_array_equal(scale.grad, [2.0])


def test_what_a_launch_read_and_it_changes_is_lost() -> None:
    x, y, ct_x, z = one(2.0), one(0.0), one(5.0), one(0.0)
    with dk.Tape() as tape:
        dk.launch(cube, dim=1, inputs=[ct_x], outputs=[z])
        by_hand(x, y, ct_x)
    with pytest.raises(LaunchError, match="was changed outside the tape"):
        tape.backward(grads={z: np.array([1.0])})


def test_an_adjoint_by_hand_in_a_function_that_is_differentiated() -> None:
    x = one(2.0)

    def function(x: Any) -> Any:
        y, ct_x, z = one(0.0), one(0.0), one(0.0)
        by_hand(x, y, ct_x)
        dk.launch(cube, dim=1, inputs=[ct_x], outputs=[z])
        return z

    with pytest.raises(LaunchError, match="launched by hand"):
        dk.grad(function)(x)
