"""Waiting of the pool's threads: for the mutex, asleep on a condition, or spinning for a while.

For the code of a function there are a clock, a spin, and the calls that enter and leave the mutex which guards the
pool's words.
"""

from __future__ import annotations

from typing import Any

from diffkern.runtime.native.builder import Code, Module

__all__ = ["add_clock", "add_lock", "add_spin", "lock", "sleep", "unlock"]

_BURST = 16  # looks between two at the clock
_TRIES, _LONGEST = 24, 64  # for the mutex before sleeping, and pauses of the processor between two of them


def lock(c: Code) -> None:
    c.invoke("dk_lock")


def unlock(c: Code) -> None:
    c.invoke("pthread_mutex_unlock", c.named("mutex"))


def add_lock(m: Module, machine: str) -> None:
    """``dk_lock()``: take the mutex; spin for it before sleeping, if there are no more threads than processors.

    It is held for a moment each time, and waking a sleeper takes far longer: where many workers come for one job, each
    of them would wait until the one before it is awake.
    """
    _, c = m.routine("dk_lock", 0)
    with c.when(c.compare("!=", c.atomic_load(c.named("spin_ns")), 0)):
        pauses = c.variable(1)
        with c.loop(_TRIES):
            with c.when(c.compare("==", c.invoke("pthread_mutex_trylock", c.named("mutex")), 0)):
                c.leave(0)
            with c.loop(pauses.get()):
                _pause(c, machine)
            # Each look takes the line of the mutex from the one who holds it: more and more seldom.
            pauses.set(c.min(c.mul(pauses.get(), 2), _LONGEST))
    c.invoke("pthread_mutex_lock", c.named("mutex"))
    c.leave(0)


def _pause(c: Code, machine: str) -> None:
    """Tell the processor that this thread spins."""
    # Intrinsics rather than inline assembly, which would need LLVM's assembly parser set up.
    if machine in ("x86_64", "amd64"):
        c.invoke("llvm.x86.sse2.pause")
    elif machine in ("aarch64", "arm64"):
        c.invoke("llvm.aarch64.hint", 1)


def sleep(c: Code, condition: str, counter: str) -> None:
    """Sleep on a condition, counted; the mutex is held before and afterwards."""
    c.bump(c.named(counter), 1)
    c.invoke("pthread_cond_wait", c.named(condition), c.named("mutex"))
    c.bump(c.named(counter), -1)


def add_spin(m: Module, now: Any, machine: str) -> Any:
    """``spin(p, value, wanted)``: spin until the word at p is the value, or is not, as wanted, or spin_ns have passed.

    Returns whether it came true.
    """
    made, c = m.routine("dk_spin", 3)
    p, value, wanted = made.args
    limit, start = c.atomic_load(c.named("spin_ns")), c.invoke(now)
    with c.forever():
        # Reading the clock costs more than reading the word.
        with c.loop(_BURST):
            equal = c.choose(c.compare("==", c.atomic_load(p, ordering="acquire"), value), 1, 0)
            with c.when(c.compare("==", equal, wanted)):
                c.leave(1)
            _pause(c, machine)
        with c.when(c.compare(">=", c.sub(c.invoke(now), start), limit)):
            c.leave(0)
    c.leave(0)
    return made


def add_clock(m: Module, clock: int) -> Any:
    """``now()``: nanoseconds of a clock that only goes forward."""
    made, c = m.routine("dk_now", 0)
    time = c.words(2)
    c.invoke("clock_gettime", clock, time)
    seconds, nanoseconds = c.loads(time, 2)
    c.leave(c.add(c.mul(seconds, 1_000_000_000), nanoseconds))
    return made
