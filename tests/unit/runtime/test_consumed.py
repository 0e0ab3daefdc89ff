"""Which cotangents are known to be zero after an adjoint, so that nothing has to be kept of them or cleared."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk

N = 20
A = dk.array(dtype=float)


@dk.kernel
def squares(x: A, y: A):
    i = dk.tid()
    y[i] = x[i] * x[i]


@dk.kernel
def positive(x: A, y: A):
    i = dk.tid()
    if x[i] > 0.0:
        y[i] = x[i] * x[i]


@dk.kernel
def sums(x: A, y: A):
    i = dk.tid()
    dk.atomic_add(y, i, x[i] * x[i])


@dk.struct
class Pair:
    first: float
    second: float


@dk.kernel
def firsts(x: A, y: dk.array(dtype=Pair)):
    i = dk.tid()
    y[i].first = x[i] * x[i]


def numbers(requires_grad=True):
    return dk.array(np.linspace(-1.0, 2.0, N, dtype=np.float32), requires_grad=requires_grad)


def known(*arrays):
    """Which gradients are known to be zero; those that are have to be."""
    found = [a.grad._memory.is_zero for a in arrays]
    for a, is_zero in zip(arrays, found, strict=True):
        values = a.grad.numpy()
        parts = [values[name] for name in values.dtype.names] if values.dtype.names else [values]
        assert not is_zero or not any(part.any() for part in parts)
    return found


def test_what_a_launch_overwrote_as_a_whole():
    x, y, z = numbers(), numbers(), numbers()
    with dk.Tape() as tape:
        squares[N](x, y)
        squares[N](y, z)
    tape.backward(grads={z: dk.ones(N)})
    assert known(x, y, z) == [False, True, True]
    np.testing.assert_allclose(x.grad.numpy(), 4 * x.numpy() ** 3, rtol=1e-5)


@pytest.mark.parametrize(("kernel", "count"), [(positive, N), (sums, N), (squares, N - 1)])
def test_what_a_launch_may_have_left(kernel, count):
    x, y = numbers(), numbers()
    with dk.Tape() as tape:
        kernel[count](x, y)
    tape.backward(grads={y: dk.ones(N)})
    assert known(y) == [False]
    assert y.grad.numpy().any()


def test_views_and_fields():
    x, y, pairs = numbers(), numbers(), dk.zeros(N, dtype=Pair, requires_grad=True)
    with dk.Tape() as tape:
        squares[N // 2](x[: N // 2], y[: N // 2])
        firsts[N](x, pairs)
    tape.backward(grads={y: dk.ones(N), pairs: np.ones(N, pairs.numpy().dtype)})
    assert known(y, pairs) == [False, False]
    assert y.grad.numpy()[N // 2 :].all()
    assert pairs.grad.numpy()["second"].all()


def test_one_array_in_both_places():
    x = numbers()
    with dk.Tape() as tape:
        squares[N](x, x)
    tape.backward(grads={x: dk.ones(N)})
    assert known(x) == [False]
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.linspace(-1.0, 2.0, N), rtol=1e-5, atol=1e-6)


def test_further_sweeps_add():
    x, y = numbers(), numbers()
    with dk.Tape() as tape:
        squares[N](x, y)
    for k in range(1, 4):
        y.grad.fill_(5.0)
        tape.backward(grads={y: dk.ones(N)})
        np.testing.assert_allclose(x.grad.numpy(), 2 * k * x.numpy(), rtol=1e-5)


def test_by_hand_and_recorded():
    x, y = numbers(), numbers()
    squares[N](x, y)
    y.grad.fill_(1.0)
    dk.launch(squares, N, [x], [y], adj_inputs=[None], adj_outputs=[None], adjoint=True)
    assert known(y) == [True]
    with dk.record() as sequence:
        with dk.Tape() as tape:
            squares[N](x, y)
        tape.backward(grads={y: dk.ones(N)})
    assert known(y) == [False]  # nothing is said of replays
    sequence.replay()
    np.testing.assert_allclose(x.grad.numpy(), 2 * 3 * x.numpy(), rtol=1e-5)


def test_on_a_stream():
    x, y = numbers(), numbers()
    with dk.Tape() as tape:
        squares[N](x, y)
    with dk.ScopedStream(dk.Stream("cpu")):
        y.grad.fill_(1.0)
        tape.backward(grads={y: dk.ones(N)})
        y.grad.fill_(2.0)
    dk.synchronize()
    assert known(y) == [False]
    assert y.grad.numpy().tolist() == [2.0] * N
