"""What a recording has written is not read in its block: a replay would not read it again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.fake_driver.driver import fake_cuda

import diffkern as dk

G = "cuda:0"
READ = "is read while work for it is recorded"


@dk.kernel
def halve(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 0.5 * x[i]


READS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda y: y.numpy(), "float": float, "int": int, "item": lambda y: y.item(), "list": lambda y: y.list(),
    "element": lambda y: y[0], "print": str, "format": "{}".format, "asarray": np.asarray,
    "interface": lambda y: y.__array_interface__, "dlpack": np.from_dlpack, "view": lambda y: y.reshape(1, 1).numpy(),
    "converted": lambda y: dk.array(y, dtype=dk.float64),
    "broadcast": lambda y: dk.zeros((2, 1)).__setitem__(..., y), "copied": lambda y: copy.copy(y).numpy(),
}  # fmt: skip


@pytest.mark.parametrize("run", [True, False])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_is_refused(read, run):
    x, y = dk.ones(1), dk.ones(1)
    read(y)
    with dk.record(run=run) as sequence:
        read(y)  # what it is now it is for each replay
        read(x)
        halve[1](x, y)
        with pytest.raises(dk.LaunchError, match=READ) as error:
            read(y)
        read(x)
    assert "step 'halve' writes it" in str(error.value)
    for name in ("capture_while", "capture_if", "allow_reads"):
        assert name in error.value.remedy
    read(y)
    sequence.replay()


@pytest.mark.parametrize("write", [lambda x, y: y.fill_(2.0), lambda x, y: dk.copy(y, x), lambda x, y: y.assign([3.0])])
def test_fills_and_copies_count(write):
    x, y = dk.ones(1), dk.zeros(1)
    with dk.record():
        write(x, y)
        with pytest.raises(dk.LaunchError, match=READ):
            float(y)


def test_what_was_computed_in_the_block_counts():
    x = dk.ones(3)
    with dk.record():
        s = x.sum()
        with pytest.raises(dk.LaunchError, match=READ):
            float(s)


def test_gradients_count():
    x, y = dk.ones(1, requires_grad=True), dk.zeros(1)
    with dk.record():
        with dk.Tape() as tape:
            halve[1](x, y)
        tape.backward(y)
        with pytest.raises(dk.LaunchError, match=READ):
            x.grad.numpy()


def test_reads_can_be_allowed():
    x, y = dk.ones(1), dk.zeros(1)
    with dk.record(allow_reads=True) as sequence:
        halve[1](x, y)
        seen = [float(y), y.numpy()[0], str(y)]
    assert seen == [0.5, 0.5, "[0.5]"]
    x.fill_(4.0)
    sequence.replay()
    assert y.list() == [2.0]


def test_messages_about_arrays_and_debuggers_are_no_reads():
    x, y = dk.ones(1), dk.zeros(1)
    with dk.record():
        halve[1](x, y)
        assert "0.5" in repr(y)
        with pytest.raises(TypeError, match=r"must be a dk\.Stream"):
            dk.launch(halve, 1, [x, y], stream=y)


def test_a_part_of_a_condition_is_part_of_the_recording():
    flag, x, y = dk.ones(1, dtype=int), dk.ones(1), dk.zeros(1)
    with dk.record():
        halve[1](x, y)
        with pytest.raises(dk.LaunchError, match=READ):
            dk.capture_if(flag, lambda: y.fill_(float(y)))
    with pytest.raises(dk.LaunchError, match=READ):
        dk.capture_if(flag, lambda: (halve[1](x, y), float(y)))


@pytest.mark.parametrize("device", ["cpu", G])
def test_captures(device):
    with fake_cuda():
        x, y = dk.ones(1, device=device), dk.zeros(1, device=device)
        with dk.ScopedCapture(device):
            halve[1](x, y)
            with pytest.raises(dk.LaunchError, match="is read while work for it is captured") as error:
                y.numpy()
            with pytest.raises((dk.LaunchError, AttributeError)):
                _ = y.__cuda_array_interface__
        assert "allow_reads" not in error.value.remedy
        assert "capture_while" in error.value.remedy


def test_a_solver_is_recorded_with_a_condition():
    """What the error asks for: the number of rounds is that of each replay."""
    x, rounds, go = dk.ones(1), dk.zeros(1, dtype=int), dk.zeros(1, dtype=int)

    def body():
        halve[1](x, x)
        dk.launch(look, 1, [x, rounds, go])

    with dk.record() as sequence:
        dk.launch(look, 1, [x, rounds, go])
        dk.capture_while(go, body)
    assert rounds.list() == [5]
    x.fill_(1000.0)
    rounds.zero_()
    sequence.replay()
    assert (rounds.list(), x.list()) == ([15], [1000.0 / 2**14])


@dk.kernel
def look(x: dk.array(dtype=float), rounds: dk.array(dtype=int), go: dk.array(dtype=int)):
    rounds[0] = rounds[0] + 1
    go[0] = dk.where(x[0] > 0.1, 1, 0)


def test_logs_that_are_counted_are_no_reads():
    """Diffkern looks at counts of a recorded launch itself."""
    n, x, y = dk.array([2, 3], dtype=int), dk.ones((2, 4), requires_grad=True), dk.zeros(1)
    with dk.record() as sequence:
        with dk.Tape() as tape:
            dk.launch(repeat, 2, [x, n])
            y.zero_()
            dk.launch(total, 2, [x, y])
        tape.zero()
        tape.backward(y)
    first = x.grad.numpy().copy()
    assert first.any()
    x.fill_(1.0)
    sequence.replay()
    np.testing.assert_allclose(x.grad.numpy(), first, rtol=1e-6)


@dk.kernel
def repeat(x: dk.array(dtype=float, ndim=2), n: dk.array(dtype=int)):
    r = dk.tid()
    for _ in range(n[r]):
        for i in range(3):
            x[r, i] = dk.sin(x[r, i]) * x[r, i + 1]


@dk.kernel
def total(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float)):
    r = dk.tid()
    dk.atomic_add(y, 0, x[r, 0])
