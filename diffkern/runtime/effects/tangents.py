"""Forward mode of a program: what is launched in a block is launched with tangents.

Launches, copies and fills in the block run, and so do their derivatives along given tangents of arrays. A kernel runs
as its ``jvp``, which does what the kernel does; a copy copies tangents too, and constants have the tangent zero. An
outer tape records all of that, and so takes derivatives of derivatives.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from diffkern.errors import LaunchError, described
from diffkern.process.dataclass import dataclass
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.array_copy import copy
from diffkern.runtime.arrays.external_writes import Exposures
from diffkern.runtime.arrays.operation import Assign, Copy, Operation, perform, submit
from diffkern.runtime.arrays.recast import check_passes
from diffkern.runtime.effects.influence import Influence
from diffkern.runtime.effects.second_order import Again, check_constant_objects, check_repeatable, inputs_of
from diffkern.runtime.effects.tangent_map import Beside, launch_along, root_of
from diffkern.runtime.effects.tape_memory import TapeMemory
from diffkern.runtime.launch.nested_arrays import check_constant
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.resources import Resource, given_to, led_along, looked_at
from diffkern.runtime.memory.memory import Memory, births, watch
from diffkern.runtime.memory.scope import Scope, under
from diffkern.runtime.memory.state import Handler, handler_now, will_replay
from diffkern.runtime.memory.stream import Stream

__all__ = ["Tangents"]

_LOST = -1
"""The version of memory that somebody else has changed: no version is that."""


class Tangents(Influence, Scope, Uncopied):
    """Carries tangents along all operations in its ``with`` block.

    ``with dk.Tangents({x: t_x}) as tangents: …`` begins with tangents of some arrays; that of any other is zero.
    ``tangents[y]`` is the result: the derivative of ``y`` along the given tangents.

    Parameters
    ----------
    tangents : mapping of array to array
        For each array that varies an array like it, or NumPy's. They are copied.

    Raises
    ------
    LaunchError
        If a tangent is not like its array; in the block, if an array with a tangent was changed by other means than
        diffkern's.
    AutodiffError
        In the block, if a kernel has no forward mode.
    """

    records = True
    """True if derivatives are taken of what is done in its block."""
    repeats = False
    """True if the operations in its block are run again later."""

    def __init__(self, tangents: Mapping[array, Any]) -> None:
        self.around: Handler | None = None  # the tape, or the tangents, around the block
        self._born = births()
        self._found = Beside("tangent")
        self._versions: dict[Memory, int] = {}
        self._exposures = Exposures()
        self._forget_influence()
        # What varies, and with it whatever else a function is of; the memory that was met.
        self._primals: set[Memory] = set()
        self._met: set[Memory] = set()
        # The memory of the tangents themselves.
        self._own: weakref.WeakSet[Memory] = weakref.WeakSet()
        for held, tangent in tangents.items():
            self._given(held, tangent)
        self.follow(tangents)
        watch(self)

    def _given(self, held: array, tangent: Any) -> None:
        if not isinstance(held, array) or not held._smooth:
            raise LaunchError(f"{described(held)} can have no tangent", remedy="give tangents for arrays of floats")
        own = self._made(held)
        if isinstance(tangent, array):
            if not own._is_like(tangent):
                raise LaunchError(
                    f"the tangent of {described(held)} is {described(tangent)}", remedy="make it like the array"
                )
            copy(own, tangent)
        else:
            own.assign(tangent)
        self._note(held)

    def _begin(self) -> tuple[str, Tangents, Tangents]:
        self.around = handler_now()
        return "tape", self, self

    @property
    def follower(self) -> TapeMemory | None:
        """The follower of the surrounding tape, or None."""
        return None if self.around is None else self.around.follower

    def __getitem__(self, held: array) -> array:
        """Return the tangent of an array: an array like it, of zeros if it does not depend on what varies."""
        if not isinstance(held, array) or not held._smooth:
            raise KeyError(f"{described(held)} has no tangent: it is no array of floats")
        self._look_at(held)
        if self._may_be_read(held):
            self._refuse(
                f"{described(held)} depends on no array that has a tangent, and was written when what depends on these "
                "had been read"
            )
        found = self._found.of(held)
        if found is None:
            found = new(held.shape, held._element, True, held._memory.device)
        if self.around is not None and self._is_fed(held):
            self.around.derive([found], self._met)
        return found

    # -- what depends on what varies ---------------------------------------------------------------------------------

    def follow(self, primals: Iterable[array]) -> None:
        """Note arrays that a function is of, whether they vary or not."""
        self._primals.update(held._memory for held in primals)
        self._met |= self._primals

    def note_read(self, held: array) -> None:
        """Note that the host reads an array."""
        super().note_read(held)
        if self.around is not None:
            self.around.note_read(held)

    def note_unrecorded(self, operation: Operation) -> None:
        """Note an operation that is deliberately left out of derivatives."""
        super().note_unrecorded(operation)
        if self.around is not None:
            self.around.note_unrecorded(operation)

    def is_differentiated(self, held: array) -> bool:
        """Return whether an array has a tangent, or a derivative on a tape around."""
        return held._memory in self._found.pairs or (self.around is not None and self.around.is_differentiated(held))

    def begin_derivative(self, name: str | None) -> None:
        """Begin the derivative of a custom operation."""
        super().begin_derivative(name)
        if self.around is not None:
            self.around.begin_derivative(name)

    def end_derivative(self) -> None:
        """End it."""
        super().end_derivative()
        if self.around is not None:
            self.around.end_derivative()

    def hide(self, began: int, ended: int, results: Collection[array], name: str) -> None:
        """Note a custom operation: of what it has made, nothing but its results may be used here."""
        super().hide(began, ended, results, name)
        if self.around is not None:
            self.around.hide(began, ended, results, name)

    def check_not_read(self, found: Iterable[array], what: str) -> None:
        """Raise if arrays may have been written from what the host has read."""
        found = [*found]
        super().check_not_read(found, what)
        if self.around is not None:
            self.around.check_not_read(found, what)

    def derive(self, found: Iterable[array], sources: Iterable[Memory]) -> None:
        """Note that arrays are derivatives of what was computed from some memory."""
        super().derive(found, sources)
        if self.around is not None:
            self.around.derive(found, sources)

    def _is_source(self, memory: Memory) -> bool:
        return memory in self._primals

    def _has_derivative(self, held: array) -> bool:
        return held._memory in self._primals

    def _is_all(self, held: array) -> bool:
        return root_of(held)[0]._data.nbytes == held._data.nbytes

    def _wrote(self, goals: Iterable[array], sources: Iterable[array] = ()) -> None:
        """Note the memory that was met, and written."""
        goals = [*goals]
        for held in goals:
            if held._memory in self._own:
                raise LaunchError(
                    f"{described(held)} is the tangent of an array, with which it changes, and the block of the "
                    "tangents writes to it: by what was recorded in the block, or by itself",
                    remedy="record before dk.jvp or the block of the tangents, or do in the block what is recorded",
                )
            if held._memory in self._found.pairs:
                # A tangent cannot be written through a view that shows other numbers than its array.
                check_passes(held)
        written = {a._memory for a in goals}
        self._met.update(written, (a._memory for a in sources))
        self._written |= written

    # -- tangents of arrays ------------------------------------------------------------------------------------------

    def _made(self, held: array) -> array:
        """Return the tangent of an array, zeros if there is none yet."""
        if held._memory not in self._found.pairs:
            self._found.made(held)
            root, tangent = self._found.pairs[held._memory]
            self._own.add(tangent._memory)
            if will_replay():
                submit(Assign(tangent, 0))  # whatever an earlier replay has left in it
            # Outer tapes differentiate with respect to a tangent where they do so for its array.
            tangent.requires_grad = root.requires_grad
            # To a roll-out in the block it is as old as its array; to one around the block all of it is new.
            tangent._memory.born = max(root._memory.born, self._born)
        return self._found.made(held)

    def _look_at(self, held: array) -> None:
        """Raise if somebody else has written to an array with a tangent."""
        if held._memory not in self._found.pairs:
            if self._insides:
                self._check_not_inside(held)
            if held._memory.is_exposed and self._found.pairs:
                self._check_no_alias(held)
        known = self._versions.get(held._memory)
        if known is None:
            return
        if known != held._memory.now or (self._exposures.seen and self._exposures.inspect(held)):
            self._versions[held._memory] = _LOST
            raise LaunchError(
                f"{described(held)} was changed by other means than launches, copies and fills, so its tangent is not "
                "known",
                remedy="change it with diffkern in the block of the tangents",
            )

    def _check_no_alias(self, held: array) -> None:
        """Raise for memory that others have made of the memory of an array with a tangent, which the view lacks."""
        memory = held._memory
        first, last = memory.address, memory.address + memory.nbytes
        for other in self._found.pairs:
            if other.device is memory.device and first < other.address + other.nbytes and other.address < last:
                raise LaunchError(
                    f"{described(held)} lies over an array with a tangent, which it does not share: it went through "
                    "another library",
                    remedy="pass the array itself, or a view that diffkern makes of it",
                )

    def before_exposure(self, memory: Memory) -> None:
        """Store a digest of an array with a tangent whose memory is about to be given away."""
        if memory in self._found.pairs and self._versions.get(memory) == memory.now:
            self._exposures.note_now(self._found.pairs[memory][0])

    def _note(self, held: array) -> None:
        """Record the present contents of an array as those that its tangent belongs to."""
        if held._memory in self._found.pairs:
            self._versions[held._memory] = held._memory.now
            self._exposures.written(held)
            if held._memory.exposed or held._memory.lent:
                self._exposures.note(held)

    # -- in the steps of a roll-out ----------------------------------------------------------------------------------

    @property
    def varying(self) -> Collection[Memory]:
        """The memory that has tangents, in the order in which it got them."""
        return self._found.pairs.keys()

    def resume(self, known: Sequence[Memory]) -> None:
        """Begin a step with the tangents of some memory; the roll-out has restored its contents."""
        self._found.leave(known)
        self._versions = {memory: memory.now for memory in known}

    def suspend(self, began: int) -> None:
        """End a step; tangents of memory that it has made are forgotten."""
        self._found.leave(None)
        for memory in [m for m in self.varying if m.born > began and not m.foreign]:
            del self._found.pairs[memory]
            self._versions.pop(memory, None)

    # -- what happens ------------------------------------------------------------------------------------------------

    def _outside(self, act: Callable[..., object], *args: Any) -> None:
        """Perform something that an outer tape may record."""
        with under(self.around):
            act(*args)

    def take(self, operation: Operation, stream: Stream | None = None) -> None:
        """Perform an operation, and its derivative along the tangents."""
        if self._derivatives:
            self._check_in_derivative(operation)
        if operation.kind == "launch":
            self._take_launch(cast("PackedLaunch", operation))
        elif operation.kind != "adjoint":
            self._take_other(operation, stream)
        elif (adjoint := cast("AdjointLaunch", operation)).by_hand:
            raise _without_tangents(adjoint)
        else:
            self._take_adjoint(adjoint)

    def _varies(self, held: array) -> str | None:
        """Return why an array is no constant: no derivative reaches it through elements of others."""
        if held._memory in self._found.pairs:
            return "has a tangent"
        return "has a gradient" if self.around is not None and self.around.is_differentiated(held) else None

    def _take_launch(self, launch: PackedLaunch) -> None:
        """Run a launch, with tangents if one of its arrays has one."""
        held = [a for a in launch.arrays if a is not None]
        for one in (*held, *given_to(launch)) if launch.executable.by_id else held:
            self._look_at(one)
        # Influence first: it is about the arrays as the launch reads them.
        self._feed(launch)
        self._wrote(launch.writes(), held)
        check_constant(launch.kernel.name, launch.executable, held, self._varies)
        objects = self._varying_objects(launch) if launch.executable.by_id else []
        varies = bool(objects) or any(a._smooth and a._memory in self._found.pairs for a in held)
        with contextlib.ExitStack() as stack:
            for resource, tangents in objects:
                stack.enter_context(led_along(resource, tangents))
            self._outside(perform, launch_along(launch, self._along) if varies else launch)
        for one in launch.writes():
            self._note(one)

    def _varying_objects(self, launch: PackedLaunch) -> list[tuple[Resource, dict[Any, array]]]:
        """Return the objects that a launch may look up whose arrays have tangents, and these."""
        found = []
        for resource in looked_at(launch.executable, launch.parts):
            pairs = resource.content.given.items()
            own = {key: tangent for key, held in pairs if (tangent := self._tangent(held)) is not None}
            if own:
                # Kernels know nothing of a tangent but its address.
                found.append((resource, {key: held.contiguous() for key, held in own.items()}))
        return found

    def _along(self, held: array, is_written: bool) -> array | None:
        """Return the tangent of an argument, None where it is zero and stays that."""
        # A written array gets a tangent even if none of the inputs has one: what the kernel stores may depend on
        # others.
        return self._made(held) if is_written or held._memory in self._found.pairs else None

    def _take_other(self, operation: Operation, stream: Stream | None) -> None:
        """Perform an operation that states its own derivative."""
        operation.check_differentiable()
        flow = operation.flow()
        written, read = flow.written, flow.sources
        for held in (*written, *read):
            self._look_at(held)
        self._feed_by(flow)
        self._wrote(written, read)
        if operation.tangents_behind:
            self._outside(perform, operation, stream)
        if any(self._tangent(held) is not None for held in read):
            try:
                for each in operation.jvp(_TangentsOf(self._tangent, self._made)):
                    self._outside(perform, each)
            except BaseException:
                # What has been written already has no tangent that is known.
                for held in written if operation.tangents_behind else ():
                    self._versions[held._memory] = _LOST
                raise
        else:
            for held in flow.ended:
                if (old := self._tangent(held)) is not None:
                    self._outside(old.zero_)
        if not operation.tangents_behind:
            self._outside(perform, operation, stream)
        for held in written:
            self._note(held)

    def _tangent(self, held: array) -> array | None:
        """Return the tangent of an array, None where it is zero or there is none."""
        return self._found.of(held) if held._smooth else None

    def _take_adjoint(self, adjoint: AdjointLaunch) -> None:
        """Run an adjoint, and its derivative along the tangents of cotangents."""
        inputs, own = inputs_of(adjoint), adjoint.cotangents
        found = check_constant_objects(adjoint, lambda held: self._tangent(held) is not None)
        for held in (*inputs.values(), *own.values(), *found):
            self._look_at(held)
        sources = [a for a in (*inputs.values(), *adjoint.launch.arrays, *own.values()) if a is not None]
        if any(map(self._is_fed, sources)):
            self._fed.update(ct._memory for ct in own.values())
        self._wrote(own.values(), sources)
        along = {k: t for k, held in inputs.items() if held._smooth and (t := self._found.of(held)) is not None}
        if along or any(ct._memory in self._found.pairs for ct in own.values()):
            if adjoint.launch.executable.by_id:
                check_repeatable(adjoint.launch)
            # In front of the adjoint itself, which consumes cotangents that the derivative reads.
            for operation in self._adjoint_along(adjoint, inputs, along):
                self._outside(perform, operation)
        self._outside(perform, adjoint)
        for ct in own.values():
            self._note(ct)

    def _adjoint_along(
        self, adjoint: AdjointLaunch, inputs: Mapping[int, array], along: Mapping[int, array]
    ) -> Sequence[Operation]:
        """Return the operations that update the tangents of cotangents, to be run before the adjoint."""
        own, launch = adjoint.cotangents, adjoint.launch
        tangents = {index: self._made(ct) for index, ct in own.items()}
        # Without tangents of inputs the adjoint is linear in the cotangents: their tangents go through the same
        # program.
        if not along:
            return [AdjointLaunch(launch, tangents, adjoint.saved, adjoint.contents)]
        check_repeatable(launch)
        again = Again(launch, inputs, along)
        before = {k: own[k] for k in launch.executable.writes if k in own and k in again.tangents}
        # The adjoint of the second run consumes these cotangents, whose originals the adjoint itself needs.
        copies = {k: new(ct.shape, ct._element, False, ct._memory.device) for k, ct in before.items()}
        begin = [Copy(copy, before[k]) for k, copy in copies.items()]
        return [*again.begin(along), *begin, *again.back(tangents, copies)]


@dataclass(frozen=True)
class _TangentsOf:
    """The tangents of the arrays of an operation."""

    tangent: Callable[[array], array | None]
    made: Callable[[array], array]


def _without_tangents(adjoint: AdjointLaunch) -> LaunchError:
    return LaunchError(
        f"kernel {adjoint.launch.kernel.name!r}: its adjoint is launched where tangents are carried along, and has "
        "none",
        remedy="take the gradient on a tape around the block of the tangents, as dk.hvp does",
    )
