"""Dependence of arrays on those that a derivative is taken for: the one rule for tapes, functions and tangents.

From launches, copies and fills as they are recorded, and those that are deliberately left out of derivatives, follows
whether a result depends on such an array. It does if a chain of operations leads there, whatever their derivatives are:
through integers, ``dk.no_grad`` or ``stop_gradient`` the derivative is zero because that is what the program says. A
result that depends on none is a mistake: the values went through NumPy or Python on their way, or to another array.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable

from diffkern.errors import LaunchError, described
from diffkern.process.tracebacks import warn
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Flow, Operation
from diffkern.runtime.effects.custom_operations_met import CustomOperationsMet
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.nested_arrays import nested_arrays
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.resources import given_to, stored_by
from diffkern.runtime.memory.memory import Memory, births

__all__ = ["Influence"]

_LEFT_BEHIND = (
    "compute it from them with launches, copies and operations of arrays: what Python or NumPy makes of a.numpy(), "
    "float(a) or a[i] is a constant; in a block of dk.no_grad() it is meant to be one"
)
"""The remedy where a result depends on no argument."""


class Influence(CustomOperationsMet):
    """The influence of some arrays, which a subclass names."""

    def _forget_influence(self) -> None:
        """Start over without any knowledge of influence."""
        # Memory whose contents come from arrays that a derivative is taken for; memory of such arrays of which
        # something may be left that it held at first; memory that was written; the kernel that was launched last.
        self._fed: set[Memory] = set()
        self._kept: set[Memory] = set()
        self._written: set[Memory] = set()
        self._kernel: KernelProtocol | None = None
        # When the host first read what depends on such arrays: how much memory there was, and the versions of what had
        # been written.
        self._read: tuple[int, dict[Memory, int]] | None = None
        self._forget_custom_operations()

    @abstractmethod
    def _is_source(self, memory: Memory) -> bool:
        """Return whether a derivative is taken for the initial contents of some memory."""

    @abstractmethod
    def _has_derivative(self, held: array) -> bool:
        """Return whether a derivative is taken for an array that may not have been met yet."""

    @abstractmethod
    def _is_all(self, held: array) -> bool:
        """Return whether an array is all of the array whose derivative it shares, not a part and not a field."""

    def _depends(self, memory: Memory) -> bool:
        """Return whether the contents of some memory come from an array (perhaps its own) with a derivative."""
        if memory in self._fed or memory in self._kept:
            return True
        # Memory that nothing has written still holds its initial contents.
        return memory not in self._written and self._is_source(memory)

    def _is_fed(self, held: array) -> bool:
        """Return whether the contents of an array come from an array (perhaps itself) with a derivative."""
        return self._depends(held._memory)

    def note_unrecorded(self, operation: Operation) -> None:
        """Note an operation that is deliberately left out of derivatives, which are zero behind it."""
        for held in operation.reads():
            if self._is_fed(held) or (held._memory not in self._written and self._has_derivative(held)):
                self._fed.update(a._memory for a in operation.writes())
                return

    def derive(self, found: Iterable[array], sources: Iterable[Memory]) -> None:
        """Note that arrays are derivatives of what was computed from some memory, also where they are constant."""
        if any(map(self._depends, sources)):
            self._fed.update(a._memory for a in found)

    def note_read(self, held: array) -> None:
        """Note that the host reads an array: what it writes from then on may depend on that."""
        if self._insides:
            self._check_not_inside(held)
        # An array that has not been met yet may have a derivative as well.
        if not (self._is_fed(held) or (held._memory not in self._written and self._has_derivative(held))):
            return
        if self._derivatives and self._derivatives[-1] is not None:
            raise LaunchError(
                f"{self._derivatives[-1]} reads {described(held)} on the host, where its own derivative is taken: that "
                "would miss what comes of the numbers",
                remedy="compute with launches and operations of arrays there, or call a custom operation that reads it",
            )
        if self._read is None:
            # Memory born later, or with a later version, may have been written from what the host has read now.
            self._read = births(), {memory: memory.now for memory in self._written}

    def _may_be_read(self, held: array) -> bool:
        """Return whether an array without dependences got its contents after the host has read dependent ones."""
        if self._read is None or self._is_fed(held):
            return False
        (born, known), memory = self._read, held._memory
        return memory.born > born or (memory in self._written and memory.now != known.get(memory))

    def check_results(self, results: Collection[array]) -> None:
        """Raise if a result of a function depends on none of the arrays that it is a function of.

        Raises
        ------
        LaunchError
            If none of the results does, or one that may have come from values that the host has read.
        """
        wrong = [result for result in results if self._may_be_read(result)]
        if results and not any(map(self._is_fed, results)):
            wrong = [*results]
        if wrong:
            names = ", ".join(map(described, wrong))
            self._refuse(f"what the function returned depends on none of its arguments: {names}")

    def _check_in_derivative(self, operation: Operation) -> None:
        """Raise if the derivative of a custom operation uses what the host has made of numbers that it has read."""
        if (name := self._derivatives[-1]) is None:
            return
        self.check_not_read(operation.reads(), f"{name} uses")
        if operation.is_from_host and self._read is not None and (held := next(iter(operation.writes())))._smooth:
            self._refuse_host(f"{name} assigns numbers to {described(held)}")

    def check_not_read(self, found: Iterable[array], what: str) -> None:
        """Raise for arrays that the host has made when it had read numbers, as a derivative would miss that.

        Parameters
        ----------
        found : iterable of array
            The arrays.
        what : str
            What is done with them, for the message.

        Raises
        ------
        LaunchError
            If there is one.
        """
        if self._read is None:
            return
        for held in found:
            memory = held._memory
            # What launches and operations of arrays have written depends on what they read alone.
            is_written = memory in self._written and not memory.lendings
            is_late = memory.born > self._read[0] or memory.is_open
            is_made = is_late and not (is_written or memory.is_zero or self._is_fed(held))
            if is_made and held._smooth:
                self._refuse_host(f"{what} {described(held)}, which was made on the host")

    def _refuse_host(self, what: str) -> None:
        """Raise that numbers of the host are used in a derivative whose own derivative is taken."""
        raise LaunchError(
            f"{what} when an array with a derivative had been read, where its own derivative is taken",
            remedy="make constants in front of that, and the rest with launches, operations of arrays and custom ones",
        )

    def _refuse(self, what: str, remedy: str = _LEFT_BEHIND) -> None:
        """Raise that a result depends on nothing; in a dialect where gradients are zero then, warn instead."""
        if self._kernel is None or not self._kernel.dialect.zero_gradients:
            raise LaunchError(what, remedy=remedy)
        warn(f"{what}, so all gradients are zero; {remedy}")

    # -- launches, copies and fills ----------------------------------------------------------------------------------

    def _feed(self, launch: PackedLaunch) -> None:
        """Note the arrays that a launch writes from arrays with derivatives, or leaves partly as they were."""
        executable = launch.executable
        fed, updated, is_fed = self._fed, executable.manifest.updated, False
        self._kernel = launch.kernel
        for index in executable.reads:
            # An array that is only added to does not influence the others, though the program reads it.
            if index in updated:
                continue
            if executable.by_id:
                is_fed = any(map(self._is_fed, self._held(launch, index)))
            elif (held := launch.arrays[index]) is not None:
                is_fed = self._depends(held._memory)
            if is_fed:
                break
        if executable.by_id and not is_fed:
            is_fed = any(map(self._is_fed, given_to(launch)))
        if is_fed and not executable.by_id:
            for index in executable.writes:
                if (found := launch.arrays[index]) is not None:
                    fed.add(found._memory)
            return
        if is_fed and executable.changes:
            fed.update(held._memory for held in stored_by(launch))
        for index in executable.writes:
            for held in self._held(launch, index):
                if is_fed:
                    fed.add(held._memory)
                elif self._is_fed(held) and self._leaves_some(launch, index):
                    self._kept.add(held._memory)

    def _held(self, launch: PackedLaunch, index: int) -> list[array]:
        """Return the arrays that a parameter stands for: itself, or those in its elements."""
        held, executable = launch.arrays[index], launch.executable
        if held is None:
            return []
        if executable.by_id and index in executable.manifest.pointing:
            return list(nested_arrays(executable, launch.arrays, [index]))
        return [held]

    def _leaves_some(self, launch: PackedLaunch, index: int) -> bool:
        """Return whether an array may keep elements that it had before a launch which writes to it."""
        held = launch.arrays[index]
        if held is None:
            return False
        axes = launch.executable.manifest.params[index].fully_overwritten
        return not (axes == len(launch.dims) and held.shape == launch.dims and self._is_all(held))

    def _feed_by(self, flow: Flow) -> None:
        """Note the dependences of what an operation writes, which is no launch."""
        # Asked first: a source may be a part of the goal, of which the overwrite forgets its dependences.
        is_fed = False
        for held in flow.sources:
            is_fed = is_fed or self._is_fed(held)
        for held in flow.ended:
            self._feed_by_overwrite(held)
        if is_fed:
            for held in flow.written:
                self._fed.add(held._memory)
        elif len(flow.ended) < len(flow.written):
            ended = [*map(id, flow.ended)]
            for held in flow.written:
                if id(held) not in ended and self._is_fed(held):
                    self._kept.add(held._memory)

    def _feed_by_overwrite(self, goal: array) -> None:
        """Note which dependences remain in an array all of whose elements were replaced."""
        memory = goal._memory
        if memory in self._fed or memory in self._kept:
            if self._is_all(goal):
                self._fed.discard(memory)
                self._kept.discard(memory)
            else:
                self._kept.add(memory)
        elif memory not in self._written and self._is_source(memory) and not self._is_all(goal):
            self._kept.add(memory)
