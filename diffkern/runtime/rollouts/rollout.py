"""The steps of a roll-out on a tape: run once forward, and again as often as reversing them takes.

A roll-out is made of a function that does step k and the number of states that may be kept, and becomes a step of the
tape. While a step runs, the roll-out stands in for the tape and sees every launch, copy and fill before it happens:
contents that are overwritten are kept for the state that they belong to. In the reverse sweep each step in turn is
recorded on a small tape of its own and reversed; :mod:`diffkern.runtime.rollouts.rollout` says which states are kept
meanwhile.

A step that runs again must do what it did at first. It is compared, launch by launch, by a hash for each step.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from math import comb
from pathlib import Path
from typing import Any

from diffkern.errors import LaunchError, described
from diffkern.process.tracebacks import place_of
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.digest import digest
from diffkern.runtime.arrays.external_writes import Exposures
from diffkern.runtime.arrays.operation import Add, Copy, Operation, submit
from diffkern.runtime.effects.cotangents import Cotangents
from diffkern.runtime.effects.rollout_step import RolloutStep
from diffkern.runtime.effects.snapshots import Randomness, Spare, State, copied
from diffkern.runtime.effects.tape_memory import TapeMemory
from diffkern.runtime.effects.tape_recording import TapeRecording
from diffkern.runtime.effects.tape_steps import carry_out
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.resources import Resource, Use, check_no_stores, looked_at, present
from diffkern.runtime.memory.memory import Memory, births, watch
from diffkern.runtime.memory.scope import Scope
from diffkern.runtime.memory.stream import Stream, drain
from diffkern.runtime.rollouts.live_state import Places
from diffkern.runtime.rollouts.progress import Bar

__all__ = ["Rollout", "StepObjects", "next_state", "reach", "repeated"]


Key = tuple[Memory, bytes]


class Rollout(Scope):
    """The steps of a roll-out.

    Parameters
    ----------
    tape : TapeRecording
        The tape whose block it is in.
    step : callable
        Runs the step of a given number.
    slots : int
        Largest number of states kept, the first among them.
    on_disk : int
        Number of them in files, the ones that are kept longest.
    folder : path
        The directory of the files.
    progress : bool or None
        As for :class:`Bar`, in the reverse sweep.
    """

    records = True
    """True if derivatives are taken of what is done in its block."""
    repeats = True
    """True if the operations in its block are run again later."""

    def __init__(
        self,
        tape: TapeRecording,
        step: Callable[[int], object],
        slots: int,
        on_disk: int,
        folder: Path,
        progress: bool | None,
    ) -> None:
        self._tape = weakref.ref(tape)
        self._step = step
        self._slots, self._on_disk, self._folder, self._progress = slots, on_disk, folder, progress
        self._states: list[State] = []
        self._spare = Spare()
        self._marks: list[int] = []  # of each step, a hash of what it did
        self._draws = True  # whether a step may draw numbers from generators that others draw from as well
        self._born = births()
        self._places: dict[Memory, Places] = {}
        self._arrays: dict[Key, array] = {}
        self._written: dict[Key, array] = {}
        self._numbers: dict[Memory, int] = {}
        self._versions: dict[Memory, int] = {}
        self._exposures = Exposures()
        self._objects = StepObjects()
        # Of the step that runs: its number, how often any has run, since when memory is new, what is new, and the hash
        # so far; the tape that records it, if it is to be taken back.
        self._running = -1
        self._turn = self._began = 0
        self._new: dict[Memory, int] = {}
        self._mark = 0
        self._inner: TapeRecording | None = None
        watch(self)

    def _begin(self) -> tuple[str, Any, Rollout]:
        return "tape", self, self

    @property
    def follower(self) -> TapeMemory | None:
        """The tape that the roll-out is a step of."""
        tape = self._tape()
        return None if tape is None else tape.follower

    # -- running steps -----------------------------------------------------------------------------------------------

    def run(self, steps: int, bar: Bar) -> None:
        """Run all steps for the first time, and note them on the tape. After an error these are the steps before it."""
        tape = self._tape()
        assert tape is not None
        tape.begin_steps()
        self._keep(0)
        try:
            self._run_to(0, steps, steps, bar)
        except BaseException:
            # The failed step may have written anything. Its own inputs come back from the last state, from which the
            # steps in front of it run once more.
            state = self._states[-1]
            self._restore(state)
            for number in range(state.step, len(self._marks)):
                self._once(number)
            tape.know(self.written)
            self._note_on(tape)
            raise
        self._note_on(tape)

    def _note_on(self, tape: TapeRecording) -> None:
        self._running = -1
        # No step drew from a generator if the first state's is still where it was: then no state needs one.
        first = self._states[0].randomness
        if first is not None and first.is_present:
            self._draws = False
            for state in self._states:
                state.randomness = None
        tape.end_steps(RolloutStep(self, list(self._arrays.values())))

    def _keep(self, number: int) -> None:
        folder = self._folder if len(self._states) < self._on_disk else None
        self._states.append(State(number, self._spare, folder, Randomness() if self._draws else None))

    def _next(self, number: int, end: int) -> int:
        """Return the number of the next state to keep on the way to `end`, or `end` if there is none."""
        free = self._slots - len(self._states)
        if not free or end - number < 2:
            return end
        # The last state counts among the slots of the schedule, so that one more than the free ones is passed.
        place = number + next_state(end - number, free + 1)
        return place if place < end - 1 else end  # the last step is taken back at once

    def _run_to(self, number: int, last: int, end: int, bar: Bar | None = None) -> None:
        """Run steps up to `last`; keep states for reversing the steps before `end`."""
        place = self._next(number, end)
        while number < last:
            if number == place:
                self._keep(number)
                place = self._next(number, end)
            elif number == end - 1 and number > self._states[-1].step:
                self._keep(number)  # going back begins here, when the tape has got so far
            self._once(number)
            number += 1
            if bar is not None:
                bar.update()

    def _once(self, number: int) -> None:
        """Run a step; if it has run before, it has to do the same."""
        self._running = number
        self._turn += 1
        self._began, self._mark = births(), 0
        self._new.clear()
        self._objects.begin(again=number < len(self._marks))
        with self:
            self._step(number)
        if number == len(self._marks):
            self._marks.append(self._mark)
            tape = self._tape()
            assert tape is not None
            tape.forget_new(self._new)
        elif self._marks[number] != self._mark:
            raise LaunchError(
                f"step {number} of dk.checkpoint did something else when it ran again to compute the gradient",
                remedy="let what it does depend on its number and on arrays that it overwrites alone; draw random "
                "numbers in the kernel, or from NumPy's or Python's global generator",
            )

    # -- going back --------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """The bytes of the states in memory."""
        return sum(state.nbytes for state in self._states)

    @property
    def written(self) -> set[Memory]:
        """The memory that the steps write to."""
        return {memory for memory, _ in self._written}

    @property
    def differentiated(self) -> set[Memory]:
        """The memory that takes part in gradients."""
        tape = self._tape()
        assert tape is not None
        return {memory for memory, _ in self._arrays if tape.differentiates(memory)}

    def relies_on(self, held: array) -> bool:
        """Return whether reversing the steps relies on the contents of an array after the last step."""
        return held not in self._states[-1] and not self._places[held._memory].anew(*held._range)

    def take_back(self, sweep: Cotangents, contents: Mapping[int, array]) -> None:
        """Reverse all steps; afterwards the arrays hold what they held before.

        Parameters
        ----------
        sweep : Cotangents
            The cotangents at the end, and then at the beginning.
        contents : mapping of int to array
            Contents of arrays, by their numbers, after the last step, where they have changed since.
        """
        tape, arrays = self._tape(), list(self._arrays.values())
        assert tape is not None
        changed = {**self._written, **{(arrays[k]._memory, arrays[k]._packed): arrays[k] for k in contents}}
        # The steps run again on the user's arrays, so that their present contents are set aside and put back at the
        # end.
        before = [(held, copied(held)) for held in changed.values()]
        known = tape.known(memory for memory, _ in changed)
        uses, randomness = self._objects.uses(), Randomness()
        self._versions.clear()
        self._exposures = Exposures()
        try:
            for number, copy in contents.items():
                submit(Copy(arrays[number], copy))
            with Bar(len(self._marks), "steps back", self._progress) as bar:
                for end in range(len(self._marks), 0, -1):
                    self._back_from(end, sweep)
                    bar.update()
        # Also after an error: the user finds the arrays as they were before backward().
        finally:
            self._back_to_start()
            self._spare.clear()
            for held, copy in reversed(before):
                submit(Copy(held, copy))
            for use in uses:
                use.lead_back()
            randomness.restore()
            tape.know(known)

    def _back_from(self, end: int, sweep: Cotangents) -> None:
        """Reverse one step."""
        # States behind the step have served. Each restores what it kept, back to the last one in front of the step.
        while len(self._states) > 1 and self._states[-1].step >= end:
            left = self._states.pop()
            self._restore(left)
            left.give_back()
        state = self._states[-1]
        self._restore(state)
        self._run_to(state.step, end - 1, end)
        self._take_back(end - 1, sweep)

    def _take_back(self, number: int, sweep: Cotangents) -> None:
        """Record a step on a tape of its own, and run its adjoint."""
        tape = self._tape()
        assert tape is not None
        inner = self._inner = tape.inside()
        inner.begin_inside(tape)
        try:
            self._once(number)
        finally:
            self._inner = None
        carry_out(inner.taken_back(sweep))
        # Memory that the step made is gone with it, and so are its cotangents.
        sweep.forget(self._new)

    def _back_to_start(self) -> None:
        """Go back to the first state, and keep all of it."""
        for state in reversed(self._states):
            self._restore(state)
        del self._states[1:]
        for held in self._written.values():
            if not self._places[held._memory].anew(*held._range):
                self._states[0].keep(held)

    def _restore(self, state: State) -> None:
        state.restore()
        for held in state.arrays:
            self._note(held)

    # -- what a step does --------------------------------------------------------------------------------------------

    def take(self, operation: Operation, stream: Stream | None = None) -> None:
        """Perform an operation of a step."""
        if isinstance(operation, PackedLaunch):
            self._take_launch(operation)
        elif isinstance(operation, AdjointLaunch) and operation.by_hand:
            raise _by_hand(operation)
        # Both are parts of a gradient that is computed in a step.
        elif isinstance(operation, (AdjointLaunch, Add)):
            raise LaunchError(
                f"step {self._running} of dk.checkpoint on a tape computes a gradient itself",
                remedy="write the steps in a loop, without dk.checkpoint",
            )
        else:
            self._take_other(operation, stream)

    def _take_launch(self, launch: PackedLaunch) -> None:
        executable, arrays = launch.executable, launch.arrays
        if executable.writes_elements:
            raise LaunchError(
                f"kernel {launch.kernel.name!r} writes to arrays in elements of an array, which a roll-out "
                "does not see",
                loc=place_of(launch.kernel.func),
                remedy="pass these arrays as parameters of their own, or launch it on a plain dk.Tape",
            )
        # Checked before the launch: afterwards a change of the user's could not be told from that of the launch.
        for held in arrays:
            if held is not None:
                self._look_at(held)
        reads = set(executable.reads)
        told = [
            part if held is None else self._told(held, k in reads)
            for k, (part, held) in enumerate(zip(launch.parts, arrays, strict=True))
        ]
        # Folding each operation into a hash needs no memory per operation. `told` names arrays so that those which a
        # step makes again are recognized although they lie elsewhere each time.
        self._mark = hash((self._mark, id(executable), launch.dims, *told))
        if executable.by_id:
            check_no_stores(launch, "in a roll-out")
            self._objects.check(launch)
        # Reads are noted first: an array that is read and written by one launch is not overwritten wholly before any
        # read.
        for index in executable.reads:
            if (held := arrays[index]) is not None:
                self._accessed(held, False)
        written = [held for index in executable.writes if (held := arrays[index]) is not None]
        for index in executable.writes:
            if (held := arrays[index]) is not None:
                axes = executable.manifest.params[index].fully_overwritten
                self._overwritten(held, axes == len(launch.dims) and held.shape == launch.dims)
        self._pass_on(launch, None, written)

    def _pass_on(self, operation: Operation, stream: Stream | None, written: Iterable[array]) -> None:
        """Hand an operation to the tape of the step, or run it while the tape around follows its first run."""
        if self._inner is not None:
            self._inner.take(operation, stream)
        else:
            if (tape := self._first()) is not None:
                tape.follow(operation, self._new)
            submit(operation, stream)
        for held in written:
            self._left(held)

    def _take_other(self, operation: Operation, stream: Stream | None) -> None:
        """Perform an operation of a step that states its own derivative."""
        operation.check_differentiable()
        written, read, ended = [*operation.writes()], [*operation.reads()], operation.flow().ended
        for held in (*written, *read):
            self._look_at(held)
        told = [*(self._told(held, True) for held in read), *(self._told(held, False) for held in written)]
        self._mark = hash((self._mark, operation.label, *told, operation.constants()))
        for held in read:
            self._accessed(held, False)
        for held in written:
            self._overwritten(held, any(held is other for other in ended))
        self._pass_on(operation, stream, written)

    def note_read(self, held: array) -> None:
        """Note that the host reads an array."""
        if (tape := self._first()) is not None:
            tape.note_read(held)

    def note_unrecorded(self, operation: Operation) -> None:
        """Note an operation that is deliberately left out of gradients."""
        if (tape := self._first()) is not None:
            tape.note_unrecorded(operation)

    def is_differentiated(self, held: array) -> bool:
        """Return whether a derivative is taken for an array, or for what it was computed from."""
        tape = self._tape()
        return tape is not None and tape.is_differentiated(held)

    def begin_derivative(self, name: str | None) -> None:
        """Begin the derivative of a custom operation."""
        for tape in self._tapes():
            tape.begin_derivative(name)

    def end_derivative(self) -> None:
        """End it."""
        for tape in self._tapes():
            tape.end_derivative()

    def hide(self, began: int, ended: int, results: Collection[array], name: str) -> None:
        """Note a custom operation: of what it has made, nothing but its results may be used here."""
        # Once on the tape around, although steps run again.
        for tape in (self._first(), self._inner):
            if tape is not None:
                tape.hide(began, ended, results, name)

    def _tapes(self) -> list[TapeRecording]:
        """Return the tape around, and that of the step if it is recorded to be taken back."""
        return [tape for tape in (self._tape(), self._inner) if tape is not None]

    def check_not_read(self, found: Iterable[array], what: str) -> None:
        """Raise if arrays may have been written from what the host has read."""
        if (tape := self._first()) is not None:
            tape.check_not_read(found, what)

    def derive(self, found: Iterable[array], sources: Iterable[Memory]) -> None:
        """Note that arrays are derivatives of what was computed from some memory."""
        if (tape := self._first()) is not None:
            tape.derive(found, sources)

    def before_exposure(self, memory: Memory) -> None:
        """Store digests of what the steps left in memory that is about to be given away."""
        if self._versions.get(memory) == memory.now:
            for (owner, _), held in list(self._arrays.items()):
                if owner is memory:
                    self._exposures.note_now(held)

    def _first(self) -> TapeRecording | None:
        """Return the tape if the step runs for the first time, else None."""
        return self._tape() if self._running == len(self._marks) else None

    def _told(self, held: array, is_read: bool) -> Any:
        """Return a value that identifies an array whenever its step runs."""
        memory = held._memory
        # Memory from before the step is numbered when it is first met: the numbers are the same in every run.
        if not self._is_new(memory):
            return self._numbers.setdefault(memory, len(self._numbers)), held._packed
        if memory in self._new:
            return self._new[memory], held.shape
        number = self._new[memory] = -1 - len(self._new)
        # New memory that the step reads was filled by the host, with values that have to be the same again.
        if is_read and not memory.is_zero:
            drain()
            return number, held.shape, digest(held)
        return number, held.shape

    def _is_new(self, memory: Memory) -> bool:
        """Return whether the running step has made some memory."""
        return memory.born > self._began and not memory.foreign

    def _accessed(self, held: array, whole: bool) -> bool:
        """Note an access; return whether the contents before the step do not matter."""
        memory = held._memory
        if not held.size or self._is_new(memory):
            return True
        # Running again from an earlier state, that step would make another array.
        if memory.born > self._born and not memory.foreign:
            raise LaunchError(
                f"a step of dk.checkpoint uses {described(held)}, which an earlier step has made",
                remedy="make arrays that steps hand on before dk.checkpoint, and overwrite them",
            )
        self._arrays.setdefault((memory, held._packed), held)
        places = self._places.get(memory)
        if places is None:
            places = self._places[memory] = Places()
        return places.accessed(*held._range, self._turn, whole)

    def _overwritten(self, held: array, whole: bool) -> None:
        """Keep the contents of an array for the last state, if they may be needed."""
        if not self._accessed(held, whole and held._type.layout == "C"):
            self._states[-1].keep(held)
        if held.size and not self._is_new(held._memory):
            self._written.setdefault((held._memory, held._packed), held)

    def _look_at(self, held: array) -> None:
        """Raise if an array was changed otherwise than by launches, copies and fills."""
        memory = held._memory
        known = self._versions.setdefault(memory, memory.now)
        if known != memory.now or (self._exposures.seen and self._exposures.inspect(held)):
            raise LaunchError(
                f"{described(held)} was changed in a step of dk.checkpoint by other means than launches, copies and "
                "fills",
                remedy="use launches, dk.copy, assign and fill_ there, and neither record_tape=False nor dk.no_grad",
            )
        if memory.exposed or memory.lent:
            self._exposures.note(held)

    def _left(self, held: array) -> None:
        """Record the contents of an array as the result of a step."""
        self._note(held)
        if (tape := self._first()) is not None and held._memory not in self._new:
            tape.follow_change(held)

    def _note(self, held: array) -> None:
        memory = held._memory
        self._versions[memory] = memory.now
        self._exposures.written(held)
        if memory.exposed or memory.lent:
            self._exposures.note(held)


def _by_hand(adjoint: AdjointLaunch) -> LaunchError:
    # Running again, it would add to gradients once more.
    return LaunchError(
        f"kernel {adjoint.launch.kernel.name!r}: its adjoint is launched in a step of dk.checkpoint, which runs "
        "several times",
        remedy="launch it behind dk.checkpoint, or without a tape",
    )


# -- objects in the steps ----------------------------------------------------------------------------------------------
# Objects that kernels look up by an id, in the steps of a roll-out: each step must find them as it did at first.
#
# An object that a launch reads was built by the same step, or before the roll-out and is restored to that state
# whenever a step runs again; otherwise an error is raised.


class StepObjects:
    """The objects that the steps of one roll-out read."""

    def __init__(self) -> None:
        self._first = {resource: resource.built for resource in present()}
        self._now = dict(self._first)
        self._older: dict[Resource, Use] = {}  # built before the roll-out
        self._seen: set[Resource] = set()

    def begin(self, again: bool) -> None:
        """Prepare for a step, which runs for the first time or again."""
        if again:
            for use in self._older.values():
                use.lead_back()
        self._now = {resource: resource.built for resource in present()}

    def check(self, launch: PackedLaunch) -> None:
        """Raise if a launch would find an object in another state when its step runs again."""
        for resource in looked_at(launch.executable, launch.parts):
            self._seen.add(resource)
            # The step has built it itself, and will again.
            if resource.built != self._now.get(resource):
                continue
            use = self._older.get(resource)
            if use is None and resource.built == self._first.get(resource):
                use = self._older[resource] = Use(resource)
            if use is None or use.content is not resource.content:
                raise LaunchError(
                    f"kernel {launch.kernel.name!r} looks by an id at an object that an earlier step built",
                    remedy="build it in each step that uses it, or once before dk.checkpoint",
                )
            use.check(f"an earlier step (kernel {launch.kernel.name!r})")

    def uses(self) -> list[Use]:
        """Return the uses of the objects in their present state."""
        return [Use(resource) for resource in self._seen]


# -- binomial schedules ------------------------------------------------------------------------------------------------
# Which states of a roll-out to keep so that going back through it repeats the fewest steps. From the number of steps
# and the number of states that may be kept at once, the first among them, follow the state to keep next and the number
# of steps repeated in all. The schedules are those of Griewank and Walther (Algorithm 799: Revolve): with s states and
# each step repeated at most r times one goes back through C(s + r, s) steps, and no schedule needs fewer repetitions.


def reach(slots: int, repeats: int) -> int:
    """Return the number of steps that can be reversed if each runs at most `repeats` times before its adjoint."""
    return comb(slots + repeats, slots) if repeats >= 0 else 0


def _repeats(steps: int, slots: int) -> int:
    """Return the number of times that a step has to run at most."""
    repeats = 0
    while reach(slots, repeats) < steps:
        repeats += 1
    return repeats


def repeated(steps: int, slots: int) -> int:
    """Return the total number of steps that run to reverse `steps`, except the one before each step's adjoint."""
    repeats = _repeats(steps, slots)
    # The minimum t * l - C(s + t, t - 1) of Griewank and Walther for l steps, s slots and t repeats.
    return repeats * steps - reach(slots + 1, repeats - 1)


def next_state(steps: int, slots: int) -> int:
    """Return the distance, in steps, from the last state that is kept to the next one to keep.

    Parameters
    ----------
    steps : int
        Number of steps to reverse from the last state, at least 2.
    slots : int
        Number of states that may be kept, that one among them, at least 2.
    """
    repeats = _repeats(steps, slots)
    # Any distance between these bounds is optimal. The smallest is taken, such that the part behind the new state fits
    # into one slot less and that in front of it is run one time less.
    return max(1, reach(slots, repeats - 2), steps - reach(slots - 1, repeats))
