"""Reverse sweeps that other tapes ran before: the same operations as one native call.

A program that trains records the same launches again and again, on a new tape or after a reset. The second time that
a sweep would consist of the same operations on the same memory it is compiled, for all later ones. What decides about
the operations is its key: programs, packed arguments, gradients and seeds. Everything else that a tape finds, such as
a copy of overwritten contents or a change by others, is a reason not to look for one.

Nothing here keeps memory of a user, or a program: with the first of those that a sweep is about it is forgotten.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from diffkern.process.forks import free_in_child
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign, Operation, memories
from diffkern.runtime.effects.compiled_backward import Repeat, Seed
from diffkern.runtime.memory.device import CPU, Device
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.stream import drain
from diffkern.runtime.native.replay import Plan

if TYPE_CHECKING:
    from diffkern.runtime.accumulate.known_zeros import OpenBit
    from diffkern.runtime.effects.joint_sweeps import JointSteps, JointSweep
    from diffkern.runtime.effects.seeds import Seeds
    from diffkern.runtime.effects.step import TapeStep
    from diffkern.runtime.launch.packed import PackedLaunch
    from diffkern.runtime.launch.program import Executable
    from diffkern.runtime.native.replay import Steps

__all__ = ["KnownSweep", "KnownSweeps", "Submission", "Told", "known_sweeps", "told_by"]

_MOST_STEPS = 1 << 14
"""Native steps of all sweeps that are kept, unless one alone has more."""
_MOST_NOTED = 1 << 12
_LARGEST_JOINT = 1 << 26
"""Bytes of temporary arrays and seeds of a sweep that runs the launches as well, which is worth a copy of the seeds."""
_Key = tuple[object, ...]


class Told(NamedTuple):
    """The facts that decide about the operations of a sweep.

    Attributes
    ----------
    key
        It, with objects by their ids.
    programs
        The programs among these.
    gradients
        The memory of the gradients of all arrays on the tape that have one.
    met
        The memory of all arrays on the tape.
    resting
        Those of the gradients that are zero before and get a cotangent: of what the tape wrote and no seed sets.
    launches
        The launches whose numbers are not in the key: a sweep is given those of each time.
    sources
        The memory of seeds on a GPU.
    """

    key: _Key
    programs: Sequence[Executable]
    gradients: Sequence[Memory]
    met: Sequence[Memory]
    resting: Sequence[Memory]
    launches: Sequence[PackedLaunch] = ()
    sources: Sequence[Memory] = ()

    @property
    def numbers(self) -> list[bytes]:
        """The numbers of these launches."""
        return [launch.parts[k] for launch in self.launches for k in launch.executable.values]

    @property
    def objects(self) -> list[Any]:
        """The objects whose ids are in the key."""
        return [*self.met, *self.gradients, *self.programs, *self.sources]


def told_by(
    steps: Sequence[TapeStep],
    owners: Mapping[Memory, array],
    met: Iterable[Memory],
    written: Set[Memory],
    seeds: Seeds,
) -> Told | None:
    """Return what decides about a sweep; None if anything else does.

    Parameters
    ----------
    steps : sequence of TapeStep
        The steps of the tape.
    owners : mapping of Memory to array
        The arrays with gradients.
    met : iterable of Memory
        The memory of all arrays on the tape.
    written : set of Memory
        What the tape wrote.
    seeds : Seeds
        The gradients that the sweep begins with.
    """
    key: list[object] = []
    programs: list[Executable] = []
    launches: list[PackedLaunch] = []
    for step in steps:
        found = step.told_by(owners)
        if found is None:
            return None
        key += found[0]
        programs += found[1]
        if (launch := step.free) is not None:
            launches.append(launch)
    whole: set[Memory] = set()
    sources: list[Memory] = []
    for goal, values in seeds:
        ct, owner = goal._grad, owners.get(goal._memory)
        # One without a gradient of its own has a temporary one, if it is no part of another array.
        if owner is not (None if ct is None else goal):
            return None
        if ct is None and goal._parent is not None:
            return None
        if ct is not None and ct._type.layout == "C" and ct._data.nbytes == ct._memory.nbytes:
            whole.add(ct._memory)
        key += (id(goal._memory), goal._packed, goal._key)
        if isinstance(values, array):
            # On a GPU they are copied from where they are; that must be no memory of which another one knows.
            if values._memory.is_host or values._memory.foreign or goal._memory.is_host:
                return None
            sources.append(values._memory)
            key += (id(values._memory), values._packed, values._key)
        elif not goal._memory.is_host:
            key.append(goal._stored(values).tobytes())  # they are part of the native steps
    gradients: list[Memory] = []
    resting: list[Memory] = []
    for memory, owner in owners.items():
        grad = owner._grad
        if grad is None or memory.retains:
            return None
        own = grad._memory
        gradients.append(own)
        is_written = memory in written
        key += (id(memory), id(own), grad._packed, is_written)
        if is_written and own not in whole:
            resting.append(own)
    met = list(met)
    # A gradient that the tape has met as an array changes with the sweep.
    if not set(gradients).isdisjoint([*met, *sources]):
        return None
    return Told((*key, *map(id, met)), programs, gradients, met, resting, launches, sources)


class Submission:
    """Operations of one device as one native call.

    Parameters
    ----------
    steps : sequence
        Their native form.
    written : iterable of Memory
        What they write.
    device : Device
        The device, whose current stream is the default one.
    """

    def __init__(self, steps: Any, written: Iterable[Memory], device: Device) -> None:
        self._counters, self._device = [memory.counter for memory in written], device
        self._plan = Plan(steps, self._counters, 0)
        self.call = self._plan.call(self._run)

    @property
    def is_native(self) -> bool:
        """True if there is native code to run it."""
        return self._plan.is_native

    def _run(self) -> None:
        """Run from Python, where other threads have tapes or streams."""
        drain()
        for counter in self._counters:
            counter.value += 1
        self._device.replay(self._plan, self._device.stream)


class KnownSweep:
    """A compiled sweep, which keeps nothing but its own temporary arrays.

    Parameters
    ----------
    operations : sequence of Operation
        All operations of the sweep.
    forms : sequence
        The native form of each.
    told : Told
        What they follow from.
    joint : JointSteps, optional
        Steps for the launches and the sweep.

    Attributes
    ----------
    joint
        The launches and the sweep as one call, if there is one.
    has_looked
        Whether it was looked for one.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        forms: Sequence[Steps],
        told: Told,
        joint: JointSteps | None = None,
    ) -> None:
        forms, bits = _spared(operations, forms, told)
        places = {memory: k for k, memory in enumerate(told.gradients)}
        # Bits of argument blocks that say whether a gradient is zero, each with its position among them.
        self._bits = [(places[each.memory], each) for each in bits]
        steps: Any = [step for form in forms for step in form]
        self.weight = len(steps)
        self._places = _places_of_numbers(operations, forms, told)
        self._seeds = [operation.values for operation in operations if isinstance(operation, Seed)]
        theirs = {*told.met, *told.gradients, *told.sources}
        used = (a for operation in operations for a in (*operation.reads(), *operation.writes()))
        self._own = [a for a in used if a._memory not in theirs]
        self._values = [operation.values for operation in operations if isinstance(operation, Assign)]
        zero = _zero_behind(operations)
        self._zero = [k for k, memory in enumerate(told.gradients) if memory in zero]
        written = memories(a for operation in operations for a in operation.writes())
        self._submission = Submission(steps, written, operations[0].device if operations else CPU)
        self._call = self._submission.call
        self.has_looked = False
        self.joint: JointSweep | None = None
        if joint is not None:
            # What the launches write was counted when they were put off.
            from diffkern.runtime.effects.joint_sweeps import JointSweep

            whole = Submission(joint.steps, written, CPU)
            self.weight += len(joint.steps)
            self.joint = JointSweep(whole.call, told.numbers, joint) if whole.is_native else None
        # Two threads with tapes over the same arrays: one of them takes the usual way.
        self._lock = free_in_child(threading.Lock())

    @property
    def is_native(self) -> bool:
        """True if there is native code to run it."""
        return self._submission.is_native

    @property
    def seeds(self) -> int:
        """The number of its seeds."""
        return len(self._seeds)

    def run(self, seeds: Seeds, told: Told) -> bool:
        """Run the sweep with these seeds; return False, and do nothing, if another thread is running it."""
        # Those on a GPU are in the steps.
        given = [goal._stored(values) for goal, values in seeds if not isinstance(values, array)]
        return self.run_with(given, told.numbers, told.gradients)

    def run_with(self, values: Sequence[Any], numbers: Sequence[bytes], gradients: Sequence[Memory]) -> bool:
        """Do the same with the values of the seeds, the numbers of launches, and the memory of gradients."""
        return self._run(self._call, values, numbers, gradients)

    def run_joint(self, values: Sequence[Any], gradients: Sequence[Memory], seed: array | None) -> bool:
        """Run the launches as well, which were put off, under the same conditions; from the seed itself if given."""
        assert self.joint is not None
        if seed is None:
            return self._run(self.joint.call, values, None, gradients)
        return self._run(partial(self.joint.run_from, seed._data.ctypes.data), (), None, gradients)

    def _run(
        self,
        call: Callable[[], object],
        values: Sequence[Any],
        numbers: Sequence[bytes] | None,
        gradients: Sequence[Memory],
    ) -> bool:
        if not self._lock.acquire(blocking=False):
            return False
        try:
            for buffer, value in zip(self._seeds, values, strict=bool(values)):
                # Written into the same buffer, whose address is in the plan.
                buffer[...] = value
            for k, block, place in self._places if numbers is not None else ():
                block[place] = numbers[k]  # type: ignore[index]  # there are some
            for k, bit in self._bits:
                bit.set(gradients[k].is_zero)
            call()
            for k in self._zero:
                memory = gradients[k]
                memory.zero_version = memory.now
        finally:
            self._lock.release()
        return True


def _places_of_numbers(
    operations: Sequence[Operation], forms: Sequence[Steps], told: Told
) -> list[tuple[int, bytearray, slice]]:
    """Return the places in argument blocks of the numbers that a sweep is given, each with its position among them."""
    first, count = {}, 0
    for launch in told.launches:
        first[id(launch)] = count
        count += len(launch.executable.values)
    places: list[tuple[int, bytearray, slice]] = []
    for operation, form in zip(operations, forms, strict=True):
        if not isinstance(operation, AdjointLaunch) or id(operation.launch) not in first or not form:
            continue
        launch, offsets = operation.launch, operation.executable.layout.offsets
        for k, leaf in enumerate(launch.executable.values, first[id(launch)]):
            if (start := offsets.get(leaf)) is not None:
                places.append((k, form[0].block, slice(start, start + len(launch.parts[leaf]))))
    return places


def _spared(
    operations: Sequence[Operation], forms: Sequence[Steps], told: Told
) -> tuple[Sequence[Steps], Sequence[OpenBit]]:
    """Return the forms that run, on a GPU with what is known to be zero, and the bits that each run sets."""
    if not operations or operations[0].device.is_cpu:
        return forms, []
    # Processes without a GPU need none of this.
    from diffkern.runtime.accumulate.known_zeros import spare_zeros

    theirs = {*told.met, *told.gradients, *told.sources}
    used = memories(a for operation in operations for a in (*operation.reads(), *operation.writes()))
    own = [memory for memory in used if memory not in theirs]
    return spare_zeros(operations, forms, told.gradients, own, told.resting)


def _zero_behind(operations: Sequence[Operation]) -> set[Memory]:
    """Return the memory that is known to be zero when operations have run."""
    zero: set[Memory] = set()
    for operation in operations:
        zero.difference_update(a._memory for a in operation.writes())
        if isinstance(operation, AdjointLaunch):
            zero.update(operation.consumed())
    return zero


class KnownSweeps:
    """The sweeps of all tapes that were compiled, by their keys.

    Attributes
    ----------
    is_on
        Whether sweeps are looked for; False in tests that compare.
    """

    def __init__(self) -> None:
        self.is_on = True
        # With each the objects that it is about, whose ids are in the key.
        self._sweeps: OrderedDict[_Key, tuple[KnownSweep | None, list[weakref.ref[Any]]]] = OrderedDict()
        # Of keys that occurred once, which perhaps do not occur again, only the hash.
        self._noted: OrderedDict[int, None] = OrderedDict()
        self._lock = free_in_child(threading.Lock())

    def clear(self) -> None:
        """Forget all sweeps."""
        with self._lock:
            self._sweeps.clear()
            self._noted.clear()

    def find(self, told: Told) -> tuple[bool, KnownSweep | None]:
        """Return whether a sweep occurs for the second time and should be compiled, and the compiled one."""
        with self._lock:
            found = self._sweeps.pop(told.key, None)
            # An id is that of another object now, if what tells the end of the first one was interrupted.
            if found is not None and [reference() for reference in found[1]] == told.objects:
                self._sweeps[told.key] = found
                return False, found[0]
            noted = hash(told.key)
            if noted in self._noted:
                return True, None
            self._noted[noted] = None
            if len(self._noted) > _MOST_NOTED:
                self._noted.popitem(last=False)
            return False, None

    def keep(self, told: Told, sweep: KnownSweep | None) -> None:
        """Keep a sweep for as long as all that it is about is there; None if it cannot be compiled."""
        key = told.key
        here = weakref.ref(self)

        def forget(_: object) -> None:
            # It may run anywhere, in a collection of garbage as well: no lock, and single calls.
            if (known := here()) is not None:
                known._sweeps.pop(key, None)

        kept = sweep, [weakref.ref(each, forget) for each in told.objects]
        with self._lock:
            self._sweeps[key] = kept
            total = sum([each.weight for each, _ in list(self._sweeps.values()) if each is not None])
            while len(self._sweeps) > 1 and (total > _MOST_STEPS or len(self._sweeps) > _MOST_NOTED):
                dropped, _ = self._sweeps.popitem(last=False)[1]
                total -= 0 if dropped is None else dropped.weight

    @staticmethod
    def may_be_joint(operations: Sequence[Operation]) -> bool:
        """Return whether a sweep that has no compiled form alone may have one together with its launches."""
        return Repeat.forms(operations, _LARGEST_JOINT) is not None

    @staticmethod
    def compiled(
        operations: Sequence[Operation],
        told: Told,
        launches: Sequence[PackedLaunch] = (),
        grads: Sequence[array] = (),
        zero: Set[Memory] = frozenset(),
    ) -> KnownSweep | None:
        """Return the compiled form of a sweep, with launches that are all of its tape; None if it has none."""
        joint = None
        if launches:
            # Most processes repeat no tape with launches that are large enough.
            from diffkern.runtime.effects.joint_sweeps import joint_steps

            joint = joint_steps(launches, operations, grads, zero, told)
        forms = Repeat.forms(operations) if joint is None else Repeat.forms(operations, _LARGEST_JOINT)
        # A library that counts the changes of its memory on a GPU has to be told of each of them, which takes Python.
        if forms is None or any(a._memory.is_counted and not a._memory.is_host for o in operations for a in o.writes()):
            return None
        made = KnownSweep(operations, forms, told, joint)
        made.has_looked = bool(launches)
        return made if made.is_native else None


known_sweeps = KnownSweeps()
