"""When workers of the thread pool are woken: a pool with a clock that only chunks and tests put forward."""

from __future__ import annotations

import ctypes
import platform
import sys
import time
from collections.abc import Iterator

import llvmlite.binding as llvm
import numpy as np
import pytest

from diffkern.runtime.native import pool
from diffkern.runtime.native.assemble import EXTERNAL_NAMES
from diffkern.runtime.native.loader import load_object, make_target_machine
from diffkern.runtime.native.module_ir import runtime_ir

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processors are known on Linux alone")

MADE_UP = """
@waking_test_clock = global i64 1000000000
define i32 @clock_gettime(i32 %clock, ptr %at) {
  %now = load atomic i64, ptr @waking_test_clock acquire, align 8
  %s = udiv i64 %now, 1000000000
  %ns = urem i64 %now, 1000000000
  store i64 %s, ptr %at
  %second = getelementptr i64, ptr %at, i64 1
  store i64 %ns, ptr %second
  ret i32 0
}
; args: nanoseconds for an element
define void @waking_test_spend(i64 %args, i64 %lo, i64 %hi) {
  %a = inttoptr i64 %args to ptr
  %each = load i64, ptr %a
  %n = sub i64 %hi, %lo
  %all = mul i64 %n, %each
  %old = atomicrmw add ptr @waking_test_clock, i64 %all seq_cst
  ret void
}
define void @waking_test_nothing(i64 %args, i64 %lo, i64 %hi) {
  ret void
}
; args: {arrived, wanted, failures}; waits until as many chunks have begun as are wanted, but not for ever
define void @waking_test_meet(i64 %args, i64 %lo, i64 %hi) {
entry:
  %a = inttoptr i64 %args to ptr
  %wanted.at = getelementptr i64, ptr %a, i64 1
  %failures = getelementptr i64, ptr %a, i64 2
  %wanted = load i64, ptr %wanted.at
  %old = atomicrmw add ptr %a, i64 1 seq_cst
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %again ]
  %arrived = load atomic i64, ptr %a acquire, align 8
  %all = icmp sge i64 %arrived, %wanted
  br i1 %all, label %done, label %again
again:
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, 1000000000
  br i1 %more, label %loop, label %fail
fail:
  %count = atomicrmw add ptr %failures, i64 1 seq_cst
  ret void
done:
  ret void
}
"""
# On which processor a thread runs: always the same one, it is not known which, or each thread on another.
TOGETHER = "define i32 @sched_getcpu() {\n  ret i32 0\n}\n"
UNKNOWN = "define i32 @sched_getcpu() {\n  ret i32 -1\n}\n"
APART = """
define i32 @sched_getcpu() {
  %slot = alloca i64
  %at = ptrtoint ptr %slot to i64
  %stack = lshr i64 %at, 20
  %short = trunc i64 %stack to i32
  %positive = and i32 %short, 1073741823
  ret i32 %positive
}
"""
WORDS = ("waking_test_clock", "dk_pool_arrival", "dk_pool_idle", "dk_pool_signalled", "dk_pool_shared")
KERNELS = ("waking_test_spend", "waking_test_nothing", "waking_test_meet")
FUNCTIONS = ("dk_pool_reset", "dk_pool_configure", "dk_pool_run", *KERNELS)
MOST = 333_000


class OwnPool:
    """A pool of its own."""

    def __init__(self, processors: str) -> None:
        kept = [
            line
            for line in runtime_ir(pool.MAX_WORKERS, sys.platform, platform.machine()).splitlines()
            if not (line.startswith("declare") and ("clock_gettime" in line or "sched_getcpu" in line))
        ]
        machine = make_target_machine()
        module = llvm.parse_assembly("\n".join(kept) + MADE_UP + processors)
        module.triple = machine.triple
        found = load_object(machine.emit_object(module), (*WORDS, *FUNCTIONS), EXTERNAL_NAMES)
        long = ctypes.c_int64
        words = [long.from_address(found[name]) for name in WORDS]
        self.clock, self.arrival, self.idle, self.signalled, self.shared = words
        self.address = found
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, *[long] * 7)(found["dk_pool_run"])
        self.block = np.zeros(3, np.int64)
        self._configure = ctypes.CFUNCTYPE(None, long, long)(found["dk_pool_configure"])
        ctypes.CFUNCTYPE(None)(found["dk_pool_reset"])()

    def start(self, workers: int) -> None:
        """Have so many workers, all asleep."""
        self._configure(workers, 0)
        self.run("waking_test_nothing", [], 2 * workers + 2)
        self.wait(workers)

    def wait(self, workers: int) -> None:
        """Wait until so many workers are asleep, and stay so: some may still be on their way."""
        seen = 0
        for _ in range(30_000):
            seen = seen + 1 if self.idle.value == workers and not self.signalled.value else 0
            if seen == 4:
                return
            time.sleep(0.001)
        raise AssertionError(f"{self.idle.value} workers are asleep, not {workers}")

    def run(self, kernel: str, block: list[int], n: int) -> int:
        """Run chunks of one element; return 1 if workers were told, else 0."""
        self.block[: len(block)], before = block, self.shared.value
        assert self._run(self.address[kernel], self.block.ctypes.data, 0, n, 1, 0, 1) == 0
        return self.shared.value - before

    def spend(self, each: int, n: int) -> int:
        """Run chunks that take so many nanoseconds."""
        return self.run("waking_test_spend", [each], n)

    def pause(self) -> None:
        """Let 3 ms pass."""
        self.clock.value += 3_000_000

    def end(self) -> None:
        """Send the workers home."""
        self._configure(0, 0)


@pytest.fixture(params=[1, 63])
def workers(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def apart(workers: int) -> Iterator[OwnPool]:
    made = OwnPool(APART)
    made.start(workers)
    yield made
    made.end()


@pytest.fixture
def together(workers: int) -> Iterator[OwnPool]:
    made = OwnPool(TOGETHER)
    made.start(workers)
    yield made
    made.end()


def know(own: OwnPool, workers: int, each: int, n: int) -> None:
    """Have it known what a chunk takes: by a quick run of one thread, after which all workers sleep."""
    own.spend(1, 4 * workers + 8)  # nothing is known: this is shared
    own.wait(workers)
    own.arrival.value = MOST
    own.pause()
    for _ in range(30):  # at most twice as much as the last time is believed
        own.pause()
        if own.spend(each, n):
            own.wait(workers)
            own.arrival.value = MOST
    own.pause()
    assert own.spend(each, n) == 0
    own.arrival.value = MOST
    own.pause()


def test_what_is_not_known_is_shared(apart: OwnPool, workers: int) -> None:
    apart.arrival.value = MOST
    apart.pause()
    assert apart.spend(1000, 4 * workers + 8) == 1


def test_sleeping_workers_are_woken_where_that_is_quick(apart: OwnPool, workers: int) -> None:
    know(apart, workers, 25_000, 8)
    apart.arrival.value = 10_000
    assert apart.spend(25_000, 8) == 1


def test_sleeping_workers_are_not_woken_where_that_takes_long(apart: OwnPool, workers: int) -> None:
    know(apart, workers, 25_000, 8)
    assert apart.spend(25_000, 8) == 0
    assert apart.arrival.value == MOST - (MOST >> 6)  # so that it is tried again some day


def test_it_is_tried_again_some_day(apart: OwnPool, workers: int) -> None:
    know(apart, workers, 25_000, 8)
    told = 0
    for _ in range(200):
        apart.pause()
        if apart.spend(25_000, 8):
            told += 1
            apart.wait(workers)
    assert 1 <= told <= 100


def test_jobs_without_pauses_count_together(apart: OwnPool, workers: int) -> None:
    know(apart, workers, 25_000, 8)
    told = [apart.spend(25_000, 8) for _ in range(5)]
    assert told == [0, 0, 0, 0, 1]


def test_a_short_pause_is_no_end_of_a_loop(apart: OwnPool, workers: int) -> None:
    know(apart, workers, 25_000, 8)
    for _ in range(4):
        assert apart.spend(25_000, 8) == 0
    apart.clock.value += 60_000  # counts eight times against what has been invested
    told = [apart.spend(25_000, 8) for _ in range(3)]
    assert told == [0, 0, 1]


def test_quick_jobs_wake_nobody(apart: OwnPool, workers: int) -> None:
    know(apart, workers, 5_000, 8)
    apart.arrival.value = 0
    for _ in range(100):
        assert apart.spend(5_000, 8) == 0
    assert apart.arrival.value == 0


def test_of_a_job_that_takes_longer_the_rest_counts(apart: OwnPool, workers: int) -> None:
    know(apart, workers, 5_000, 4)
    apart.arrival.value = 0
    assert apart.spend(20_000, 4) == 0  # after three chunks 60 us have passed, and 20 us are left
    assert apart.spend(1_000_000, 64) == 1


def test_a_worker_on_the_processor_of_the_submitter_is_of_no_use(together: OwnPool, workers: int) -> None:
    know(together, workers, 25_000, 8)
    together.arrival.value = 10_000
    assert together.spend(25_000, 8) == 1
    together.wait(workers)
    assert together.arrival.value == 10_000 + (MOST - 10_000) // 4


def test_a_worker_on_a_processor_that_is_not_known_counts_by_its_time(workers: int) -> None:
    unknown = OwnPool(UNKNOWN)
    unknown.start(workers)
    know(unknown, workers, 25_000, 8)
    unknown.arrival.value = 10_000
    assert unknown.spend(25_000, 8) == 1
    unknown.wait(workers)
    assert unknown.arrival.value <= 10_000 + (8 * 25_000 - 10_000) // 4  # it has come before the end of the job
    unknown.end()


def test_a_worker_that_comes_at_once_makes_waking_quicker(apart: OwnPool, workers: int) -> None:
    apart.arrival.value = 40_000
    assert apart.spend(0, 4 * workers + 8) == 1
    apart.wait(workers)
    assert apart.arrival.value == 30_000


@pytest.mark.parametrize("workers", [3])
def test_chunks_that_wait_for_one_another_are_shared_every_time(together: OwnPool, workers: int) -> None:
    for _ in range(70):
        together.pause()
        assert together.run("waking_test_meet", [0, workers + 1, 0], workers + 1) == 1
        assert together.block[2] == 0
        together.wait(workers)
