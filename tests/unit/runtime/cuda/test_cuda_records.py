"""Records, sequences and tapes on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from runtime_cuda_kernels import Pair, accumulate, gather, neighbours, scale, square, total

import diffkern as dk

G = "cuda:0"


def test_parameters_are_bytes_of_the_next_launch(driver):
    x, y = dk.full(4, 2.0, device=G), dk.zeros(4, device=G)
    record = dk.launch(square, 4, inputs=[x, y, 1.0], record_cmd=True)
    assert record.device == G
    record.launch()
    record.set_param_by_name("a", 10.0)
    record.launch()
    other = dk.zeros(4, device=G)
    record.set_param_at_index(1, other)
    record.set_param_at_index(0, dk.full(4, 3.0, device=G))
    record.launch()
    dk.synchronize()
    first, second, third = (launched.block for launched in driver.launches)
    assert [k for k in range(0, len(first), 8) if first[k : k + 8] != second[k : k + 8]] == [len(first) - 8]
    assert len(third) == len(first)
    assert y.list() == [40.0] * 4
    assert other.list() == [90.0] * 4


def test_changes_in_records(driver):
    x, y = dk.full(6, 2.0, device=G), dk.zeros(6, device=G)
    record = dk.launch(square, 6, inputs=[x, y, 1.0], record_cmd=True, block_dim=64)
    record.set_dim(3)
    record.launch()
    assert y.list() == [4.0] * 3 + [0.0] * 3
    assert driver.launches[0].threads == 64
    record.set_params([x, y, 2.0])
    stream = dk.Stream(G)
    record.launch(stream)
    stream.synchronize()
    assert driver.launches[1].stream == stream.cuda_stream
    assert y.list() == [8.0] * 3 + [0.0] * 3
    before = y._memory.now
    record.launch()
    assert y._memory.now == before + 1
    record.release()
    with pytest.raises(dk.LaunchError, match="released"):
        record.launch()


def test_struct_in_a_record(driver):
    pair = Pair(dk.ones(3, device=G), dk.zeros(3, device=G), 4.0)
    record = dk.launch(scale, 3, inputs=[pair], record_cmd=True)
    record.launch()
    pair.a = 5.0
    record.set_param_by_name("p", pair)
    record.launch()
    assert pair.y.list() == [5.0] * 3


def test_adjoint_records(driver):
    x = dk.array(np.arange(5.0), dtype=float, device=G, requires_grad=True)
    y = dk.zeros(5, device=G, requires_grad=True)
    forward = dk.launch(square, 5, inputs=[x, y, 3.0], record_cmd=True)
    backward = forward.adjoint()
    forward.launch()
    y.grad.fill_(1.0)
    backward.launch()
    np.testing.assert_array_equal(x.grad.numpy(), 6.0 * np.arange(5.0))
    backward.set_param_by_name("a", 1.0)
    backward.launch()
    np.testing.assert_array_equal(x.grad.numpy(), 6.0 * np.arange(5.0))  # y.grad was consumed
    y.grad.fill_(1.0)
    backward.launch()
    np.testing.assert_array_equal(x.grad.numpy(), 8.0 * np.arange(5.0))


def _energy(device, x):
    """A loss through an array that is overwritten, neighbours, a copy and a sum."""
    y, z, w = dk.zeros_like(x), dk.zeros_like(x), dk.zeros_like(x)
    loss = dk.zeros(1, device=device, requires_grad=True)
    dk.launch(square, x.size, inputs=[x, y, 0.5])
    dk.launch(neighbours, x.size, inputs=[y, z])
    dk.launch(square, x.size, inputs=[z, y, 2.0])  # overwrites what an adjoint needs
    dk.copy(w, y)
    dk.launch(accumulate, x.size, inputs=[x, w, 3.0])
    dk.launch(total, x.size, inputs=[w, loss])
    return loss


def test_tape(driver):
    values = np.random.default_rng(1).normal(size=40).astype(np.float32)
    found = {}
    for device in ("cpu", G):
        x = dk.array(values, device=device, requires_grad=True)
        with dk.Tape() as tape:
            loss = _energy(device, x)
        tape.backward(loss)
        once = x.grad.numpy().copy()
        assert tape.memory() > 0
        tape.backward(loss)
        tape.backward(loss)
        np.testing.assert_allclose(x.grad.numpy(), 3 * once, rtol=1e-5)
        tape.zero()
        assert not x.grad.numpy().any()
        tape.backward(grads={loss: dk.full(1, 2.0, device=device)})
        np.testing.assert_allclose(x.grad.numpy(), 2 * once, rtol=1e-5)
        found[device] = once
    np.testing.assert_allclose(found["cpu"], found[G], rtol=1e-5)


def test_tape_of_vectors_and_gathers(driver):
    rng = np.random.default_rng(2)
    values, index = rng.normal(size=(20, 3)), rng.integers(0, 20, 20)
    found = {}
    for device in ("cpu", G):
        x = dk.array(values, dtype=dk.vec3, device=device, requires_grad=True)
        out = dk.zeros(1, device=device, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(gather, 20, inputs=[x, dk.array(index, dtype=int, device=device), out])
        tape.backward(out)
        found[device] = x.grad.numpy().copy()
    np.testing.assert_allclose(found["cpu"], found[G], rtol=1e-5)
    expected = values[index]
    np.add.at(expected, index, values)
    np.testing.assert_allclose(found[G], expected, rtol=1e-5)


def test_gradients_go_through_copies_between_devices(driver):
    x = dk.array([1.0, 2.0], dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        there = x.to(G)
        y = dk.zeros(2, device=G, requires_grad=True)
        dk.launch(square, 2, inputs=[there, y, 1.0])
        back = y.to("cpu")
    tape.backward(grads={back: np.ones(2, np.float32)})
    assert x.grad.list() == [2.0, 4.0]


def test_changes_outside_the_tape_are_noticed(driver):
    x = dk.ones(3, device=G, requires_grad=True)
    y = dk.zeros(3, device=G, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(square, 3, inputs=[x, y, 1.0])
    x.fill_(2.0)
    with pytest.raises(dk.LaunchError, match="changed outside the tape"):
        tape.backward(grads={y: np.ones(3, np.float32)})


def test_overlaps_are_refused(driver):
    whole = dk.zeros(10, device=G, requires_grad=True)
    with dk.Tape(), pytest.raises(dk.LaunchError, match="share memory"):
        dk.launch(square, 6, inputs=[whole[:6], whole[4:], 1.0])


def test_sequences(driver):
    x, y = dk.full(4, 2.0, device=G), dk.zeros(4, device=G)
    with dk.record() as sequence:
        dk.launch(square, 4, inputs=[x, y, 1.0])
        dk.copy(x, y)
        y.fill_(7.0)
    assert x.list() == [4.0] * 4
    sequence.replay()
    assert x.list() == [16.0] * 4
    sequence.set_param("a", 0.5)
    sequence.replay(timed=True)
    assert x.list() == [128.0] * 4
    assert y.list() == [7.0] * 4
    assert [row["native"] for row in sequence.table()] == [True] * 3
    assert all(row["seconds"] > 0 for row in sequence.table())
    stream = dk.Stream(G)
    driver.launches.clear()
    sequence.replay(stream)
    stream.synchronize()
    assert driver.launches[0].stream == stream.cuda_stream


def test_adjoint_of_a_sequence(driver):
    values = np.random.default_rng(3).normal(size=12).astype(np.float32)
    found = {}
    for device in ("cpu", G):
        x = dk.array(values, device=device, requires_grad=True)
        with dk.record() as sequence:
            loss = _energy(device, x)
        both = sequence.adjoint(loss)
        both.replay()
        once = x.grad.numpy().copy()
        both.replay()
        np.testing.assert_allclose(x.grad.numpy(), once, rtol=1e-6)
        found[device] = once
    np.testing.assert_allclose(found["cpu"], found[G], rtol=1e-5)
