"""Elision of steps that change nothing in replays that find some memory zero, as each such replay leaves it.

From the operations of a sequence on the CPU and the forms that run follow the contents that are zero in front of each
step: what a fill has cleared, a copy took from zeros, or an adjoint has consumed. With some memory at zero to begin
with, fills with zero, copies of zeros and sums of zeros change nothing; where that memory is zero at the end as well,
a plan without them does for the next replay what the whole sequence does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from diffkern.process.dataclass import dataclass
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.accumulate.adjoint_seeding import takes
from diffkern.runtime.accumulate.sequence_dce import looks_elsewhere
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Add, Assign, Copy, Operation
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.native.replay import Plan, Step, Steps, function_address

__all__ = ["IdleSteps", "Quick", "idle_steps"]

_LEAST = 1 << 16
"""Bytes of which a fill takes longer than finding out that it is not needed."""


@dataclass(frozen=True)
class IdleSteps:
    """The steps of a sequence that change nothing, and what has to be zero for that.

    Attributes
    ----------
    steps
        Their positions.
    zero
        Memory that has to be zero when a replay starts; without these steps it is zero at the end again.
    restored
        The part of it that is zero after a replay of all steps, whatever it held before.
    """

    steps: frozenset[int]
    zero: tuple[Memory, ...]
    restored: frozenset[Memory]


class Quick:
    """A plan for replays that start with some memory at zero, and leave it so.

    Parameters
    ----------
    plan : Plan
        The plan; it raises the versions of all memory that the sequence writes by 1.
    idle : IdleSteps
        The steps that it leaves out.
    python : callable
        Runs the whole sequence instead.
    """

    __slots__ = ("__weakref__", "_call", "_idle", "_whole", "plan")

    leaves_out = True

    def __init__(self, plan: Plan, idle: IdleSteps, python: Callable[..., Any]) -> None:
        self.plan = plan
        self._idle = idle
        self._whole = 0
        self._call = plan.call(python)

    def choose(self, call: Callable[[], None]) -> None:
        """Run the plan if it may take the place of a call, else make the call."""
        zero: Iterable[Memory] = self._idle.zero
        before = {memory: memory.now for memory in zero}
        if all(memory.is_zero for memory in zero) or self._look():
            self._call()
        else:
            call()
            zero = self._idle.restored
        # A flag means that the call went by way of Python, where other things may have happened in between.
        if not self.plan.flags:
            for memory in zero:
                # Nothing else has changed it.
                if memory.now == before[memory] + 1:
                    memory.zero_version = memory.now

    def _look(self) -> bool:
        """Return whether all is zero by its contents, as what was recorded has run already.

        They are read less and less often: instead of the first whole replay, the second, the fourth, the eighth, …
        """
        self._whole += 1
        if self._whole & (self._whole - 1):
            return False
        for memory in self._idle.zero:
            if not memory.is_zero:
                if memory.is_exposed or _contents(memory).any():
                    return False
                memory.zero_version = memory.now
        return True


def _contents(memory: Memory) -> np.ndarray[Any, Any]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * memory.nbytes).from_address(memory.address))


def idle_steps(operations: Sequence[Operation], forms: Sequence[Steps | None]) -> IdleSteps | None:
    """Return the steps that change nothing if some memory is zero at first; None if there are none.

    Parameters
    ----------
    operations
        All on the CPU, in the order in which they run.
    forms
        The native form of each that runs, empty for nothing.
    """
    if any(map(looks_elsewhere, operations)):
        return None
    changes = [operation for operation in operations if isinstance(operation, (Assign, Copy, Add))]
    large = {change.goal._memory for change in changes if _is_large(change.goal)}
    flow = _ZeroFlow(operations, forms, large)
    known = flow.run(large)
    if not known.idle:
        return None
    # What the idle steps do not rest on need not be zero.
    narrow = flow.run(known.assumed & known.used)
    known = narrow if narrow.idle == known.idle else known
    # The order of the operations, as that of a set differs from run to run.
    zero = tuple(dict.fromkeys(change.goal._memory for change in changes if change.goal._memory in known.assumed))
    restored = flow.once(frozenset()).zero
    return IdleSteps(known.idle, zero, restored.intersection(zero))


def _is_large(held: array) -> bool:
    """Return whether an array is a large block of memory by itself."""
    memory = held._memory
    # Another library may write to its own memory between replays.
    return memory.is_host and not memory.foreign and memory.nbytes >= _LEAST and _is_whole(held)


def _is_whole(held: array) -> bool:
    return held._data.nbytes == held._memory.nbytes and held._type.layout == "C"


def _is_clear(form: Steps) -> bool:
    clear = function_address("dk_clear_bytes")
    return all(isinstance(step, Step) and step.function == clear for step in form)


@dataclass(frozen=True)
class _ZeroFacts:
    """The memory that was assumed to be zero and is zero at the end, the idle steps, and the memory they rest on."""

    assumed: frozenset[Memory]
    zero: frozenset[Memory]
    idle: frozenset[int]
    used: frozenset[Memory]


class _ZeroFlow:
    """The flow of zeros through the steps of a sequence.

    Parameters
    ----------
    operations, forms
        As of :func:`idle_steps`.
    followed
        The memory that is looked at.
    """

    def __init__(
        self, operations: Sequence[Operation], forms: Sequence[Steps | None], followed: Collection[Memory]
    ) -> None:
        # A step without a form does nothing; what it would do another one does, of which it is known.
        pairs = zip(operations, forms, strict=True)
        self.running = [(k, operation, form) for k, (operation, form) in enumerate(pairs) if form]
        self.followed = frozenset(followed)
        self.taken = {k: _consumed(op) & self.followed for k, op, _ in self.running if isinstance(op, AdjointLaunch)}

    def run(self, assumed: Collection[Memory]) -> _ZeroFacts:
        """Follow the contents; memory that is not zero at the end is not assumed to be zero at the beginning."""
        found = self.once(frozenset(assumed))
        while not found.assumed <= found.zero:
            found = self.once(found.assumed & found.zero)
        return found

    def once(self, assumed: frozenset[Memory]) -> _ZeroFacts:
        """Follow the contents from the first step to the last."""
        self.zero, self.idle, self.used = set(assumed), set[int](), set[Memory]()
        for k, operation, form in self.running:
            if isinstance(operation, (Assign, Copy, Add)):
                self._change(k, operation, form)
            else:
                self.zero.difference_update(a._memory for a in operation.writes())
                if isinstance(operation, AdjointLaunch):
                    self.zero |= self.taken[k]
                    # Its program may run the launch as well.
                    self.zero.difference_update(a._memory for a in operation.launch.writes())
        return _ZeroFacts(assumed, frozenset(self.zero), frozenset(self.idle), frozenset(self.used))

    def _change(self, k: int, operation: Assign | Copy | Add, form: Steps) -> None:
        goal = operation.goal._memory
        is_clear = not isinstance(operation, Add) and _is_clear(form)
        source = None if is_clear or isinstance(operation, Assign) else operation.source._memory
        if not is_clear and source not in self.zero:
            self.zero.discard(goal)
            return
        self.used |= {memory for memory in (goal, source) if memory is not None}
        if goal in self.zero:
            self.idle.add(k)
        elif not isinstance(operation, Add) and goal in self.followed and _is_whole(operation.goal):
            self.zero.add(goal)


def _consumed(adjoint: AdjointLaunch) -> frozenset[Memory]:
    """Return the memory of the cotangents that an adjoint leaves zero."""
    return frozenset(ct._memory for ct in takes(adjoint).values() if _is_whole(ct))
