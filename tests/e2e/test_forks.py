"""Children of forks: streams, records, locks and programs work there, whatever other threads did in the parent."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

PRELUDE = """
import multiprocessing, os, signal, sys, threading, time
import numpy as np
import diffkern as dk

@dk.kernel
def scale(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = a * x[i]

@dk.kernel
def slow(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
    i = dk.tid()
    s = x[i]
    for k in range(n):
        s = dk.sin(s) + 1.0
    y[i] = s

def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status

x, y, z = dk.ones(1000, requires_grad=True), dk.zeros(1000), dk.zeros(1000)
"""


def run(tmp_path, program: str) -> None:
    path = tmp_path / "forking.py"
    path.write_text(PRELUDE + textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(path)],
        env={**os.environ, "DIFFKERN_NUM_THREADS": "2", "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_streams_that_were_used_before(tmp_path):
    run(
        tmp_path,
        """
        stream, other = dk.Stream(), dk.Stream()
        dk.launch(scale, 1000, [x, 2.0], [y], stream=stream)
        before = stream.record_event()
        stream.synchronize()

        def work():
            before.synchronize()
            assert y.numpy()[0] == 2.0
            dk.launch(scale, 1000, [x, 3.0], [y], stream=stream)
            event = stream.record_event()
            event.synchronize()
            assert event.is_complete and y.numpy()[0] == 3.0
            other.wait_event(event)
            with dk.ScopedStream(other):
                scale[1000](x, 4.0, y)
            dk.synchronize()
            assert y.numpy()[0] == 4.0
            in_child(lambda: (scale[1000](x, 5.0, y), stream.synchronize()))

        for _ in range(5):
            in_child(work)
        time.sleep(1.2)  # the thread of the stream has ended
        in_child(work)
        """,
    )


def test_work_that_is_under_way_belongs_to_the_parent(tmp_path):
    run(
        tmp_path,
        """
        stream = dk.Stream()
        for k in range(5):
            gate = threading.Event()
            stream.enqueue(gate.wait)
            dk.launch(scale, 1000, [x, 2.0 + k], [y], stream=stream)
            event = stream.record_event()
            assert not event.is_complete

            def work():
                assert stream.is_complete and event.is_complete
                try:
                    event.synchronize()
                except RuntimeError as error:
                    assert "forked" in str(error)
                else:
                    raise AssertionError
                event.synchronize()
                stream.synchronize()
                dk.launch(scale, 1000, [x, 7.0], [y], stream=stream)
                stream.synchronize()
                assert y.numpy()[0] == 7.0

            in_child(work)
            gate.set()
            event.synchronize()
            assert y.numpy()[0] == 2.0 + k
        """,
    )


def test_records_that_run_in_other_threads(tmp_path):
    run(
        tmp_path,
        """
        record = dk.launch(slow, 1000, [x, 20_000], [z], record_cmd=True)
        with dk.record() as sequence:
            slow[1000](x, 20_000, y)
        stop = False

        def busy(call):
            while not stop:
                call()

        threads = [threading.Thread(target=busy, args=(call,)) for call in (record.launch, sequence.replay)]
        for thread in threads:
            thread.start()

        def work():
            record.set_param_at_index(1, 0)
            record.launch()
            assert z.numpy()[0] == 1.0
            sequence.set_param("n", 0)
            sequence.replay()
            assert y.numpy()[0] == 1.0
            record.release()

        for _ in range(8):
            time.sleep(0.02)
            in_child(work)
        stop = True
        for thread in threads:
            thread.join()
        """,
    )


def test_programs_that_other_threads_compile(tmp_path):
    """Locks of diffkern, llvmlite and numba that another thread holds are free in the child."""
    run(
        tmp_path,
        """
        def made(k):
            @dk.kernel
            def fresh(x: dk.array(dtype=float), y: dk.array(dtype=float)):
                i = dk.tid()
                y[i] = dk.sin(x[i]) * k + dk.cos(x[i] * k)

            with dk.Tape() as tape:
                fresh[1000](x, y)
            tape.backward(grads={y: np.ones(1000, np.float32)})

        made(0.5)
        stop = False

        def busy():
            k = 1
            while not stop:
                made(float(k))
                k += 1

        thread = threading.Thread(target=busy, daemon=True)
        thread.start()
        for k in range(6):
            time.sleep(0.05 + 0.031 * k)
            in_child(lambda: made(1000.0 + k))
        stop = True
        thread.join()
        """,
    )


def test_multiprocessing_by_fork(tmp_path):
    run(
        tmp_path,
        """
        scale[1000](x, 2.0, y)
        stream = dk.Stream()
        dk.launch(scale, 1000, [x, 2.0], [y], stream=stream)
        stream.synchronize()

        def work(a):
            with dk.ScopedStream(stream):
                goal = dk.zeros(1000)
                scale[1000](x, a, goal)
            return float(goal.numpy().sum())

        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(work, [1.0, 2.0, 3.0]) == [1000.0, 2000.0, 3000.0]
        """,
    )


def test_a_fork_waits_for_what_another_thread_does_in_llvm(tmp_path):
    run(
        tmp_path,
        """
        import llvmlite.binding  # which a kernel from the cache does not need

        scale[1000](x, 3.0, y)
        from diffkern.process.interrupts import llvm_lock

        inside, left = threading.Event(), threading.Event()

        def compiles():
            with llvm_lock():
                inside.set()
                time.sleep(0.5)
                left.set()

        def work():
            assert left.is_set()
            with llvm_lock():
                pass

        thread = threading.Thread(target=compiles)
        thread.start()
        assert inside.wait(60)
        in_child(work)
        thread.join()
        """,
    )


def test_a_gpu_that_was_used_is_refused_in_the_child(tmp_path):
    run(
        tmp_path,
        """
        from support.fake_driver.driver import fake_cuda

        with fake_cuda():
            a = dk.ones(4, device="cuda:0")

            def work():
                global a
                del a
                dk.synchronize()
                scale[1000](x, 3.0, y)
                assert y.numpy()[0] == 3.0
                try:
                    dk.zeros(1, device="cuda:0")
                except ValueError as error:
                    assert "spawn" in str(error)
                else:
                    raise AssertionError

            in_child(work)
            assert a.numpy().tolist() == [1.0] * 4
        """,
    )


def test_what_another_thread_computes_once_is_computed_in_the_child(tmp_path):
    run(
        tmp_path,
        """
        from diffkern.process.forks import cached_property

        begun, go_on = threading.Event(), threading.Event()

        class Found:
            @cached_property
            def answer(self):
                if threading.current_thread() is not threading.main_thread():
                    begun.set()
                    go_on.wait()
                return 42

        found = Found()
        thread = threading.Thread(target=lambda: found.answer, daemon=True)
        thread.start()
        begun.wait()

        def work():
            assert found.answer == 42 and found.answer == 42

        in_child(work)
        go_on.set()
        thread.join()
        """,
    )
