"""Tapes that begin as others did: launches that are noted, and looked at only if somebody asks.

A program that trains records the same launches on one tape after another. A tape that follows one of these paths
notes each launch with the versions of its arrays, and nothing else: what it would keep of them is known. Its reverse
sweep is the compiled one of :mod:`diffkern.runtime.effects.known_sweeps`. For all else, a launch that is new among the
first, the tape takes up what was noted as if it had looked at each launch when it ran.

What is compared each time are the objects that stand for arrays and their gradients, the versions of their memory, and
whether others can write to it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from diffkern.process.forks import free_in_child
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign
from diffkern.runtime.effects.known_paths import (
    FEW,
    HOST,
    LOSS,
    Fill,
    KnownBackward,
    KnownPath,
    Met,
    beginning_of,
    root,
)
from diffkern.runtime.effects.known_sweeps import KnownSweep, Told, known_sweeps
from diffkern.runtime.effects.operation_step import OperationStep
from diffkern.runtime.effects.seeds import Seeds
from diffkern.runtime.effects.tape_recording import TapeRecording
from diffkern.runtime.effects.tape_steps import LaunchStep
from diffkern.runtime.effects.usual_launch import KnownPattern, pattern_of
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.memory.memory import Memory, put, watch
from diffkern.runtime.memory.stream import drain, postponed
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.runtime.observe.config import config
from diffkern.runtime.observe.spans import watched

__all__ = ["NotedLaunches"]


class _Origin(NamedTuple):
    """The state of a tape when the launches that were noted had been looked at.

    Attributes
    ----------
    path
        Their path.
    numbered
        How many of them have numbers that a sweep is given.
    state
        The numbers of launches, steps, and arrays with gradients.
    places
        The paths that end with one of them.
    """

    path: KnownPath
    numbered: int
    state: tuple[int, int, int]
    places: Sequence[KnownPath]


_Noted = tuple[KnownPath, list[bytes], "list[array | None]", Any, Any, tuple[str, ...], Any]
"""A launch that was noted: its path, bytes and arrays; its kernel with the version, types of arguments, program. Fills
with zeros in front of all launches have no kernel."""
_FILL = object()
_lock = free_in_child(threading.RLock())
_MOST_MISSED = 2
"""Times that launches of a path are put off for nothing."""


class NotedLaunches(TapeRecording):
    """The launches of a tape that were noted and not looked at."""

    _index: tuple[int, dict[Memory, Met]] | None = None
    _origin: _Origin | None = None

    def __init__(self) -> None:
        self._note_anew()
        watch(self)

    def _note_anew(self) -> None:
        # The launches; None once each is looked at. All other state is there from then on.
        self._noted: list[_Noted] | None = [] if self._takes_usual and known_sweeps.is_on else None
        self._fills = 0
        self._known = root
        # The versions of all memory that was met.
        self._met: dict[Memory, int] = {}
        self._unfinished = None
        if self._noted is None:
            self._reset_state()
            self._met = self._versions

    def _clear(self) -> None:
        # What an earlier recording has left is taken away: it is made again when it is asked for.
        own = self.__dict__
        for name in (*own.pop("_state", ()), "_index", "_origin"):
            own.pop(name, None)
        self._note_anew()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            own = self.__dict__
            if not name.startswith("__") and "_noted" in own:
                with _lock:  # another thread may be about it, which gives memory away
                    if self._noted is not None:
                        self._take_up()
                    if name in own:
                        return own[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _take_up(self) -> None:
        """Look at all launches that were noted, as they were; the lock is held."""
        noted, unfinished = self._noted or [], self._unfinished
        before = {*self.__dict__}
        self._noted = None
        try:
            self._reset_state()
            self._state = {*self.__dict__} - before
            self._unfinished = unfinished
            for each in noted:
                self._look_behind(each)
            self._versions = self._met
            numbered = sum(bool(known.values) for known, *_ in noted)
            state = len(noted) - self._fills, len(self._steps), len(self._owners)
            self._origin = _Origin(self._known, numbered, state, [known for known, *_ in noted])
        except BaseException:
            # Ctrl-C: the launches are still noted, and who asks next looks at them again.
            for name in {*self.__dict__} - before:
                del self.__dict__[name]
            self._unfinished, self._noted = unfinished, noted
            raise

    def _reset_state(self) -> None:
        """Make the state of a tape that has recorded nothing."""
        TapeRecording._clear(self)

    def _look_behind(self, noted: _Noted) -> None:
        """Keep what a tape keeps of a launch that has run."""
        known, parts, arrays, kernel, version, keys, executable = noted
        for k, grad in known.leaves:
            held: Any = arrays[k]
            if held._smooth and grad is None:
                self._without.setdefault(held._memory, held)
            elif held._smooth:
                self._owners[held._memory] = self._arrays[id(held)] = held
        if executable is None:
            self._look_behind_fill(cast("array", arrays[0]))
            return
        launch = PackedLaunch.passed(kernel, known.dim, version, keys, parts, arrays, executable, known.grid)
        self._feed(launch)
        self._written.update(arrays[k]._memory for k in known.writes)  # type: ignore[union-attr]  # as on the path
        taken: KnownPattern = executable.taken[known.pattern]
        step = LaunchStep(launch, self._launches, taken.active, False) if taken.active else None
        self._launches += 1
        if step is not None:
            self._differentiable.add(version)
            self._steps.append(step)
            self._keep_needs(step, taken)

    def _look_behind_fill(self, held: array) -> None:
        """Keep what a tape keeps of a fill, of an array that it has not met before."""
        operation = Assign(held, 0)
        flow = operation.flow()
        self._feed_by(flow)
        self._written.add(held._memory)
        if self._passes(held):
            self._steps.append(OperationStep(operation, flow, self._launches, ()))

    # -- launches ----------------------------------------------------------------------------------------------------

    def note_fill(self, held: array) -> bool:
        """Set an array to zero and note it, if nothing but such fills was noted; else return False, and do nothing."""
        noted, memory, grad = self._noted, held._memory, held._grad
        if noted is None or len(noted) != self._fills or slow_path_flags.word[0] != 1 or memory in self._met:
            return False
        is_usual = held._smooth and held._parent is None and held._type.layout == "C"
        if not is_usual or held._data.nbytes != memory.nbytes or memory.exposed or memory.lent or memory.retains:
            return False
        packed = None if grad is None else grad._packed
        key = held._packed, _FILL, packed
        known = self._known.following.get(key)
        if known is None or known.picked[0] is not held._packed or known.leaves[0][1] is not packed:
            known = KnownPath()
            known.picked, known.leaves, known.fresh = (held._packed,), [(0, packed)], [(0, packed)]
            known.writes, known.values = (0,), ()
            self._known.follow(key, known)
        self._unfinished = Assign.phrase, len(noted)
        put(held._data, 0)
        memory.version += 1
        self._note_written(known, [held])
        made: _Noted = known, [held._packed], [held], None, None, (), None
        with _lock:
            if self._noted is noted:
                noted.append(made)
                self._known = known
                self._fills += 1
            else:
                self._look_behind(made)
        self._unfinished = None
        return True

    def note_launch(
        self,
        kernel: KernelProtocol,
        version: KernelVersion,
        dim: Any,
        keys: tuple[str, ...],
        parts: list[bytes],
        arrays: list[array | None],
        executable: Executable,
    ) -> bool:
        """Run a launch that is known here and note it; return False, and do nothing, for any other."""
        noted, met = self._noted, self._met
        if noted is None or type(dim) is not int:
            return False
        picked = executable.deciding(parts)
        known = self._known.following.get((picked, dim, id(executable)))
        if known is None or known.executable() is not executable or not all(map(is_, picked, known.picked)):
            # Other arrays at the same addresses: perhaps new ones each time, of which there is nothing to learn.
            if known is not None and not all(map(is_, picked, known.others)):
                known.others = picked
                return False
            known = self._learn(kernel, version, dim, keys, parts, arrays, executable)
            if known is None:
                return False
        if known.changes != config._changes:
            if not kernel.enable_backward:
                return False
            known.changes = config._changes
        first: list[tuple[Any, int]] = []
        for k, grad in known.leaves:
            held: Any = arrays[k]
            memory, own = held._memory, held._grad
            if own is not None:
                own = own._packed
            if own is not grad or memory.exposed or memory.lent:
                return False
            now = memory.version if memory._counter is None else memory.now
            before = met.get(memory)
            if before is None:
                first.append((memory, now))
            elif before != now:
                return False
        for k in known.writes:
            if not arrays[k]._writable:  # type: ignore[union-attr]  # as on the path
                return False
        met.update(first)  # only now: a launch that is not run is not met
        self._unfinished = kernel, len(noted)  # an interrupt leaves the mark
        if not (known.is_joint and self._put_off(known, executable, parts, arrays)):
            drain()
            self._run_noted(known, executable, parts, arrays)
        made = known, parts, arrays, kernel, version, keys, executable
        with _lock:
            if self._noted is noted:
                noted.append(made)
                self._known = known
            else:  # meanwhile another thread has given memory away, for which the launches before were looked at
                self._look_behind(made)
        self._unfinished = None
        return True

    def _run_noted(
        self, known: KnownPath, executable: Executable, parts: list[bytes], arrays: list[array | None]
    ) -> None:
        """Run a launch on what was compared, and note the versions after it."""
        for k in known.writes:
            arrays[k]._memory.version += 1  # type: ignore[union-attr]  # as on the path
        try:
            _run_now(known, executable, parts)
        except Exception:
            self._unfinished = None
            raise
        self._note_written(known, arrays)

    def _note_written(self, known: KnownPath, arrays: list[array | None]) -> None:
        met = self._met
        for k in known.writes:
            memory: Memory = arrays[k]._memory  # type: ignore[union-attr]  # as on the path
            met[memory] = memory.version if memory._counter is None else memory.now

    def _put_off(
        self, known: KnownPath, executable: Executable, parts: list[bytes], arrays: list[array | None]
    ) -> bool:
        """Put a launch off until the sweep, which runs it as well; return False if it has to run now."""
        noted = self._noted
        if watched.observers or noted is None or not postponed.is_all(noted, len(noted) - self._fills):
            return False
        held = [*arrays]

        def run() -> None:
            assert held  # kept until then
            known.missed += 1
            if known.missed > _MOST_MISSED:
                known.is_joint = False
            _run_now(known, executable, parts)

        for k in known.writes:
            held[k]._memory.version += 1  # type: ignore[union-attr]  # as on the path
        self._note_written(known, arrays)
        postponed.put(noted, run)
        return True

    def _noted_launches(self) -> Sequence[PackedLaunch]:
        """Return all launches of the tape, if each was noted when it ran; none otherwise."""
        origin = self._origin
        if origin is None or origin.state != (self._launches, len(self._steps), len(self._owners)):
            return ()
        found = [step.launch for step in self._steps if isinstance(step, LaunchStep)]
        return found if len(found) == self._launches and not self._owners_are_pinned() else ()

    def _owners_are_pinned(self) -> bool:
        return any(memory.is_pinned for memory in self._versions)

    def _learn(
        self,
        kernel: KernelProtocol,
        version: KernelVersion,
        dim: int,
        keys: tuple[str, ...],
        parts: list[bytes],
        arrays: list[array | None],
        executable: Executable,
    ) -> KnownPath | None:
        """Return the path with a launch more; None for one of which more is to be known than a path tells."""
        picked = executable.deciding(parts)
        grid = executable.grids.get(dim)
        if grid is None or not grid.n or not executable.is_told:
            return None
        if not is_(executable.fits.get(picked), grid) or not kernel.enable_backward or len(arrays) != len(keys):
            return None
        met = self._met_by(arrays, executable)
        if met is None:
            return None
        leaves, fresh, found = met
        pattern = pattern_of(arrays, lambda k: found[k].grad is not None or found[k].varies)
        taken: KnownPattern | None = executable.taken.get(pattern)
        if taken is None and not executable.is_plain:  # a tape looks at such launches in detail, and notes no pattern
            taken = executable.taken[pattern] = KnownPattern(executable, pattern)
        if taken is None or any(found[k].is_relied_on for k in executable.writes if k in found):
            return None
        if not taken.is_known:
            taken.look_up(version, keys)
        if not taken.is_settled:
            return None
        if taken.program is not None and not _is_free(executable, taken.program):
            return None
        made = KnownPath()
        made.executable, made.dim, made.picked, made.grid = weakref.ref(executable), dim, picked, grid
        made.leaves, made.fresh, made.writes, made.pattern = leaves, fresh, executable.writes, pattern
        made.others, made.changes = (None,) * len(picked), -1
        made.values = () if taken.program is None else executable.values
        chosen: Executable = executable.chosen(b"".join(parts))
        made.chosen = weakref.ref(chosen)
        self._known.follow((picked, dim, id(executable)), made)
        return made

    def _met_by(
        self, arrays: Sequence[array | None], executable: Executable
    ) -> tuple[list[tuple[int, bytes | None]], list[tuple[int, bytes | None]], dict[int, Met]] | None:
        """Return the arrays of a launch with their gradients, the new ones among them, and what is known of each.

        None if more is to be known of one.
        """
        leaves: list[tuple[int, bytes | None]] = []
        fresh: list[tuple[int, bytes | None]] = []
        found: dict[int, Met] = {}
        index = self._looked_up()
        for k, held in enumerate(arrays):
            if held is None:
                if k in executable.values:
                    continue
                return None
            memory, grad = held._memory, held._grad
            packed = None if grad is None else grad._packed
            if held._parent is not None or memory.exposed or memory.lent or memory.retains:
                return None
            one = index.get(memory)
            if one is None:
                one = Met(held, packed)
                fresh.append((k, packed))
            if one.held is not held or one.grad is not packed:
                return None
            found[k] = one
            leaves.append((k, packed))
        is_apart = len({one.held._memory for one in found.values()}) == len(found)
        return (leaves, fresh, found) if is_apart else None

    def _looked_up(self) -> dict[Memory, Met]:
        """Return what is known of the memory of all launches that were noted."""
        count, index = self._index or (0, {})
        noted = self._noted or []
        for known, _, arrays, *_, executable in noted[count:]:
            for k, grad in known.fresh:
                held: Any = arrays[k]
                index[held._memory] = Met(held, grad)
            if executable is None:
                continue
            taken: KnownPattern = executable.taken[known.pattern]
            for k in taken.needed:
                index[arrays[k]._memory].is_relied_on = True  # type: ignore[union-attr]  # as on the path
            for k in taken.active:
                index[arrays[k]._memory].varies = True  # type: ignore[union-attr]
        self._index = len(noted), index
        return index

    def before_exposure(self, memory: Memory) -> None:
        if memory in self._met:
            super().before_exposure(memory)

    # -- gradients ---------------------------------------------------------------------------------------------------

    def _run_back(self, loss: Any, grads: Any) -> bool:
        """Run the reverse sweep that is known for the launches that were noted; return whether there is one."""
        noted = self._noted
        if not noted or self._unfinished is not None:
            return False
        waiting = bool(slow_path_flags.word[0])
        if waiting and (slow_path_flags.reasons or not postponed.is_all(noted, len(noted) - self._fills)):
            return False
        is_loss = grads is None and type(loss) is array
        goal, kind, values = (loss, LOSS, None) if is_loss else beginning_of(loss, grads)
        known = None if goal is None else self._known.backward.get((goal._packed, kind))
        sweep = None if known is None else known.sweep()
        if known is None or sweep is None or known.goal is not goal._packed:
            return False
        if kind is LOSS:
            given: tuple[Any, ...] = (known.seed,)
        elif kind is HOST:
            given = (values,)
        elif known.seed is kind:
            given = ()
        else:
            return False
        for memory, version in self._met.items():
            if (memory.version if memory._counter is None else memory.now) != version or memory.retains:
                return False
        gradients: list[Memory] = []
        for each in noted:
            arrays = each[2]
            for k, grad in each[0].fresh:
                own: Any = arrays[k]._grad  # type: ignore[union-attr]  # as on the path
                if own is not None:
                    gradients.append(own._memory)
                    own = own._packed
                if own is not grad:
                    return False
        for k in known.resting:
            if not gradients[k].is_zero:
                return False
        numbers = [each[1][k] for each in noted for k in each[0].values]
        if waiting:
            seed = next(iter(grads.values())) if kind is HOST else None
            if self._run_joint(sweep, given, numbers, gradients, seed if type(seed) is array else None):
                return True
        drain()
        return sweep.run_with(given, numbers, gradients)

    def _run_joint(
        self,
        sweep: KnownSweep,
        given: Sequence[Any],
        numbers: Sequence[bytes],
        gradients: Sequence[Memory],
        seed: array | None,
    ) -> bool:
        """Run the launches that were put off together with the sweep; return whether that was possible."""
        noted, joint = self._noted, sweep.joint
        if joint is None or watched.observers or not joint.fits(numbers, gradients):
            return False
        if seed is not None:
            # A seed that the launches write to is what they have written.
            if seed._memory in self._met:
                return False
            if seed._memory in gradients or not joint.reads(seed):
                seed = None
        return postponed.join(noted, partial(sweep.run_joint, given, gradients, seed))

    def _note_sweep(self, seeds: Seeds, told: Told, sweep: KnownSweep) -> None:
        """Note a sweep that has run for tapes on which the same launches are noted."""
        origin = self._origin
        if origin is None or origin.state != (self._launches, len(self._steps), len(self._owners)) or len(seeds) != 1:
            return
        ((goal, value),) = seeds
        if self._read is not None or not self._has_influence(goal):
            return
        owners = self._owners
        if [*owners] != [memory for memory in self._versions if memory in owners]:
            return
        kind: object
        seed: object
        if type(value) is int:
            kind, seed = LOSS, goal._stored(value)
        elif isinstance(value, array):
            kind = seed = value._packed
        else:
            kind, seed = HOST, None
        if sweep.seeds != (kind is LOSS or kind is HOST) or (kind is HOST and not goal._memory.is_host):
            return
        if not self._is_given(told, origin):
            # What is known of an adjoint that no sweep had reached before: the path is learned once more.
            root.following.clear()
            return
        path = origin.path
        if sweep.joint is not None and all(place.missed <= _MOST_MISSED for place in origin.places):
            for place in origin.places:
                place.is_joint = True
        resting = [told.gradients.index(memory) for memory in told.resting]
        if len(path.backward) >= FEW:
            path.backward.clear()
        path.backward[goal._packed, kind] = KnownBackward(goal._packed, seed, weakref.ref(sweep), resting)

    def _is_given(self, told: Told, origin: _Origin) -> bool:
        """Return whether a sweep is given the numbers of all launches that it reverses, and a path knows which."""
        launches = 0
        for step in self._steps:
            if step.free is not None:
                launches += 1
            elif isinstance(step, LaunchStep) and step.launch.executable.values and step.is_known:
                return False  # others only if no sweep has reached them yet
        return launches == len(told.launches) == origin.numbered

    def _zero_noted(self) -> bool:
        """Set the gradients of launches that were noted to zero; return False if something may observe that."""
        if self._noted is None or slow_path_flags.word[0]:
            return False
        wanted: list[array] = []
        for each in self._noted:
            arrays = each[2]
            for k, grad in each[0].fresh:
                own = None if grad is None else arrays[k]._grad  # type: ignore[union-attr]  # as on the path
                if own is not None:
                    memory = own._memory
                    now = memory.version if memory._counter is None else memory.now
                    if memory.zero_version != now or memory.exposed or memory.lent:
                        wanted.append(own)
        if not wanted or self._filled(wanted):
            return True
        for own in wanted:
            own.zero_()
        return True

    def _filled(self, wanted: Sequence[array]) -> bool:
        """Set gradients on a GPU to zero in one native call; return whether that was possible."""
        if wanted[0]._memory.device.is_cpu:
            return False
        key, fills = tuple([own._packed for own in wanted]), self._known.fills
        fill = fills.get(key)
        if fill is None or not all(map(is_, key, fill.key)):
            fill = Fill.of(wanted, key)
            if fill is None:
                return False
            if len(fills) >= FEW:
                fills.clear()
            fills[key] = fill
        fill.run()
        for own in wanted:
            memory = own._memory
            memory.zero_version = memory.now
        return True


def _run_now(known: KnownPath, executable: Executable, parts: list[bytes]) -> None:
    program = known.chosen()
    if program is None:
        executable.run(known.grid, b"".join(parts))
    else:
        program.run_chosen(known.grid, b"".join(parts))


def _is_free(executable: Executable, program: Executable) -> bool:
    """Return whether the numbers of a launch decide nothing about its adjoint, or there are none."""
    return not executable.values or program.is_free
