"""``retain_grad``: gradients with respect to what arrays hold when a tape ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp


@dk.kernel
def scale(x: dk.array[float], y: dk.array[float], factor: float):
    i = dk.tid()
    y[i] = factor * x[i]


@dk.kernel
def shift(y: dk.array[float], z: dk.array[float]):
    i = dk.tid()
    z[i] = 3.0 * y[i] + 1.0


def record(y: Any, x: Any, z: Any) -> dk.Tape:
    with dk.Tape() as tape:
        dk.launch(scale, x.size, [x, y, 2.0])
        dk.launch(shift, x.size, [y, z])
    return tape


def ones(**options: Any) -> Any:
    return dk.array(np.ones(4, np.float32), requires_grad=True, **options)


@pytest.mark.parametrize("retain", [False, True])
def test_the_gradient_of_what_a_launch_wrote_is_kept_where_that_is_asked_for(retain):
    x, y, z = ones(), ones(retain_grad=retain), ones()
    tape = record(y, x, z)
    for count in (1, 2, 3, 4):  # later sweeps run as one native call, and gradients add up
        tape.backward(grads={z: np.ones(4, np.float32)})
        np.testing.assert_array_equal(x.grad.numpy(), np.full(4, 6.0 * count))
        np.testing.assert_array_equal(y.grad.numpy(), np.full(4, 3.0 * count * retain))
    y.retain_grad = not retain
    tape.zero()
    tape.backward(grads={z: np.ones(4, np.float32)})
    np.testing.assert_array_equal(y.grad.numpy(), np.full(4, 3.0 * (not retain)))


def test_of_several_launches_the_last_one_counts_and_no_gradient_goes_past_it():
    a, b, y, z = ones(), ones(), ones(retain_grad=True), ones()
    with dk.Tape() as tape:
        dk.launch(scale, 4, [a, y, 2.0])
        dk.launch(scale, 2, [b, y, 5.0])  # the first two elements
        dk.launch(shift, 4, [y, z])
    tape.backward(grads={z: np.ones(4, np.float32)})
    np.testing.assert_array_equal(a.grad.numpy(), [0.0, 0.0, 6.0, 6.0])
    np.testing.assert_array_equal(b.grad.numpy(), [15.0, 15.0, 0.0, 0.0])
    np.testing.assert_array_equal(y.grad.numpy(), np.full(4, 3.0))


def test_copies_fills_and_roll_outs_write_too():
    def copied(x, y):
        dk.copy(y, x)

    def filled(x, y):
        y[:2].fill_(2.0)

    def rolled_out(x, y):
        dk.checkpoint(lambda _: dk.launch(scale, 4, [x, y, 2.0]), 1, 1)

    for write, slope in ((copied, 3.0), (filled, 0.0), (rolled_out, 6.0)):
        x, y, z = ones(), ones(retain_grad=True), ones()
        with dk.Tape() as tape:
            write(x, y)
            dk.launch(shift, 4, [y, z])
        tape.backward(grads={z: np.ones(4, np.float32)})
        np.testing.assert_array_equal(x.grad.numpy(), np.full(4, slope))
        np.testing.assert_array_equal(y.grad.numpy(), np.full(4, 3.0))


def test_arrays_without_a_gradient_retain_none():
    with pytest.raises(ValueError, match="no gradient to retain"):
        wp.zeros(4, dtype=float, retain_grad=True)
    held = dk.zeros(4)
    with pytest.raises(ValueError, match="requires_grad=True"):
        held.retain_grad = True
    held.requires_grad = held.retain_grad = True
    assert held.retain_grad
    held.requires_grad = False
    assert not held.retain_grad


def test_functions_that_make_arrays_take_it():
    source = wp.zeros(4, dtype=float, requires_grad=True)
    made = [
        wp.zeros(4, dtype=float, requires_grad=True, retain_grad=True),
        wp.full(4, 1, dtype=float, requires_grad=True, retain_grad=True),
        wp.full_like(source, 1.0, retain_grad=True),
        wp.clone(source, retain_grad=True),
        wp.from_numpy(np.ones(4), dtype=float, requires_grad=True, retain_grad=True),
        wp.array([1.0], dtype=float, requires_grad=True, retain_grad=True),
    ]
    assert all(a.retain_grad for a in made)
    assert not wp.zeros_like(made[0]).retain_grad
