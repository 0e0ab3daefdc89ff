"""Plans: prepared steps of native code behind a Python built-in function.

Steps (address of a kernel, argument block, partition of its range), counters to raise and a Python function make a
built-in that runs all steps in one native call, the interpreter's lock released; it calls the Python function instead
whenever it gets an argument, a flag of the plan is set, or the process has something that launches must know of. Any
number of threads may call it at once. Blocks may be written to after :meth:`Plan.wait_idle`, with the lock held.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import operator
import os
import time
import weakref
from array import array as words
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from diffkern.errors import LaunchError
from diffkern.runtime.native import pool
from diffkern.runtime.native.output import showing
from diffkern.runtime.native.slow_path import slow_path_flags

if TYPE_CHECKING:
    from diffkern.ir.types import Scalar
    from diffkern.runtime.native.device import DeviceStep
    from diffkern.runtime.native.loader import Code
    from diffkern.runtime.native.output import StepOutput

__all__ = [
    "DEVICE", "PYTHON", "RELEASED", "STALE", "STREAM", "NativeBranch", "Plan", "Stamp", "Step", "Steps", "address_of",
    "copied", "done_while_idle", "function_address", "replaced",
]  # fmt: skip

# Reasons for a call to go to Python.
PYTHON = 1  # a step has no native form
RELEASED = 2
STREAM = 4  # a stream of its own
STALE = 8  # a step has changed
NO_POOL = 16  # the thread pool is not native
DEVICE = 32  # no reason by itself: the steps are a device's

_FLAGS, _RUNNING, _ATTENTION, _COUNTERS, _COUNTER_ADDRESSES, _STEPS, _STEP_ADDRESS, _TIMES = range(8)
_PORT, _NAMES, _STAMP, _EXPECTED = range(8, 12)
_RECENT = 4  # names that a device keeps


class Step(NamedTuple):
    """A kernel on a range.

    Attributes
    ----------
    function : int
        Address of the kernel.
    block : bytearray
        Its arguments.
    n, chunk : int
        The range and the length of a chunk.
    colours : int
        2 where neighbouring chunks must not run at the same time, else 1.
    partials, finish, chunks : int
        Partial sums, the function that adds them up, and the number of chunks they come from; 0 without.
    code : Code or None
        The owner of the functions' memory, if there has to be one.
    updates : bool
        Whether the kernel can be told that its run is alone.
    copied : array of words or None
        The arrays of which each chunk but the first has a copy, as by :func:`copied`; added up afterwards.
    replaced : array of words or None
        The words that replace those of the block in the arguments, as by :func:`replaced`.
    output : StepOutput or None
        What is done with what its threads print.
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
    updates: bool = False
    copied: words[int] | None = None
    replaced: words[int] | None = None
    output: StepOutput | None = None

    def row(self) -> tuple[int, ...]:
        """Return its words."""
        # The mark for kernels with updates is the lowest bit of the block's address, which is aligned.
        place = self.function, address_of(self.block) + self.updates, len(self.block)
        more = [0 if given is None else given.buffer_info()[0] for given in (self.copied, self.replaced)]
        output = 0 if self.output is None else self.output.address
        return *place, self.n, self.chunk, self.colours, self.partials, self.finish, self.chunks, *more, output

    def run(self) -> None:
        """Run it once; the pool has to be native."""
        row = words("q", self.row())
        pool.built_in(pool.method(b"run", pool.functions()["dk_step_run"], pool.METH_FASTCALL), None)(
            row.buffer_info()[0]
        )


class NativeBranch:
    """Steps on the CPU that run depending on a flag in memory, as one step.

    Parameters
    ----------
    flag : int
        Address of an int32, which stays for as long as the branch.
    on_true, on_false : sequence of Step or NativeBranch
        What runs where it is not 0, and where it is.
    loop : bool
        Whether the flag is read again after each run of `on_true`, which is repeated until it is 0.
    """

    __slots__ = ("_kept", "_words")

    def __init__(
        self,
        flag: int,
        on_true: Sequence[Step | NativeBranch],
        on_false: Sequence[Step | NativeBranch] = (),
        loop: bool = False,
    ) -> None:
        sides = [words("q", itertools.chain.from_iterable(step.row() for step in side)) for side in (on_true, on_false)]
        self._kept = on_true, on_false, sides
        counted = [(len(side), rows.buffer_info()[0]) for side, rows in zip((on_true, on_false), sides, strict=True)]
        self._words = words("q", (flag, int(loop), *itertools.chain.from_iterable(counted)))

    def row(self) -> tuple[int, ...]:
        """Return the words of the step."""
        return 0, self._words.buffer_info()[0], *[0] * (_STEP_WORDS - 2)


_STEP_WORDS = 12
_KINDS = {(True, 4): 0, (True, 8): 1, (False, 4): 2, (False, 8): 3}


def copied(arrays: Iterable[tuple[int, int, Scalar, int]]) -> words[int]:
    """Return the words that describe the arrays that chunks have copies of.

    Parameters
    ----------
    arrays : iterable of (int, int, Scalar, int)
        Contiguous arrays: place in the argument block, axes, the type of their scalars, of 4 or 8 bytes, and the number
        of scalars in an element.
    """
    entries = [(offset, axes, _KINDS[s.is_float, s.itemsize], components) for offset, axes, s, components in arrays]
    return words("q", (len(entries), *itertools.chain.from_iterable(entries)))


def replaced(addresses: Mapping[int, int]) -> words[int]:
    """Return the words that describe which addresses replace those at some places of an argument block."""
    return words("q", (len(addresses), *itertools.chain.from_iterable(addresses.items())))


Steps = list[Step] | list["DeviceStep"]
"""The native form of something: on the CPU, or on one GPU."""


_stamps = itertools.count(1)


class Stamp:
    """A word, read by native code, that changes its value with every change of what it stands for."""

    __slots__ = ("_word",)

    def __init__(self) -> None:
        self._word = words("q", (next(_stamps),))

    @property
    def address(self) -> int:
        """The address of the word."""
        return self._word.buffer_info()[0]

    @property
    def value(self) -> int:
        """The present value."""
        return self._word[0]

    def renew(self) -> None:
        """Set a value that no stamp has had."""
        self._word[0] = next(_stamps)


# All plans, for the child of a fork.
_plans: weakref.WeakSet[Plan] = weakref.WeakSet()


class Plan:
    """The memory of one plan. It has to outlive the calls, so that the built-in keeps it.

    Parameters
    ----------
    steps : sequence of Step or of DeviceStep
        The steps; those on a GPU are all on the same one.
    counters : sequence
        The counters that each call raises.
    flags : int
        Reasons for calls to go to Python.
    stamp : (Stamp, int), optional
        A stamp and the value that it must have, or calls go to Python.

    Attributes
    ----------
    noted : tuple of str
        The names that a device notes for the steps when they were begun.
    """

    __slots__ = (
        "__weakref__",
        "_coming",
        "_counters",
        "_given",
        "_kept",
        "_steps",
        "_times",
        "is_native",
        "noted",
        "words",
    )

    def __init__(
        self,
        steps: Sequence[Step | NativeBranch] | Sequence[DeviceStep],
        counters: Sequence[ctypes.c_int64],
        flags: int,
        stamp: tuple[Stamp, int] | None = None,
    ) -> None:
        functions = pool.functions()
        if not functions:
            flags |= NO_POOL
        self._counters = words("q", [ctypes.addressof(counter) for counter in counters])
        self._steps = words("q", itertools.chain.from_iterable(step.row() for step in steps))
        where = self._counters.buffer_info()[0], self._steps.buffer_info()[0]
        # Arrays of words do not move as long as they keep their length, so that native code may hold their addresses.
        self.is_native = bool(functions)
        self._coming: deque[Callable[[], bool]] = deque()
        self.words = words("q", (flags, 0, slow_path_flags.address, len(counters), where[0], len(steps), where[1], 0))
        self._times = words("q", bytes(8 * (len(steps) + 1)))
        self._given, self.noted = steps, _noted(steps)
        self._kept: tuple[Any, ...] = (counters, self.noted, stamp)
        port = getattr(steps[0], "port", None) if steps else None
        if port is not None:
            self.words[_FLAGS] |= DEVICE
        watched = (0, 0) if stamp is None else (stamp[0].address, stamp[1])
        self.words.extend((0 if port is None else port.address, id(self.noted) if self.noted else 0, *watched))
        _plans.add(self)

    def call(self, python: Callable[..., Any]) -> Callable[..., Any]:
        """Return the built-in; it keeps the plan, not the other way round, so that both end with their last user."""
        if not self.is_native:
            return python
        flags = pool.METH_FASTCALL | pool.METH_KEYWORDS
        definition = pool.method(b"launch", pool.functions()["dk_replay_call"], flags)
        return pool.built_in(definition, (self.words.buffer_info()[0], python, self, self._failed))

    @property
    def flags(self) -> int:
        """Reasons for calls to go to Python."""
        return self.words[_FLAGS]

    def flag(self, reason: int) -> None:
        """Send all further calls to Python."""
        self.words[_FLAGS] |= reason

    def wait_idle(self) -> None:
        """Wait until no call is in progress."""
        while self.running:
            wait()

    @property
    def running(self) -> bool:
        """True if calls are in progress or waiting."""
        self._forget_made()
        return bool(self.words[_RUNNING] or self._coming)

    def expect(self, waits: Callable[[], bool]) -> None:
        """Count a future call, for as long as a function says that it has not been made."""
        self._forget_made()
        self._coming.append(waits)

    def _forget_made(self) -> None:
        while self._coming and not (waits := self._coming[0])():
            with contextlib.suppress(ValueError):  # another thread has seen it as well
                self._coming.remove(waits)

    def become(self, other: Plan) -> None:
        """Take over the steps of another plan, once no call is in progress; the built-in stays the same.

        An interrupt leaves the plan as it was, or sends its calls to Python, which has to repeat this.
        """
        taken = words("q", other.words)
        # These two words belong to the calls of this plan and not to the steps.
        taken[_RUNNING], taken[_TIMES] = 0, self.words[_TIMES]
        self.flag(STALE)
        # A call that another thread has begun before the flag was there runs the former steps to their end.
        former = self._given, self._counters, self._steps, self._times, self._kept
        self._given, self.noted, self._kept = other._given, other.noted, (other._kept, other, former)
        self._counters, self._steps, self._times = other._counters, other._steps, other._times
        # In one assignment, and last: it also clears the flag, when everything that the words point to is in place.
        exchange = map(operator.setitem, (self.words,), (slice(None),), (taken,))
        while not done_while_idle((self,), exchange):
            wait()
        self._kept = (other._kept, other)

    def renew(self) -> None:
        """Accept the steps as current after all."""
        self.words[_FLAGS] &= ~STALE

    def counter_place(self, position: int) -> int:
        """Return the place that holds the address of a counter."""
        return self._counters.buffer_info()[0] + 8 * position

    @property
    def counters(self) -> words[int]:
        """The addresses of the counters; replacing one takes a reference to it, and no call may be in progress."""
        return self._counters

    def run(self, timed: bool = False) -> list[int]:
        """Run the steps, whatever the flags; return the times in nanoseconds of their beginnings and of the end."""
        self.words[_TIMES] = self._times.buffer_info()[0] if timed else 0
        try:
            _run(self.words.buffer_info()[0])
        finally:
            self.words[_TIMES] = 0
        return list(self._times) if timed else []

    def run_on(self, stream: int) -> None:
        """Run the steps of a device on one of its streams, whatever the flags.

        Raises
        ------
        CudaError
            If the driver refuses one of them. Those behind it were not begun.
        """
        steps: Sequence[DeviceStep] = self._given  # type: ignore[assignment]  # of a plan for a device
        if steps:
            port = steps[0].port
            status = port.run(self.words.buffer_info()[0], stream)
            if status:
                self._failed(status)
            port.note(self.noted)

    def _failed(self, status: int) -> NoReturn:
        """Raise the error of a failed step of a device."""
        begun: Sequence[DeviceStep] = self._given[: (status >> 40) + 1]  # type: ignore[assignment]  # as above
        step = begun[-1]
        step.port.note(_noted(begun))
        raise step.port.failure(status, step.kind, step.title)


def wait() -> None:
    """Let other threads go on, whose calls are in progress.

    Raises
    ------
    LaunchError
        If the call in progress may be one that this thread is in the midst of, and which would never end.
    """
    if showing.depth:
        raise LaunchError(
            "the stream that what kernels print is written to changes a record or a sequence while one runs",
            remedy="change it when the call has returned",
        )
    time.sleep(0)


_in_progress = operator.itemgetter(_RUNNING)


def done_while_idle(plans: Iterable[Plan], effects: Iterable[object]) -> bool:
    """Run an iterator, of None alone, to its end if no call of some plans is in progress; return whether it was run.

    Between the look at the plans and the end of the iterator no call can begin, if the iterator runs functions of the
    interpreter in C alone: calls begin with the interpreter's lock held, which other threads get between two
    instructions of Python. An interrupt does not come in between either.
    """
    # One call for both: it ends at the first count that is not zero, when the effects have not begun.
    return not any(itertools.chain(map(_in_progress, [plan.words for plan in plans]), effects))


def _noted(steps: Sequence[Step | NativeBranch] | Sequence[DeviceStep]) -> tuple[str, ...]:
    """Return the names that a device notes for steps that were begun."""
    names = [noted for step in steps if (noted := getattr(step, "noted", ""))]
    return tuple(names[-_RECENT:])


def function_address(name: str) -> int:
    """Return the address of a kernel for contiguous memory, or 0 where the pool is not native."""
    return pool.functions().get(name, 0)


def address_of(block: bytearray) -> int:
    """Return the address of the bytes of a block; they do not move as long as its length stays."""
    return ctypes.addressof(ctypes.c_char.from_buffer(block)) if block else 0


def _run(plan: int) -> None:
    definition = pool.method(b"run", pool.functions()["dk_replay_run"], pool.METH_FASTCALL)
    pool.built_in(definition, (plan,))()


def _after_fork() -> None:
    # Calls that were in progress are those of threads that the child does not have. One that goes on, as a signal
    # handler forks in the middle of it, counts itself again.
    for plan in list(_plans):
        plan.words[_RUNNING] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
