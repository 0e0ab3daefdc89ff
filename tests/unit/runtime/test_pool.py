"""The thread pool: every chunk exactly once, from any number of threads, nested, after a fork, and at exit."""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffkern.runtime.native import pool
from diffkern.runtime.native.assemble import EXTERNAL_NAMES
from diffkern.runtime.native.loader import load_object, make_target_machine
from diffkern.runtime.native.module_ir import runtime_ir
from diffkern.runtime.native.python_pool import PythonPool

Run = Callable[..., object]
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
posix = pytest.mark.skipif(sys.platform == "win32", reason="the native pool needs POSIX threads")

KERNELS = """
; args: int64 array; adds 1 to the elements lo .. hi-1, plainly, so that an element done twice shows
define void @pool_test_count(i64 %args, i64 %lo, i64 %hi) {
entry:
  %a = inttoptr i64 %args to ptr
  br label %loop
loop:
  %i = phi i64 [ %lo, %entry ], [ %i.next, %body ]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %body, label %done
body:
  %p = getelementptr i64, ptr %a, i64 %i
  %v = load i64, ptr %p
  %v.next = add i64 %v, 1
  store i64 %v.next, ptr %p
  %i.next = add i64 %i, 1
  br label %loop
done:
  ret void
}
; args: a block of three int64 of its own; writes lo, hi and counts its calls
define void @pool_test_record(i64 %args, i64 %lo, i64 %hi) {
  %a = inttoptr i64 %args to ptr
  store i64 %lo, ptr %a
  %b = getelementptr i64, ptr %a, i64 1
  store i64 %hi, ptr %b
  %c = getelementptr i64, ptr %a, i64 2
  %v = load i64, ptr %c
  %w = add i64 %v, 1
  store i64 %w, ptr %c
  ret void
}
; args: an int64; waits until it is not 0
define void @pool_test_wait(i64 %args, i64 %lo, i64 %hi) {
entry:
  %a = inttoptr i64 %args to ptr
  br label %loop
loop:
  %v = load atomic i64, ptr %a acquire, align 8
  %zero = icmp eq i64 %v, 0
  br i1 %zero, label %loop, label %done
done:
  ret void
}
; args: {dk_pool_run, int64 array of 16 x 32}; chunk c submits a range of 32 itself, on row c
define void @pool_test_nest(i64 %args, i64 %lo, i64 %hi) {
  %a = inttoptr i64 %args to ptr
  %run = load ptr, ptr %a
  %p = getelementptr i64, ptr %a, i64 1
  %data = load i64, ptr %p
  %row = mul i64 %lo, 256
  %at = add i64 %data, %row
  %r = call i32 %run(ptr @pool_test_count, i64 %at, i64 0, i64 32, i64 4, i64 0, i64 1)
  ret void
}
; args: {trips, int64 array}; adds 1 to the elements lo .. hi-1, and spends so many trips on each
define void @pool_test_spend(i64 %args, i64 %lo, i64 %hi) {
entry:
  %a = inttoptr i64 %args to ptr
  %trips = load i64, ptr %a
  %p = getelementptr i64, ptr %a, i64 1
  %data = load i64, ptr %p
  call void @pool_test_count(i64 %data, i64 %lo, i64 %hi)
  %n = sub i64 %hi, %lo
  %all = mul i64 %n, %trips
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]
  %v = load volatile i64, ptr %a
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %all
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
NAMES = ("pool_test_count", "pool_test_record", "pool_test_wait", "pool_test_nest", "pool_test_spend")


def emitted(text: str) -> bytes:
    machine = make_target_machine()
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    return machine.emit_object(module)


@pytest.fixture(scope="module")
def kernels() -> dict[str, int]:
    return load_object(emitted(KERNELS), NAMES)


@pytest.fixture(autouse=True)
def _same_number_of_threads_afterwards() -> Iterator[None]:
    before = pool.num_threads()
    yield
    pool.set_num_threads(before)


@pytest.fixture(params=["native", "python"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """The run function of either pool with four threads."""
    if request.param == "native":
        pool.set_num_threads(4)
        yield pool.run
    else:
        python_pool = PythonPool()
        python_pool.configure(3, 0)

        def run(fn: int, blocks: int, block_stride: int, n: int, chunk: int, first: int = 0, step: int = 1) -> None:
            if python_pool.run(fn, blocks, block_stride, n, chunk, first, step):
                raise ValueError("cannot cut")

        yield run
        python_pool.configure(0, 0)


def expected_counts(n: int, chunk: int, first: int, step: int) -> np.ndarray:
    counts = np.zeros(n, np.int64)
    for c in range(first, -(-n // chunk), step):
        counts[c * chunk : (c + 1) * chunk] = 1
    return counts


@pytest.mark.parametrize("n", [0, 1, 2, 7, 64, 1000])
def test_every_chunk_runs_once(run: Run, kernels: dict[str, int], n: int) -> None:
    chunks = (1, 3, 64, 999, 1000, 2**62, 2**63 - 1)
    for chunk, (first, step) in itertools.product(chunks, [(0, 1), (0, 2), (1, 2), (5, 3), (2**40, 1), (1, 2**62)]):
        counts = np.zeros(n, np.int64)
        run(kernels["pool_test_count"], counts.ctypes.data, 0, n, chunk, first, step)
        expected = expected_counts(n, chunk, first, step)
        np.testing.assert_array_equal(counts, expected, err_msg=f"chunk {chunk}, first {first}, step {step}")


@given(st.integers(0, 3000), st.integers(1, 3500), st.integers(0, 12), st.integers(1, 9), st.integers(1, 6))
def test_every_chunk_runs_once_whatever_the_numbers(n: int, chunk: int, first: int, step: int, threads: int) -> None:
    count = load_count()
    pool.set_num_threads(threads)
    counts = np.zeros(n, np.int64)
    pool.run(count, counts.ctypes.data, 0, n, chunk, first=first, step=step)
    np.testing.assert_array_equal(counts, expected_counts(n, chunk, first, step))


_count: list[int] = []


def load_count() -> int:
    # hypothesis and fixtures of function scope do not go together.
    if not _count:
        _count.append(load_object(emitted(KERNELS), NAMES)["pool_test_count"])
    return _count[0]


def test_two_colours_make_the_whole(run: Run, kernels: dict[str, int]) -> None:
    counts = np.zeros(1001, np.int64)
    for colour in (0, 1):
        run(kernels["pool_test_count"], counts.ctypes.data, 0, counts.size, 10, first=colour, step=2)
    assert (counts == 1).all()


def test_each_chunk_has_its_own_block(run: Run, kernels: dict[str, int]) -> None:
    blocks = np.zeros((26, 4), np.int64)
    run(kernels["pool_test_record"], blocks.ctypes.data, 32, 101, 4)
    np.testing.assert_array_equal(blocks[:, 0], np.arange(26) * 4)
    np.testing.assert_array_equal(blocks[:, 1], np.minimum(np.arange(26) * 4 + 4, 101))
    assert (blocks[:, 2] == 1).all()
    assert (blocks[:, 3] == 0).all()


@pytest.mark.parametrize(("n", "chunk", "first", "step"), [(-1, 1, 0, 1), (1, 0, 0, 1), (1, 1, -1, 1), (1, 1, 0, 0)])
def test_numbers_without_sense_are_refused(
    run: Run, kernels: dict[str, int], n: int, chunk: int, first: int, step: int
) -> None:
    with pytest.raises(ValueError, match="cannot cut"):
        run(kernels["pool_test_count"], 0, 0, n, chunk, first, step)


@posix
@pytest.mark.parametrize("bad", [1.5, None, "8", 2**64])
def test_what_is_no_integer_is_refused(kernels: dict[str, int], bad: object) -> None:
    with pytest.raises((TypeError, OverflowError)):
        pool.run(kernels["pool_test_count"], 0, 0, bad, 1)  # type: ignore[arg-type]


def test_integers_of_numpy_are_taken(run: Run, kernels: dict[str, int]) -> None:
    counts = np.zeros(10, np.int64)
    run(kernels["pool_test_count"], np.int64(counts.ctypes.data), np.int64(0), np.int32(10), np.uint8(3))
    assert (counts == 1).all()


def test_chunks_run_at_the_same_time(run: Run) -> None:
    # Each of the four chunks waits for the other three.
    barrier = threading.Barrier(4, timeout=60)
    threads = set()

    @CALLBACK
    def meet(args: int, lo: int, hi: int) -> None:
        threads.add(threading.get_ident())
        barrier.wait()

    run(ctypes.cast(meet, ctypes.c_void_p).value, 0, 0, 4, 1)
    assert len(threads) == 4
    assert not barrier.broken


def test_a_single_chunk_runs_in_the_calling_thread(run: Run) -> None:
    threads = []

    @CALLBACK
    def note(args: int, lo: int, hi: int) -> None:
        threads.append(threading.get_ident())

    run(ctypes.cast(note, ctypes.c_void_p).value, 0, 0, 10, 10)
    run(ctypes.cast(note, ctypes.c_void_p).value, 0, 0, 20, 10, first=1)
    assert threads == [threading.get_ident()] * 2


def test_the_interpreter_is_free_meanwhile(run: Run, kernels: dict[str, int]) -> None:
    flags = np.zeros(1, np.int64)
    for n in (1, 3):
        flags[0] = 0
        timer = threading.Timer(0.02, lambda: flags.__setitem__(0, 1))
        timer.start()
        run(kernels["pool_test_wait"], flags.ctypes.data, 0, n, 1)
        timer.join()


def submit_from_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures


def test_many_submitters_at_once(run: Run, kernels: dict[str, int]) -> None:
    def work(k: int) -> None:
        n = 500 + 37 * k
        counts = np.zeros(n, np.int64)
        for repeat in range(200):
            run(kernels["pool_test_count"], counts.ctypes.data, 0, n, 10 + k)
            assert (counts == repeat + 1).all()

    submit_from_threads(4, work)


def test_nested_runs(run: Run, kernels: dict[str, int]) -> None:
    counts = np.zeros((12, 100), np.int64)

    @CALLBACK
    def outer(args: int, lo: int, hi: int) -> None:
        for row in range(lo, hi):
            run(kernels["pool_test_count"], counts[row].ctypes.data, 0, 100, 9)

    address = ctypes.cast(outer, ctypes.c_void_p).value
    for repeat in range(20):
        run(address, 0, 0, 12, 1)
        assert (counts == repeat + 1).all()


@posix
def test_native_code_nests_runs_from_several_threads(kernels: dict[str, int]) -> None:
    # A second pool of its own, whose run the kernel calls by address.
    names = ("dk_pool_reset", "dk_pool_configure", "dk_pool_run")
    text = runtime_ir(pool.MAX_WORKERS, sys.platform, platform.machine())
    address = load_object(emitted(text), names, EXTERNAL_NAMES)
    long = ctypes.c_int64
    ctypes.CFUNCTYPE(None)(address["dk_pool_reset"])()
    ctypes.CFUNCTYPE(None, long, long)(address["dk_pool_configure"])(3, 0)
    own_run = ctypes.CFUNCTYPE(ctypes.c_int32, *[long] * 7)(address["dk_pool_run"])

    def work(k: int) -> None:
        counts = np.zeros((16, 32), np.int64)
        block = np.array([address["dk_pool_run"], counts.ctypes.data], np.int64)
        for repeat in range(300):
            assert own_run(kernels["pool_test_nest"], block.ctypes.data, 0, 16, 1, 0, 1) == 0
            assert (counts == repeat + 1).all()

    submit_from_threads(3, work)
    ctypes.CFUNCTYPE(None, long, long)(address["dk_pool_configure"])(0, 0)


def test_the_number_of_threads_changes_between_and_during_runs(kernels: dict[str, int]) -> None:
    counts = np.zeros(300, np.int64)
    for repeat, threads in enumerate([1, 2, 7, 3, 1, 16, 2] * 10):
        pool.set_num_threads(threads)
        assert pool.num_threads() == threads
        pool.run(kernels["pool_test_count"], counts.ctypes.data, 0, counts.size, 7)
        assert (counts == repeat + 1).all()

    def work(k: int) -> None:
        own = np.zeros(300, np.int64)
        for repeat in range(300):
            if k == 0:
                pool.set_num_threads(1 + repeat % 5)
            pool.run(kernels["pool_test_count"], own.ctypes.data, 0, own.size, 7)
            assert (own == repeat + 1).all()

    submit_from_threads(3, work)


@pytest.mark.parametrize("threads", [0, -1, 1025, 2.0, "2", None])
def test_an_impossible_number_of_threads_is_refused(threads: object) -> None:
    with pytest.raises(ValueError, match="integer from 1 to 1024"):
        pool.set_num_threads(threads)  # type: ignore[arg-type]


# What the programs run in processes of their own begin with.
PRELUDE = f"""
import ctypes, os, sys, threading, time
import llvmlite.binding as llvm
from diffkern.runtime.native import assemble, pool
from diffkern.runtime.native.loader import load_object, make_target_machine
kernels = load_object(make_target_machine().emit_object(llvm.parse_assembly('''{KERNELS}''')), {NAMES!r})
def counts_right(n=1000):
    counts = (ctypes.c_int64 * n)()
    pool.run(kernels["pool_test_count"], ctypes.addressof(counts), 0, n, 9)
    return list(counts) == [1] * n
"""


def run_program(text: str, prelude: str = PRELUDE, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", prelude + textwrap.dedent(text)],
        env={**os.environ, **environment},
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    done = run_program(
        """
        assert counts_right()
        stop = False
        def busy():
            while not stop:
                assert counts_right()
        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                right = all(counts_right() for _ in range(20))
                pool.set_num_threads(2)
                os._exit(0 if right and counts_right() else 1)
            _, status = os.waitpid(child, 0)
            assert status == 0, status
            assert counts_right()
        stop = True
        for thread in threads:
            thread.join()
        """,
        DIFFKERN_NUM_THREADS="4",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["idle", "submitting", "inside a chunk"])
def test_the_process_ends_whatever_the_pool_does(kind: str) -> None:
    done = run_program(
        f"""
        assert counts_right()
        def submit():
            while True:
                counts_right(100)
        def block():
            zero = ctypes.c_int64(0)
            pool.run(kernels["pool_test_wait"], ctypes.addressof(zero), 0, 3, 1)
        work = {{"submitting": submit, "inside a chunk": block}}.get({kind!r})
        for _ in range(2 if work else 0):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1)
        print("end")
        """,
        DIFFKERN_NUM_THREADS="3",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def spend(kernels: dict[str, int], trips: int, n: int, chunk: int) -> None:
    """Run chunks that take up to a nanosecond for each element and trip; all must run once."""
    counts = np.zeros(n, np.int64)
    block = np.array([trips, counts.ctypes.data], np.int64)
    pool.run(kernels["pool_test_spend"], block.ctypes.data, 0, n, chunk)
    assert (counts == 1).all()


@posix
def test_quick_runs_are_no_business_of_workers(kernels: dict[str, int]) -> None:
    pool.set_num_threads(4)
    spend(kernels, 1, 256, 8)  # it is not known yet how long it takes
    before = pool.shared_runs()
    for _ in range(200):
        spend(kernels, 1, 256, 8)
    assert pool.shared_runs() - before <= 50  # of a preempted run the rest is shared


@posix
def test_long_runs_are_shared_after_quick_ones_as_well(kernels: dict[str, int]) -> None:
    pool.set_num_threads(4)
    spend(kernels, 1, 256, 8)
    spend(kernels, 1, 256, 8)
    before = pool.shared_runs()
    # Many times the millisecond that waking workers is estimated to cost at most, as on a busy machine.
    spend(kernels, 1_000_000, 64, 1)
    assert pool.shared_runs() == before + 1
    spend(kernels, 1_000_000, 64, 1)
    assert pool.shared_runs() == before + 2


@posix
@pytest.mark.parametrize("threads", [2, 16, 100])
def test_quick_and_long_runs_of_many_submitters(kernels: dict[str, int], threads: int) -> None:
    """More jobs at once than there are slots, and more threads than processors."""
    pool.set_num_threads(threads)

    def work(k: int) -> None:
        for repeat in range(12):
            spend(kernels, (1, 50, 3000)[(k + repeat) % 3], 40 + k, 1 + repeat % 3)

    submit_from_threads(80, work)


@posix
def test_an_idle_pool_uses_no_processor_time() -> None:
    done = run_program(
        """
        assert counts_right()
        time.sleep(0.01)
        before = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - before < 0.02
        """,
        DIFFKERN_NUM_THREADS="4",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("text", "threads"), [("3", 3), (" 5 ", 5), ("1024", 1024)])
def test_the_environment_sets_the_number_of_threads(text: str, threads: int) -> None:
    program = f"from diffkern.runtime.native import pool\nassert pool.num_threads() == {threads}"
    done = run_program(program, prelude="", DIFFKERN_NUM_THREADS=text)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("text", ["0", "-2", "two", "1.5", "2000", "²"])
def test_an_impossible_number_in_the_environment_is_warned_of(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("DIFFKERN_NUM_THREADS", text)
    monkeypatch.setattr(pool, "_threads", None)
    with pytest.warns(RuntimeWarning, match="DIFFKERN_NUM_THREADS"):
        threads = pool.num_threads()
    assert threads == pool.processors()


@posix
def test_the_object_code_is_kept_and_damage_is_repaired() -> None:
    done = run_program(
        """
        import warnings
        store = {}
        assemble.set_object_cache(store.get, store.__setitem__)
        assert counts_right()
        (key, code), = store.items()
        assert len(key) == 64 and code[:4] != b""
        assemble._compile = None    # the stored code is enough
        pool.entry = pool._first_run
        assert counts_right()
        """
    )
    assert done.returncode == 0, done.stderr
    done = run_program(
        """
        import warnings
        store = {}
        assemble.set_object_cache(lambda key: b"damaged", store.__setitem__)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert counts_right()
        assert "built anew" in str(caught[0].message) and len(store) == 1
        """
    )
    assert done.returncode == 0, done.stderr


def test_kept_object_code_depends_on_all_that_make_the_native_code() -> None:
    folder = Path(pool.__file__).parent
    found, waiting = set[str](), {"module"}
    while waiting:
        part = waiting.pop()
        found.add(part)
        waiting |= set(re.findall(r"native\.(\w+)_ir import", (folder / f"{part}_ir.py").read_text())) - found
    assert sorted(pool.PARTS) == sorted(found)


@posix
def test_functions_may_outlive_the_modules() -> None:
    """At the end of the process what is in a cycle goes after the modules; what glibc frees is overwritten here."""
    program = """
    import builtins
    from diffkern.runtime.native import pool
    class Held:
        __slots__ = ("__dict__", "call")
    held = builtins.held = Held()
    held.held = held
    held.call = pool.built_in(pool.method(b"put", pool.functions()["dk_scope_put"], pool.METH_FASTCALL), None)
    """
    ran = run_program(program, "", PYTHONMALLOC="malloc", MALLOC_PERTURB_="2")
    assert ran.returncode == 0, ran.stderr
