"""The tape: records launches, copies and overwrites, and takes them back in reverse order for gradients.

In: whatever happens to arrays inside the ``with`` block. Out: after :meth:`Tape.backward`, the ``grad`` of every array
that has one holds the derivative with respect to what the array held when the tape began. Contents that an adjoint
needs and a later step overwrites are copied at that moment, and only then. Nothing is computed from contents that
changed unseen: diffkern's own changes are counted, and what others may write to is compared by digests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.callers import brief
from diffkern.errors import LaunchError
from diffkern.ir.structs import Struct
from diffkern.ir.types import UINT8
from diffkern.runtime.adjoint import check_aliases
from diffkern.runtime.array import _make, _on_host, array, new
from diffkern.runtime.convert import as_numpy
from diffkern.runtime.exposures import Exposures, Place, place_of
from diffkern.runtime.foreign import adopt, is_foreign_tensor
from diffkern.runtime.history import ChangeStep, CopyStep, LaunchStep, OverwriteStep, Step
from diffkern.runtime.memory import Memory, watch
from diffkern.runtime.needs import Need, Needs
from diffkern.runtime.operation import Add, Assign, Copy, Operation, perform
from diffkern.runtime.packed import PackedLaunch
from diffkern.runtime.repeat import Collector, Repeat, Seed
from diffkern.runtime.scope import Scope
from diffkern.runtime.state import current
from diffkern.runtime.stream import settle
from diffkern.runtime.uncopied import Uncopied

__all__ = ["Tape"]

_ALIGNMENT = 256  # of what devices allocate, and more than a cache line of the host


class Tape(Scope, Uncopied):
    """Records what happens in its ``with`` block, for gradients.

    Arrays without ``requires_grad`` that stand between the arrays that have it and the loss need no gradient of their
    own; the tape uses temporary ones. A tape keeps the arrays it recorded alive until :meth:`reset`.
    """

    def __init__(self) -> None:
        self._clear()
        watch(self)

    def _clear(self) -> None:
        self._steps: list[Step] = []
        self._launches = 0
        # Per memory: its version after the tape's last look; contents that adjoints may need and nobody changed yet.
        self._versions: dict[Memory, int] = {}
        self._needs: dict[Memory, Needs] = {}
        self._exposures = Exposures()
        self._snapshots: dict[tuple[Memory, int, bytes], array] = {}
        # Memory that depends on an array with a gradient; the array that owns the gradient; memory used without one.
        self._varied: set[Memory] = set()
        self._owners: dict[Memory, array] = {}
        self._without: set[Memory] = set()
        self._written: set[Memory] = set()
        # What is being recorded, and behind how many launches: an interrupt leaves it here, and what the tape knows is
        # incomplete then.
        self._unfinished: tuple[PackedLaunch | str, int] | None = None
        # Whether anything that was recorded reads an array that has a gradient.
        self._reached = False
        self._arrays: dict[int, array] = {}
        self._foreign: list[Memory] = []
        # A sweep that ran, and its compiled form; whether it has one.
        self._swept: tuple[int, int, list[int]] | None = None
        self._again: Repeat | None = None
        self._repeats = True

    def _begin(self) -> tuple[str, Tape, Tape]:
        if current.tape is not None:
            raise RuntimeError("a tape is recording already; leave its block before entering another")
        return "tape", self, self

    # -- recording, called by launches and arrays --------------------------------------------------------------------

    def record_launch(self, launch: PackedLaunch) -> None:
        """Run a launch and keep what its adjoint will need."""
        self._unfinished = launch, self._launches
        try:
            self._record_launch(launch)
        except Exception:
            self._unfinished = None
            raise
        self._unfinished = None

    def _record_launch(self, launch: PackedLaunch) -> None:
        executable, arrays = launch.executable, launch.arrays
        for held in arrays:
            if held is not None:
                self._look_at(held, launch.kernel.name)
        step = None
        self._reached = self._reached or self._reaches(launch)
        active = self._active(launch)
        if active and launch.grid.n:
            check_aliases(launch.kernel, launch, {})
            step = LaunchStep(launch, self._launches, active)
            if executable.is_in_place:
                for index in step.saves():
                    if (held := arrays[index]) is not None:
                        step.saved[index] = self._snapshot(held)
        written = [held for index in executable.writes if (held := arrays[index]) is not None]
        for held in written:
            self._before_overwrite(held)
        perform(launch)
        self._launches += 1
        for held in written:
            self._note(held)
            self._written.add(held._memory)
        if step is None:
            return
        self._steps.append(step)
        for index in executable.uses:
            held = arrays[index]
            if held is not None:
                memory = held._memory
                needs = self._needs.get(memory)
                if needs is None:
                    needs = self._needs[memory] = Needs(memory.nbytes)
                needs.add(Need(step, index, *held._range))
                if memory.exposed or memory.lent:
                    self._exposures.note(held)
                if index in active:
                    self._varied.add(memory)

    def record_overwrite(self, goal: array) -> None:
        """Prepare for a fill or an assignment of constants; to be called before it happens."""
        self._unfinished = "an assignment", self._launches
        self._look_at(goal, "an assignment")
        self._reached |= goal._memory in self._owners and not _is_all(goal)
        self._before_overwrite(goal)
        self._written.add(goal._memory)
        if self._carries(goal):
            self._steps.append(OverwriteStep(goal))

    def record_copy(self, goal: array, source: array) -> None:
        """Prepare for a copy; to be called before it happens."""
        self._unfinished = "a copy", self._launches
        self._look_at(goal, "a copy")
        self._look_at(source, "a copy")
        self._before_overwrite(goal)
        self._written.add(goal._memory)
        self._reached |= source._memory in self._owners or (goal._memory in self._owners and not _is_all(goal))
        if self._carries(source):
            self._steps.append(CopyStep(goal, source))
            self._varied.add(goal._memory)
            self._exposures.note(source)
        elif self._carries(goal):
            self._steps.append(OverwriteStep(goal))

    def note_change(self, held: array) -> None:
        """Take the present contents of an array as the tape's own doing, which comes to its end with that."""
        self._note(held)
        self._unfinished = None

    def _note(self, held: array) -> None:
        memory = held._memory
        self._versions[memory] = memory.now
        if self._exposures.seen:
            self._exposures.written(held)
        if (memory.exposed or memory.lent) and self._carries(held):
            self._exposures.note(held)

    def before_exposure(self, memory: Memory) -> None:
        """Note what the tape relies on in memory that is about to be given away."""
        if self._versions.get(memory) != memory.now or current.recorder is not None:
            return
        for held in self._used(memory):
            self._exposures.note_now(held)

    def _used(self, memory: Memory) -> list[array]:
        """Return the arrays of a block whose contents have a part in gradients."""
        found = [need.step.launch.arrays[need.index] for need in self._needs.get(memory, ())]
        for step in self._steps:
            if isinstance(step, CopyStep):
                found += [a for a in (step.goal, step.source) if a._memory is memory]
        return [held for held in found if held is not None]

    def _look_at(self, held: array, what: str) -> None:
        """Register an array, and notice changes since the tape last looked."""
        memory = held._memory
        known, now = self._versions.get(memory), memory.now
        changed = self._exposures.inspect(held) if self._exposures.seen else None
        if known != now:
            if known is None:
                if memory.exposed or memory.lent:
                    self._check_overlap(memory)
            else:
                for need in self._needs.pop(memory, ()):
                    need.step.lost.add(need.index)
                self._steps.append(ChangeStep(memory, f"launch {self._launches} of the tape ({what})"))
            self._versions[memory] = now
        elif changed:
            self._lose(memory, changed)
            self._steps.append(ChangeStep(memory, f"launch {self._launches} of the tape ({what})"))
        if not held._smooth:
            return
        grad = held.grad
        if grad is None:
            self._without.add(memory)
            if memory in self._owners:
                raise _two_views(held)
            return
        whole = held._whole
        self._arrays[id(whole)] = whole
        owner = self._owners.get(memory)
        if owner is None:
            owner = self._owners[memory] = _root(held)
        if owner is not held:
            own = owner.grad
            if own is not None and own._memory is not grad._memory:
                raise _two_views(held)
        if memory in self._without:
            raise _two_views(held)

    def _lose(self, memory: Memory, changed: set[Place]) -> None:
        """Note that others changed what launches left or read in these places."""
        for need in self._needs.get(memory, ()):
            held = need.step.launch.arrays[need.index]
            if held is not None and place_of(held) in changed:
                need.step.lost.add(need.index)

    def _check_overlap(self, memory: Memory) -> None:
        """Refuse memory that lies in other memory on the tape without a common owner: overwrites would go unnoticed."""
        for other in [*self._foreign, *(m for m in self._versions if m.is_exposed and not m.foreign)]:
            if (
                memory.device is other.device
                and memory.address < other.address + other.nbytes
                and other.address < memory.address + memory.nbytes
            ):
                raise LaunchError(
                    "two arrays on this tape lie over the same memory, and NumPy does not know that they are one",
                    remedy="make both views of one NumPy array, or wrap the memory once with dk.array(copy=False)",
                )
        if memory.foreign:
            self._foreign.append(memory)

    def _carries(self, held: array) -> bool:
        """Whether an array has a cotangent in the reverse sweep."""
        return held._memory in self._varied or held._memory in self._owners

    def _reaches(self, launch: PackedLaunch) -> bool:
        """Whether a launch has to do with what arrays with a gradient held when the tape began."""
        for index in launch.executable.reads:
            held = launch.arrays[index]
            if held is not None and held._memory in self._owners:
                return True
        return any(self._leaves_some(launch, index) for index in launch.executable.writes)

    def _leaves_some(self, launch: PackedLaunch, index: int) -> bool:
        """Whether an array with a gradient may keep elements that it had before a launch which writes to it."""
        held = launch.arrays[index]
        if held is None or held._memory not in self._owners:
            return False
        axes = launch.executable.manifest.params[index].whole
        return not (axes == len(launch.dims) and held.shape == launch.dims and _is_all(held))

    def _active(self, launch: PackedLaunch) -> frozenset[int]:
        """Return the parameters to differentiate for: what varies, and what is written from it or over it."""
        executable, arrays = launch.executable, launch.arrays
        active: set[int] = set()
        varies = False
        for index in executable.reads:
            held = arrays[index]
            if held is not None and held._smooth and self._carries(held):
                active.add(index)
                varies = True
        outputs = set()
        for index in executable.writes:
            held = arrays[index]
            if held is not None and held._smooth and (varies or self._carries(held)):
                outputs.add(index)
        # What is read and reaches no array of numbers has no gradient to pass on.
        return frozenset(active | outputs) if outputs else frozenset()

    def _before_overwrite(self, held: array) -> None:
        """Copy what earlier adjoints need of the elements that are about to change."""
        needs = self._needs.get(held._memory)
        if needs is None:
            return
        for need in needs.take(*held._range):
            needed = need.step.launch.arrays[need.index]
            if needed is not None and need.index not in need.step.lost and need.step.needs_after(need.index):
                need.step.contents[need.index] = self._snapshot(needed)

    def _snapshot(self, held: array) -> array:
        """Return a copy of the present contents, one for all who ask."""
        key = (held._memory, held._memory.now, held._packed)
        copy = self._snapshots.get(key)
        if copy is None:
            copy = new(held.shape, held._element, False, held._memory.device)
            perform(Copy(copy, held))
            self._snapshots[key] = copy
        return copy

    # -- the user's side ---------------------------------------------------------------------------------------------

    @brief
    def backward(self, loss: array | None = None, grads: Mapping[array, Any] | None = None) -> None:
        """Compute gradients by taking the recorded steps back.

        ``grad`` of every array that has one is increased by the derivative with respect to what the array held when the
        tape began. Calls add up until :meth:`zero`. The gradients of `loss` and of the arrays in `grads` are set, not
        added to.

        Parameters
        ----------
        loss : array, optional
            An array of one element, the result; its gradient is set to 1.
        grads : mapping of array to array, optional
            For any arrays, the gradient to begin with. Without `loss` and `grads` the gradients begin with what the
            ``grad`` of the arrays hold.

        Raises
        ------
        LaunchError
            If something that a gradient needs was changed outside the tape, if recording was interrupted (Ctrl-C), or
            if no array has a gradient to be computed. No gradient has changed then.
        KernelError
            If a kernel on the way cannot be differentiated.
        """
        if self._unfinished is not None:
            raise _interrupted(*self._unfinished)
        settle()
        outer, current.tape = current.tape, None
        try:
            seeds = self._seeds(loss, grads)
            if not self._reached and self._versions and self._ends_in(seeds):
                raise LaunchError(
                    "no array on this tape has a gradient to be computed",
                    remedy="make the arrays that you want gradients for with requires_grad=True",
                )
            self._verify()
            if not self._repeat(seeds):
                self._backward(seeds)
        finally:
            current.tape = outer

    def zero(self) -> None:
        """Set the gradients of all recorded arrays to zero."""
        outer, current.tape = current.tape, None
        try:
            for owner in self._owners.values():
                grad = owner.grad
                if grad is not None and _may_differ_from_zero(grad):
                    grad.zero_()
        finally:
            current.tape = outer

    def reset(self) -> None:
        """Set the gradients to zero and forget everything that was recorded."""
        self.zero()
        self._clear()

    @property
    def gradients(self) -> dict[array, array]:
        """The gradients of the recorded arrays that have one."""
        return {a: grad for a in self._arrays.values() if (grad := a.grad) is not None}

    def memory(self) -> int:
        """Return the bytes of the copies that the tape holds of overwritten arrays."""
        return sum(copy._data.nbytes for copy in self._snapshots.values())

    # -- the reverse sweep -------------------------------------------------------------------------------------------

    def _seeds(self, loss: Any, grads: Mapping[Any, Any] | None) -> list[tuple[array, Any]] | None:
        if loss is None and grads is None:
            return None
        seeds: list[tuple[array, Any]] = []
        if loss is not None:
            if not isinstance(loss, array) and is_foreign_tensor(loss):
                loss = adopt(loss, None)
            if not isinstance(loss, array) or loss._data.size != 1 or isinstance(loss._element, Struct):
                raise LaunchError(
                    f"the loss must be an array of one number, not {loss!r}",
                    remedy="add up into an array of one element, or pass backward(grads={array: gradient})",
                )
            seeds.append((loss, 1))
        for goal, value in (grads or {}).items():
            if not isinstance(goal, array) and is_foreign_tensor(goal):
                goal = adopt(goal, None)
            if not isinstance(value, array) and is_foreign_tensor(value):
                value = adopt(value, None)
            of_structs = isinstance(goal, array) and isinstance(goal._element, Struct)
            given = goal._stored(value) if of_structs and not isinstance(value, array) else value
            values = given if isinstance(given, array) else as_numpy(_on_host(given))
            if isinstance(given, array):
                values = given._data if given._memory.is_host else given
            shape = values._data.shape if isinstance(values, array) else values.shape
            if not isinstance(goal, array) or shape != goal._data.shape:
                raise LaunchError(f"the gradient for {goal!r} has shape {shape}; it must be that of the array")
            seeds.append((goal, values))
        for goal, _ in seeds:
            if not goal._smooth:
                raise LaunchError(f"{goal!r} has no gradient: its elements are not floating-point numbers")
            if goal._memory not in self._versions:
                raise LaunchError(f"{goal!r} does not occur on the tape", remedy="pass a result of a recorded launch")
        return seeds

    def _ends_in(self, seeds: list[tuple[array, Any]] | None) -> bool:
        """Whether only the arrays that a sweep begins with have a gradient."""
        return self._owners.keys() <= {goal._memory for goal, _ in seeds or ()}

    def _repeat(self, seeds: list[tuple[array, Any]] | None) -> bool:
        """Run a sweep that ran before as one native call; return whether that was possible."""
        if seeds is None or current.recorder is not None or current.stream is not None:
            return False
        state = (len(self._steps), self._launches, [id(goal) for goal, _ in seeds])
        if self._swept != state:
            # The first time: perhaps there is no second.
            self._swept, self._again = state, None
            return False
        if self._again is None:
            # A GPU's launches have no native form here; a graph does for them what this would.
            if not self._repeats or not all(goal._memory.is_host for goal, _ in seeds):
                return False
            self._again = self._compiled(seeds)
            self._repeats = self._again is not None
            if self._again is None:
                return False
        if not self._again.fits(seeds):
            self._swept = self._again = None
            return False
        self._again.run(seeds)
        return True

    def _compiled(self, seeds: list[tuple[array, Any]]) -> Repeat | None:
        with Collector() as collector:
            self._backward(seeds)
        steps = Repeat.compiled(collector.operations)
        if steps is None:
            return None
        grads = [(owner, owner.grad) for owner in self._owners.values()]
        needed = {m: m.now for step in self._steps if isinstance(step, LaunchStep) for m in step.reads_still()}
        return Repeat(collector.operations, steps, [goal for goal, _ in seeds], needed, grads)

    def _verify(self) -> None:
        """Look whether others changed what gradients need."""
        if self._exposures.seen and current.recorder is None:
            for memory in list(self._exposures.seen):
                needed = [n for n in self._needs.get(memory, ()) if n.step.needs_after(n.index)]
                places = {place_of(a) for n in needed if (a := n.step.launch.arrays[n.index]) is not None}
                changed = self._exposures.verify(memory, places)
                if changed:
                    self._lose(memory, changed)
                    self._swept = self._again = None

    def _backward(self, seeds: list[tuple[array, Any]] | None) -> None:
        for memory, version in self._versions.items():
            if memory.now != version:
                for need in self._needs.get(memory, ()):
                    need.step.lost.add(need.index)
        sweep = _Sweep(self._owners)
        if seeds is None:
            owners = self._owners.items()
            sweep.live = {m for m, owner in owners if (grad := owner.grad) is not None and _may_differ_from_zero(grad)}
        else:
            sweep.live = {goal._memory for goal, _ in seeds}
        work = [step.prepare(sweep) for step in reversed(self._steps)]
        sweep.clear()
        if seeds is None:
            _run(work)
            return
        # The cotangent of what the tape wrote begins at zero; what earlier calls left in it is added again afterwards.
        kept = [(grad, _take(grad)) for memory in self._written if (grad := self._left_over(memory)) is not None]
        for goal, values in seeds:
            ct = sweep.of(goal)
            perform(Copy(ct, values) if isinstance(values, array) else Seed(ct, ct._stored(values)))
        _run(work)
        seeded = {sweep.of(goal)._memory for goal, _ in seeds}
        for grad, before in kept:
            if grad._memory not in seeded:
                perform(Add(grad, before))

    def _left_over(self, memory: Memory) -> array | None:
        owner = self._owners.get(memory)
        grad = None if owner is None else owner.grad
        return grad if grad is not None and _may_differ_from_zero(grad) else None


class _Sweep:
    """Cotangents of one reverse sweep: the arrays' own gradients, and temporary ones where there are none."""

    def __init__(self, owners: Mapping[Memory, array]) -> None:
        self.live: set[Memory] = set()
        self._owners = owners
        self._temporary: dict[Memory, array] = {}

    def clear(self) -> None:
        """Let a sequence that is being recorded begin its replays with temporary cotangents of zero."""
        if current.recorder is not None:
            for whole in self._temporary.values():
                perform(Assign(whole, 0))

    def of(self, a: array) -> array:
        """Return the cotangent of an array."""
        if a._memory in self._owners and (grad := a.grad) is not None:
            return grad
        memory = a._memory
        whole = self._temporary.get(memory)
        if whole is None:
            whole = self._temporary[memory] = new((memory.nbytes + _ALIGNMENT,), UINT8, True, memory.device)
        # Its elements are aligned like those of the array.
        start = (memory.address - whole._range[0]) % _ALIGNMENT + int(a._data.ctypes.data) - memory.address
        return _make(memory.view(whole._data, start, a._data), a._element, whole._memory, True)


def _run(work: Sequence[list[Operation]]) -> None:
    for operations in work:
        for operation in operations:
            perform(operation)


def _may_differ_from_zero(grad: array) -> bool:
    # What is known now need not hold when a sequence that is being recorded is replayed.
    return current.recorder is not None or not grad._memory.is_zero


def _take(grad: array) -> array:
    """Return a copy of a gradient, and set it to zero."""
    copy = new(grad.shape, grad._element, False, grad._memory.device)
    perform(Copy(copy, grad))
    grad.zero_()
    return copy


def _is_all(held: array) -> bool:
    """Whether an array is all of the array whose gradient it shares, not a part."""
    return _root(held).size == held.size


def _root(held: array) -> array:
    """Return the array that owns the gradient of a view."""
    while held._grad is None and held._parent is not None:
        held = held._parent
    return held


def _interrupted(what: PackedLaunch | str, launches: int) -> LaunchError:
    if isinstance(what, str):
        place = f"{what} behind launch {launches} on the tape"
    else:
        place = f"launch {launches} on the tape (kernel {what.kernel.name!r})"
    return LaunchError(
        f"{place} did not come to its end (Ctrl-C?), so the tape does not know what has run",
        remedy="record again on a new tape, or after tape.reset()",
    )


def _two_views(held: array) -> LaunchError:
    return LaunchError(
        f"the memory of {held!r} is used on this tape with a gradient and without it, or with two gradients",
        remedy="set requires_grad before the first use, and pass one array (or views of it) for one block of memory",
    )
