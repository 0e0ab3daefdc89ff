"""The native thread pool.

In: nothing but the platform. Out: code for POSIX threads that exports ``dk_pool_reset``, ``dk_pool_configure``,
``dk_pool_watch``, ``dk_pool_run``, and ``dk_pool_call``, which is ``dk_pool_run`` in the form of a Python built-in
function: a call costs a tenth of one through ctypes. :mod:`diffkern.runtime.native.pool` says what they do for Python.
How it works:

- A job is a range cut into chunks. One that took less than 50 us the last time is done by its submitter, who tells the
  others only if it takes longer; while they sleep, so is one for which waking them does not pay (``waking_ir``). Others
  are copied into a slot of the pool's memory and linked into one queue. Whoever works on a job draws chunks from its
  cursor by an atomic addition, the submitter as well.
- A worker counts itself into ``refs`` while it holds a slot, under the mutex and only while the job is in the queue; a
  slot that is held is not used for another job. When there are no chunks left to draw, the worker adds to ``finished``
  those that it has run.
- The submitter draws chunks until none is left, takes the job out of the queue, and waits until all are finished: for
  workers that have drawn a chunk of its own job, and for no others. The waits form a tree, so nested calls cannot
  deadlock, and without workers everything still gets done.
- The submitter wakes two sleeping workers, and each of them two more.
- A run that Python's main thread submits looks for signals between two chunks, ten times in a second: it takes the
  interpreter's lock for that. If a handler raises (Ctrl-C), the job has no more chunks to draw; those that have begun
  are waited for, and the run ends with the exception.
- Waiting is a spin of ``spin_ns`` nanoseconds, then a condition variable: an idle pool uses no processor time. A worker
  that finds itself on the submitter's processor moves to another one first.
"""

from __future__ import annotations

from typing import Any

from diffkern import abi
from diffkern.runtime.native.builder import I32, I64, VOID, Code, Module, Variable, Word
from diffkern.runtime.native.draw_ir import (
    ALONE,
    BLOCKS,
    COUNT,
    CURSOR,
    DUE,
    FINISHED,
    JOB_BYTES,
    LINK,
    OWNED,
    RATES_BYTES,
    REFS,
    SHARED,
    UPDATES,
    add_draws,
    add_interrupted,
    doubt,
    expected,
    fill,
    is_better_alone,
    is_due,
    learn,
    learn_shared,
)
from diffkern.runtime.native.waking_ir import (
    ARRIVAL,
    FIRST_NS,
    IDLE,
    SIGNALLED,
    WORTH_NS,
    add_waking,
    add_waking_words,
    doubt_waking,
    note_arrival,
    note_end,
    note_signal,
    runs_at,
    submitted_at,
)

__all__ = ["add_pool"]

_WATCH_WORDS = 2
_SLOTS = 64  # jobs that workers can be told of at once
_WOKEN = 2
_PARTS = 8  # of what is left of a job, a thread draws about this part of its share at once
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
    add_waking(m, platform)
    spin = _spin(m, now, machine.lower())
    let_python_run, come_back = _let_python_run(m), _come_back(m)
    m.exported_word("dk_pool_shared")  # jobs that workers were told of; guarded by the mutex
    draw, draw_quickly = add_draws(m, add_interrupted(m, come_back))
    _claim(m)
    share = _share(m, draw, spin, _start_workers(m, _worker(m, draw, spin), mac))
    run = _run(m, "dk_pool_cut", draw, draw_quickly, share)
    _run(m, "dk_pool_groups", draw, draw_quickly, share, is_marked=False)
    _native_entry(m, run)
    _python_entry(m, run, let_python_run, come_back)


def _variables(m: Module, most: int) -> None:
    m.room("mutex", _OPAQUE, 64)
    m.room("work", _OPAQUE, 64)  # signalled for a new job or number of workers
    m.room("done", _OPAQUE, 64)  # signalled when a job's last worker leaves it
    m.room("jobs", _SLOTS * JOB_BYTES, 64)
    m.room("ticket", 8, 64)  # rises whenever work is signalled; spinners read it
    # The first job; this and the following are guarded by the mutex.
    m.room("queue", 8, 64)
    m.room("waiters", 8)  # submitters asleep on done
    m.room("live", 8)  # workers that exist
    m.room("alive", most)  # by worker index
    # These are read without the mutex.
    m.room("workers", 8, 64)  # workers that should exist
    m.room("spin_ns", 8)
    m.room("runs", 8)  # counted roughly
    add_waking_words(m)
    m.room(ALONE, RATES_BYTES, 64)
    m.room(SHARED, RATES_BYTES, 64)
    m.room("others", 8)  # whether other threads than the main one run programs that update elements
    m.room("sole", 8)  # runs of the main thread that are alone in that
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
    sizes = {"mutex": _OPAQUE, "work": _OPAQUE, "done": _OPAQUE, "alive": most, "jobs": _SLOTS * JOB_BYTES}
    for name, size in sizes.items():
        c.clear(c.named(name), size)
    c.invoke("pthread_mutex_init", c.named("mutex"), 0)
    c.invoke("pthread_cond_init", c.named("work"), 0)
    c.invoke("pthread_cond_init", c.named("done"), 0)
    for name in ("queue", IDLE, "waiters", "live", "others", "sole", SIGNALLED, "submitter_at"):
        c.store(0, c.named(name))
    c.store(FIRST_NS, c.named(ARRIVAL))
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
    for table in (ALONE, SHARED):
        c.clear(c.named(table), RATES_BYTES)
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


def _run(m: Module, name: str, draw: Any, draw_quickly: Any, share: Any, is_marked: bool = True) -> Any:
    """``run(fn, blocks, stride, n, chunk, first, step, watch)``: run chunks first, first + step, … of ``[0, n)``.

    Returns 0, or 1 if the numbers make no sense, or 2 if a handler of signals has raised an exception; the watch is 0
    where signals are not handled. Where the lowest bit of `blocks` is 1, the kernel gets it if one thread runs all
    chunks and no other thread of the process runs such a kernel; else it gets the address without it. In a run that is
    not marked the kernel gets the address as it is.
    """
    made, c = m.routine(name, 8)
    fn, blocks, _, n, chunk, first, step, watch = made.args
    in_range = c.all(c.compare(">=", n, 0), c.compare(">", chunk, 0))
    in_order = c.all(c.compare(">=", first, 0), c.compare(">", step, 0))
    refused = c.label("refused")
    with c.at(refused):
        c.leave(1)
    c.require(c.all(in_range, in_order), refused)
    lone = c.variable(0)
    mark = c.b.and_(blocks, c.word(abi.ALONE if is_marked else 0))
    with c.when(c.compare("!=", mark, 0)):
        lone.set(c.invoke("dk_claim"))
    clean = c.b.xor(blocks, mark)
    fields = [fn, c.b.or_(clean, lone.get()), *made.args[2:7]]
    with c.when(c.compare("<=", n, chunk)):  # most launches are one chunk, and quickly done
        with c.when(c.all(c.compare("==", first, 0), c.compare("!=", n, 0))):
            c.call(fn, [fields[1], c.word(0), n])
        _leave_run(c, lone, 0)
    # How many chunks there are in all, without overflow.
    total = c.add(c.div(c.sub(n, 1), chunk), 1)
    with c.when(c.compare(">=", first, total)):
        _leave_run(c, lone, 0)
    count = c.add(c.div(c.sub(c.sub(total, 1), first), step), 1)
    job = c.words(JOB_BYTES // 8)
    workers = c.atomic_load(c.named("workers"))
    fill(c, job, fields, count, c.mul(c.add(workers, 1), _PARTS))
    with c.when(c.any(c.compare("==", count, 1), c.compare("==", workers, 0))):
        _leave_run(c, lone, _status(c, c.invoke(draw, job, watch)))
    with c.when(c.all(c.compare("!=", lone.get(), 0), is_better_alone(c, fields))):
        start = c.invoke("dk_now")
        drawn = c.invoke(draw, job, watch)
        end = c.invoke("dk_now")
        learn(c, ALONE, fields, c.sub(end, start), count)
        note_end(c, end)
        doubt(c, fields)
        _leave_run(c, lone, _status(c, drawn))
    (is_known, time), limit = expected(c, fields, count), c.invoke("dk_worth")
    is_quick = c.all(is_known, c.compare("<", time, limit))
    with c.when(c.all(is_quick, c.compare(">=", time, WORTH_NS))):
        doubt_waking(c)
    begin_alone = c.any(is_quick, is_due(c, is_known, lone.get()))
    with c.when(begin_alone), c.when(c.compare("!=", c.invoke(draw_quickly, job, limit), 0)):
        _leave_run(c, lone, 0)
    _give_up(c, lone)
    c.store(clean, job, BLOCKS)
    c.store(mark, job, UPDATES)
    c.leave(c.invoke(share, job, workers, watch))
    return made


def _claim(m: Module) -> Any:
    """``claim()``: whether this run is the only one in the process whose threads update elements, until it gives up.

    Only the main thread's can be. The first other thread that comes here ends that for good, and waits for the run of
    the main thread that is alone, if there is one.
    """
    made, c = m.routine("dk_claim", 0)
    others, sole = c.named("others"), c.named("sole")
    is_main = c.compare("==", c.invoke("PyThread_get_thread_ident"), c.atomic_load(c.named("main")))
    with c.either(is_main) as (main, other):
        with main:
            with c.when(c.compare("!=", c.atomic_load(others), 0)):
                c.leave(0)
            c.atomic("add", sole, 1, "seq_cst")
            with c.when(c.compare("==", c.atomic_load(others, ordering="seq_cst"), 0)):
                c.leave(1)
            c.atomic("sub", sole, 1, "release")
        with other:
            c.atomic("xchg", others, 1, "seq_cst")
            with c.forever() as stop:
                stop(c.compare("==", c.atomic_load(sole, ordering="seq_cst"), 0))
                c.invoke("dk_spin", sole, 0, 1)
    c.leave(0)
    return made


def _give_up(c: Code, lone: Variable) -> None:
    with c.when(c.compare("!=", lone.get(), 0)):
        c.atomic("sub", c.named("sole"), 1, "release")


def _leave_run(c: Code, lone: Variable, status: Word | int) -> None:
    _give_up(c, lone)
    c.leave(status)


def _status(c: Code, drawn: Word) -> Word:
    """What a run returns whose own thread has drawn its last chunk."""
    return c.choose(c.compare("!=", c.b.and_(drawn, c.word(1)), 0), 2, 0)


def _share(m: Module, draw: Any, spin: Any, start_workers: Any) -> Any:
    """``share(job, workers, watch)``: run what is left of a job together with the workers; 0, or 2 as a run.

    Where no slot is free, the calling thread does it alone.
    """
    made, c = m.routine("dk_share", 3)
    given, workers, watch = made.args
    *fields, count = c.loads(given, 8)
    slot = _submit(c, given, workers, start_workers)
    job = c.choose(c.compare("!=", slot, 0), slot, given)
    start = c.invoke("dk_now")
    drawn = c.invoke(draw, job, watch)
    settled = c.b.lshr(drawn, c.word(1))
    learn_shared(c, given, fields, c.sub(c.invoke("dk_now"), start), settled)
    with c.when(c.compare("!=", slot, 0)):
        _withdraw(c, slot)
        finished = c.add(slot, FINISHED)
        before = c.atomic("add", finished, settled, "acquire")
        with c.when(c.compare("!=", c.add(before, settled), count)):
            _await(c, finished, count, spin)
        c.atomic_store(0, c.add(slot, OWNED), "release")
    end = c.invoke("dk_now")
    note_end(c, end)
    with c.when(c.compare("!=", c.load(given, UPDATES), 0)):
        chunks = c.sub(count, c.load(given, CURSOR))
        learn(c, SHARED, fields, c.sub(end, start), c.max(chunks, 1))
    c.leave(_status(c, drawn))
    return made


def _submit(c: Code, given: Word, workers: Word, start_workers: Any) -> Word:
    """Put a job into a free slot and this into the queue, and wake workers for it; return it, 0 if none is free."""
    _lock(c)
    with c.when(c.compare("<", c.load(c.named("live")), workers)):
        c.invoke(start_workers, workers)
    at, job = c.variable(0), c.variable(0)
    with c.forever() as stop:
        stop(c.compare(">=", at.get(), _SLOTS * JOB_BYTES))
        job.set(c.add(c.named("jobs"), at.get()))
        taken = c.atomic_load(job.get(), OWNED, "acquire")
        stop(c.compare("==", c.add(taken, c.load(job.get(), REFS)), 0))
        job.set(0)
        at.set(c.add(at.get(), JOB_BYTES))
    slot = job.get()
    sleeping = c.variable(0)
    with c.when(c.compare("!=", slot, 0)):
        c.copy(slot, given, JOB_BYTES)
        c.store(c.load(given, CURSOR), slot, FINISHED)
        c.store(1, slot, OWNED)
        _enqueue(c, slot)
        c.bump(c.named("dk_pool_shared"), 1)
        c.atomic("add", c.named("ticket"), 1, "release")
        sleeping.set(c.load(c.named(IDLE)))
        note_signal(c, sleeping.get())
    _unlock(c)
    _wake(c, slot, sleeping.get())
    return slot


def _enqueue(c: Code, job: Word) -> None:
    """Append a job at the end: the oldest is served first."""
    last = c.variable(c.named("queue"))
    with c.forever() as stop:
        there = c.load(last.get())
        stop(c.compare("==", there, 0))
        last.set(c.add(there, LINK))
    c.store(job, last.get())


def _wake(c: Code, job: Word, sleeping: Word) -> None:
    """Wake two workers, if so many sleep and there are chunks for them; each of them wakes two more.

    Outside the mutex, or the woken would queue up for it.
    """
    with c.when(c.compare("!=", sleeping, 0)):
        left = c.sub(c.load(job, COUNT), c.atomic_load(job, CURSOR))
        with c.loop(c.min(c.min(sleeping, left), _WOKEN)):
            c.invoke("pthread_cond_signal", c.named("work"))


def _withdraw(c: Code, job: Word) -> None:
    """Take a job out of the queue, so that no other worker can find it."""
    _lock(c)
    at = c.variable(c.named("queue"))
    with c.forever() as stop:
        candidate = c.load(at.get())
        stop(c.compare("==", candidate, job))
        at.set(c.add(candidate, LINK))
    c.store(c.load(job, LINK), at.get())
    _unlock(c)


def _await(c: Code, finished: Word, count: Word, spin: Any) -> None:
    """Wait until all chunks are finished, those that workers have drawn."""
    with c.when(c.compare("==", c.invoke(spin, finished, count, 1), 0)):
        _lock(c)
        with c.forever() as stop:
            stop(c.compare("==", c.atomic_load(finished, ordering="acquire"), count))
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
    c.store(0, made.args[0], DUE)
    c.b.ret_void()
    return made


def _come_back(m: Module) -> Any:
    """``come_back(watch)``: take the interpreter's lock again."""
    made, c = m.function("dk_come_back", VOID, [I64])
    c.invoke("PyEval_RestoreThread", c.load(made.args[0]))
    c.b.ret_void()
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
            stop(c.compare("<", c.atomic_load(job.get(), CURSOR), c.load(job.get(), COUNT)))
            at.set(c.add(job.get(), LINK))
        with c.either(c.compare("!=", job.get(), 0)) as (busy, idle):
            with busy:
                _take_part(c, job.get(), draw)
            with idle:
                _rest(c, spin)
    c.leave(0)
    return made


def _take_part(c: Code, job: Word, draw: Any) -> None:
    refs, finished = c.add(job, REFS), c.add(job, FINISHED)
    c.bump(refs, 1)
    sleeping = c.load(c.named(IDLE))
    _unlock(c)
    _wake(c, job, sleeping)
    fields, start = c.loads(job, 7), c.invoke("dk_now")
    settled = c.b.lshr(c.invoke(draw, job, 0), c.word(1))
    learn_shared(c, job, fields, c.sub(c.invoke("dk_now"), start), settled)
    _lock(c)
    c.bump(refs, -1)
    with c.when(c.compare("!=", settled, 0)):
        # With the last of these the submitter may return. The slot is not taken again before the mutex is given back.
        before = c.atomic("add", finished, settled, "release")
        are_all = c.compare("==", c.add(before, settled), c.load(job, COUNT))
        with c.when(c.all(are_all, c.compare("!=", c.load(c.named("waiters")), 0))):
            c.invoke("pthread_cond_broadcast", c.named("done"))


def _rest(c: Code, spin: Any) -> None:
    """Wait for work: awake for a while, but not on the submitter's processor, and then asleep."""
    seen, processor = c.atomic_load(c.named("ticket")), submitted_at(c)
    _unlock(c)
    has_room = c.compare("!=", c.atomic_load(c.named("spin_ns")), 0)  # no more threads than processors
    with c.when(c.all(has_room, runs_at(c, processor))):
        c.invoke("dk_move_away")
    with c.when(c.b.not_(runs_at(c, processor))):
        c.invoke(spin, c.named("ticket"), seen, 0)
    _lock(c)
    with c.when(c.compare("==", c.atomic_load(c.named("ticket")), seen)):
        _sleep(c, "work", IDLE)
        note_arrival(c)


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
