"""The derivative of an adjoint launch, in both modes: what differentiates tapes again.

An adjoint launch makes of the cotangents after a launch those before it: it applies the transpose of the launch's
Jacobian J(p), which depends on what the launch read. So its transpose is J itself, which is the kernel in forward mode
with the cotangents' cotangents as tangents; and its dependence on p is that of <ct, J(p) t>, whose gradient is the
adjoint of the kernel in forward mode. Both come of running the kernel once more along tangents, on copies of what it
writes.

The results are operations (launches, adjoints, copies and sums), so that a surrounding tape or tangents can take
derivatives of these too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set

from diffkern.contracts.manifest import Log
from diffkern.errors import AutodiffError, LaunchError
from diffkern.process.tracebacks import place_of
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Add, Assign, Copy, Operation, submit
from diffkern.runtime.effects.cotangents import Cotangents
from diffkern.runtime.effects.kept import Contents, Rooms, StepRooms, copies_of, parts_of
from diffkern.runtime.effects.step import NONE_LOST, TapeStep
from diffkern.runtime.effects.tangent_map import launch_along
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.regions import Region, joined
from diffkern.runtime.launch.resources import given_to
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.state import will_replay

__all__ = ["AdjointStep", "Again", "check_constant_objects", "check_repeatable", "inputs_of", "on_copies"]


def check_repeatable(launch: PackedLaunch) -> None:
    """Raise if the adjoint of a launch cannot be differentiated because the launch cannot run again as it ran.

    Raises
    ------
    AutodiffError
        If it looks up objects by their ids, is given an array twice and writes to it, or uses what atomic updates
        return.
    """
    if launch.executable.by_id:
        raise _refused(launch, "looks at objects by their ids")
    if launch.merged:
        raise _refused(launch, "reads and writes one array by two parameters")
    if launch.logged is not None:
        _check_log(launch, launch.logged)


def check_constant_objects(adjoint: AdjointLaunch, varies: Callable[[array], bool]) -> list[array]:
    """Return the arrays that an adjoint may find by ids; raise if the derivative of one would be lost.

    Parameters
    ----------
    adjoint : AdjointLaunch
        The adjoint, of a tape or by hand.
    varies : callable
        Tells of an array whether a derivative is taken with respect to it.
    """
    launch = adjoint.launch
    found = given_to(launch) if launch.executable.by_id else []
    if any(map(varies, found)):
        check_repeatable(launch)
    return found


def _check_log(launch: PackedLaunch, log: Log) -> None:
    """Raise for a log that another run of the launch would write differently, or that has to be counted first."""
    # One of searches is written alike, and has as many integers in each thread.
    if log.active is None:
        raise _refused(launch, "uses what atomic updates return")
    if log.calls is None:
        raise _refused(launch, "overwrites values that are needed, as often as its data say")


def _refused(launch: PackedLaunch, why: str) -> AutodiffError:
    return AutodiffError(
        f"the adjoint of kernel {launch.kernel.name!r} cannot be differentiated on a tape: the kernel {why}",
        loc=place_of(launch.kernel.func),
        remedy="take second derivatives in the other order, as dk.hvp does",
    )


def on_copies(launch: PackedLaunch) -> PackedLaunch:
    """Return a launch that reads what another one does, and writes to copies."""
    made = launch.copy()
    for index in launch.executable.writes:
        held = launch.arrays[index]
        if held is not None:
            copied = _like(held)
            submit(Copy(copied, held))
            made.put(index, copied)
    return made


def inputs_of(adjoint: AdjointLaunch) -> dict[int, array]:
    """Return by parameter what a launch read, as it was before the launch."""
    launch = adjoint.launch
    updated, found = launch.executable.manifest.updated, {}
    for index in launch.executable.reads:
        held = adjoint.saved.get(index, adjoint.contents.get(index, launch.arrays[index]))
        # Of what it updates the adjoint needs the contents before it if they can win, as in a minimum.
        if held is not None and (index not in updated or index in adjoint.saved):
            found[index] = held
    return found


class Again:
    """A launch run again along tangents, on copies of what it writes.

    Parameters
    ----------
    launch : PackedLaunch
        The launch.
    inputs : mapping of int to array
        The arrays that it reads, by parameter.
    varied : collection of int
        The parameters with tangents; what is written has them as well.
    rooms : StepRooms, optional
        The provider of temporary arrays.

    Attributes
    ----------
    tangents : dict of int to array
        By parameter; their contents are the tangents before, and then after the launch.
    """

    def __init__(
        self,
        launch: PackedLaunch,
        inputs: Mapping[int, array],
        varied: Collection[int],
        rooms: StepRooms | None = None,
    ) -> None:
        self._of, self._inputs = launch, inputs
        self._room = (rooms or Rooms().of_step()).room
        # Which parts a launch touches is not known where its numbers can be set, in a sequence.
        self._is_settled = not will_replay() or not launch.executable.regions.arguments
        self._saved: dict[int, array] = {}
        writes = launch.executable.writes
        made: dict[int, array] = {}
        wanted = {id(held._whole) for i in varied if (held := launch.arrays[i]) is not None}

        def along(held: array, is_written: bool) -> array | None:
            if not is_written and id(held._whole) not in wanted:
                return None
            # Parameters that are given one array share its tangent, as the kernel's stores through one are seen by the
            # other.
            if id(held) not in made:
                made[id(held)] = self._room(held)
            return made[id(held)]

        self.launch = launch_along(launch.without_log(), along)
        for index, held in inputs.items():
            self._put(index, held)
        # The user's arrays hold later contents by now, and must keep them.
        for index in writes:
            held = launch.arrays[index]
            if held is not None:
                self._put(index, self._room(held))
        self._places = _places_of_tangents(launch, self.launch)
        arrays = self.launch.arrays
        self.tangents = {i: t for i, place in self._places.items() if (t := arrays[place]) is not None and t._smooth}

    def _put(self, index: int, held: array) -> None:
        self.launch.put(index, held)

    @property
    def changed(self) -> list[int]:
        """The parameters that are read and written."""
        return [index for index in self._of.executable.writes if index in self._inputs]

    def region(self, index: int) -> Region:
        """Return the region of a parameter that the launch touches."""
        executable = self._of.executable
        read = executable.regions.read(self._of, index) if index in executable.reads else ()
        if not self._is_settled:
            return None
        return joined(read, self.written(index)) if index in executable.writes else read

    def written(self, index: int) -> Region:
        """Return the region of a parameter that the launch writes."""
        return self._of.executable.regions.written(self._of, index) if self._is_settled else None

    def begin(self, tangents: Mapping[int, array]) -> list[Operation]:
        """Return operations that set the tangents (zero by default), and copies of what the launch overwrites."""
        work: list[Operation] = []
        for index, own in self.tangents.items():
            region = self.region(index)
            if index in tangents:
                work += copies_of(own, tangents[index], region)
            else:
                work += [Assign(part, 0) for part in parts_of(own, region)]
        for index in self.changed:
            goal = self.launch.arrays[index]
            assert goal is not None
            work += copies_of(goal, self._inputs[index], self.region(index))
        return work

    def results(self, tangents: Mapping[int, array]) -> list[Operation]:
        """Return the copies of the tangents after the launch to the given arrays, of what it has written."""
        pairs = tangents.items()
        return [copy for index, ct in pairs for copy in copies_of(ct, self.tangents[index], self.written(index))]

    def back(self, primal: Mapping[int, array], along: Mapping[int, array]) -> list[Operation]:
        """Return the launch and its adjoint, for the cotangents of parameters and of their tangents."""
        given = {**primal, **{self._places[index]: ct for index, ct in along.items()}}
        active = frozenset(given)
        program = self.launch.searched_adjoint(active) or self.launch.adjoint(active)
        log = program.derivative.log
        if log is not None and log.searches:
            made = self.launch.with_searches(log)
            program = program if made is not None else self.launch.adjoint(active)
            self.launch = made or self.launch
        elif log is not None:
            _check_log(self._of, log)
            self.launch = self.launch.with_log(log)
        saved, copies, of = {}, [], {place: index for index, place in self._places.items()}
        # The adjoint of the JVP kernel has residuals of its own: contents that the second run overwrites.
        for k in program.derivative.before:
            if (held := self.launch.arrays[k]) is not None:
                saved[k] = self._room(held)
                copies += copies_of(saved[k], held, self.region(of.get(k, k)))
        return [*copies, self.launch, AdjointLaunch(self.launch, given, saved, executable=program)]


def _places_of_tangents(launch: PackedLaunch, along: PackedLaunch) -> dict[int, int]:
    """Return the position of the tangent of each leaf of a launch."""
    found: dict[int, int] = {}
    # Tangents follow all arguments of the primal, in the order of the parameters that have them.
    place = len(launch.parts)
    for argument in along.kernel.with_tangents:  # type: ignore[attr-defined]  # a kernel with tangents
        span = launch.span(argument)
        for index in range(span.start, span.stop):
            found[index] = place
            place += 1
    return found


def _like(held: array) -> array:
    return new(held.shape, held._element, True, held._memory.device)


class AdjointStep(TapeStep):
    """An adjoint launch on a tape.

    Attributes
    ----------
    launch
        The launch it is the adjoint of, with the arrays that hold what that read.
    inputs
        The arrays that the launch read, by parameter.
    varied
        Those of them that gradients pass through.
    before
        Copies of the cotangents of what was written, as they were before the adjoint, where they are needed.
    contents, lost, lost_before
        As for a step that is a launch.
    """

    def __init__(self, adjoint: AdjointLaunch, number: int, inputs: Mapping[int, array], varied: Sequence[int]) -> None:
        check_repeatable(adjoint.launch)
        self.adjoint, self.number, self.inputs, self.varied = adjoint, number, inputs, varied
        self.launch = adjoint.launch.copy()
        for index, held in inputs.items():
            self.launch.arrays[index] = held
        self.before: dict[int, Contents] = {}
        self.contents: dict[int, Contents] = {}
        self.lost: Set[int] = NONE_LOST
        self.lost_before: Set[int] = NONE_LOST

    def needs_after(self, index: int) -> bool:
        """Return whether the derivative reads the contents of a parameter."""
        return index in self.inputs

    def read_after(self, index: int) -> Region:
        """Return the region of an input that the derivative reads: the one that the launch reads."""
        launch = self.adjoint.launch
        return launch.executable.regions.read(launch, index)

    def take_copy(self, index: int, copy: Contents, *, before: bool) -> None:
        """Store a copy of what the derivative reads of an input."""
        self.contents[index] = copy

    @property
    def written(self) -> set[Memory]:
        """The memory of the cotangents."""
        return {ct._memory for ct in self.adjoint.cotangents.values()}

    def settled_by(self) -> tuple[PackedLaunch, frozenset[int]]:
        """Return the launch and the arguments that determine the region which it reads."""
        return self.launch, self.adjoint.launch.executable.regions.arguments

    def reads_still(self) -> list[Memory]:
        """Return the memory of the arrays themselves, not of copies, that the derivative reads."""
        return [held._memory for index, held in self.inputs.items() if index not in self.contents]

    def prepare(self, cotangents: Cotangents) -> list[Operation]:
        own = self.adjoint.cotangents
        if cotangents.live.isdisjoint([ct._memory for ct in own.values()]):
            return []
        for index in self.inputs:
            if index in self.lost and index not in self.contents:
                raise LaunchError(
                    f"array {self.launch.executable.name_of(index)!r} of the adjoint of kernel "
                    f"{self.launch.kernel.name!r}, launch {self.number} on the tape, was changed outside the tape, and "
                    "its gradient needs what it held",
                    loc=place_of(self.launch.kernel.func),
                    remedy="make the change inside the function that is differentiated",
                )
        rooms = cotangents.rooms.of_step()
        inputs, fill = rooms.filled({i: self.contents.get(i, held) for i, held in self.inputs.items()})
        # Primal of this step: ct_in += J(p)^T ct_out; ct_out = 0 where overwritten. The cotangents of ct_in are the
        # tangents of the second run.
        again = Again(self.adjoint.launch, inputs, own, rooms)
        given = {index: cotangents.of(ct) for index, ct in own.items()}
        written = [index for index in self.adjoint.launch.executable.writes if index in own]
        work = [*fill, *again.begin(given)]
        if self.varied:
            work += self._towards_inputs(again, cotangents, written, rooms)
            cotangents.live.update(self.inputs[index]._memory for index in self.varied)
        else:
            work.append(again.launch)
        # J applied to the cotangents' cotangents is the cotangent of what the adjoint consumed.
        work += again.results({index: given[index] for index in written})
        cotangents.live.update(ct._memory for ct in own.values())
        return work

    def _towards_inputs(
        self, again: Again, cotangents: Cotangents, written: Sequence[int], rooms: StepRooms
    ) -> list[Operation]:
        """Return the operations that add to the cotangents of the inputs."""
        along, begin = rooms.filled({index: self.before[index] for index in written})
        # The adjoint consumes these cotangents, and the kept ones may serve another sweep.
        for index, ct in along.items():
            if ct is self.before[index]:  # which stays as it is
                along[index] = rooms.room(ct)
                begin.append(Copy(along[index], ct))
        changed = [index for index in again.changed if self.inputs[index]._smooth]
        primal = {index: rooms.room(self.inputs[index]) for index in changed}
        begin += [Assign(part, 0) for index, ct in primal.items() for part in parts_of(ct, again.region(index))]
        end: list[Operation] = []
        # The second run read copies of what it overwrote, so that the cotangents of the copies are added to the
        # originals'.
        for index in changed:
            if index in self.varied:
                goal, region = cotangents.of(self.inputs[index]), again.region(index)
                pairs = zip(parts_of(goal, region), parts_of(primal[index], region), strict=True)
                end += [Add(*pair) for pair in pairs]
        for index in self.varied:
            if index not in primal:
                primal[index] = cotangents.of(self.inputs[index])
        return [*begin, *again.back(primal, along), *end]
