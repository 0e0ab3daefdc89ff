"""Launches of the usual kind on a tape, by what is known of earlier ones.

Of a launch on arrays that are apart, by a program that needs no copy, no log and no look at contents, the types and
which arrays carry gradients decide all that a tape does. That is found once for each program, and the rest is written
for little overhead. Launches that add to what an array holds are of that kind once their adjoint is there, which tells
that it needs nothing of that. Everything else takes the general path of
:class:`~diffkern.runtime.effects.tape_recording.TapeRecording`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diffkern.contracts.options import PLAIN
from diffkern.runtime.arrays.array import array
from diffkern.runtime.effects.influence import Influence
from diffkern.runtime.effects.residuals import Need
from diffkern.runtime.effects.tape_needs import TapeNeeds
from diffkern.runtime.effects.tape_steps import LaunchStep
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable

__all__ = ["KnownPattern", "UsualLaunches", "active_among", "pattern_of"]

_SMOOTH, _CARRIED = 1, 2


class KnownPattern:
    """A tape's knowledge of a program's launches in which some arrays carry gradients.

    Parameters
    ----------
    executable : Executable
        The program.
    pattern : int
        For each leaf two bits: whether it is an array with derivatives, and whether that carries a gradient.

    Attributes
    ----------
    active
        The parameters to differentiate for.
    needed
        The arrays that the adjoint may read, all until it is known.
    program
        The adjoint, if it is there.
    is_known
        Whether all of this is known.
    is_settled
        Whether it is known that a tape keeps nothing but the launch.
    """

    __slots__ = ("active", "is_known", "is_settled", "needed", "program")

    def __init__(self, executable: Executable, pattern: int) -> None:
        self.active = active_among(executable, pattern)
        self.needed = executable.uses if self.active else ()
        self.program: Executable | None = None
        self.is_known = not self.active
        self.is_settled = executable.is_usual or self.is_known

    def look_up(self, version: KernelVersion, keys: tuple[str, ...]) -> None:
        """Take from the adjoint of a version of the kernel what it reads, if it was made meanwhile."""
        found = version.adjoints.get((keys, self.active, PLAIN, ()))
        if found is not None:
            after = found.derivative.after
            self.needed = tuple([index for index in self.needed if index in after])
            self.program = found
            self.is_known = True
            self.is_settled = self.is_settled or found.keeps_nothing


def active_among(executable: Executable, pattern: int) -> frozenset[int]:
    """Return the parameters to differentiate for, by the two bits of each leaf."""

    def has(index: int, bits: int) -> bool:
        return bool(pattern >> 2 * index & bits)

    active = [index for index in executable.reads if has(index, _CARRIED)]
    # A written array that does not vary by itself is active if something read varies, or if its old contents did: their
    # cotangent has to be cleared.
    outputs = [index for index in executable.writes if has(index, _SMOOTH) and (active or has(index, _CARRIED))]
    # What is read and reaches no array of numbers has no gradient to pass on.
    return frozenset([*active, *outputs]) if outputs else frozenset()


def pattern_of(arrays: Sequence[array | None], carries: Callable[[int], bool]) -> int:
    """Return the two bits of each leaf of a launch, of which a function tells whether it carries a gradient."""
    pattern = 0
    for k, held in enumerate(arrays):
        if held is not None and held._smooth:
            pattern |= (_SMOOTH | _CARRIED if carries(k) else _SMOOTH) << 2 * k
    return pattern


class UsualLaunches(TapeNeeds, Influence):
    """The launches of the usual kind."""

    _takes_usual = True
    """False in tests that compare with the general path."""

    def _clear(self) -> None:
        super()._clear()
        self._differentiable: set[KernelVersion] = set()

    def _take_usual(self, launch: PackedLaunch) -> bool:
        """Perform a launch and keep what its derivative will need; False if it is none of the usual kind.

        Nothing has been done then but to look at its arrays.
        """
        executable = launch.executable
        if not (executable.is_plain and launch.is_apart and self._takes_usual) or self.keeps_inputs:
            return False
        if self._insides or self._sees_bytes or self._exposures.seen:
            return False
        pattern = self._look_at_all(launch)
        if self._sees_bytes or self._exposures.seen:
            return False
        taken = executable.taken.get(pattern)
        if taken is None:
            taken = executable.taken[pattern] = KnownPattern(executable, pattern)
        if not taken.is_settled:  # the first launches make the adjoint, which tells what is kept
            if not taken.is_known:
                taken.look_up(launch.generation, launch.keys)
            if not taken.is_settled:
                return False
        self._feed(launch)
        step: LaunchStep | None = None
        if taken.active and launch.grid.n:
            step = LaunchStep(launch, self._launches, taken.active, False)
        self._write_usual(launch)
        self._launches += 1
        if step is not None:
            self._steps.append(step)
            self._keep_needs(step, taken)
        return True

    def _look_at_all(self, launch: PackedLaunch) -> int:
        """Register the arrays of a launch, and return the two bits of each."""
        versions, owners, without, varied = self._versions, self._owners, self._without, self._varied
        pattern, place, name = 0, 1, launch.kernel.name
        for held in launch.arrays:
            if held is not None:
                memory = held._memory
                now = memory.version if memory._counter is None else memory.now
                owner, known = owners.get(memory), versions.get(memory)
                # An array with a gradient of its own that was met already or is met first, and has not changed since:
                # all others are looked at in detail.
                if held._grad is None or memory in without or self._exposures.seen:
                    self._look_at(held, name)
                elif owner is held and known == now:
                    pass
                elif owner is None and known is None and held._parent is None and not (memory.exposed or memory.lent):
                    versions[memory] = now
                    if held._smooth:
                        owners[memory] = self._arrays[id(held)] = held
                else:
                    self._look_at(held, name)
                if held._smooth:
                    carries = memory in owners or memory in varied
                    pattern |= place * (_SMOOTH | _CARRIED if carries else _SMOOTH)
            place <<= 2
        return pattern

    def _write_usual(self, launch: PackedLaunch) -> None:
        """Perform a launch that overwrites whole arrays."""
        needs, arrays, versions = self._needs, launch.arrays, self._versions
        for index in launch.executable.writes:
            if (held := arrays[index]) is not None and held._memory in needs:
                self._before_overwrite(held, None, launch)
        self._perform(launch)
        for index in launch.executable.writes:
            if (held := arrays[index]) is not None:
                memory = held._memory
                if memory.exposed or memory.lent or self._exposures.seen:
                    self._note(held)
                else:
                    versions[memory] = memory.version if memory._counter is None else memory.now
                self._written.add(memory)

    def _keep_needs(self, step: LaunchStep, taken: KnownPattern) -> None:
        """Note what the adjoint of a launch that has run will read, and what varies from now on."""
        launch = step.launch
        if not taken.is_known:
            taken.look_up(launch.generation, launch.keys)
        if taken.program is not None:
            # Asked once for each version of a kernel: the option is that of the time when a tape meets it.
            if launch.generation not in self._differentiable and launch.kernel.enable_backward:
                self._differentiable.add(launch.generation)
            if launch.generation in self._differentiable:
                step.expect(taken.program)
        arrays = launch.arrays
        # Noted after the launch: its own writes must not end them.
        for index in taken.needed:
            held: array | None = arrays[index]
            if held is not None:
                self._need(Need(step, index, held))
        # What others may write to is looked at later, whether the adjoint reads it or not.
        for index in launch.executable.uses:
            if (held := arrays[index]) is not None and (held._memory.exposed or held._memory.lent):
                self._exposures.note(held)
        for index in taken.active:
            if (held := arrays[index]) is not None:
                self._varied.add(held._memory)
