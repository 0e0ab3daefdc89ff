"""Plans: prepared steps of native code behind a Python built-in function.

In: steps (address of a kernel, argument block, how its range is cut), counters to raise, a Python function. Out: a
built-in that runs all steps in one native call, the interpreter's lock released; it calls the Python function instead
whenever it gets an argument, a flag of the plan is set, or the process has something that launches must know of. Any
number of threads may call it at once. Blocks may be written to after :meth:`Plan.settle`, with the lock held.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
import weakref
from array import array as words
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from diffkern.runtime.native import pool
from diffkern.runtime.state import attention

if TYPE_CHECKING:
    from diffkern.runtime.native.loader import Code

__all__ = ["PYTHON", "RELEASED", "STALE", "STREAM", "Plan", "Step", "address_of", "function_address"]

# Reasons for a call to go to Python.
PYTHON = 1  # a step has no native form
RELEASED = 2
STREAM = 4  # a stream of its own
STALE = 8  # a step has changed
NO_POOL = 16  # the thread pool is not native

_FLAGS, _RUNNING, _ATTENTION, _COUNTERS, _COUNTER_ADDRESSES, _STEPS, _STEP_ADDRESS, _TIMES = range(8)


class Step(NamedTuple):
    """A kernel on a range.

    Attributes
    ----------
    function : int
        Address of the kernel.
    block : bytearray
        Its arguments.
    n, chunk : int
        The range and how it is cut.
    colours : int
        2 where neighbouring chunks must not run at the same time, else 1.
    partials, finish, chunks : int
        Partial sums, the function that adds them up, and the number of chunks they come from; 0 without.
    code : Code or None
        What keeps the functions in memory, if something has to.
    """

    function: int
    block: bytearray
    n: int
    chunk: int
    colours: int = 1
    partials: int = 0
    finish: int = 0
    chunks: int = 0
    code: Code | None = None


# All plans, for the child of a fork.
_plans: weakref.WeakSet[Plan] = weakref.WeakSet()


class Plan:
    """The memory of one plan. It has to outlive the calls, so the built-in keeps it."""

    __slots__ = (
        "__weakref__",
        "_coming",
        "_counters",
        "_kept",
        "_steps",
        "_times",
        "is_native",
        "words",
    )

    def __init__(self, steps: Sequence[Step], counters: Sequence[ctypes.c_int64], flags: int) -> None:
        functions = pool.functions()
        if not functions:
            flags |= NO_POOL
        self._kept: tuple[Any, ...] = (steps, counters)
        self._counters = words("q", [ctypes.addressof(counter) for counter in counters])
        self._steps = words("q")
        for step in steps:
            self._steps.extend((step.function, address_of(step.block), len(step.block), step.n, step.chunk))
            self._steps.extend((step.colours, step.partials, step.finish, step.chunks))
        where = self._counters.buffer_info()[0], self._steps.buffer_info()[0]
        self.is_native = bool(functions)
        self._coming: deque[Callable[[], bool]] = deque()
        self.words = words("q", (flags, 0, attention.address, len(counters), where[0], len(steps), where[1], 0))
        self._times = words("q", bytes(8 * (len(steps) + 1)))
        _plans.add(self)

    def call(self, python: Callable[..., Any]) -> Callable[..., Any]:
        """Return the built-in; it keeps the plan, not the other way round, so that both end with their last user."""
        if not self.is_native:
            return python
        flags = pool.METH_FASTCALL | pool.METH_KEYWORDS
        definition = pool.method(b"launch", pool.functions()["dk_replay_call"], flags)
        return pool.built_in(definition, (self.words.buffer_info()[0], python, self))

    @property
    def flags(self) -> int:
        """Reasons for calls to go to Python."""
        return self.words[_FLAGS]

    def flag(self, reason: int) -> None:
        """Send all further calls to Python."""
        self.words[_FLAGS] |= reason

    def settle(self) -> None:
        """Wait until no call is in progress."""
        while self.running:
            time.sleep(0)

    @property
    def running(self) -> bool:
        """Whether calls are in progress or waiting."""
        self._forget_made()
        return bool(self.words[_RUNNING] or self._coming)

    def expect(self, waits: Callable[[], bool]) -> None:
        """Count a call that will come as long as a function says that it has not been made."""
        self._forget_made()
        self._coming.append(waits)

    def _forget_made(self) -> None:
        while self._coming and not (waits := self._coming[0])():
            with contextlib.suppress(ValueError):  # another thread has seen it as well
                self._coming.remove(waits)

    def become(self, other: Plan) -> None:
        """Take over the steps of another plan; the built-in stays the same. No call may be in progress.

        An interrupt leaves the plan as it was, or sends its calls to Python, who has to come back to this.
        """
        taken = words("q", other.words)
        taken[_RUNNING], taken[_TIMES] = self.words[_RUNNING], self.words[_TIMES]
        self.flag(STALE)
        self._kept = (other._kept, other)
        self._counters, self._steps, self._times = other._counters, other._steps, other._times
        self.words[:] = taken

    def renew(self) -> None:
        """Take the steps for those of now, after all."""
        self.words[_FLAGS] &= ~STALE

    def counter_place(self, position: int) -> int:
        """Return where the address of a counter stands."""
        return self._counters.buffer_info()[0] + 8 * position

    @property
    def counters(self) -> words[int]:
        """The addresses of the counters; whoever exchanges one keeps it alive, and no call may be in progress then."""
        return self._counters

    def run(self, timed: bool = False) -> list[int]:
        """Run the steps, whatever the flags; return the times in nanoseconds of their beginnings and of the end."""
        self.words[_TIMES] = self._times.buffer_info()[0] if timed else 0
        try:
            _run(self.words.buffer_info()[0])
        finally:
            self.words[_TIMES] = 0
        return list(self._times) if timed else []


def function_address(name: str) -> int:
    """Return the address of a kernel for contiguous memory, or 0 where the pool is not native."""
    return pool.functions().get(name, 0)


def address_of(block: bytearray) -> int:
    """Return where the bytes of a block lie; they do not move as long as its length stays."""
    return ctypes.addressof(ctypes.c_char.from_buffer(block)) if block else 0


def _run(plan: int) -> None:
    definition = pool.method(b"run", pool.functions()["dk_replay_run"], pool.METH_FASTCALL)
    pool.built_in(definition, (plan,))()


def _after_fork() -> None:
    # Calls that were in progress are those of threads that the child does not have.
    for plan in list(_plans):
        plan.words[_RUNNING] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
