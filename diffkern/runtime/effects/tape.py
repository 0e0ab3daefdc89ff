"""The tape: records launches, copies and overwrites, and reverses them for gradients.

It records the operations on arrays inside the ``with`` block. After :meth:`Tape.backward`, the ``grad`` of every array
that has one holds the derivative with respect to the contents of the array when the tape met it first. What it knows
while it records is in :class:`~diffkern.runtime.effects.tape_recording.TapeRecording`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from diffkern.errors import KernelError, LaunchError, described
from diffkern.ir.structs import Struct
from diffkern.process.tracebacks import brief, shorten
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Add, Copy, Operation, submit
from diffkern.runtime.effects.compiled_backward import Collector, Repeat, Seed
from diffkern.runtime.effects.cotangents import Cotangents, may_differ_from_zero, take
from diffkern.runtime.effects.gradients import Gradients, gradient_of, keeping
from diffkern.runtime.effects.inside import Inside
from diffkern.runtime.effects.known_sweeps import known_sweeps, told_by
from diffkern.runtime.effects.noted_launches import NotedLaunches
from diffkern.runtime.effects.seeds import Seeds, check_disjoint, seeds_of
from diffkern.runtime.effects.snapshots import copied
from diffkern.runtime.effects.tape_steps import FuncStep, LaunchStep, carry_out
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.device import CPU
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.scope import Scope, under
from diffkern.runtime.memory.state import current, handler_now, is_handled, will_replay
from diffkern.runtime.memory.stream import drain
from diffkern.runtime.observe.spans import span, watched

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Tape"]

_AS_IT_IS = contextlib.nullcontext()


class Tape(NotedLaunches, Scope, Uncopied):
    """Records the operations in its ``with`` block, for gradients.

    Arrays without ``requires_grad`` that stand between the arrays that have it and the loss need no gradient of their
    own; the tape uses temporary ones. A tape keeps the arrays it recorded alive until :meth:`reset`.
    """

    follows_elements = True
    follows_objects = True

    if TYPE_CHECKING:  # at run time it is native code

        def __enter__(self) -> Self: ...

    def _reset_state(self) -> None:
        super()._reset_state()
        self.scopes: list[tuple[int, str | None, Mapping[str, Any] | None]] = []
        # A sweep that ran, and its compiled form; whether it has one.
        self._swept: tuple[int, int, list[int]] | None = None
        self._again: Repeat | None = None
        self._repeats = True

    def _begin(self) -> tuple[str, Tape, Tape]:
        handler = handler_now()
        if handler is None:
            return "tape", self, self
        if isinstance(handler, Inside):
            raise LaunchError(
                f"a dk.Tape is entered in {handler.name}, which a derivative is taken of",
                remedy="take the gradient with dk.grad or dk.vjp there",
            )
        raise RuntimeError("a tape is recording already; leave its block before entering another")

    # -- the user's side ---------------------------------------------------------------------------------------------

    def backward(self, loss: array | None = None, grads: Mapping[array, Any] | None = None) -> None:
        """Compute gradients by reversing the recorded steps.

        ``grad`` of every array that has one is increased by the derivative with respect to what the array held when the
        tape met it first. What NumPy or a block of ``dk.no_grad`` has written to it before that is part of that. Calls
        add up until :meth:`zero`. The gradients of `loss` and of the arrays in `grads` are set, not added to.

        Parameters
        ----------
        loss : array, optional
            An array of one element, the result; its gradient is set to 1.
        grads : mapping of array to array, optional
            For any arrays, the gradient to begin with. Without `loss` and `grads` the gradients begin with the present
            contents of the ``grad`` of the arrays.

        Raises
        ------
        LaunchError
            If something that a gradient needs was changed outside the tape, if recording was interrupted (Ctrl-C), if
            arrays whose gradients are set share memory, or if no array has a gradient to be computed, where what a sum
            of one element held at first is not counted. No gradient has changed then.
        KernelError
            If a kernel on the way cannot be differentiated.
        """
        try:
            if self._run_back(loss, grads):
                return
            if self._unfinished is not None:
                raise _interrupted(*self._unfinished)
            # Before the versions and digests are compared: pending work still writes.
            drain()
            # The sweep launches adjoints and fills, which the tape must not record.
            with under(None) if is_handled() else _AS_IT_IS:
                seeds = seeds_of(loss, grads, self._versions)
                self._take_new_gradients()
                if self._versions:
                    self._check_influence(seeds)
                # A change by others that was found now ends the validity of a compiled sweep.
                if self._exposures.seen and self._verify():
                    self._swept = self._again = None
                if self._repeat(seeds):
                    return
                if watched.observers:
                    with span("backward", "tape.backward", launches=self._launches):
                        self._backward(seeds)
                else:
                    self._backward(seeds)
        except KernelError as error:
            shorten(error)
            raise

    def zero(self) -> None:
        """Set the gradients of all recorded arrays to zero."""
        if self._zero_noted():
            return
        with under(None) if is_handled() else _AS_IT_IS:
            if self._followed:
                self._follow(False)
            is_replayed = will_replay()
            # All are looked at before one is changed: they may share memory.
            grads = [grad for owner in self._owners.values() if (grad := owner.grad) is not None]
            # What is known now need not hold when what is being recorded or captured runs.
            for grad in [a for a in grads if is_replayed or not a._memory.is_zero or _is_captured(a)]:
                grad.zero_()

    def reset(self) -> None:
        """Set the gradients to zero and forget everything that was recorded."""
        self.zero()
        self._clear()

    @property
    def gradients(self) -> Gradients:
        """The gradients of the recorded arrays that have one; for a struct those of its arrays, in a struct."""
        self._follow(False)
        return Gradients({a: grad for a in self._arrays.values() if (grad := a.grad) is not None})

    def get_adjoint(self, value: Any) -> Any:
        """Return the gradient of an array, None if it has none; for a struct a struct with those of its arrays."""
        return gradient_of(value)

    @property
    def launches(self) -> list[PackedLaunch | Callable[[], object]]:
        """The launches that take part in gradients and the functions of :meth:`record_func`, in their order."""
        found: list[PackedLaunch | Callable[[], object]] = []
        for step in self._steps:
            if isinstance(step, LaunchStep):
                found.append(step.launch)
            elif isinstance(step, FuncStep):
                found.append(step.backward)
        return found

    @brief
    def record_func(self, backward: Callable[[], object], arrays: Sequence[array]) -> None:
        """Record a function that carries gradients from arrays to arrays in place of launches that were not recorded.

        Parameters
        ----------
        backward : callable
            Called without arguments at this place of each reverse sweep. It adds to the gradients of what was read,
            from those of what was written, and sets these to zero where they have ended.
        arrays : sequence of array
            The arrays whose gradients it reads or writes. It is responsible for changes of their contents until now
            that
            were not recorded.

        Raises
        ------
        LaunchError
            If one of them has no gradient, or in a step of :func:`checkpoint`.
        """
        if isinstance(handler := handler_now(), Inside):
            raise LaunchError(
                f"{backward!r} is recorded in {handler.name}, of which a tape records nothing",
                remedy="give the custom operation a vjp",
            )
        if handler is not None and handler is not self:
            raise LaunchError(
                f"{backward!r} is recorded in a step of dk.checkpoint, which records it again whenever the step runs",
                remedy="give a func that kernels call a derivative of its own, or leave dk.checkpoint out",
            )
        for held in arrays:
            if held.grad is None:
                raise LaunchError(
                    f"{described(held)} has no gradient that {backward!r} could carry on",
                    remedy="make it with requires_grad=True",
                )
            memory = held._memory
            # A change that was not recorded is the function's to differentiate, and no error of the user as elsewhere;
            # but what earlier adjoints needed of the contents is lost all the same.
            if self._versions.get(memory, memory.now) != memory.now:
                for need in self._needs.pop(memory, ()):
                    need.lose()
            self._versions[memory] = memory.now
            self._look_at(held, "a function")
            self._varied.add(memory)
            self._written.add(memory)
        self._fed.update(held._memory for held in arrays)
        self._steps.append(FuncStep(backward, arrays, self._launches))

    def record_scope_begin(self, name: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Begin a part of the tape that has a name in pictures.

        Parameters
        ----------
        name : str
            The name.
        metadata : mapping, optional
            Further text about it.
        """
        self.scopes.append((len(self._steps), name, dict(metadata or {})))

    def record_scope_end(self) -> None:
        """End the innermost open part of the tape; one in which nothing was recorded is dropped.

        Raises
        ------
        RuntimeError
            If none is open.
        """
        open_ = sum(1 if name is not None else -1 for _, name, _ in self.scopes)
        if open_ <= 0:
            raise RuntimeError("no scope of this tape has begun that could end")
        if self.scopes[-1][:1] == (len(self._steps),) and self.scopes[-1][1] is not None:
            self.scopes.pop()
        else:
            self.scopes.append((len(self._steps), None, None))

    def visualize(
        self,
        filename: str | os.PathLike[str] | None = None,
        simplify_graph: bool = True,
        hide_readonly_arrays: bool = False,
        array_labels: Mapping[array, str] | None = None,
        choose_longest_node_name: bool = True,
        ignore_graph_scopes: bool = False,
        track_inputs: Sequence[array] | None = None,
        track_outputs: Sequence[array] | None = None,
        graph_direction: str = "LR",
    ) -> str:
        """Return the launches that take part in gradients, and their arrays, as a graph in the language of GraphViz.

        Parameters
        ----------
        filename : path, optional
            A file to write the text to as well.
        simplify_graph : bool, optional
            Whether equal launches one after another are one node.
        hide_readonly_arrays : bool, optional
            Whether arrays that nothing writes to are left out.
        array_labels : mapping of array to str, optional
            Labels of arrays; by default the names of the kernels' parameters.
        choose_longest_node_name : bool, optional
            Whether of several names the longest is taken, not the first.
        ignore_graph_scopes : bool, optional
            Whether scopes are left out.
        track_inputs, track_outputs : sequence of array, optional
            Arrays that are shown in colours.
        graph_direction : str, optional
            The direction in which it is laid out, as GraphViz calls it.

        Returns
        -------
        str
            The text.
        """
        from diffkern.runtime.effects.tape_graph import Picture, draw

        picture = Picture(
            simplify_graph, hide_readonly_arrays, array_labels, choose_longest_node_name, ignore_graph_scopes,
            track_inputs, track_outputs, graph_direction,
        )  # fmt: skip
        text = draw(self._steps, self.scopes, picture)
        if filename is not None:
            with open(filename, "w", encoding="utf-8") as out:
                out.write(text)
        return text

    def memory(self) -> int:
        """Return the bytes that the tape holds: copies of overwritten arrays, logs of launches, states of roll-outs."""
        return self._kept_copies.nbytes + sum(step.nbytes for step in self._steps)

    # -- the reverse sweep -------------------------------------------------------------------------------------------

    def _take_new_gradients(self) -> None:
        """Register gradients that arrays got after they were recorded: those of results, which carry gradients on."""
        given = self._follow(True) if self._followed else ()
        for held in (*self._without.values(), *given) if given else self._without.values():
            grad = self._gradient(held)
            if grad is None:
                continue
            memory = held._memory
            if memory not in self._versions:  # an argument of a launch that was refused
                continue
            if memory in self._owners:
                self._check_owner(held, grad)
                continue
            # Launches that read the array were recorded without it among the active ones, so that its gradient would be
            # wrong.
            if memory not in self._varied:
                raise LaunchError(
                    f"{described(held)} got a gradient after it was used on this tape, which took it for a constant",
                    remedy="make it with requires_grad=True before it is first used",
                )
            owner = self._owner(held)
            self._owners[memory] = self._arrays[id(owner)] = owner
            self._swept = self._again = None
        if given:
            self._swept = self._again = None

    def _check_influence(self, seeds: Seeds | None) -> None:
        """Raise if a sweep begins where no array with a gradient has an influence."""
        if seeds is None and self._owners:
            self._check_present_gradients()
            return
        # The usual case, in plain loops: the host has read nothing, and a gradient has an influence on a goal.
        if self._read is None:
            for goal, _ in seeds or ():
                if self._has_influence(goal):
                    return
        goals = [goal for goal, _ in seeds or ()]
        if lost := [goal for goal in goals if self._may_be_read(goal)]:
            self._refuse(f"{', '.join(map(described, lost))} depends on no array of this tape that has a gradient")
            return
        if any(map(self._has_influence, goals)):
            return
        what = "no array on this tape has a gradient to be computed"
        if self._owners.keys() - {goal._memory for goal in goals}:
            what = f"{', '.join(map(described, goals))} depends on no array of this tape that has a gradient"
        if any(goal._memory in self._kept for goal in goals):
            what += ", not counting what a sum of one element held at first"
        remedy = "make the arrays that you want gradients for with requires_grad=True, before they are first used"
        self._refuse(what, remedy)

    def _check_present_gradients(self) -> None:
        """Raise if a sweep that begins with the present gradients begins with zeros alone, as without a loss."""
        owners = self._owners.values()
        # Gradients of arrays in structs may be set where none of these is, and those of a replay come later.
        if will_replay() or any(owner.in_warps_dialect or isinstance(owner._element, Struct) for owner in owners):
            return
        if all((grad := owner.grad) is None or grad._memory.is_zero for owner in owners):
            raise LaunchError(
                "backward() begins with the gradients that arrays have, and all of them are zero",
                remedy="pass the loss, as in tape.backward(loss), or grads={array: gradient}",
            )

    def _repeat(self, seeds: Seeds | None) -> bool:
        """Run a sweep that ran before as one native call; return whether that was possible."""
        # Everything here is a reason why operations must be performed one by one: to be recorded, queued or observed.
        if seeds is None or will_replay() or current.stream is not None or watched.observers:
            return False
        # On a GPU: what is on a stream of its own, or captured, keeps what it works with.
        if current.streams or any(_is_captured(goal) for goal, _ in seeds):
            return False
        retained = [id(memory) for memory in self._owners if memory.retains]
        # Ids are enough for a first comparison; `fits` compares the arrays themselves.
        state = (len(self._steps), self._launches, [*(id(goal) for goal, _ in seeds), *retained])
        if self._swept != state:
            # The first time: perhaps there is no second.
            self._swept, self._again = state, None
            return self._run_known(seeds)
        if self._again is None:
            # Steps on a GPU hold the values of the seeds, which are part of what is known there.
            if not all(goal._memory.is_host for goal, _ in seeds):
                return self._run_known(seeds)
            if not self._repeats:
                return False
            self._again = self._compiled(seeds)
            self._repeats = self._again is not None
            if self._again is None:
                return False
        # Contents or gradient arrays were exchanged since the sweep was compiled.
        if not self._again.fits(seeds):
            self._swept = self._again = None
            return False
        self._again.run(seeds)
        return True

    def _run_known(self, seeds: Seeds) -> bool:
        """Run a sweep that another tape ran before as one native call; return whether that was possible."""
        if not known_sweeps.is_on or self._followed or self._exposures.seen or self._sees_bytes:
            return False
        self._check_gradients()
        told = told_by(self._steps, self._owners, self._versions, self._written, seeds)
        if told is None or not all(memory.is_zero for memory in told.resting):
            return False
        # Contents were changed since: the usual way looks what that means.
        if any(memory.now != version for memory, version in self._versions.items()):
            return False
        is_second, sweep = known_sweeps.find(told)
        # The launches may be noted later than the sweep is known.
        launches = self._noted_launches()
        if is_second or (sweep is not None and launches and not sweep.has_looked):
            zero = {memory for memory in told.gradients if memory.is_zero}  # before versions are raised
            with Collector() as collector:
                self._backward(seeds, are_resting=True)
            for memory in zero:
                memory.zero_version = memory.now  # nothing has run
            sweep = known_sweeps.compiled(collector.operations, told, launches, self._grads(), zero)
            if sweep is not None or launches or not known_sweeps.may_be_joint(collector.operations):
                known_sweeps.keep(told, sweep)
        if sweep is None or not sweep.run(seeds, told):
            return False
        self._note_sweep(seeds, told, sweep)
        return True

    def _grads(self) -> list[array]:
        return [grad for owner in self._owners.values() if (grad := owner._grad) is not None]

    def _compiled(self, seeds: Seeds) -> Repeat | None:
        if not all(step.can_repeat for step in self._steps):
            return None
        # The operations are collected without being run; the native form then runs this very sweep too.
        with Collector() as collector:
            self._backward(seeds)
        steps = Repeat.compiled(collector.operations)
        if steps is None:
            return None
        grads = [(owner, owner.grad) for owner in self._owners.values()]
        # Adjoints that read arrays in place are valid for these contents only.
        needed = {memory: memory.now for step in self._steps for memory in step.reads_still()}
        return Repeat(collector.operations, steps, [goal for goal, _ in seeds], needed, grads)

    def _backward(self, seeds: Seeds | None, are_resting: bool = False) -> None:
        self._check_gradients()
        self._lose_changed()
        sweep = Cotangents(self._owners, self._gradient)
        sweep.relied.append(self._needs)
        if seeds is None:
            owners = self._owners.items()
            sweep.live = {m for m, owner in owners if (grad := owner.grad) is not None and may_differ_from_zero(grad)}
        else:
            sweep.live = {goal._memory for goal, _ in seeds}
        # All steps prepare before any runs, so that an error for a missing residual leaves all gradients as they are.
        work = [step.prepare(sweep) for step in reversed(self._steps)]
        if any(memory.retains for memory in self._owners):
            work = keeping(self._steps, work, self._owners)
        sweep.clear()
        # Functions of the user's may fail: no gradient has changed then.
        if any(step.may_fail for step in self._steps):
            with self._gradients_kept():
                self._sweep(sweep, seeds, work, are_resting)
        else:
            self._sweep(sweep, seeds, work, are_resting)

    @contextlib.contextmanager
    def _gradients_kept(self) -> Iterator[None]:
        """Restore the gradients if there is an error in the block."""
        before = [(grad, copied(grad)) for owner in self._owners.values() if (grad := owner.grad) is not None]
        try:
            yield
        except BaseException:
            for grad, copy in before:
                submit(Copy(grad, copy))
            raise

    def _sweep(
        self, sweep: Cotangents, seeds: Seeds | None, work: Sequence[Sequence[Operation]], are_resting: bool
    ) -> None:
        if seeds is None:
            carry_out(work)
            return
        # The cotangent of what the tape wrote begins at zero; what earlier calls left in it is added again afterwards,
        # but for the parts that seeds set.
        begun = [sweep.begun(goal) for goal, _ in seeds]
        if len(begun) > 1:
            check_disjoint(seeds, begun)
        # In the order of the arrays: that of a set would differ from run to run.
        written = [memory for memory in self._owners if memory in self._written]
        # None where all of them are known to be zero, however often what is collected now runs.
        left = [] if are_resting else [grad for memory in written if (grad := self._left_over(memory)) is not None]
        # Seeds may be gradients of other arrays, which are set as well.
        if len(begun) == 1 and not left and not will_replay() and not isinstance(seeds[0][1], array):
            begun[0]._overwrite(begun[0]._stored(seeds[0][1]))  # before anything else may change the values
            carry_out(work)
            return
        changed = [a._memory for a in (*begun, *left)]
        # Evaluated before anything is cleared: the values of a seed may be one of the gradients that are set below.
        begin = [_beginning(ct, values, changed) for ct, (_, values) in zip(begun, seeds, strict=True)]
        kept: list[tuple[array, array]] = []
        if left:
            set_whole = {ct._memory for ct in begun if ct._type.layout == "C" and ct._data.nbytes == ct._memory.nbytes}
            # A gradient that a seed sets as a whole loses what earlier calls left in it.
            kept = [(grad, take(grad)) for grad in left if grad._memory not in set_whole]
        for operation in begin:
            submit(operation)
        carry_out(work)
        for grad, before in kept:
            # Of a gradient that a seed has set in part, that part is put back after the addition.
            own = [(ct, copied(ct)) for ct in begun if ct._memory is grad._memory]
            submit(Add(grad, before))
            for ct, copy in own:
                submit(Copy(ct, copy))

    def _left_over(self, memory: Memory) -> array | None:
        owner = self._owners.get(memory)
        grad = None if owner is None else owner.grad
        return grad if grad is not None and may_differ_from_zero(grad) else None


def _is_captured(a: array) -> bool:
    """Return whether operations on an array are captured, by diffkern or by another library."""
    device = a._memory.device
    # Nothing can be captured on the default stream of a device that captures nothing itself.
    if device is CPU or (device.stream.is_default and not device.is_capturing):
        return False
    return bool(device.stream.is_capturing)


def _beginning(ct: array, values: Any, changed: Sequence[Memory]) -> Copy | Seed:
    """Return the operation that sets a gradient to the present values of a seed, before some memory is changed."""
    if not isinstance(values, array):
        return Seed(ct, ct._stored(values))
    low, high = values._range
    is_changed = any(memory.address < high and low < memory.address + memory.nbytes for memory in changed)
    return Copy(ct, copied(values) if is_changed else values)


def _interrupted(what: PackedLaunch | KernelProtocol | str, launches: int) -> LaunchError:
    if isinstance(what, str):
        place = f"{what} behind launch {launches} on the tape"
    else:
        kernel = what.kernel if isinstance(what, PackedLaunch) else what
        place = f"launch {launches} on the tape (kernel {kernel.name!r})"
    return LaunchError(
        f"{place} did not come to its end (Ctrl-C?), so the tape does not know what has run",
        remedy="record again on a new tape, or after tape.reset()",
    )
