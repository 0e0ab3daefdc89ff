"""The workers of the thread pool: their start, their main loop, and where they rest.

There is the function that a worker runs all its life, and the one that makes missing workers.
"""

from __future__ import annotations

from typing import Any

from diffkern.runtime.native.builder import I64, VOID, Code, Module, Word
from diffkern.runtime.native.draw_ir import COUNT, CURSOR, FINISHED, LINK, REFS, learn_shared
from diffkern.runtime.native.queue_ir import wake
from diffkern.runtime.native.waiting_ir import lock, sleep, unlock
from diffkern.runtime.native.waking_ir import IDLE, note_arrival, runs_at, submitted_at

__all__ = ["add_start", "add_worker"]

# 8 MiB, as a main thread has: others get half a MiB or less on macOS and musl, and kernels keep residuals there.
_STACK_BYTES = 8 << 20
_OPAQUE = 16  # words for a pthread_attr_t or sigset_t, larger than any platform's


def add_worker(m: Module, draw: Any, spin: Any) -> Any:
    """``worker(index)``: the main loop of a worker."""
    made, c = m.routine("dk_worker", 1)
    index = made.args[0]
    lock(c)
    with c.forever():  # the mutex is held
        # Surplus: fewer workers are wanted by now.
        with c.when(c.compare(">=", index, c.atomic_load(c.named("workers")))):
            c.store8(0, c.named("alive"), index)
            c.bump(c.named("live"), -1)
            unlock(c)
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
    # Held from here on: the submitter may leave, but the slot is not used for another job.
    c.atomic("add", refs, 1, "acquire")
    sleeping = c.load(c.named(IDLE))
    unlock(c)
    # The woken wake others in turn, so that many are awake after few steps.
    wake(c, job, sleeping)
    fields, start = c.loads(job, 7), c.invoke("dk_now")
    settled = c.b.lshr(c.invoke(draw, job, 0), c.word(1))
    learn_shared(c, job, fields, c.sub(c.invoke("dk_now"), start), settled)
    with c.when(c.compare("!=", settled, 0)):
        # With the last of these the submitter may return. The slot is not taken again while it is held.
        before = c.atomic("add", finished, settled, "seq_cst")
        are_all = c.compare("==", c.add(before, settled), c.load(job, COUNT))
        is_awaited = c.compare("!=", c.atomic_load(c.named("waiters"), ordering="seq_cst"), 0)
        with c.when(c.all(are_all, is_awaited)):
            # Under the mutex a submitter that has not found all finished is asleep by now.
            lock(c)
            c.invoke("pthread_cond_broadcast", c.named("done"))
            unlock(c)
    c.atomic("sub", refs, 1, "release")
    lock(c)


def _rest(c: Code, spin: Any) -> None:
    """Wait for work: awake for a while, but not on the submitter's processor, and then asleep."""
    seen, processor = c.atomic_load(c.named("ticket")), submitted_at(c)
    unlock(c)
    has_room = c.compare("!=", c.atomic_load(c.named("spin_ns")), 0)  # no more threads than processors
    with c.when(c.all(has_room, runs_at(c, processor))):
        c.invoke("dk_move_away")
    # A worker that could not move sleeps at once: spinning would keep the submitter from its processor.
    with c.when(c.b.not_(runs_at(c, processor))):
        c.invoke(spin, c.named("ticket"), seen, 0)
    lock(c)
    # Under the mutex, work cannot be announced between this look and the sleep.
    with c.when(c.compare("==", c.atomic_load(c.named("ticket")), seen)):
        sleep(c, "work", IDLE)
        note_arrival(c)


def add_start(m: Module, worker: Any, mac: bool) -> Any:
    """``start_workers(workers)``: make the workers that are missing. The mutex is held.

    A thread that the system refuses is left out: the pool is right with any number of workers, and the next job tries
    again.
    """
    made, c = m.function("dk_start_workers", VOID, [I64])
    attributes, blocked, before, thread = c.words(_OPAQUE), c.words(_OPAQUE), c.words(_OPAQUE), c.words(1)
    set_mask = 3 if mac else 2
    c.invoke("pthread_attr_init", attributes)
    c.invoke("pthread_attr_setstacksize", attributes, _STACK_BYTES)
    c.invoke("pthread_attr_setdetachstate", attributes, 2 if mac else 1)
    # Signals are for Python's threads; those of a fault in the code itself go to the thread that runs it: ILL,
    # TRAP, ABRT, BUS, FPE and SEGV.
    c.invoke("sigfillset", blocked)
    for signal in (4, 5, 6, 10 if mac else 7, 8, 11):
        c.invoke("sigdelset", blocked, signal)
    # Threads inherit the mask of their creator, which gets its own back below.
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
