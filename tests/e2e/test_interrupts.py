"""Ctrl-C at any moment: what is launched next works and is right.

``DIFFKERN_INTERRUPTS=1000`` asks for more than the few that are tried by default.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import diffkern as dk

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX timers, and the native thread pool")

N = 200_000


@dk.kernel
def slow(x: dk.array(dtype=float), rounds: int, y: dk.array(dtype=float)):
    i = dk.tid()
    s = x[i]
    for _ in range(rounds):
        s = s * 0.5 + dk.sin(s)
    y[i] = s


@dk.kernel
def slow_at_the_end(x: dk.array(dtype=float), rounds: int, y: dk.array(dtype=float)):
    i = dk.tid()
    s = x[i]
    if i > x.shape[0] // 4:
        for _ in range(rounds):
            s = s * 0.5 + dk.sin(s)
    y[i] = 1.0 + s


@dk.kernel
def double(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


def test_random_interrupts(tmp_path):
    count = os.environ.get("DIFFKERN_INTERRUPTS", "60")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("interrupts.py")), count, "1"],
        capture_output=True, text=True, check=False, env={**os.environ, "DIFFKERN_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """What is interrupted is not the compiler."""
    x, y = dk.zeros(N, requires_grad=True), dk.zeros(N, requires_grad=True)
    for run in (lambda: slow[N](x, 1, y), lambda: double[N](x, y)):
        with dk.Tape() as tape:
            run()
        tape.backward(grads={y: np.ones(N, np.float32)})


def interrupted(call) -> None:
    """Interrupt a call that takes very much longer."""
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
    finally:
        timer.cancel()  # of a call that ended by itself the test fails, and not the session
        timer.join()


# Many seconds of all processors. A launch that is interrupted ends with the chunks that have begun.
ROUNDS = min(200_000, 25_000 * dk.config.num_threads)


def test_a_long_launch_ends():
    x, y = dk.zeros(N), dk.zeros(N)
    before = y._memory.now
    interrupted(lambda: slow[N](x, ROUNDS, y))
    assert y._memory.now > before
    double[N](x, y)
    assert (y.numpy() == 0.0).all()


def test_a_launch_that_begins_quickly_ends():
    x, y = dk.zeros(N), dk.zeros(N)
    slow_at_the_end[N](x, 1, y)
    y.zero_()
    interrupted(lambda: slow_at_the_end[N](x, ROUNDS, y))
    assert y.numpy()[0] == 1.0
    assert y.numpy()[-1] == 0.0


def test_a_long_record_ends_and_takes_parameters():
    x, y = dk.array(np.ones(N, np.float32)), dk.zeros(N)
    cmd = dk.launch(slow, N, [x, ROUNDS], [y], record_cmd=True)
    interrupted(cmd.launch)
    cmd.set_param_at_index(1, 1)
    cmd.launch()
    np.testing.assert_allclose(y.numpy(), 0.5 + np.sin(1.0), rtol=1e-6)


def test_a_long_sequence_ends():
    x, y = dk.array(np.ones(N, np.float32)), dk.zeros(N)
    with dk.record(run=False) as sequence:
        slow[N](x, ROUNDS, y)
        double[N](x, y)
    interrupted(sequence.replay)
    sequence.set_param("rounds", 1)
    sequence.replay()
    assert (y.numpy() == 2.0).all()


def test_slow_launches_behind_many_quick_ones_end():
    x, y, z = dk.array(np.ones(1, np.float32)), dk.zeros(1), dk.zeros(1)
    with dk.record(run=False) as sequence:
        for _ in range(2000):
            double[1](x, y)
        for _ in range(4000):
            slow[1](x, 500_000, y)
        double[1](x, z)
    interrupted(sequence.replay)
    assert z.numpy()[0] == 0.0
    sequence.set_param("rounds", 1)
    sequence.replay()
    assert z.numpy()[0] == 2.0


def test_waiting_for_a_stream_ends_and_its_work_goes_on():
    x, y = dk.array(np.ones(N, np.float32)), dk.zeros(N)
    stream, gate = dk.Stream(), threading.Event()
    stream.enqueue(gate.wait)
    dk.launch(double, N, [x], [y], stream=stream)
    interrupted(dk.synchronize)
    gate.set()
    assert (y.numpy() == 2.0).all()


def test_a_tape_knows_that_a_launch_on_it_was_interrupted():
    x, y = dk.zeros(N, requires_grad=True), dk.zeros(N, requires_grad=True)
    with dk.Tape() as tape:
        double[N](x, y)
        interrupted(lambda: slow[N](x, ROUNDS, y))
    with pytest.raises(dk.LaunchError, match=r"kernel 'slow'.*did not come to its end"):
        tape.backward(grads={y: np.ones(N, np.float32)})
    tape.reset()
    with tape:
        double[N](x, y)
    tape.backward(grads={y: np.ones(N, np.float32)})
    assert (x.grad.numpy() == 2.0).all()


def test_a_long_adjoint_ends():
    x, y = dk.zeros(N, requires_grad=True), dk.zeros(N, requires_grad=True)
    interrupted(lambda: dk.launch(slow, N, [x, ROUNDS], [y], adjoint=True))
    double[N](x, y)
    assert (y.numpy() == 0.0).all()


def test_other_threads_are_not_asked():
    """Only the main thread handles signals; a launch of another one runs to its end."""
    x, y = dk.array(np.ones(2000, np.float32)), dk.zeros(2000)
    thread = threading.Thread(target=lambda: slow[2000](x, ROUNDS, y))
    thread.start()
    interrupted(lambda: time.sleep(60))
    thread.join()
    s = np.float32(1.0)
    for _ in range(200):
        s = np.float32(s * 0.5 + np.sin(s))
    np.testing.assert_allclose(y.numpy(), s, rtol=1e-5)


@pytest.mark.full
def test_an_interrupt_in_llvmlite_does_not_end_the_process(tmp_path):
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("llvmlite_interrupted.py"))],
        capture_output=True, text=True, check=False, env={**os.environ, "DIFFKERN_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    assert "_dispose" in done.stdout
