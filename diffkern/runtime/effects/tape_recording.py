"""Recording: steps, the residuals of their adjoints, and the influence of arrays on each other.

Launches, copies and overwrites become steps in their order, with copies of the contents that an adjoint needs and a
later step overwrites, taken at that moment, and only then.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from diffkern.errors import LaunchError
from diffkern.process.tracebacks import place_of
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.accumulate.aliases import check_aliases
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Operation
from diffkern.runtime.effects.cotangents import Cotangents
from diffkern.runtime.effects.kept import Contents
from diffkern.runtime.effects.nested_arrays_step import PointedStep
from diffkern.runtime.effects.operation_step import OperationStep
from diffkern.runtime.effects.residuals import Need
from diffkern.runtime.effects.step import Barrier
from diffkern.runtime.effects.tape_steps import LaunchStep
from diffkern.runtime.effects.usual_launch import UsualLaunches
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.nested_arrays import check_constant, nested_arrays
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.regions import Region, ranges_of
from diffkern.runtime.launch.resources import check_not_given, given_to, stored_by
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.stream import Stream

if TYPE_CHECKING:
    from diffkern.runtime.effects.rollout_step import RolloutStep

__all__ = ["TapeRecording"]

_NONE: frozenset[int] = frozenset()
_NOTHING: Final[frozenset[Memory]] = frozenset()


class TapeRecording(UsualLaunches):
    """The steps that were recorded."""

    repeats = False
    """True if the operations in its block are run again later."""
    records = True
    """True if derivatives are taken of what is done in its block."""
    follows_elements = False
    follows_objects = False
    """True if gradients go to arrays that kernels find by ids."""
    """True if launches may reach arrays with gradients through elements of arrays."""

    def _clear(self) -> None:
        super()._clear()
        self._forget_influence()

    def take(self, operation: Operation, stream: Stream | None = None) -> None:
        """Perform an operation, and keep what its derivative will need."""
        if self._derivatives:
            self._check_in_derivative(operation)
        try:
            if operation.kind == "launch":
                launch = cast("PackedLaunch", operation)
                self._unfinished = launch, self._launches
                self._take_launch(launch, stream)
            elif operation.kind == "adjoint":
                adjoint = cast("AdjointLaunch", operation)
                self._unfinished = adjoint.launch, self._launches
                (self._take_by_hand if adjoint.by_hand else self._take_adjoint)(adjoint, stream)
            else:
                self._unfinished = operation.phrase, self._launches
                self._take_other(operation, stream)
        # An error is final, and the tape stays usable. An interrupt passes here and leaves the mark, as nobody knows
        # what ran.
        except Exception:
            self._unfinished = None
            raise
        self._unfinished = None

    def _take_launch(self, launch: PackedLaunch, stream: Stream | None) -> None:
        if self._take_usual(launch):
            return
        executable, arrays = launch.executable, launch.arrays
        name, look_at = launch.kernel.name, self._look_at
        # First of all: changes since the last launch are the user's, and must be noticed before this launch adds its
        # own.
        for held in arrays:
            if held is not None:
                look_at(held, name)
        pointed: list[array] = []
        written: list[tuple[array, Region]] | None = None
        live: Sequence[Need] = ()
        if executable.by_id and executable.manifest.pointing:
            pointed = self._look_inside(launch)
        step: LaunchStep | None = None
        given: list[array] = []
        stored: list[array] = []
        reached: frozenset[Memory] = _NOTHING
        if executable.by_id:
            given = given_to(launch)
            stored = stored_by(launch)
            for held in (*given, *stored):
                look_at(held, name)
            reached = self._reached(launch, stored)
        active = self._active(launch)
        if self._sees_bytes:
            self._check_bytes_of(launch, active)
        # Before the launch runs, as its writes replace the dependences of what it reads.
        self._feed(launch)
        if (active or reached) and launch.grid.n:
            if not launch.is_disjoint:
                check_aliases(launch.kernel, launch, {})
            if pointed and self.follows_elements and not self.keeps_inputs:
                step = PointedStep(launch, self._launches, active)
            else:
                step = LaunchStep(launch, self._launches, active, self.keeps_inputs)
            if given or reached:
                step.carried = frozenset([held._memory for held in given if self._carries(held)] + [*reached])
                step.stored = reached
            self._check_carried(step)
            # The adjoint may need a log: the launch that runs is then another program than the one that was asked for.
            launch = step.keep_log()
            written = self._written_by(launch)
            # Only a launch that overwrites what it reads destroys its own residuals.
            if executable.is_in_place or launch.merged:
                live = self._save(step, written)
        if written is None:
            written = self._written_by(launch)
        if executable.writes_elements:
            written += [(held, None) for held in nested_arrays(executable, arrays, executable.writes)]
        if stored:
            written += [(held, None) for held in stored]
        if pointed and isinstance(step, PointedStep):
            step.keep("before")
        self._write(launch, written)
        self._launches += 1
        if step is None:
            return
        if pointed and isinstance(step, PointedStep):
            step.keep("after")
            self._varied.update(a._memory for k, t in step.tables.items() if k in active for a in t.arrays)
        self._steps.append(step)
        need, varied = self._need, self._varied
        if reached:
            varied.update(reached)
        for index in executable.uses:
            held = arrays[index]
            if held is not None:
                # Needs are noted after the launch: its own writes must not end them.
                need(Need(step, index, held))
                if index in active:
                    varied.add(held._memory)
        for each in live:
            need(each)

    def _check_bytes_of(self, launch: PackedLaunch, active: Iterable[int]) -> None:
        read = [held for index in active for held in self._held(launch, index)]
        self._check_bytes(read, [held for index in launch.executable.writes for held in self._held(launch, index)])

    def _varies(self, held: array) -> str | None:
        """Return why an array is no constant, for a tape that does not follow arrays in elements."""
        if self.is_differentiated(held):
            return "has a gradient"
        return "was written on the tape" if held._memory in self._written else None

    def _look_inside(self, launch: PackedLaunch) -> list[array]:
        """Register the arrays in elements that a launch may use, and return them."""
        executable, arrays = launch.executable, launch.arrays
        if self.keeps_inputs or not self.follows_elements:
            check_constant(launch.kernel.name, executable, arrays, self._varies)
        found = list(nested_arrays(executable, arrays, executable.uses))
        for held in found:
            self._look_at(held, launch.kernel.name)
        return found

    def _check_carried(self, step: LaunchStep) -> None:
        """Raise for an array with a cotangent that is reached in two ways, or whose cotangent cannot be carried on."""
        launch = step.launch
        if not step.carried:
            return
        if isinstance(step, PointedStep) or not self.follows_objects or self.keeps_inputs:
            where = "on this tape" if not self.keeps_inputs else "in a gradient that is differentiated itself"
            check_not_given(launch, where, self.is_differentiated)
        if any(a._memory in step.carried for k in launch.executable.writes if (a := launch.arrays[k]) is not None):
            raise LaunchError(
                f"kernel {launch.kernel.name!r} writes to an array that it also looks at by an id, with a gradient",
                loc=place_of(launch.kernel.func),
                remedy="write to another array, and give that to the object afterwards",
            )

    def _write(self, operation: Operation, written: Sequence[tuple[array, Region]]) -> None:
        """Perform an operation that writes to parts of some arrays."""
        needs = self._needs
        launch = operation if isinstance(operation, PackedLaunch) else None
        for held, region in written:
            # Copies of what adjoints need come first.
            if held._memory in needs:
                self._before_overwrite(held, region, launch)
        before = {held._memory: held._memory.now for held, region in written if region is not None}
        self._perform(operation)
        # Where a launch writes to known parts only, changes are noted with their ranges, so that needs of others
        # survive.
        for memory, version in before.items():
            ranges = [one for held, region in written if held._memory is memory for one in ranges_of(held, region)]
            memory.note_changes(version, ranges, self)
        for held, _ in written:
            self._note(held)
            self._written.add(held._memory)

    def _take_adjoint(self, adjoint: AdjointLaunch, stream: Stream | None) -> None:
        """Run an adjoint, of a launch on a nested tape, and keep what its own derivative will need."""
        from diffkern.runtime.effects.second_order import (
            AdjointStep,
            check_constant_objects,
            check_repeatable,
            inputs_of,
        )

        if adjoint.in_elements:
            if adjoint.launch.executable.by_id:
                check_repeatable(adjoint.launch)
            raise LaunchError(
                f"the adjoint of kernel {adjoint.launch.kernel.name!r} goes through arrays in elements of an array, "
                "and cannot be differentiated itself",
                loc=place_of(adjoint.launch.kernel.func),
                remedy="pass these arrays as parameters of their own",
            )
        own, inputs = adjoint.cotangents, inputs_of(adjoint)
        found = check_constant_objects(adjoint, self._passes)
        for held in (*inputs.values(), *own.values(), *found):
            self._look_at(held, adjoint.label)
        varied = [k for k, held in inputs.items() if self._passes(held)]
        written = [*{id(ct): ct for ct in own.values()}.values()]
        # Nothing in it varies for this tape: it is a write like any other.
        if not varied and not any(self._carries(ct) for ct in written):
            self._write(adjoint, [(ct, None) for ct in written])
            return
        step = AdjointStep(adjoint, self._launches, inputs, varied)
        if varied:
            step.before = {
                k: self._before_adjoint(adjoint.launch, k, ct)
                for k, ct in own.items()
                if k in adjoint.launch.executable.writes
            }
        # Determined before the adjoint consumes and overwrites cotangents.
        is_fed = any(a is not None and self._is_fed(a) for a in (*inputs.values(), *adjoint.launch.arrays, *written))
        self._write(adjoint, [(ct, None) for ct in written])
        self._steps.append(step)
        for index, held in inputs.items():
            self._need(Need(step, index, held))
        self._varied.update(ct._memory for ct in written)
        self._fed.update(ct._memory for ct in written if is_fed)

    def _before_adjoint(self, launch: PackedLaunch, index: int, ct: array) -> Contents:
        """Return a copy of the cotangent of what a launch has written."""
        regions = launch.executable.regions
        region = regions.written(launch, index)
        if region is not None and not self._may_rest(launch, regions.arguments, ct):
            region = None
        return self._copy(ct, region, None)

    def _take_other(self, operation: Operation, stream: Stream | None) -> None:
        """Perform an operation that states its own derivative."""
        operation.check_differentiable()
        # Plain loops, with nothing made that is not kept: programs copy thousands of small arrays.
        flow, phrase, look_at = operation.flow(), operation.phrase, self._look_at
        written, read, _ = flow
        for held in written:
            look_at(held, phrase)
        varied: list[array] = []
        for held in read:
            look_at(held, phrase)
            if self._passes(held):
                varied.append(held)
        if self._sees_bytes:
            self._check_bytes((*written, *varied) if varied else (), written)
        # The order of the following calls matters: copy what is needed, then update influence, then note the write.
        needs = self._needs
        for held in written:
            if held._memory in needs:
                self._before_overwrite(held)
        ends = bool(varied) or any(map(self._passes, flow.ended))
        self._feed_by(flow)
        for held in written:
            self._written.add(held._memory)
        self._perform(operation, stream)
        for held in written:
            self._note(held)
        if not ends:
            return
        step = OperationStep(operation, flow, self._launches, varied)
        self._steps.append(step)
        if varied:
            for held in written:
                if held._smooth:
                    self._varied.add(held._memory)
            for held in varied:
                if held._memory.lent or held._memory.exposed:
                    self._exposures.note(held)
            for index, held in enumerate(step.needed):
                self._need(Need(step, index, held, is_known=True))

    def _take_by_hand(self, adjoint: AdjointLaunch, stream: Stream | None) -> None:
        """Run an adjoint that is launched by hand: no gradient can pass it, and what it writes is lost to others."""
        from diffkern.runtime.effects.second_order import inputs_of

        own, inputs = adjoint.cotangents, inputs_of(adjoint)
        launch, executable = adjoint.launch, adjoint.launch.executable
        found = [*given_to(launch), *nested_arrays(executable, launch.arrays, executable.uses)]
        met = (*inputs.values(), *own.values(), *found)
        for held in met:
            self._look_at(held, adjoint.label)
        if any(map(self._passes, met)):
            memories = {ct._memory for ct in own.values()}
            if any(map(self._is_fed, met)):
                self._fed.update(memories)
            self._varied.update(memories)
            passed = {ct._memory for ct in adjoint.writes()}
            self._steps.append(Barrier(passed, partial(_launched_by_hand, adjoint.launch.kernel)))
        self._perform(adjoint, stream)
        for ct in own.values():
            for need in self._needs.pop(ct._memory, ()):
                need.lose()
            self._note(ct)

    # -- roll-outs: steps that run now, and know by themselves how they are taken back --------------------------------

    def begin_steps(self) -> None:
        """Begin a roll-out, of which the tape learns what it writes and which arrays carry gradients on."""
        self._unfinished = "a roll-out", self._launches

    def follow(self, operation: Operation, new: Container[Memory]) -> None:
        """Note an operation of a roll-out, before it runs; `new` is memory that its step has made.

        No step is recorded: the roll-out records each step again when it is reversed. Only the influence is noted.
        """
        if isinstance(operation, PackedLaunch):
            self._follow_launch(operation, new)
            return
        flow = operation.flow()
        for held in (*flow.written, *flow.sources):
            if held._memory not in new:
                self._look_at(held, operation.phrase)
        varied = [held for held in flow.sources if self._passes(held)]
        if self._sees_bytes:
            self._check_bytes((*flow.written, *varied) if varied else (), flow.written)
        self._feed_by(flow)
        for held in flow.written:
            if varied and held._smooth:
                self._varied.add(held._memory)
            if held._memory not in new:
                self._before_overwrite(held)
                self._written.add(held._memory)

    def _follow_launch(self, launch: PackedLaunch, new: Container[Memory]) -> None:
        for held in launch.arrays:
            if held is not None and held._memory not in new:
                self._look_at(held, launch.kernel.name)
        if launch.executable.by_id:
            remedy = "write the steps in a loop, without dk.checkpoint"
            check_not_given(launch, "in a roll-out", self.is_differentiated, remedy)
            check_constant(launch.kernel.name, launch.executable, launch.arrays, self._varies)
        active = self._active(launch)
        if self._sees_bytes:
            self._check_bytes_of(launch, active)
        self._feed(launch)
        for index in active:
            if (held := launch.arrays[index]) is not None:
                self._varied.add(held._memory)
        for held in launch.writes():
            if held._memory not in new:
                self._before_overwrite(held)
                self._written.add(held._memory)

    def follow_change(self, held: array) -> None:
        """Record the contents that a step of a roll-out has written as the tape's own doing."""
        self._note(held)

    def forget_new(self, new: Iterable[Memory]) -> None:
        """Forget the memory that a step of a roll-out has made."""
        for known in (self._varied, self._fed, self._kept):
            known.difference_update(new)

    def end_steps(self, step: RolloutStep) -> None:
        """End a roll-out, which is a step of the tape now."""
        self._unfinished = None
        self._steps.append(step)
        for index, held in enumerate(step.launch.arrays):
            self._need(Need(step, index, held))

    def inside(self) -> TapeRecording:
        """Return a new tape for a step of a roll-out on this one."""
        return TapeRecording()

    def begin_inside(self, tape: TapeRecording) -> None:
        """Begin in a step of a roll-out on another tape, with the knowledge of that tape."""
        # What varied after the roll-out counts as varying in each of its steps: an upper bound, without a second
        # analysis.
        self._varied |= tape._varied
        self._owners |= tape._owners
        self._without |= tape._without
        self._written |= tape._written

    def taken_back(self, sweep: Cotangents) -> list[Sequence[Operation]]:
        """Return the work that reverses the steps of this tape, within the sweep of another."""
        sweep.own(self._owners)
        sweep.relied.append(self._needs)
        # What is prepared here runs among operations of the sweep that were prepared before: they keep their arrays.
        sweep.remade = {}
        try:
            return [step.prepare(sweep) for step in reversed(self._steps)]
        finally:
            # The sweep goes on with other steps of the roll-out, and must not keep what this one has held.
            sweep.relied.pop()

    def _passes(self, held: array) -> bool:
        """Return whether a gradient passes through an array."""
        return held._smooth and self._carries(held)

    def is_differentiated(self, held: array) -> bool:
        """Return whether a derivative is taken for an array, or for what it was computed from."""
        whole: array | None = held
        while whole is not None:
            if self._carries(whole) or self._has_derivative(whole):
                return True
            whole = whole._parent  # a view of its bytes shows no gradient
        return False

    def _is_source(self, memory: Memory) -> bool:
        return memory in self._owners

    def _has_derivative(self, held: array) -> bool:
        return held._smooth and self._gradient(held) is not None

    def _has_influence(self, goal: array) -> bool:
        """Return whether an array with a gradient has an influence on a result.

        The initial value of a loss of one element, to which launches add, is not counted.
        """
        return self._is_fed(goal) and (goal._memory not in self._kept or goal._memory in self._fed or goal.size > 1)

    def _reached(self, launch: PackedLaunch, stored: Sequence[array]) -> frozenset[Memory]:
        """Return the memory behind ids that a launch writes, and that then has a cotangent, or had one."""
        if not stored:
            return frozenset()
        read = [a for k in launch.executable.reads for a in self._held(launch, k) if a._smooth]
        feeds = any(map(self._carries, (*read, *given_to(launch))))
        return frozenset(a._memory for a in stored if a._smooth and (feeds or self._carries(a)))

    def _active(self, launch: PackedLaunch) -> frozenset[int]:
        """Return the parameters to differentiate for: those that vary, and those written from them or over them."""
        executable, arrays = launch.executable, launch.arrays
        varied, owners = self._varied, self._owners
        if executable.by_id:
            held = {k: [a for a in self._held(launch, k) if a._smooth] for k in executable.uses}
            active = [k for k in executable.reads if any(map(self._carries, held[k]))]
            feeds = active or any(map(self._carries, given_to(launch)))
            outputs = [k for k in executable.writes if held[k] and (feeds or any(map(self._carries, held[k])))]
            if executable.changes and self._reached(launch, stored_by(launch)):
                return frozenset([launch.merged.get(k, k) for k in [*active, *outputs]])
        else:
            active, outputs = [], []
            for index in executable.reads:
                a = arrays[index]
                if a is not None and a._smooth and (a._memory in varied or a._memory in owners):
                    active.append(index)
            for index in executable.writes:
                a = arrays[index]
                # A written array that does not vary by itself is active if something read varies, or if its old
                # contents did: their cotangent has to be cleared.
                if a is not None and a._smooth and (active or a._memory in varied or a._memory in owners):
                    outputs.append(index)
        if not outputs:  # what is read and reaches no array of numbers has no gradient to pass on
            return _NONE
        merged = launch.merged
        active += outputs
        # Parameters that are given one array have one cotangent, under the first of them.
        return frozenset([merged.get(index, index) for index in active] if merged else active)


def _launched_by_hand(kernel: KernelProtocol) -> LaunchError:
    return LaunchError(
        f"the adjoint of kernel {kernel.name!r} was launched by hand, and a gradient passes its results",
        loc=place_of(kernel.func),
        remedy="compute that gradient with dk.grad or a dk.Tape inside the block, which can be differentiated",
    )
