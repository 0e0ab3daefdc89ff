"""Elision of fills with zero in replays that find the memory zero already.

From the operations of a sequence on the CPU and the forms that run follow the fills that only the first replay needs,
as each replay leaves the memory zero; and a plan without them, for replays that start with it zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign, Copy, Operation
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.native.replay import Plan, Step, Steps, function_address
from diffkern.runtime.records.adjoint_seeding import is_same, takes

__all__ = ["Quick", "needless_fills"]

_LEAST = 1 << 16
"""Bytes of which a fill takes longer than finding out that it is not needed."""


class Quick:
    """A plan for replays that start with some memory at zero, and leave it so.

    Parameters
    ----------
    plan : Plan
        The plan; it raises the versions of all this memory by 1.
    zero : sequence of Memory
        The memory.
    python : callable
        Runs the whole sequence instead.
    """

    __slots__ = ("__weakref__", "_call", "_zero", "plan")

    leaves_out = True

    def __init__(self, plan: Plan, zero: Sequence[Memory], python: Callable[..., Any]) -> None:
        self.plan = plan
        self._zero = zero
        self._call = plan.call(python)

    def choose(self, call: Callable[[], None]) -> None:
        """Run the plan if it may take the place of a call, else make the call."""
        zero = self._zero
        before = [memory.now for memory in zero]
        if all(memory.is_zero for memory in zero):
            self._call()
        else:
            call()
        # A flag means that the call went by way of Python, where other things may have happened in between.
        if not self.plan.flags:
            for memory, version in zip(zero, before, strict=True):
                # Nothing else has changed it.
                if memory.now == version + 1:
                    memory.zero_version = version + 1


def needless_fills(operations: Sequence[Operation], forms: Sequence[Steps | None]) -> dict[int, array]:
    """Return the fills with zero of memory that is touched only by them and by adjoints that consume all of it.

    The result maps the position of each fill to the array that it clears.
    """
    found: dict[int, array] = {}
    for index, operation in enumerate(operations):
        if not isinstance(operation, (Assign, Copy)) or not _is_large_clear(operation.goal, forms[index]):
            continue
        if _leaves_zero(operations, forms, operation.goal):
            found[index] = operation.goal
    return found


def _is_large_clear(goal: array, form: Steps | None) -> bool:
    """Return whether a form clears an array that is a large block of memory by itself."""
    memory = goal._memory
    # Another library may write to its own memory between replays, and a view's block is touched through other arrays.
    if memory.foreign or goal._data.nbytes != memory.nbytes or memory.nbytes < _LEAST or form is None or len(form) != 1:
        return False
    step = form[0]
    return isinstance(step, Step) and step.function == function_address("dk_clear_bytes")


def _leaves_zero(operations: Sequence[Operation], forms: Sequence[Steps | None], held: array) -> bool:
    """Return whether an array is touched only by fills with zero and by adjoints that consume it and leave it zero."""
    memory = held._memory
    for operation, form in zip(operations, forms, strict=True):
        if all(a._memory is not memory for a in (*operation.reads(), *operation.writes())):
            continue
        if isinstance(operation, AdjointLaunch):
            is_zero = bool(form) and any(is_same(ct, held) for ct in takes(operation).values())
        else:
            is_fill = isinstance(operation, (Assign, Copy)) and operation.goal._memory is memory
            is_zero = is_fill and (form == [] or _is_large_clear(held, form))
        if not is_zero:
            return False
    return True
