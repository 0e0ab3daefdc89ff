"""The native thread pool.

In: nothing but the platform. Out: code for POSIX threads that exports ``dk_pool_reset``, ``dk_pool_configure``,
``dk_pool_watch``, ``dk_pool_run``, and ``dk_pool_call``, which is ``dk_pool_run`` in the form of a Python built-in
function: a call costs a tenth of one through ctypes. :mod:`diffkern.runtime.native.pool` says what they do for Python.
How it works:

- A job is a range cut into chunks, a record on its submitter's stack, linked into one queue. Whoever works on it draws
  chunks from its cursor by an atomic addition, the submitter as well.
- A worker counts itself into ``refs`` while it holds a job, under the mutex and only while the job is in the queue. The
  submitter draws chunks until none is left, takes the job out of the queue, and waits for ``refs`` to become zero: then
  every chunk has run and nobody knows the record any more.
- A submitter waits only for workers inside chunks of its own job; a chunk that submits a job waits only for that. The
  waits form a tree, so nested calls cannot deadlock, and without workers everything still gets done.
- A run that Python's main thread submits looks for signals between two chunks, ten times in a second: it takes the
  interpreter's lock for that. If a handler raises (Ctrl-C), the job has no more chunks to draw; those that have begun
  are waited for, and the run ends with the exception.
- Waiting is a spin of ``spin_ns`` nanoseconds, then a condition variable: an idle pool uses no processor time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from diffkern.runtime.native.builder import I32, I64, VOID, Code, Module, Word

__all__ = ["Looks", "add_pool"]

# A job: three cache lines, so that drawing chunks does not disturb those who read what the job is. Its count is how
# many chunks it has; its link the next job in the queue, guarded by the mutex; refs counts the workers that hold it,
# written under the mutex, read without; its cursor is the next chunk to draw.
_FN, _BLOCKS, _STRIDE, _N, _CHUNK, _FIRST, _STEP, _COUNT, _LINK, _REFS = range(0, 80, 8)
_CURSOR, _JOB_WORDS = 128, 17
# A watch for signals, of a thread whose lock of the interpreter is given back: the thread's state, to take the lock
# again, and when to look next; 0 before the first look.
_DUE, _WATCH_WORDS = 8, 2
_LOOK_NS = 100_000_000
_QUICK_NS = 1_000_000
_NEVER = 2**63 - 1
_OPAQUE = 128  # bytes for a pthread_mutex_t, pthread_cond_t, pthread_attr_t or sigset_t, larger than any platform's
# 8 MiB, as a main thread has: others get half a MiB or less on macOS and musl, and kernels keep residuals there.
_STACK_BYTES = 8 << 20
_BURST = 16  # looks between two at the clock


def add_pool(m: Module, most: int, platform: str, machine: str) -> None:
    """Add the pool.

    Parameters
    ----------
    m : Module
        The module.
    most : int
        Most workers there can be.
    platform : str
        ``sys.platform``: ``darwin``, or anything else for the constants of Linux.
    machine : str
        ``platform.machine()``, for the instruction that tells the processor that it is spinning.
    """
    mac = platform == "darwin"
    _variables(m, most)
    _reset(m, most)
    _configure(m)
    now = _now(m, 6 if mac else 1)
    spin = _spin(m, now, machine.lower())
    let_python_run, come_back = _let_python_run(m), _come_back(m)
    draw = _draw(m, _interrupted(m, come_back))
    start_workers = _start_workers(m, _worker(m, draw, spin), mac)
    run = _run(m, draw, spin, start_workers)
    _native_entry(m, run)
    _python_entry(m, run, let_python_run, come_back)


def _variables(m: Module, most: int) -> None:
    m.room("mutex", _OPAQUE, 64)
    m.room("work", _OPAQUE, 64)  # signalled for a new job or number of workers
    m.room("done", _OPAQUE, 64)  # signalled when a job's last worker leaves it
    m.room("ticket", 8, 64)  # rises whenever work is signalled; spinners read it
    # The first job; this and the following are guarded by the mutex.
    m.room("queue", 8, 64)
    m.room("idle", 8)  # workers asleep on work
    m.room("waiters", 8)  # submitters asleep on done
    m.room("live", 8)  # workers that exist
    m.room("alive", most)  # by worker index
    # These are read without the mutex.
    m.room("workers", 8, 64)  # workers that should exist
    m.room("spin_ns", 8)
    m.room("main", 8)  # the thread of Python that handles signals


def _lock(c: Code) -> None:
    c.invoke("pthread_mutex_lock", c.named("mutex"))


def _unlock(c: Code) -> None:
    c.invoke("pthread_mutex_unlock", c.named("mutex"))


def _sleep(c: Code, condition: str, counter: str) -> None:
    """Sleep on a condition, counted; the mutex is held before and afterwards."""
    c.bump(c.named(counter), 1)
    c.invoke("pthread_cond_wait", c.named(condition), c.named("mutex"))
    c.bump(c.named(counter), -1)


def _reset(m: Module, most: int) -> None:
    """Make the state that of a pool without threads and jobs; the number of workers wanted is kept.

    Called once after loading, and in the child after a fork, where the workers are gone and the mutex may have been
    held by one of them.
    """
    _, c = m.function("dk_pool_reset", VOID, [], is_exported=True)
    for name, size in (("mutex", _OPAQUE), ("work", _OPAQUE), ("done", _OPAQUE), ("alive", most)):
        c.clear(c.named(name), size)
    c.invoke("pthread_mutex_init", c.named("mutex"), 0)
    c.invoke("pthread_cond_init", c.named("work"), 0)
    c.invoke("pthread_cond_init", c.named("done"), 0)
    for name in ("queue", "idle", "waiters", "live"):
        c.store(0, c.named(name))
    c.b.ret_void()


def _configure(m: Module) -> None:
    """Set how many workers there should be and how long waiting threads spin; and which thread handles signals.

    Missing workers are made by the next job that can use them; surplus ones leave as soon as they look.
    """
    made, c = m.function("dk_pool_configure", VOID, [I64] * 2, is_exported=True)
    workers, spin_ns = made.args
    _lock(c)
    c.atomic_store(workers, c.named("workers"))
    c.atomic_store(spin_ns, c.named("spin_ns"))
    c.atomic("add", c.named("ticket"), 1, "release")
    _unlock(c)
    c.invoke("pthread_cond_broadcast", c.named("work"))
    c.b.ret_void()
    made, c = m.function("dk_pool_watch", VOID, [I64], is_exported=True)
    c.atomic_store(made.args[0], c.named("main"))
    c.b.ret_void()


def _native_entry(m: Module, run: Any) -> None:
    """For whoever is not Python."""
    made, c = m.function("dk_pool_run", I32, [I64] * 7, is_exported=True)
    c.leave(c.b.trunc(c.invoke(run, *made.args, 0), I32))


def _run(m: Module, draw: Any, spin: Any, start_workers: Any) -> Any:
    """``run(fn, blocks, stride, n, chunk, first, step, watch)``: run chunks first, first + step, … of ``[0, n)``.

    Returns 0, or 1 if the numbers make no sense, or 2 if a handler of signals has raised an exception; the watch is 0
    where nobody handles signals.
    """
    made, c = m.routine("dk_pool_cut", 8)
    fn, blocks, _, n, chunk, first, step, watch = made.args
    in_range = c.all(c.compare(">=", n, 0), c.compare(">", chunk, 0))
    in_order = c.all(c.compare(">=", first, 0), c.compare(">", step, 0))
    refused = c.label("refused")
    with c.at(refused):
        c.leave(1)
    c.require(c.all(in_range, in_order), refused)
    with c.when(c.compare("<=", n, chunk)):  # most launches are one chunk, and quickly done
        with c.when(c.all(c.compare("==", first, 0), c.compare("!=", n, 0))):
            c.call(fn, [blocks, c.word(0), n])
        c.leave(0)
    # How many chunks there are in all, without overflow.
    total = c.add(c.div(c.sub(n, 1), chunk), 1)
    with c.when(c.compare(">=", first, total)):
        c.leave(0)
    count = c.add(c.div(c.sub(c.sub(total, 1), first), step), 1)
    job = c.words(_JOB_WORDS)
    for field, value in zip((_FN, _BLOCKS, _STRIDE, _N, _CHUNK, _FIRST, _STEP), made.args, strict=False):
        c.store(value, job, field)
    for field, value in ((_COUNT, count), (_LINK, 0), (_REFS, 0), (_CURSOR, 0)):
        c.store(value, job, field)
    workers = c.atomic_load(c.named("workers"))
    with c.when(c.any(c.compare("==", count, 1), c.compare("==", workers, 0))):
        _leave_run(c, c.invoke(draw, job, watch))
    _submit(c, job, count, workers, start_workers)
    stopped = c.invoke(draw, job, watch)
    held = _withdraw(c, job)
    with c.when(c.compare("!=", held, 0)):
        _await(c, c.add(job, _REFS), spin)
    _leave_run(c, stopped)
    return made


def _leave_run(c: Code, stopped: Word) -> None:
    c.leave(c.choose(c.compare("!=", stopped, 0), 2, 0))


def _submit(c: Code, job: Word, count: Word, workers: Word, start_workers: Any) -> None:
    """Put a job into the queue, and wake workers for it."""
    _lock(c)
    with c.when(c.compare("<", c.load(c.named("live")), workers)):
        c.invoke(start_workers, workers)
    slot = c.variable(c.named("queue"))
    with c.forever() as stop:  # append at the end: the oldest job is served first
        there = c.load(slot.get())
        stop(c.compare("==", there, 0))
        slot.set(c.add(there, _LINK))
    c.store(job, slot.get())
    c.atomic("add", c.named("ticket"), 1, "release")
    sleeping = c.load(c.named("idle"))
    _unlock(c)
    # Outside the mutex, or the woken would queue up for it.
    with c.loop(c.min(sleeping, c.sub(count, 1))):
        c.invoke("pthread_cond_signal", c.named("work"))


def _withdraw(c: Code, job: Word) -> Word:
    """Take a job out of the queue, so that no other worker can find it; return how many hold it."""
    _lock(c)
    at = c.variable(c.named("queue"))
    with c.forever() as stop:
        candidate = c.load(at.get())
        stop(c.compare("==", candidate, job))
        at.set(c.add(candidate, _LINK))
    c.store(c.load(job, _LINK), at.get())
    held = c.load(job, _REFS)
    _unlock(c)
    return held


def _await(c: Code, refs: Word, spin: Any) -> None:
    """Wait until no worker holds a job."""
    with c.when(c.compare("==", c.invoke(spin, refs, 0, 1), 0)):
        _lock(c)
        with c.forever() as stop:
            stop(c.compare("==", c.atomic_load(refs, ordering="acquire"), 0))
            _sleep(c, "done", "waiters")
        _unlock(c)


def _python_entry(m: Module, run: Any, let_python_run: Any, come_back: Any) -> None:
    """``dk_pool_run`` as a built-in function of seven integers (METH_FASTCALL), run without Python's lock."""
    made, c = m.routine("dk_pool_call", 3, is_exported=True)
    _, arguments, given = made.args
    with c.when(c.compare("!=", given, 7)):
        message = c.address(m.string("expected seven integers"))
        c.invoke("PyErr_SetString", c.load(c.named("PyExc_TypeError")), message)
        c.leave(0)
    numbers = [c.invoke("PyLong_AsLongLong", argument) for argument in c.loads(arguments, 7)]
    with c.when(c.compare("!=", c.invoke("PyErr_Occurred"), 0)):
        c.leave(0)
    watch = c.words(_WATCH_WORDS)
    c.invoke(let_python_run, watch)
    status = c.invoke(run, *numbers, watch)
    c.invoke(come_back, watch)
    with c.when(c.compare("==", status, 2)):
        c.leave(0)
    c.leave(c.invoke("PyLong_FromLong", status))


def _let_python_run(m: Module) -> Any:
    """``let_python_run(watch)``: give the interpreter's lock back."""
    made, c = m.function("dk_let_python_run", VOID, [I64])
    c.store(c.invoke("PyEval_SaveThread"), made.args[0])
    c.store(0, made.args[0], _DUE)
    c.b.ret_void()
    return made


def _come_back(m: Module) -> Any:
    """``come_back(watch)``: take the interpreter's lock again."""
    made, c = m.function("dk_come_back", VOID, [I64])
    c.invoke("PyEval_RestoreThread", c.load(made.args[0]))
    c.b.ret_void()
    return made


def _interrupted(m: Module, come_back: Any) -> Any:
    """``interrupted(watch, time)``: let Python handle signals if it is time to.

    Returns whether a handler has raised an exception, which is pending then.
    """
    made, c = m.routine("dk_interrupted", 2)
    watch, time = made.args
    due = c.load(watch, _DUE)
    with c.when(c.compare("<", time, due)):
        c.leave(0)
    later = c.add(time, _LOOK_NS)
    with c.when(c.compare("==", due, 0)):  # other threads than the main one never look again
        handles = c.compare("==", c.invoke("PyThread_get_thread_ident"), c.atomic_load(c.named("main")))
        c.store(c.choose(handles, later, _NEVER), watch, _DUE)
        c.leave(0)
    c.store(later, watch, _DUE)
    c.invoke(come_back, watch)
    raised = c.invoke("PyErr_CheckSignals")
    c.store(c.invoke("PyEval_SaveThread"), watch)
    c.leave(raised)
    return made


class Looks:
    """When to look at the clock next, between pieces of work: more seldom while the work is quick."""

    def __init__(self, c: Code, least: int, most: int) -> None:
        self._code, self._least, self._most = c, least, most
        self._left, self._between, self._before = c.variable(least - 1), c.variable(least), c.variable(0)

    @contextlib.contextmanager
    def due(self) -> Iterator[Word]:
        """Around what is done with the time at a look, which leaves if that ends the work."""
        c = self._code
        with c.either(c.compare("==", self._left.get(), 0)) as (now, later):
            with now:
                time = c.invoke("dk_now")
                yield time
                quick = c.compare("<", c.sub(time, self._before.get()), _QUICK_NS)
                more = c.min(c.mul(self._between.get(), 2), self._most)
                self._between.set(c.choose(quick, more, self._least))
                self._left.set(c.sub(self._between.get(), 1))
                self._before.set(time)
            with later:
                self._left.set(c.sub(self._left.get(), 1))


def _draw(m: Module, interrupted: Any) -> Any:
    """``draw(job, watch)``: draw chunks of a job and run them until none is left.

    Returns whether a handler of signals has ended it.
    """
    made, c = m.routine("dk_draw", 2)
    job, watch = made.args
    fn, blocks, stride, n, chunk, first, step, count = c.loads(job, 8)
    cursor = c.add(job, _CURSOR)
    looks = Looks(c, 1, 16)
    with c.forever() as stop:
        drawn = c.atomic("add", cursor, 1)
        stop(c.compare(">=", drawn, count))
        own = c.add(first, c.mul(drawn, step))
        low = c.mul(own, chunk)
        c.call(fn, [c.add(blocks, c.mul(own, stride)), low, c.add(low, c.min(c.sub(n, low), chunk))])
        is_watched = c.when(c.compare("!=", watch, 0))
        with is_watched, c.when(c.compare("<", c.atomic_load(cursor), count)), looks.due() as time:
            raised = c.compare("!=", c.invoke(interrupted, watch, time), 0)
            with c.when(raised):
                c.atomic("xchg", cursor, count)
                c.leave(1)
    c.leave(0)
    return made


def _worker(m: Module, draw: Any, spin: Any) -> Any:
    """``worker(index)``: what a worker does all its life."""
    made, c = m.routine("dk_worker", 1)
    index = made.args[0]
    _lock(c)
    with c.forever():  # the mutex is held
        with c.when(c.compare(">=", index, c.atomic_load(c.named("workers")))):
            c.store8(0, c.named("alive"), index)
            c.bump(c.named("live"), -1)
            _unlock(c)
            c.leave(0)
        at, job = c.variable(c.named("queue")), c.variable(0)
        with c.forever() as stop:  # the first job that has chunks left
            job.set(c.load(at.get()))
            stop(c.compare("==", job.get(), 0))
            stop(c.compare("<", c.atomic_load(job.get(), _CURSOR), c.load(job.get(), _COUNT)))
            at.set(c.add(job.get(), _LINK))
        with c.either(c.compare("!=", job.get(), 0)) as (busy, idle):
            with busy:
                _take_part(c, job.get(), draw)
            with idle:
                _rest(c, spin)
    c.leave(0)
    return made


def _take_part(c: Code, job: Word, draw: Any) -> None:
    refs = c.add(job, _REFS)
    c.atomic_store(c.add(c.load(refs), 1), refs)
    _unlock(c)
    c.invoke(draw, job, 0)
    _lock(c)
    left, waiters = c.sub(c.load(refs), 1), c.load(c.named("waiters"))
    # With this store the submitter may return: the job must not be touched any more.
    c.atomic_store(left, refs, "release")
    with c.when(c.all(c.compare("==", left, 0), c.compare("!=", waiters, 0))):
        c.invoke("pthread_cond_broadcast", c.named("done"))


def _rest(c: Code, spin: Any) -> None:
    seen = c.atomic_load(c.named("ticket"))
    _unlock(c)
    c.invoke(spin, c.named("ticket"), seen, 0)
    _lock(c)
    with c.when(c.compare("==", c.atomic_load(c.named("ticket")), seen)):
        _sleep(c, "work", "idle")


def _start_workers(m: Module, worker: Any, mac: bool) -> Any:
    """``start_workers(workers)``: make the workers that are missing. The mutex is held.

    A thread that the system refuses is left out: the pool is right with any number of workers, and the next job tries
    again.
    """
    made, c = m.function("dk_start_workers", VOID, [I64])
    attributes, blocked, before, thread = c.words(16), c.words(16), c.words(16), c.words(1)
    set_mask = 3 if mac else 2
    c.invoke("pthread_attr_init", attributes)
    c.invoke("pthread_attr_setstacksize", attributes, _STACK_BYTES)
    c.invoke("pthread_attr_setdetachstate", attributes, 2 if mac else 1)
    # Signals are for Python's threads; those that tell of a fault in the code itself are for whoever runs it: ILL,
    # TRAP, ABRT, BUS, FPE and SEGV.
    c.invoke("sigfillset", blocked)
    for signal in (4, 5, 6, 10 if mac else 7, 8, 11):
        c.invoke("sigdelset", blocked, signal)
    c.invoke("pthread_sigmask", set_mask, blocked, before)
    refused = c.variable(0)
    with c.loop(made.args[0]) as index:
        mark = c.add(c.named("alive"), index)
        with c.when(c.all(c.compare("==", c.load8(mark), 0), c.compare("==", refused.get(), 0))):
            refused.set(c.invoke("pthread_create", thread, attributes, c.address_of(worker), index))
            with c.when(c.compare("==", refused.get(), 0)):
                c.store8(1, mark)
                c.bump(c.named("live"), 1)
    c.invoke("pthread_sigmask", set_mask, before, 0)
    c.invoke("pthread_attr_destroy", attributes)
    c.b.ret_void()
    return made


def _spin(m: Module, now: Any, machine: str) -> Any:
    """``spin(p, value, wanted)``: spin until the word at p is the value, or is not, as wanted, or spin_ns have passed.

    Returns whether it came true.
    """
    made, c = m.routine("dk_spin", 3)
    p, value, wanted = made.args
    limit, start = c.atomic_load(c.named("spin_ns")), c.invoke(now)
    with c.forever():
        with c.loop(_BURST):
            equal = c.choose(c.compare("==", c.atomic_load(p, ordering="acquire"), value), 1, 0)
            with c.when(c.compare("==", equal, wanted)):
                c.leave(1)
            # Intrinsics rather than inline assembly, which would need LLVM's assembly parser set up.
            if machine in ("x86_64", "amd64"):
                c.invoke("llvm.x86.sse2.pause")
            elif machine in ("aarch64", "arm64"):
                c.invoke("llvm.aarch64.hint", 1)
        with c.when(c.compare(">=", c.sub(c.invoke(now), start), limit)):
            c.leave(0)
    c.leave(0)
    return made


def _now(m: Module, clock: int) -> Any:
    """``now()``: nanoseconds of a clock that only goes forward."""
    made, c = m.routine("dk_now", 0)
    time = c.words(2)
    c.invoke("clock_gettime", clock, time)
    seconds, nanoseconds = c.loads(time, 2)
    c.leave(c.add(c.mul(seconds, 1_000_000_000), nanoseconds))
    return made
