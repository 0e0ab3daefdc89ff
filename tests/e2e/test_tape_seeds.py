"""What reverse sweeps begin with: gradients for arrays that overlap, parts that do not, what seeds leave alone."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@dk.kernel
def add_up(x: dk.array(dtype=float), total: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(total, 0, x[i])


def floats(*values, grad=True):
    return dk.array(np.array(values, dtype=np.float32), requires_grad=grad)


def squared(middle_grad=True):
    x, y = floats(1, 2, 3, 4), dk.zeros(4, requires_grad=middle_grad)
    with dk.Tape() as tape:
        square[4](x, y)
    return x, y, tape


OVERLAPS = {
    "a part of it": lambda y: (y, y[0:2]),
    "a part that comes first": lambda y: (y[0:2], y),
    "parts": lambda y: (y[0:3], y[2:4]),
    "a view of the same": lambda y: (y, y[:]),
    "another shape": lambda y: (y, y.reshape((2, 2))),
    "backwards": lambda y: (y[0:2], y[2::-1]),
    "three, of which two overlap": lambda y: (y[3:4], y[0:2], y[1:2]),
}
PARTS = {
    "halves": lambda y: (y[0:2], y[2:4]),
    "the other order": lambda y: (y[2:4], y[0:2]),
    "every other": lambda y: (y[::2], y[1::2]),
    "nothing of it": lambda y: (y, y[2:2]),
}


def ones(array):
    return np.ones(array.shape, np.float32)


@pytest.mark.parametrize("middle_grad", [True, False])
@pytest.mark.parametrize("parts", OVERLAPS.values(), ids=OVERLAPS)
def test_overlapping_arrays_are_refused(parts, middle_grad):
    x, y, tape = squared(middle_grad)
    x.grad.fill_(5.0)
    keys = parts(y)
    with pytest.raises(dk.LaunchError, match="share memory") as caught:
        tape.backward(grads={key: ones(key) for key in keys})
    assert all(f"array(shape={key.shape}" in str(caught.value) for key in keys[-2:])
    assert x.grad.numpy().tolist() == [5, 5, 5, 5]
    tape.backward(grads={y: np.ones(4, np.float32)})
    assert x.grad.numpy().tolist() == [7, 9, 11, 13]


def test_refused_again_by_a_tape_that_was_taken_back():
    x, y, tape = squared()
    part, seed = y[1:3], np.ones(4, np.float32)
    for _ in range(3):
        tape.backward(grads={y: seed})
        for _ in range(3):
            with pytest.raises(dk.LaunchError, match="share memory"):
                tape.backward(grads={y: seed, part: ones(part)})
    assert x.grad.numpy().tolist() == [6, 12, 18, 24]


def test_a_loss_is_refused_beside_a_gradient_for_it():
    x, loss = floats(1, 2), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        add_up[2](x, loss)
    with pytest.raises(dk.LaunchError, match="share memory"):
        tape.backward(loss, grads={loss: np.float32([3])})
    assert x.grad.numpy().tolist() == [0, 0]


def test_two_arrays_with_one_gradient_are_refused():
    x, y, z = floats(1, 2), dk.zeros(2, requires_grad=True), dk.zeros(2, requires_grad=True)
    z.grad = y.grad
    with dk.Tape() as tape:
        square[2](x, y)
        square[2](x, z)
    with pytest.raises(dk.LaunchError, match="share memory"):
        tape.backward(grads={y: np.float32([1, 1]), z: np.float32([2, 2])})
    assert x.grad.numpy().tolist() == [0, 0]


@pytest.mark.parametrize("middle_grad", [True, False])
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_parts_that_do_not_overlap(parts, middle_grad):
    x, y, tape = squared(middle_grad)
    keys = parts(y)
    for k in range(1, 5):
        tape.backward(grads={key: ones(key) for key in keys})
        assert x.grad.numpy().tolist() == [2 * k, 4 * k, 6 * k, 8 * k]


def recorded():
    x, y = floats(1, 2, 3, 4), dk.zeros(4, requires_grad=True)
    with dk.record() as sequence:
        square[4](x, y)
    return x, y, sequence


@pytest.mark.parametrize("parts", OVERLAPS.values(), ids=OVERLAPS)
def test_sequences_refuse_overlapping_arrays(parts):
    _, y, sequence = recorded()
    keys = parts(y)
    with pytest.raises(dk.LaunchError, match="share memory"):
        sequence.adjoint(grads={key: ones(key) for key in keys})
    with pytest.raises(dk.LaunchError, match="share memory"):
        sequence.adjoint(grads={key: dk.ones_like(key) for key in keys})


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_sequences_take_parts_that_do_not_overlap(parts):
    x, y, sequence = recorded()
    keys = parts(y)
    both = sequence.adjoint(grads={key: dk.ones_like(key) for key in keys})
    for _ in range(3):
        both.replay()
        assert x.grad.numpy().tolist() == [2, 4, 6, 8]


def test_a_recorded_sweep_refuses_overlapping_arrays():
    _, y, tape = squared()
    with dk.record(), pytest.raises(dk.LaunchError, match="share memory"):
        tape.backward(grads={y: floats(1, 1, 1, 1), y[0:2]: floats(1, 1)})


def test_a_seed_for_a_part_leaves_the_gradient_of_the_rest():
    x, y, tape = squared()
    part = y[0:2]
    y.grad.fill_(9.0)
    for k in range(1, 5):
        tape.backward(grads={part: np.float32([1, 1])})
        assert x.grad.numpy().tolist() == [2 * k, 4 * k, 0, 0]
        assert y.grad.numpy().tolist() == [0, 0, 9, 9]


def test_a_seed_leaves_the_gradient_of_another_array_in_the_same_memory():
    memory = floats(0, 0, 9, 9, grad=False)
    x, y, z = floats(1, 2), dk.zeros(2), dk.zeros(2)
    y.grad, z.grad = memory[0:2], memory[2:4]
    with dk.Tape() as tape:
        square[2](x, y)
        square[2](x, z)
    for k in range(1, 5):
        tape.backward(grads={y: np.float32([1, 1])})
        assert x.grad.numpy().tolist() == [2 * k, 4 * k]
        assert memory.numpy().tolist() == [0, 0, 9, 9]


def test_a_seed_may_be_the_gradient_itself_or_a_view_of_it():
    x, y, tape = squared()
    y.grad.assign(np.float32([1, 2, 3, 4]))
    tape.backward(grads={y: y.grad})
    assert x.grad.numpy().tolist() == [2, 8, 18, 32]
    for k in range(1, 4):
        x.grad.zero_()
        y.grad.assign(np.float32([1, 2, 3, 4]))
        tape.backward(grads={y: y.grad[::-1]})
        assert x.grad.numpy().tolist() == [8, 12, 12, 8], k


def test_a_seed_is_what_it_was_when_the_sweep_began():
    x, y, z = floats(1, 2), dk.zeros(2, requires_grad=True), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        square[2](x, y)
        square[2](y, z)
    for _ in range(3):
        x.grad.zero_()
        x.grad.fill_(3.0)
        tape.backward(grads={z: x.grad})
        assert x.grad.numpy().tolist() == [3 + 3 * 4, 3 + 3 * 32]
