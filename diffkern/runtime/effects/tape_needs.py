"""Residuals of a tape: contents that adjoints read are copied only if something overwrites them.

Before launches and other changes run, a need is noted for each part of an array that an adjoint reads. A copy of such
a part is made when a launch overwrites elements of it, and only then.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Operation, submit
from diffkern.runtime.effects.kept import Contents, KeptCopies
from diffkern.runtime.effects.residuals import Need, Needs
from diffkern.runtime.effects.tape_memory import TapeMemory
from diffkern.runtime.effects.tape_steps import LaunchStep
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.regions import Region, meet
from diffkern.runtime.memory.state import recorder_now, will_replay
from diffkern.runtime.memory.stream import Stream

__all__ = ["TapeNeeds"]


class TapeNeeds(TapeMemory):
    """The residuals that adjoints need."""

    keeps_inputs = False
    """True if the adjoints of launches are differentiated themselves, so that everything that was read is needed."""

    def _clear(self) -> None:
        super()._clear()
        self._kept_copies = KeptCopies()

    def _perform(self, operation: Operation, stream: Stream | None = None) -> None:
        """Perform an operation that nothing else records."""
        submit(operation, stream)

    def _need(self, need: Need) -> None:
        """Note that a step may read the contents of an array."""
        # An empty region: the step is known to read nothing of the array.
        if need.region == ():
            return
        held = need.held
        memory = held._memory
        needs = self._needs.get(memory)
        if needs is None:
            self._needs[memory] = Needs(memory.nbytes, need)
        else:
            needs.add(need)
        if memory.exposed or memory.lent:
            self._exposures.note(held)

    def _save(self, step: LaunchStep, written: Sequence[tuple[array, Region]]) -> list[Need]:
        """Keep what an adjoint reads as it is before a launch: copies of what that overwrites, else the array itself.

        Returns the needs on these arrays from now on.
        """
        launch = step.launch
        needs: list[Need] = []
        for index in step.saves():
            if (held := launch.arrays[index]) is None:
                continue
            region = step.read_before(index)
            if region is not None and (not will_replay() or self._may_rest(*step.settled_by(), held)):
                # The launch writes to other parts: the array still has what the adjoint needs, until a later step
                # overwrites it.
                if not any(meet(held, region, other, part) for other, part in written):
                    step.take_copy(index, held, before=True)
                    needs.append(Need(step, index, held, region, is_known=True, before=True))
                    continue
            else:
                region = None
            step.take_copy(index, self._copy(held, region, launch), before=True)
        return needs

    def _written_by(self, launch: PackedLaunch) -> list[tuple[array, Region]]:
        """Return the arrays that a launch writes, and the region of each."""
        executable, found, arrays = launch.executable, [], launch.arrays
        if not executable.regions.are_known:
            return [(held, None) for index in executable.writes if (held := arrays[index]) is not None]
        for index in executable.writes:
            held = arrays[index]
            if held is not None:
                region = executable.regions.written(launch, index)
                if region is not None and not self._may_rest(launch, executable.regions.arguments, held):
                    region = None
                found.append((held, region))
        return found

    def _may_rest(self, launch: PackedLaunch, arguments: frozenset[int], held: array) -> bool:
        """Return whether the copies that are kept may depend on some integer arguments of a launch.

        In a sequence they can be set until copies of the array have become many; from then on they cannot.
        """
        recorder = recorder_now()
        if recorder is None or not arguments:
            return True
        if self.keeps_inputs or not self._kept_copies.are_many(held):
            return False
        # The parts that are copied from now on hold for these values only, so that others are refused.
        return recorder.settle(launch, arguments)

    def _before_overwrite(self, held: array, region: Region = None, launch: PackedLaunch | None = None) -> None:
        """Copy the elements that earlier adjoints need and that are about to change."""
        needs = self._needs.get(held._memory)
        if needs is None:
            return
        for need in needs.take(held, region):
            step, index = need.step, need.index
            # Nothing to keep: lost already, or the adjoint turns out not to read it.
            if index in (step.lost_before if need.before else step.lost) or not need.is_wanted:
                continue
            read = need.region
            # What the adjoint reads is only determined now that something is about to overwrite it: it may take a
            # compilation.
            if not need.is_known:
                read = step.read_after(index)
                if read is not None and (settled := step.settled_by()) is not None:
                    read = read if self._may_rest(*settled, need.held) else None
                if not meet(held, region, need.held, read):
                    # The write missed what the adjoint reads: it stays a need, with the exact region.
                    self._need(Need(step, index, need.held, read, is_known=True))
                    continue
            step.take_copy(index, self._copy(need.held, read, launch), before=need.before)

    def _copy(self, held: array, region: Region, launch: PackedLaunch | None) -> Contents:
        """Return a copy of a part of the present contents, which a launch overwrites; steps may share it."""
        return self._kept_copies.copy(held, region, self._perform, launch)
