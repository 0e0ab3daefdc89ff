"""Conditions and loops of a sequence on the CPU as steps of one native call: what that must not change."""

from __future__ import annotations

import ctypes
import signal
import threading
import time

import pytest

import diffkern as dk


@dk.kernel
def count(left: dk.array(dtype=int), x: dk.array(dtype=float), step: float):
    left[0] = left[0] - 1
    x[0] = x[0] + step


@dk.kernel
def store(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i]


@dk.kernel(mode="debug")
def careful(left: dk.array(dtype=int), x: dk.array(dtype=float), place: int):
    left[0] = left[0] - 1
    x[place] = x[place] + 1.0


def is_native(sequence: dk.Sequence) -> bool:
    return all(row["native"] for row in sequence.table())


def test_a_loop_is_one_native_step():
    left, x = dk.zeros(1, dtype=int), dk.zeros(1)
    with dk.record(run=False) as sequence:
        left.fill_(1000)
        dk.capture_while(left, lambda: dk.launch(count, 1, [left, x, 1.0]))
    assert is_native(sequence)
    for rounds in (1, 2):
        sequence.replay()
        assert (x.list(), left.list()) == ([1000.0 * rounds], [0])


def test_parameters_of_a_body_are_followed():
    left, x, other = dk.zeros(1, dtype=int), dk.zeros(1), dk.zeros(1)
    with dk.ScopedCapture() as capture:
        dk.launch(count, 1, [left, x, 1.0])
    inner = capture.graph.sequence
    with dk.record(run=False) as sequence:
        dk.capture_while(left, capture.graph)
    assert is_native(sequence)

    def replayed(rounds: int) -> tuple[float, float]:
        left.fill_(rounds)
        before = x._memory.now, other._memory.now
        sequence.replay()
        assert (x._memory.now > before[0]) or (other._memory.now > before[1])
        return x.list()[0], other.list()[0]

    assert replayed(3) == (3.0, 0.0)
    inner.set_param("step", 2.0)
    assert replayed(2) == (7.0, 0.0)
    inner.set_param("x", other)  # another array, whose version a replay raises from now on
    before = other._memory.now
    assert replayed(2) == (7.0, 4.0)
    assert other._memory.now > before
    inner[0].set_param_by_name_from_ctype("step", ctypes.c_float(0.5))
    assert replayed(4) == (7.0, 6.0)
    inner[0].release()
    left.fill_(1)
    with pytest.raises(dk.LaunchError, match="released"):
        sequence.replay()


def test_conditions_within_loops_are_followed():
    left, flag, x, y = dk.zeros(1, dtype=int), dk.ones(1, dtype=int), dk.zeros(1), dk.zeros(1)
    with dk.ScopedCapture() as capture:
        dk.launch(count, 1, [flag, x, 1.0])

    def body() -> None:
        dk.launch(count, 1, [left, y, 1.0])
        dk.capture_if(flag, capture.graph, lambda: flag.fill_(2))

    with dk.record(run=False) as sequence:
        dk.capture_while(left, body)
    assert is_native(sequence)
    left.fill_(7)
    sequence.replay()
    # The flag: 1, 0, 2, 1, 0, 2, 1, 0.
    assert (x.list(), y.list(), flag.list()) == ([5.0], [7.0], [0])
    capture.graph.sequence.set_param("step", 10.0)
    left.fill_(2)
    sequence.replay()
    assert (x.list(), flag.list()) == ([15.0], [1])


def test_fills_before_a_side_that_may_read_stay():
    """Neither a fill in front of a side nor one in it is left out where the other side, or nothing, overwrites."""
    flag, x, y = dk.zeros(1, dtype=int), dk.full(4, 5.0), dk.zeros(4)
    with dk.record(run=False) as sequence:
        x.fill_(1.0)
        dk.capture_if(flag, lambda: dk.copy(x, y))
        dk.copy(y, x)
        x.fill_(3.0)
        dk.capture_if(flag, lambda: (x.fill_(7.0), dk.launch(store, 4, [y, x])), lambda: dk.launch(store, 4, [x, y]))
    assert is_native(sequence)
    sequence.replay()
    assert (x.list(), y.list()) == ([3.0] * 4, [3.0] * 4)
    flag.fill_(1)
    y.fill_(2.0)
    sequence.replay()
    assert (x.list(), y.list()) == ([2.0] * 4, [2.0] * 4)


def test_errors_in_a_body_end_the_loop_and_name_it():
    left, x = dk.full(1, 3, dtype=int), dk.zeros(2)
    with dk.record(run=False) as sequence:
        dk.capture_while(left, lambda: dk.launch(careful, 1, [left, x, 5]))
    assert not is_native(sequence)
    for rounds in (1, 2):
        with pytest.raises(dk.KernelError, match="5"):
            sequence.replay()
        assert left.list() == [3 - rounds]


def test_times_of_a_loop():
    left, x = dk.full(1, 3, dtype=int), dk.zeros(1)
    with dk.record(run=False) as sequence:
        dk.capture_while(left, lambda: dk.launch(count, 1, [left, x, 1.0]))
        x.fill_(0.5)
    sequence.replay(timed=True)
    assert [row["seconds"] > 0.0 for row in sequence.table()] == [True, True]
    assert (left.list(), x.list()) == ([0], [0.5])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize("recorded", [True, False])
def test_a_loop_without_end_is_interrupted(recorded):
    flag, x, y = dk.ones(1, dtype=int), dk.zeros(1), dk.zeros(1)

    class Late(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        raise Late

    def program() -> None:
        dk.capture_while(flag, lambda: dk.launch(store, 1, [x, y]))

    run = program
    if recorded:
        with dk.record(run=False) as sequence:
            program()
        run = sequence.replay
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Late):
            run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    flag.zero_()
    run()  # nothing counts as in progress any more
    if recorded:
        assert not sequence._program.plan.running


def test_another_thread_ends_a_loop_and_changes_wait_for_it():
    flag, x, y = dk.ones(1, dtype=int), dk.zeros(1), dk.zeros(1)
    with dk.ScopedCapture() as capture:
        dk.launch(store, 1, [x, y])
    with dk.record(run=False) as sequence:
        dk.capture_while(flag, capture.graph)
    shown, changed = flag.numpy(), threading.Event()

    def change() -> None:
        capture.graph.sequence.set_param("x", dk.full(1, 4.0))
        changed.set()

    threads = [threading.Thread(target=sequence.replay)]
    threads[0].start()
    while not sequence._program.plan.running:
        time.sleep(0.001)
    threads.append(threading.Thread(target=change))
    threads[1].start()
    assert not changed.wait(0.05)
    shown[0] = 0
    for thread in threads:
        thread.join(30.0)
    assert changed.is_set()
    assert y.list() == [0.0]
    flag.fill_(1)
    threading.Timer(0.05, lambda: shown.__setitem__(0, 0)).start()
    sequence.replay()
    assert y.list() == [4.0]


def test_a_parameter_by_name_reaches_loops_and_branches():
    left, flag, x = dk.zeros(1, dtype=int), dk.ones(1, dtype=int), dk.zeros(1)
    once = dk.ones(1, dtype=int)
    with dk.record(run=False) as sequence:
        left.fill_(3)
        dk.launch(count, 1, [once, x, 1.0])
        dk.capture_if(flag, lambda: dk.capture_while(left, lambda: dk.launch(count, 1, [left, x, 1.0])))
    assert sequence.set_param("step", 2.0) == 2
    sequence.replay()
    assert x.list() == [8.0]
    with pytest.raises(TypeError):
        sequence.set_param("step", "three")
    sequence.replay()
    assert x.list() == [16.0]
