"""The native thread pool.

Code for POSIX threads that exports ``dk_pool_reset``, ``dk_pool_configure``, ``dk_pool_watch``, ``dk_pool_run``, and
``dk_pool_call``, which is ``dk_pool_run`` in the form of a Python built-in function: a call costs a tenth of one
through
ctypes. :mod:`diffkern.runtime.native.pool` says what they do for Python.

How it works:

- A job is a range cut into chunks. One that took less than 50 us the last time is done by its submitter, who tells the
  others only if it takes longer; while they sleep, so is one for which waking them does not pay (``waking_ir``). Others
  are copied into a slot of the pool's memory and linked into one queue. Every thread that works on a job draws chunks
  from its cursor by an atomic addition, the submitter as well.
- A worker counts itself into ``refs`` while it holds a slot, under the mutex and only while the job is in the queue; a
  slot that is held is not used for another job. When there are no chunks left to draw, the worker adds to ``finished``
  those that it has run, and leaves, both without the mutex: all workers end at about the same time.
- The submitter draws chunks until none is left, takes the job out of the queue, and waits until all are finished: for
  workers that have drawn a chunk of its own job, and for no others. The waits form a tree, so nested calls cannot
  deadlock, and without workers everything still gets done.
- The submitter wakes two sleeping workers, and each of them two more.
- A run that Python's main thread submits looks for signals between two chunks, ten times in a second: it takes the
  interpreter's lock for that. If a handler raises (Ctrl-C), the job has no more chunks to draw; those that have begun
  are waited for, and the run ends with the exception.
- The mutex is held for a moment each time, and threads spin for it before they sleep.
- Waiting is a spin of ``spin_ns`` nanoseconds, then a condition variable: an idle pool uses no processor time. A worker
  that finds itself on the submitter's processor moves to another one first.
"""

from __future__ import annotations

from typing import Any

from diffkern.contracts import abi
from diffkern.runtime.native.builder import I32, I64, VOID, Code, Module, Variable, Word
from diffkern.runtime.native.draw_ir import (
    ALONE,
    BLOCKS,
    COUNTED,
    CURSOR,
    DUE,
    FINISHED,
    JOB_BYTES,
    OWNED,
    RATES_BYTES,
    SHARED,
    UPDATES,
    WATCH_WORDS,
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
from diffkern.runtime.native.queue_ir import SLOTS, submit, wait_for, withdraw
from diffkern.runtime.native.waiting_ir import add_clock, add_lock, add_spin, lock, unlock
from diffkern.runtime.native.waking_ir import (
    ARRIVAL,
    FIRST_NS,
    IDLE,
    SIGNALLED,
    WORTH_NS,
    add_waking,
    add_waking_words,
    doubt_waking,
    note_end,
)
from diffkern.runtime.native.workers_ir import add_start, add_worker

__all__ = ["add_come_back", "add_leave_python", "add_native_entry", "add_pool", "add_python_entry"]

_PARTS = 8  # of what is left of a job, a thread draws about this part of its share at once
_OPAQUE = 128  # bytes for a pthread_mutex_t or pthread_cond_t, larger than any platform's


def add_pool(m: Module, most: int, platform: str, machine: str) -> None:
    """Add the pool.

    Parameters
    ----------
    m : Module
        The module.
    most : int
        Largest number of workers.
    platform : str
        ``sys.platform``: ``darwin``, or anything else for the constants of Linux.
    machine : str
        ``platform.machine()``, for the instruction that tells the processor that it is spinning.
    """
    mac = platform == "darwin"
    _variables(m, most)
    add_lock(m, machine.lower())
    _reset(m, most)
    _configure(m)
    now = add_clock(m, 6 if mac else 1)
    add_waking(m, platform)
    spin = add_spin(m, now, machine.lower())
    let_python_run, come_back = add_leave_python(m), add_come_back(m)
    m.exported_word("dk_pool_shared")  # jobs that workers were told of; guarded by the mutex
    draw, draw_quickly = add_draws(m, add_interrupted(m, SLOTS * JOB_BYTES))
    _claim(m)
    share = _share(m, draw, spin, add_start(m, add_worker(m, draw, spin), mac))
    run = _run(m, "dk_pool_cut", draw, draw_quickly, share)
    _run(m, "dk_pool_groups", draw, draw_quickly, share, is_marked=False)
    add_native_entry(m, run)
    add_python_entry(m, run, let_python_run, come_back)


def _variables(m: Module, most: int) -> None:
    m.room("mutex", _OPAQUE, 64)
    m.room("work", _OPAQUE, 64)  # signalled for a new job or number of workers
    m.room("done", _OPAQUE, 64)  # signalled when a job's last worker leaves it
    m.room("jobs", SLOTS * JOB_BYTES, 64)
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
    m.room("forks", 8)  # differs between a process and its child


def _reset(m: Module, most: int) -> None:
    """Set the state to that of a pool without threads and jobs; the wanted number of workers is kept.

    Called once after loading, and in the child after a fork, where the workers are gone and the mutex may have been
    held by one of them.
    """
    _, c = m.function("dk_pool_reset", VOID, [], is_exported=True)
    sizes = {"mutex": _OPAQUE, "work": _OPAQUE, "done": _OPAQUE, "alive": most, "jobs": SLOTS * JOB_BYTES}
    for name, size in sizes.items():
        c.clear(c.named(name), size)
    c.invoke("pthread_mutex_init", c.named("mutex"), 0)
    c.invoke("pthread_cond_init", c.named("work"), 0)
    c.invoke("pthread_cond_init", c.named("done"), 0)
    for name in ("queue", IDLE, "waiters", "live", "others", "sole", SIGNALLED, "submitter_at"):
        c.store(0, c.named(name))
    c.store(FIRST_NS, c.named(ARRIVAL))
    # A run that is interrupted by a handler that forks learns from this that it goes on in the child.
    c.bump(c.named("forks"), 1)
    c.b.ret_void()


def _configure(m: Module) -> None:
    """Add the setters of the number of workers, of the spinning time, and of the thread that handles signals.

    Missing workers are made by the next job that can use them; surplus ones leave as soon as they look.
    """
    made, c = m.function("dk_pool_configure", VOID, [I64] * 2, is_exported=True)
    workers, spin_ns = made.args
    lock(c)
    c.atomic_store(workers, c.named("workers"))
    c.atomic_store(spin_ns, c.named("spin_ns"))
    # Times per element were measured with the previous number of threads.
    # Other threads read and write them meanwhile.
    for table in (ALONE, SHARED):
        with c.loop(RATES_BYTES, 0, 8) as at:
            c.atomic_store(0, c.add(c.named(table), at))
    # Spinning workers watch the ticket, sleeping ones the condition: both learn of the new number.
    c.atomic("add", c.named("ticket"), 1, "release")
    unlock(c)
    c.invoke("pthread_cond_broadcast", c.named("work"))
    c.b.ret_void()
    made, c = m.function("dk_pool_watch", VOID, [I64], is_exported=True)
    c.atomic_store(made.args[0], c.named("main"))
    c.b.ret_void()


def _run(m: Module, name: str, draw: Any, draw_quickly: Any, share: Any, is_marked: bool = True) -> Any:
    """``run(fn, blocks, stride, n, chunk, first, step, watch)``: run chunks first, first + step, … of ``[0, n)``.

    Returns 0, or 1 if the numbers make no sense, or 2 if a signal handler has raised an exception; the watch is 0
    where signals are not handled. Where the lowest bit of `blocks` is 1, the kernel gets it if one thread runs all
    chunks and no other thread of the process runs such a kernel; otherwise it gets the address without it. In a run
    that
    is not marked the kernel gets the address as it is.
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
    # The mark in the lowest bit of the address: the kernel has atomic updates and can do without.
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
    # One chunk, or no worker to share with: nothing to publish, and the job stays on this stack.
    with c.when(c.any(c.compare("==", count, 1), c.compare("==", workers, 0))):
        _leave_run(c, lone, _status(c, c.invoke(draw, job, watch)))
    # Several threads would need atomic updates, which made the last shared run slower than one thread without them.
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
    # Longer than waking costs, and still not shared: the workers sleep, and waking was expensive the last time.
    with c.when(c.all(is_quick, c.compare(">=", time, WORTH_NS))):
        doubt_waking(c)
    begin_alone = c.any(is_quick, is_due(c, is_known, lone.get()))
    with c.when(begin_alone), c.when(c.compare("!=", c.invoke(draw_quickly, job, limit), 0)):
        _leave_run(c, lone, 0)
    # From here on other threads run chunks too, and the kernel must update atomically.
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
            # Announce first, then look: with sequential consistency at least one of the two threads sees the other.
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
    """Return the status of a run whose own thread has drawn its last chunk."""
    return c.choose(c.compare("!=", c.b.and_(drawn, c.word(1)), 0), 2, 0)


def _share(m: Module, draw: Any, spin: Any, start_workers: Any) -> Any:
    """``share(job, workers, watch)``: run the rest of a job together with the workers; 0, or 2 as a run.

    Where no slot is free, the calling thread runs it alone.
    """
    made, c = m.routine("dk_share", 3)
    given, workers, watch = made.args
    *fields, count = c.loads(given, 8)
    forks = c.load(c.named("forks"))
    slot = submit(c, given, workers, start_workers)
    job = c.choose(c.compare("!=", slot, 0), slot, given)
    start = c.invoke("dk_now")
    drawn = c.invoke(draw, job, watch)
    settled = c.b.lshr(drawn, c.word(1))
    learn_shared(c, given, fields, c.sub(c.invoke("dk_now"), start), settled)
    # In the child of a fork the slot is not this job's any more; an exception is pending.
    is_child = c.compare("!=", c.load(c.named("forks")), forks)
    with c.when(c.all(c.compare("!=", slot, 0), is_child)):
        c.leave(2)
    with c.when(c.compare("!=", slot, 0)):
        # Out of the queue before waiting: no worker may join any more, so that `finished` reaches the count for good.
        withdraw(c, slot)
        finished = c.add(slot, FINISHED)
        before = c.atomic("add", finished, settled, "acquire")
        with c.when(c.compare("!=", c.add(before, settled), count)):
            wait_for(c, finished, count, spin)
        # Released last: the slot can be taken by another job from now on.
        c.atomic_store(0, c.add(slot, OWNED), "release")
    end = c.invoke("dk_now")
    note_end(c, end)
    # A run that got no slot was not shared, and has drawn its chunks from the given job.
    with c.when(c.all(c.compare("!=", slot, 0), c.compare("!=", c.load(given, UPDATES), 0))):
        chunks = c.sub(count, c.load(given, CURSOR))
        learn(c, SHARED, fields, c.sub(end, start), c.max(chunks, 1))
    c.leave(_status(c, drawn))
    return made


# -- entry points ------------------------------------------------------------------------------------------------------
# The entry points of the thread pool: for native code, and for Python, whose lock is given back during a run.
#
# They are ``dk_pool_run``, and ``dk_pool_call``, a built-in Python function.


def add_native_entry(m: Module, run: Any) -> None:
    """Add the entry for callers other than Python."""
    made, c = m.function("dk_pool_run", I32, [I64] * 7, is_exported=True)
    c.leave(c.b.trunc(c.invoke(run, *made.args, 0), I32))


def add_python_entry(m: Module, run: Any, let_python_run: Any, come_back: Any) -> None:
    """Add ``dk_pool_run`` as a built-in function of seven integers (METH_FASTCALL), run without Python's lock."""
    made, c = m.routine("dk_pool_call", 3, is_exported=True)
    _, arguments, given = made.args
    with c.when(c.compare("!=", given, 7)):
        message = c.address(m.string("expected seven integers"))
        c.invoke("PyErr_SetString", c.load(c.named("PyExc_TypeError")), message)
        c.leave(0)
    numbers = [c.invoke("PyLong_AsLongLong", argument) for argument in c.loads(arguments, 7)]
    # One check for all seven conversions: an exception stays pending.
    with c.when(c.compare("!=", c.invoke("PyErr_Occurred"), 0)):
        c.leave(0)
    watch = c.words(WATCH_WORDS)
    c.invoke(let_python_run, watch)
    status = c.invoke(run, *numbers, watch)
    c.invoke(come_back, watch)
    with c.when(c.compare("==", status, 2)):
        c.leave(0)
    c.leave(c.invoke("PyLong_FromLong", status))


def add_leave_python(m: Module) -> Any:
    """``let_python_run(watch)``: give the interpreter's lock back."""
    made, c = m.function("dk_let_python_run", VOID, [I64])
    c.store(c.invoke("PyEval_SaveThread"), made.args[0])
    c.store(0, made.args[0], DUE)
    c.store(0, made.args[0], COUNTED)
    c.b.ret_void()
    return made


def add_come_back(m: Module) -> Any:
    """``come_back(watch)``: take the interpreter's lock again."""
    made, c = m.function("dk_come_back", VOID, [I64])
    c.invoke("PyEval_RestoreThread", c.load(made.args[0]))
    c.b.ret_void()
    return made
