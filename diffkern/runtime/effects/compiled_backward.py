"""A reverse sweep that runs a second time: the same operations as one native call.

From the operations of a sweep, as a tape would perform them, and what they depend on, comes an object that performs
them again with other seeds, as long as nothing has changed since: no contents, no gradient array, no step of the tape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign, Operation, memories
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.scope import Scope
from diffkern.runtime.memory.stream import Stream, drain
from diffkern.runtime.native.replay import Plan, Steps

__all__ = ["Collector", "Repeat", "Seed"]

# Temporary arrays live as long as the tape then. Where they are large, the calls are not what takes time.
_LARGEST = 1 << 20


class Seed(Assign):
    """The gradient that a sweep starts from."""

    def steps(self) -> Steps | None:
        """Return a copy from ``values``, as they are at present: they change between sweeps.

        On a GPU they are part of the steps, and of the key of a sweep that is known.
        """
        return self.as_copy() if self.goal._memory.is_host else super().steps()


class Collector(Scope):
    """Collects the operations of a sweep in its block instead of running them."""

    runs = False
    reader: str | None = None

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def _begin(self) -> tuple[str, Collector, Collector]:
        return "recorder", self, self

    def check_read(self, held: array) -> None:
        """Do nothing: no read by a sweep is the user's."""

    def check_parts(self, operation: Operation) -> None:
        """Do nothing: a sweep with calls of functions is not compiled."""

    def settle(self, launch: Any, leaves: frozenset[int]) -> bool:
        """Return False: nobody sets the numbers of launches of a sweep."""
        return False

    def take(self, operation: Operation, stream: Stream | None = None) -> None:
        """Collect an operation."""
        self.operations.append(operation)
        operation.touch()


class _Body:
    """The plan of a sweep and what it points to."""

    def __init__(self, operations: Sequence[Operation], steps: Steps) -> None:
        self.operations = operations
        written = memories(a for operation in operations for a in operation.writes())
        self.plan = Plan(steps, [memory.counter for memory in written], 0)

    def run(self) -> None:
        """Run from Python, where other threads have tapes or streams."""
        drain()
        for operation in self.operations:
            operation.touch()
            if not self.plan.is_native:
                operation.execute()
        if self.plan.is_native:
            self.plan.run()


class Repeat:
    """A compiled sweep.

    Parameters
    ----------
    operations : sequence of Operation
        All operations of the sweep.
    steps : sequence of Step
        Their native form.
    targets : sequence of array
        The arrays with a seed.
    versions : mapping of Memory to int
        The versions of the memory that it depends on.
    grads : sequence of (array, array or None)
        Arrays and the gradients that they had.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        steps: Steps,
        targets: Sequence[array],
        versions: Mapping[Memory, int],
        grads: Sequence[tuple[array, array | None]],
    ) -> None:
        self._targets = targets
        self._seeds = [operation for operation in operations if isinstance(operation, Seed)]
        self._versions = list(versions.items())
        self._grads = grads
        body = _Body(operations, steps)
        self._call = body.plan.call(body.run)

    @staticmethod
    def compiled(operations: Sequence[Operation]) -> Steps | None:
        """Return the native form of a sweep on one device, None if it has none or its temporary arrays are large."""
        forms = Repeat.forms(operations)
        if forms is None:
            return None
        steps: list[Any] = [step for form in forms for step in form]
        return steps

    @staticmethod
    def forms(operations: Sequence[Operation], largest: int = _LARGEST) -> list[Steps] | None:
        """Return the native form of each operation, under the same conditions; `largest` bounds temporary arrays."""
        forms: list[Steps] = []
        size = 0
        for operation in operations:
            if operation.device is not operations[0].device:
                return None
            own = operation.steps()
            # Temporary cotangents start with a fill, so that the fills bound the memory that the compiled sweep holds
            # on to.
            if isinstance(operation, Assign):
                size += operation.goal._data.nbytes
            if own is None or size > largest:
                return None
            forms.append(own)
        return forms

    def fits(self, targets: Sequence[tuple[array, Any]]) -> bool:
        """Return whether a sweep from these arrays is this one."""
        known = self._targets
        if len(targets) != len(known):
            # Cheap comparisons in plain loops: this runs before each sweep, and only pays if it is much quicker than
            # one.
            return False
        for (target, _), other in zip(targets, known):  # noqa: B905 - the lengths were compared above
            if target is not other:
                return False
        for memory, version in self._versions:
            if memory.now != version:
                return False
        for a, grad in self._grads:  # noqa: SIM110 - a generator takes longer than what it asks
            if a.grad is not grad:
                return False
        return True

    def run(self, seeds: Sequence[tuple[array, Any]]) -> None:
        """Run the sweep with these seeds."""
        for seed, (_, values) in zip(self._seeds, seeds, strict=True):
            # Written into the same buffer, whose address is in the plan.
            seed.values[...] = seed.goal._stored(values)
        self._call()
