"""A tape taken back several times: the later sweeps are compiled, and must not differ from the first."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def square(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = a * x[i] * x[i]


@dk.kernel
def square_in_place(y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = y[i] * y[i]


@dk.kernel
def add_up(x: dk.array(dtype=float), total: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(total, 0, x[i])


def floats(*values, grad=False):
    return dk.array(np.array(values, dtype=np.float32), requires_grad=grad)


@pytest.mark.parametrize("middle_grad", [False, True])
def test_gradients_add_up_with_changing_seeds(middle_grad):
    x, y = floats(1, 2, grad=True), dk.zeros(2, requires_grad=middle_grad)
    with dk.Tape() as tape:
        square[2](x, 1.0, y)
        square_in_place[2](y)
    expected = np.zeros(2)
    for seed in ([1, 1], [0, 2], [0, 0], [3, -1], [1, 0]):
        tape.backward(grads={y: np.array(seed, np.float32)})
        expected += 4.0 * np.array([1.0, 8.0]) * seed
        assert x.grad.numpy().tolist() == expected.tolist()
    tape.zero()
    tape.backward(grads={y: floats(1, 1)})
    assert x.grad.numpy().tolist() == [4, 32]


def test_a_loss_and_gradients_left_over_in_results():
    x, y, loss = floats(1, 2, grad=True), dk.zeros(2, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        square[2](x, 1.0, y)
        add_up[2](y, loss)
    y.grad.fill_(7.0)
    for k in range(1, 5):
        tape.backward(loss)
        assert x.grad.numpy().tolist() == [2 * k, 4 * k]
        assert y.grad.numpy().tolist() == [7, 7]
    assert loss.grad.numpy().tolist() == [1]


def test_what_happens_in_between_is_noticed():
    x, y = floats(1, 2, grad=True), dk.zeros(2)
    seed = {y: np.ones(2, np.float32)}
    with dk.Tape() as tape:
        square[2](x, 1.0, y)
    for _ in range(3):
        tape.backward(grads=seed)
    before, x.grad = x.grad, dk.zeros(2)
    tape.backward(grads=seed)
    assert x.grad.numpy().tolist() == [2, 4]
    assert before.numpy().tolist() == [6, 12]
    for _ in range(2):
        tape.backward(grads=seed)
    with tape:
        square_in_place[2](y)
    x.grad.zero_()
    for k in range(1, 4):
        tape.backward(grads=seed)
        assert x.grad.numpy().tolist() == [4 * k, 32 * k]
    tape.reset()
    with tape:
        square[2](x, 3.0, y)
    tape.backward(grads=seed)
    tape.backward(grads=seed)
    assert x.grad.numpy().tolist() == [12, 24]
    x.fill_(5.0)
    with pytest.raises(dk.LaunchError, match="outside the tape"):
        tape.backward(grads=seed)


def test_a_record_that_runs_in_between_is_noticed():
    x, y = floats(1, 2, grad=True), dk.zeros(2)
    disturb = dk.launch(square_in_place, 2, [x], record_cmd=True)
    with dk.Tape() as tape:
        square[2](x, 1.0, y)
    for _ in range(3):
        tape.backward(grads={y: floats(1, 1)})
    disturb.launch()
    with pytest.raises(dk.LaunchError, match="outside the tape"):
        tape.backward(grads={y: floats(1, 1)})


def test_arrays_that_are_not_contiguous_and_large_ones():
    for x, n in ((dk.ones((3, 2), requires_grad=True)[:, 0], 3), (dk.ones(300_000, requires_grad=True), 300_000)):
        y = dk.zeros(n, requires_grad=True)
        with dk.Tape() as tape:
            square[n](x, 1.0, y)
        for _ in range(4):
            tape.backward(grads={y: np.ones(n, np.float32)})
        assert np.all(x.grad.numpy() == 8)


def test_while_another_thread_has_a_tape():
    x, y = floats(1, 2, grad=True), dk.zeros(2)
    with dk.Tape() as tape:
        square[2](x, 1.0, y)
    entered, left = threading.Event(), threading.Event()

    def hold():
        with dk.Tape():
            entered.set()
            left.wait()

    thread = threading.Thread(target=hold)
    for _ in range(3):
        tape.backward(grads={y: floats(1, 1)})
    thread.start()
    entered.wait()
    tape.backward(grads={y: floats(1, 1)})
    left.set()
    thread.join()
    assert x.grad.numpy().tolist() == [8, 16]


@dk.kernel
def _half_square(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = 0.5 * x[i] * x[i]


def test_seeds_may_be_gradients_of_other_arrays_on_the_tape():
    x = dk.array(np.array([1.0, 2.0]), requires_grad=True)
    y, z = (dk.zeros(2, dtype=dk.float64, requires_grad=True) for _ in range(2))
    tape = dk.Tape()
    with tape:
        dk.launch(_half_square, 2, [x, y])
        dk.launch(_half_square, 2, [y, z])

    def sweep(seeds):
        y.grad.fill_(3.0)
        z.grad.fill_(10.0)
        x.grad.zero_()
        tape.backward(grads=seeds())

    cases = [
        (lambda: {y: z.grad, z: y.grad}, [11.5, 32.0]),  # 10 x + 3 x**3 / 2
        (lambda: {z: y.grad}, [1.5, 12.0]),
        (lambda: {z: z.grad}, [5.0, 40.0]),
    ]
    for seeds, expected in cases:
        for _ in range(3):  # the third one is compiled
            sweep(seeds)
            np.testing.assert_allclose(x.grad.numpy(), expected)
        with dk.record() as sequence:
            sweep(seeds)
        x.grad.fill_(5.0)
        sequence.replay()
        np.testing.assert_allclose(x.grad.numpy(), expected)
