"""The steps of a tape, and the adjoint operations of each in a reverse sweep.

For a launch, copy or overwrite as it happened, a step prepares the operations that carry cotangents from the arrays
that were written to those that were read. It raises an error, before any of them runs, if something it needs is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from diffkern.errors import AutodiffError, KernelError, LaunchError
from diffkern.process.tracebacks import place_of
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Add, Assign, Copy, Operation, submit
from diffkern.runtime.effects.checked_call import CheckedCall
from diffkern.runtime.effects.cotangents import Cotangents
from diffkern.runtime.effects.kept import Contents
from diffkern.runtime.effects.step import NO_CONTENTS, NONE_LOST, TapeStep, is_told
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.regions import Region, joined
from diffkern.runtime.launch.resources import Key, PutBack, Use, used
from diffkern.runtime.launch.schedule import WITHOUT_BLOCKS
from diffkern.runtime.launch.stamps import checked_by_stamps, with_one_writer
from diffkern.runtime.memory.memory import Memory

__all__ = ["FuncStep", "LaunchStep", "carry_out"]


class LaunchStep(TapeStep):
    """A launch.

    Attributes
    ----------
    saved
        The contents of parameters before the launch: copies, or the arrays themselves as long as nothing overwrites
        what
        the adjoint reads of them.
    contents
        Copies of the contents of parameters after it, where a later step overwrote them.
    lost, lost_before
        Parameters whose contents were changed where the tape could not see it: those after the launch, and those before
        it that the arrays still held.
    objects
        The objects that the kernel looked up by ids.
    stored
        Memory with a cotangent that it wrote to by ids.
    carried
        Memory of arrays that it looked up by ids and that have a cotangent in the sweep.
    keeps_inputs
        Whether the adjoint is differentiated, which needs all that the launch read as it was before.
    """

    __slots__ = (
        "_error", "_is_ahead", "_may_search", "_program", "active", "carried", "contents", "keeps_inputs", "launch",
        "lost", "lost_before", "number", "objects", "saved", "stored",
    )  # fmt: skip

    def __init__(self, launch: PackedLaunch, number: int, active: frozenset[int], keeps_inputs: bool) -> None:
        self.launch = launch
        self.keeps_inputs = keeps_inputs
        self.number = number
        self.active = active
        # Most launches keep nothing and lose nothing: what they keep makes containers of its own.
        self.saved: Mapping[int, Contents] = NO_CONTENTS
        self.contents: Mapping[int, Contents] = NO_CONTENTS
        self.lost: Set[int] = NONE_LOST
        self.lost_before: Set[int] = NONE_LOST
        self.objects: Sequence[Use] = used(launch.executable, launch.parts) if launch.executable.by_id else ()
        self.carried: frozenset[Memory] = frozenset()
        self.stored: frozenset[Memory] = frozenset()
        self._program: Executable | None = None
        self._error: KernelError | None = None
        self._is_ahead = False  # of the launch: what it will do can be looked at
        self._may_search = False  # so that the launch could keep what it finds

    def program(self) -> Executable | None:
        """Return the adjoint program, or None if there is none: the error is raised only if a gradient needs it."""
        if self._program is None and self._error is None:
            # An adjoint that cannot be made is no error yet: no cotangent may ever reach the launch.
            try:
                self._program = self._proved() or self.launch.adjoint(self.active)
            except KernelError as error:
                self._error = error
        return self._program

    def relied_on(self) -> Iterable[array]:
        arrays = self.launch.arrays
        return (held for k in self.launch.executable.uses if (held := arrays[k]) is not None)

    def expect(self, program: Executable | None) -> None:
        """Take an adjoint that is known to be that of the launch, None for none."""
        self._program = program

    @property
    def is_known(self) -> bool:
        """True if the adjoint is at hand."""
        return self._program is not None

    def _proved(self) -> Executable | None:
        """Return the adjoint program; None if the launch was exchanged for one that is known not to race."""
        launch = self.launch
        try:
            searched = launch.searched_adjoint(self.active) if self._may_search else None
            program = searched or launch.adjoint(self.active)
            # Races are checked on the actual arguments before the launch, while a checked variant can still be run in
            # its place.
            if self._is_ahead and program.races is not None:
                program.races.check(launch.kernel.name, launch.dims, launch.parts.__getitem__)
            if self._is_ahead and program.granted is not None:
                self.launch = with_one_writer(launch, self.active, program)
            return program if self.launch is launch else None
        except AutodiffError as error:
            if not error.is_race or not self._is_ahead:
                raise
            self.launch = checked_by_stamps(launch, self.active, error)
            return None

    def needs_after(self, index: int) -> bool:
        """Return whether the adjoint reads the contents of a parameter after the launch."""
        program = self.program()
        return program is not None and (index in program.derivative.after or self._is_input(index))

    def _is_input(self, index: int) -> bool:
        """Return whether a parameter's contents before the launch are needed, and the launch only reads it."""
        executable = self.launch.executable
        return self.keeps_inputs and index in executable.reads and index not in executable.writes

    def read_after(self, index: int) -> Region:
        """Return the region of a parameter that the adjoint reads as it is after the launch."""
        program, launch = self.program(), self.launch
        assert program is not None
        found = program.regions.read(launch, index) if index in program.derivative.after else ()
        return joined(found, launch.executable.regions.read(launch, index)) if self._is_input(index) else found

    def read_before(self, index: int) -> Region:
        """Return the region that the adjoint reads of one of the parameters in :meth:`saves`, before the launch."""
        program, launch = self.program(), self.launch
        assert program is not None
        found = program.regions.read_before(launch, index) if index in program.derivative.before else ()
        return joined(found, launch.executable.regions.read(launch, index)) if self.keeps_inputs else found

    def take_copy(self, index: int, copy: Contents, *, before: bool) -> None:
        """Store a copy of what the adjoint reads of a parameter."""
        if before:
            self.saved = {**self.saved, index: copy}
        else:
            self.contents = {**self.contents, index: copy}

    def settled_by(self) -> tuple[PackedLaunch, frozenset[int]]:
        """Return the launch and the arguments that determine the regions which it writes and its adjoint reads."""
        program = self.program()
        own = self.launch.executable.regions.arguments
        return self.launch, own if program is None else own | program.regions.arguments

    def keep_log(self) -> PackedLaunch:
        """Return the launch to run: one with a log, if the adjoint reads one."""
        given = self.launch.logged  # as a tape inside of this one wants it
        if given is not None and not given.searches:
            return self.launch
        executable = self.launch.executable
        if not (executable.looks_ahead or executable.manifest.searches or self.launch.merged):
            return self.launch
        self._is_ahead = executable.looks_ahead or bool(self.launch.merged)
        self._may_search = executable.manifest.searches and given is None
        program = self.program() if self._is_ahead or self._may_search else None
        self._is_ahead = self._may_search = False
        if given is None and program is not None and (log := program.derivative.log) is not None:
            made = self.launch.with_searches(log) if log.searches else self.launch.with_log(log)
            if made is None:
                self._program = None  # and the one that searches is loaded when it is needed
            else:
                self.launch = made
        return self.launch

    def saves(self) -> tuple[int, ...]:
        """Return the parameters whose contents before the launch the adjoint needs."""
        program, executable = self.program(), self.launch.executable
        if program is None:
            return ()
        if not self.keeps_inputs:
            return program.derivative.before
        # Arrays that are only added to are no inputs: their old contents do not matter for any derivative.
        read = {*executable.reads} - {*executable.manifest.updated}
        return tuple(sorted({*program.derivative.before, *read.intersection(executable.writes)}))

    @property
    def written(self) -> set[Memory]:
        """The memory that it wrote to."""
        return {held._memory for held in self.launch.writes()}

    @property
    def is_launch(self) -> bool:
        """True: it has raised their number."""
        return True

    @property
    def nbytes(self) -> int:
        """The bytes of its log."""
        return sum(held._data.nbytes for held in self.launch.log or ())

    def reads_still(self) -> list[Memory]:
        """Return the memory of the arrays themselves, not of copies, that the adjoint reads."""
        if self._program is None:
            return []
        wanted = [i for i in self._program.derivative.after if i not in self.contents]
        wanted += [i for i in self._program.derivative.before if self.is_saved_in_place(i)]
        found = [held._memory for i in wanted if (held := self.launch.arrays[i]) is not None]
        return [*found, *(memory for use in self.objects for memory in use.memories)]

    def is_saved_in_place(self, index: int) -> bool:
        """Return whether the array itself holds what the adjoint reads of a parameter as it was before the launch."""
        return self.saved.get(index) is self.launch.arrays[index]

    def told_by(self, owners: Mapping[Memory, array]) -> tuple[tuple[object, ...], Sequence[Executable]] | None:
        launch = self.launch
        executable = launch.executable
        if self.saved or self.contents or self.lost or self.lost_before or self.objects or self.keeps_inputs:
            return None
        if launch.log is not None or launch.stamped or launch.blocks not in WITHOUT_BLOCKS:
            return None
        if executable.by_id or executable.writes_elements:
            return None
        for held in launch.arrays:
            if held is not None and owners.get(held._memory) is not held and not is_told(held, owners):
                return None
        # The adjoint follows from these, if there may be one; it need not be there for a sweep that does not reach it.
        if self._program is None and not launch.kernel.enable_backward:
            return None
        own = launch.parts if self.free is None else executable.deciding(launch.parts)
        return (self.active, id(executable), launch.grid.header, *own), (executable,)

    @property
    def free(self) -> PackedLaunch | None:
        program, launch = self._program, self.launch
        if program is None or not launch.executable.values or not launch.executable.is_settled_by(program):
            return None
        return launch if program.is_free and len(launch.arrays) == len(launch.keys) else None

    def prepare(self, cotangents: Cotangents) -> list[Operation]:
        launch, live = self.launch, cotangents.live
        held = launch.arrays
        # A reverse sweep passes by every step whose results no live cotangent belongs to.
        reached = [a._memory for i in launch.executable.writes if (a := held[i]) is not None and a._memory in live]
        stored = self.stored & live
        if not reached and not stored:
            return []
        arrays, memories = {}, set()
        for index in self.active:
            if (a := held[index]) is not None:
                arrays[index] = a
                memories.add(a._memory)
        if memories.isdisjoint(reached) and not stored:
            return []
        program = self.program()
        if program is None:
            assert self._error is not None
            raise self._error
        if self.lost or self.lost_before:
            self.check_lost()
        of, given = cotangents.of, {}
        for index, a in arrays.items():
            given[index] = of(a)
        live.update(memories)
        # The rooms of a step are free again after it, so that steps share the memory of copies.
        rooms = cotangents.rooms.of_step()
        saved, work = rooms.filled(self.saved)
        contents, fill = rooms.filled(self.contents)
        of_objects, added = self._of_objects(cotangents, memories)
        inner = [ct for found in of_objects for ct in found.values()]
        # Cotangents of inputs become live only here: what the launch wrote must have been live because of later steps.
        live.update(self.carried)
        adjoint = (
            AdjointOfObjects(launch, given, saved, contents, program, inner)
            if inner
            else AdjointLaunch(launch, given, saved, contents, program, of_sweep=True)
        )
        work = [*work, *fill, adjoint]
        for use, found in zip(self.objects, of_objects, strict=True):
            what = f"launch {self.number} on the tape (kernel {launch.kernel.name!r})"
            before, after = use.around(what, found, cotangents.remade)
            work = [*before, *work, *after]
        # From the inside out: clear the separate cotangents, bring residuals back, run the adjoint, add what was
        # separate.
        begin = [Copy(own, ct) if is_stored else Assign(own, 0) for ct, own, is_stored in added]
        return [*begin, *work, *((Copy if is_stored else Add)(ct, own) for ct, own, is_stored in added)]

    def _of_objects(
        self, cotangents: Cotangents, direct: set[Memory]
    ) -> tuple[list[dict[Key, array]], list[tuple[array, array, bool]]]:
        """Return by object and word the cotangents of arrays that the kernel looked up by ids, and those to add
        afterwards, or to copy there and back where the kernel stored: then the adjoint takes what is there.

        The cotangent of an array that is a parameter as well gets an array of its own, which is added afterwards:
        threads add to an element of a parameter's cotangent without regard to others. So do cotangents that are not
        contiguous: kernels know nothing of them but an address.
        """
        found: list[dict[Key, array]] = []
        added: list[tuple[array, array, bool]] = []
        for use in self.objects:
            found.append({})
            for word, held in use.content.given.items():
                if held._memory not in self.carried:
                    continue
                ct = cotangents.of(held)
                if held._memory in direct or not ct.is_contiguous:
                    own = new(ct.shape, ct._element, False, ct._memory.device)
                    added.append((ct, own, held._memory in self.stored))
                    ct = added[-1][1]
                found[-1][word] = ct
        return found, added

    def check_lost(self) -> None:
        """Raise if something that the gradient needs is gone."""
        launch = self.launch
        for index in launch.executable.uses:
            is_gone = index in self.lost and index not in self.contents and self.needs_after(index)
            if is_gone or (index in self.lost_before and self.is_saved_in_place(index)):
                raise LaunchError(
                    f"array {launch.executable.name_of(index)!r} of launch {self.number} on the tape (kernel "
                    f"{launch.kernel.name!r}) was changed outside the tape, and its gradient needs what it held",
                    loc=place_of(launch.kernel.func),
                    remedy="make the change inside the tape's block, or call backward() before it",
                )


class AdjointOfObjects(AdjointLaunch):
    """An adjoint that also adds to cotangents of arrays that the launch looked up by ids."""

    in_elements = True

    def __init__(
        self,
        launch: PackedLaunch,
        given: dict[int, array],
        saved: Mapping[int, array],
        contents: Mapping[int, array],
        program: Executable,
        inner: Sequence[array],
    ) -> None:
        self._inner = inner
        super().__init__(launch, given, saved, contents, program)

    def reads(self) -> list[array]:
        """Return the arrays that are read."""
        return [*super().reads(), *self._inner]

    def writes(self) -> list[array]:
        """Return the cotangents, including those of arrays behind ids."""
        return [*super().writes(), *self._inner]

    def steps(self) -> None:
        """Return None: it has no native form."""


class FuncStep(TapeStep):
    """A user's function that carries the gradients of some arrays from one to another."""

    @property
    def can_repeat(self) -> bool:
        """False: what the function does is not known."""
        return False

    def __init__(self, backward: Callable[[], object], arrays: Sequence[array], number: int) -> None:
        self.backward = backward
        self.arrays = tuple(arrays)
        self.number = number

    @property
    def name(self) -> str:
        """The name of the function for messages."""
        return str(getattr(self.backward, "__name__", "function"))

    def prepare(self, cotangents: Cotangents) -> Sequence[Operation]:
        # The function may write to any of these gradients, so that all of them have to count as live before it.
        cotangents.live.update(a._memory for a in self.arrays)
        name = f"{self.name!r}, which tape.record_func has recorded,"
        return [CheckedCall(self.backward, name, cotangents.relied, self.number)]


def carry_out(work: Sequence[Sequence[Operation]], do: Callable[[Operation], object] = submit) -> None:
    """Run the prepared operations; on failure, restore objects that kernels look up by ids."""
    for part in work:
        left = iter(part)
        try:
            for item in left:
                do(item)
        except BaseException:
            # Objects point to cotangents during their step. The rest of the step is skipped but for what points them
            # back.
            for item in left:
                if isinstance(item, PutBack) and item.is_due:
                    submit(item)
            raise
