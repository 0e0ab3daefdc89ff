"""A signal handler that forks in the middle of a run: what the child makes of the run that it finds itself in."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

# One thread waits until a run has begun and sends a signal; the chunks last until the handler has come.
PRELUDE = """
import ctypes, os, signal, sys, threading, time
import llvmlite.binding as llvm
from diffkern.runtime.native import pool
from diffkern.runtime.native.loader import load_object, make_target_machine
from diffkern.runtime.native.replay import Plan, Step, address_of
TEXT = '''
; args: {whether to stop, int64 array}; adds 1 to the elements lo .. hi-1, and waits a millisecond or so if not to stop
define void @linger(i64 %given, i64 %lo, i64 %hi) {
entry:
  %args = and i64 %given, -2
  %a = inttoptr i64 %args to ptr
  %at = getelementptr i64, ptr %a, i64 1
  %counts = load ptr, ptr %at
  br label %count
count:
  %i = phi i64 [ %lo, %entry ], [ %i.next, %count ]
  %p = getelementptr i64, ptr %counts, i64 %i
  %v = atomicrmw add ptr %p, i64 1 monotonic
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %hi
  br i1 %more, label %count, label %wait
wait:
  %k = phi i64 [ 0, %count ], [ %k.next, %again ]
  %stop = load atomic i64, ptr %a monotonic, align 8
  %going = icmp eq i64 %stop, 0
  br i1 %going, label %again, label %done
again:
  %k.next = add i64 %k, 1
  %not.yet = icmp slt i64 %k.next, 1000000
  br i1 %not.yet, label %wait, label %done
done:
  ret void
}
'''
linger = load_object(make_target_machine().emit_object(llvm.parse_assembly(TEXT)), ["linger"])["linger"]
N = 60_000
counts = (ctypes.c_int64 * N)()
block = bytearray(16)
words = (ctypes.c_int64 * 2).from_buffer(block)
words[1] = ctypes.addressof(counts)
child = None
in_child = lambda: None
def handler(*_):
    global child
    if child is None:
        child = os.fork()
        words[0] = 1
        if child == 0:
            signal.alarm(60)  # ends the child wherever it hangs
            in_child()
signal.signal(signal.SIGUSR1, handler)
def send():
    while not counts[0]:
        time.sleep(0.01)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
threading.Thread(target=send).start()
def end(right):
    if child == 0:
        os._exit(0 if right else 1)
    status = os.waitpid(child, 0)[1]
    assert status == 0, status
    assert right
"""


def run_program(text: str, threads: int) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE + textwrap.dedent(text)],
        env={**os.environ, "DIFFKERN_NUM_THREADS": str(threads)},
        timeout=240,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_run_that_one_thread_makes_goes_on_in_the_child() -> None:
    run_program(
        """
        pool.run(linger, address_of(block), 0, N, 1)
        end(list(counts) == [1] * N)
        """,
        threads=1,
    )


def test_a_call_of_a_plan_that_goes_on_in_the_child_is_counted() -> None:
    run_program(
        """
        plan = Plan([Step(linger, block, N, 1)], [], 0)
        call = plan.call(None)
        others = []
        def in_child():
            call()  # within the call that is interrupted
            others.append(plan.running)
        call()
        expected = 2 if child == 0 else 1
        end(list(counts) == [expected] * N and not any(others) and plan.words[1] == 0)
        """,
        threads=1,
    )


def test_a_shared_run_is_an_error_in_the_child() -> None:
    run_program(
        """
        error = None
        try:
            pool.run(linger, address_of(block), 0, N, 1)
        except RuntimeError as raised:
            error = raised
        if child == 0:
            # The chunks of the workers are lost, and none has run twice.
            right = "forked" in str(error) and max(counts) == 1
            counts = (ctypes.c_int64 * N)()
            words[1] = ctypes.addressof(counts)
            pool.run(linger, address_of(block), 0, N, 1)  # with workers of the child's own
            end(right and list(counts) == [1] * N)
        end(error is None and list(counts) == [1] * N)
        """,
        threads=3,
    )


def test_a_shared_run_of_a_plan_is_an_error_in_the_child() -> None:
    run_program(
        """
        plan = Plan([Step(linger, block, N, 1), Step(linger, block, N, 1)], [], 0)
        call = plan.call(None)
        error = None
        try:
            call()
        except RuntimeError as raised:
            error = raised
        if child == 0:
            end("forked" in str(error) and max(counts) == 1 and plan.words[1] == 0)
        end(error is None and list(counts) == [2] * N and plan.words[1] == 0)
        """,
        threads=2,
    )


def test_the_error_of_the_handler_comes_first() -> None:
    run_program(
        """
        def in_child():
            raise KeyError("the handler's own")
        error = None
        try:
            pool.run(linger, address_of(block), 0, N, 1)
        except KeyError as raised:
            error = raised
        end(error is not None if child == 0 else list(counts) == [1] * N)
        """,
        threads=2,
    )


def test_a_run_that_updates_alone_goes_on_in_the_child() -> None:
    run_program(
        """
        step = Step(linger, block, N, 1, updates=True)
        step.run()
        right = list(counts) == [1] * N
        # Another thread's run waits until none is alone.
        thread = threading.Thread(target=step.run)
        thread.start()
        thread.join()
        end(right and list(counts) == [2] * N)
        """,
        threads=1,
    )


def test_a_run_that_updates_alone_does_not_go_on_beside_others() -> None:
    run_program(
        """
        step = Step(linger, block, N, 1, updates=True)
        def in_child():
            thread = threading.Thread(target=step.run)
            thread.start()
            thread.join()
        error = None
        try:
            step.run()
        except RuntimeError as raised:
            error = raised
        if child == 0:
            thread = threading.Thread(target=step.run)
            thread.start()
            thread.join()
            end("forked" in str(error) and max(counts) == 3)
        end(error is None and list(counts) == [1] * N)
        """,
        threads=1,
    )
