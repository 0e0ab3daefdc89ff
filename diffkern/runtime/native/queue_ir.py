"""The queue of jobs that workers are told of.

A job is copied into a free slot of the pool's memory and linked into the queue, and workers are woken for it; its
submitter takes it out again and waits for workers that have begun. The queue and the slots are guarded by the mutex.
"""

from __future__ import annotations

from typing import Any

from diffkern.runtime.native.builder import Code, Word
from diffkern.runtime.native.draw_ir import COUNT, CURSOR, FINISHED, JOB_BYTES, LINK, OWNED, REFS
from diffkern.runtime.native.waiting_ir import lock, unlock
from diffkern.runtime.native.waking_ir import IDLE, note_signal

__all__ = ["SLOTS", "submit", "wait_for", "wake", "withdraw"]

SLOTS = 64
"""Jobs that workers can be told of at once."""
_WOKEN = 2


def submit(c: Code, given: Word, workers: Word, start_workers: Any) -> Word:
    """Copy a job to a free slot, queue the slot, and wake workers for it; return the slot, 0 if none is free."""
    lock(c)
    with c.when(c.compare("<", c.load(c.named("live")), workers)):
        c.invoke(start_workers, workers)
    at, job = c.variable(0), c.variable(0)
    with c.forever() as stop:
        stop(c.compare(">=", at.get(), SLOTS * JOB_BYTES))
        job.set(c.add(c.named("jobs"), at.get()))
        # A slot is free when its submitter has left it and no worker holds it any more.
        taken = c.atomic_load(job.get(), OWNED, "acquire")
        stop(c.compare("==", c.add(taken, c.atomic_load(job.get(), REFS, "acquire")), 0))
        job.set(0)
        at.set(c.add(at.get(), JOB_BYTES))
    slot = job.get()
    sleeping = c.variable(0)
    with c.when(c.compare("!=", slot, 0)):
        c.copy(slot, given, JOB_BYTES)
        # Chunks that the submitter has already run alone are finished; they were drawn in order from the start.
        c.store(c.load(given, CURSOR), slot, FINISHED)
        c.store(1, slot, OWNED)
        _enqueue(c, slot)
        c.bump(c.named("dk_pool_shared"), 1)
        # Behind the job, with release: a spinner that sees the new ticket finds the job in the queue.
        c.atomic("add", c.named("ticket"), 1, "release")
        sleeping.set(c.load(c.named(IDLE)))
        note_signal(c, sleeping.get())
    unlock(c)
    wake(c, slot, sleeping.get())
    return slot


def _enqueue(c: Code, job: Word) -> None:
    """Append a job at the end: the oldest is served first."""
    last = c.variable(c.named("queue"))
    with c.forever() as stop:
        there = c.load(last.get())
        stop(c.compare("==", there, 0))
        last.set(c.add(there, LINK))
    c.store(job, last.get())


def wake(c: Code, job: Word, sleeping: Word) -> None:
    """Wake two workers, if so many sleep and there are chunks for them; each of them wakes two more.

    Outside the mutex, or the woken would queue up for it.
    """
    with c.when(c.compare("!=", sleeping, 0)):
        left = c.sub(c.load(job, COUNT), c.atomic_load(job, CURSOR))
        with c.loop(c.min(c.min(sleeping, left), _WOKEN)):
            c.invoke("pthread_cond_signal", c.named("work"))


def withdraw(c: Code, job: Word) -> None:
    """Take a job out of the queue, so that no other worker can find it."""
    lock(c)
    at = c.variable(c.named("queue"))
    # A singly linked list: walk to the link that refers to the job, and let it skip the job.
    with c.forever() as stop:
        candidate = c.load(at.get())
        stop(c.compare("==", candidate, job))
        at.set(c.add(candidate, LINK))
    c.store(c.load(job, LINK), at.get())
    unlock(c)


def wait_for(c: Code, finished: Word, count: Word, spin: Any) -> None:
    """Wait until all chunks that workers have drawn are finished."""
    with c.when(c.compare("==", c.invoke(spin, finished, count, 1), 0)):
        lock(c)
        # Announce first, then look: of this thread and the worker that finishes last one sees the other.
        c.atomic("add", c.named("waiters"), 1, "seq_cst")
        with c.forever() as stop:
            stop(c.compare("==", c.atomic_load(finished, ordering="seq_cst"), count))
            c.invoke("pthread_cond_wait", c.named("done"), c.named("mutex"))
        c.atomic("sub", c.named("waiters"), 1, "release")
        unlock(c)
