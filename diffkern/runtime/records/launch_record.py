"""A launch, forward or adjoint, prepared for repetition: packed, checked, with its native steps.

It runs any number of times, and its parameters and dimensions can be changed in between. Every change is checked and
packed when it is made; one that is refused changes nothing. It keeps alive all that it points to, and a change waits
until no call is in progress.
"""

from __future__ import annotations

import ctypes
import operator
import struct
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from types import NoneType
from typing import Any

import numpy as np

from diffkern.contracts.argument_block import arguments_of
from diffkern.contracts.extents import whole_number
from diffkern.errors import LaunchError, MisuseError
from diffkern.ir.structs import Struct
from diffkern.ir.types import Element, scalar_of
from diffkern.lang.dtypes import SCALARS, element_of_value
from diffkern.process.tracebacks import brief, place_of
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.accumulate.given_cotangents import (
    check_not_lost,
    cotangent,
    values_by_leaf,
    with_default_gradients,
)
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import submit
from diffkern.runtime.arrays.type_keys import type_of_key
from diffkern.runtime.launch.launch_checks import check_fit
from diffkern.runtime.launch.packed import Leaves, PackedLaunch, dispatch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.race_checks import Races
from diffkern.runtime.memory.device import CPU
from diffkern.runtime.memory.state import is_taken
from diffkern.runtime.memory.stream import Stream
from diffkern.runtime.native.replay import RELEASED, STALE, STREAM, Stamp, Steps, done_while_idle
from diffkern.runtime.native.setter import Setter, Slot, put_while_idle
from diffkern.runtime.records.compiled_launch import CompiledLaunch
from diffkern.runtime.records.struct_slots import StructWriter, struct_writer

__all__ = ["LaunchRecord", "from_ctype"]


class LaunchRecord:
    """A launch that repeats.

    Parameters
    ----------
    launch : PackedLaunch
        The forward launch; its parts are changed with the parameters.
    adjoint : AdjointLaunch, optional
        Its adjoint, if that is what runs.
    given : sequence, optional
        Gradients that were given by hand, for each leaf an array or None; the others are the arguments' own.
    stream : Stream, optional
        The default stream.
    record_tape : bool, optional
        Whether a tape that records takes it.
    fixed : bool, optional
        Whether the adjoint is part of a larger one, so that its arrays cannot be changed alone.
    """

    def __init__(
        self,
        launch: PackedLaunch,
        adjoint: AdjointLaunch | None = None,
        given: Sequence[array | None] | None = None,
        stream: Stream | None = None,
        record_tape: bool = True,
        fixed: bool = False,
    ) -> None:
        if launch.executable.writes_elements or (adjoint is not None and adjoint.in_elements):
            # By ids as well are arrays in elements of others.
            if adjoint is not None and launch.executable.by_id and not launch.executable.manifest.pointing:
                raise LaunchError(
                    f"the adjoint of kernel {launch.kernel.name!r} adds to gradients of arrays that are found by ids, "
                    "and which these are is looked for at each launch",
                    loc=place_of(launch.kernel.func),
                    remedy="take this gradient outside of records and sequences",
                )
            raise LaunchError(
                f"kernel {launch.kernel.name!r} writes to arrays in elements of an array, or its adjoint does, and "
                "which these are is looked for at each launch",
                loc=place_of(launch.kernel.func),
                remedy="launch it outside of records and sequences, or pass the array as a parameter of its own",
            )
        self.setter = Setter(len(launch.keys), array)
        # What can be changed by writing to the block: leaves, and parameters that are structs.
        self._slots: list[Slot] = []
        self._writers: dict[int, StructWriter] = {}
        self._numbers: dict[int, tuple[int, Callable[[Any], bytes]]] = {}
        self._put: Callable[[int, bytes], object] | None = None
        self._searched = False
        self._places = {p.name: p.index for p in launch.kernel.parameters}
        self.stream = None if stream is None or (stream.is_default and stream.device.is_cpu) else stream
        self.record_tape = record_tape
        self.fixed = fixed
        self.settled: frozenset[int] = frozenset()
        self.released = False
        # Sequences that contain it, and in a sequence the launches that share the arguments by value.
        self._users: list[weakref.ref[Any]] = []
        self.family: list[LaunchRecord] = []
        # Renewed in front of each change and behind it, so that neither an interrupt nor another thread comes between.
        self._stamp: Stamp | None = None
        gradients: list[array | None] = [None] * len(launch.arrays) if given is None else list(given)
        self._compiled = CompiledLaunch(launch, adjoint, gradients, 0 if self.stream is None else STREAM)
        self.plan = self._compiled.plan

    @property
    def launch(self) -> PackedLaunch:
        """The forward launch with its current parameters."""
        # An interrupt may have come between a change of the form and that of the plan.
        if self.plan.flags & STALE:
            self._complete()
        if self.setter.changed:
            self._catch_up()
        return self._compiled.launch

    @property
    def adjoint(self) -> AdjointLaunch | None:
        """Its adjoint, if that is what runs."""
        return self._compiled.adjoint

    @property
    def steps(self) -> Steps | None:
        """The native steps, None if there are none."""
        return self._compiled.native

    def _catch_up(self) -> None:
        """Pack the parameters that were changed in the block alone."""
        launch, block = self._compiled.launch, self._compiled.block
        try:
            self.setter.read()
            for slot in self._slots:
                held = launch.arrays[slot.leaf]
                packed = bytes(block[slot.offset : slot.offset + slot.size]) if held is None else held._packed
                launch.parts[slot.leaf] = packed
        except BaseException:
            # Interrupted: the parts are still behind the block, and the next reader has to do it again.
            self.setter.note()
            raise

    @property
    def operation(self) -> PackedLaunch | AdjointLaunch:
        """The operation that runs."""
        # Asked for each step of each replay that is not one native call.
        launch = self.launch
        adjoint = self._compiled.adjoint
        return launch if adjoint is None else adjoint

    @property
    def executable(self) -> Executable:
        """The program."""
        return self.operation.executable

    def _find_slots(self) -> None:
        """Find the parameters that can be changed by writing to the block, checking nothing but their type."""
        launch = self.launch
        self._searched = True
        block = self._compiled.block
        if self.family or self.fixed or self.released or not block:
            return
        quick: list[Slot | None] = [None] * len(launch.keys)
        # On a GPU another array may need another program, and in place of one that several parameters have; beside a
        # view it may share that view's memory.
        only_values = self._compiled.device is not CPU or not self._are_alone() or not launch.is_usual
        for index, key in enumerate(launch.keys):
            span = launch.span(index)
            slots = [self._slot(index, leaf) for leaf in range(span.start, span.stop)]
            found = [slot for slot in slots if slot is not None]
            if len(found) < len(slots) or (only_values and any(slot.is_array for slot in found)):
                continue
            t = type_of_key(key)
            if isinstance(t, Struct):
                writer = struct_writer(t, found)
                if writer is not None:
                    self._writers[index] = writer
                    self._slots += found
            elif len(found) == 1 and found[0].key and (self.adjoint is None or not found[0].is_array):
                quick[index] = found[0]
                self._slots += found
                pack = launch.kernel.parameters[index].pack
                if pack is not None:
                    self._numbers[index] = found[0].offset, pack
        self._put = put_while_idle(self.plan, block)
        self.setter.open(quick, self.plan, block, launch.arrays, launch.executable.may_share)

    def _are_alone(self) -> bool:
        """Return whether arrays put in place of others cannot share memory, or whether sharing would not matter.

        Arrays that are no views share memory only with themselves.
        """
        launch = self._compiled.launch
        return not launch.executable.may_share or all(a is None or a._alone is not None for a in launch.arrays)

    def _forget_slots(self) -> None:
        """Discard the slots; the next change that needs them finds them again."""
        # What was written to the block through them has to reach the parts first.
        if self.setter.changed:
            self._catch_up()
        self.setter.close()
        self._searched, self._slots, self._writers, self._numbers, self._put = False, [], {}, {}, None

    def _slot(self, index: int, leaf: int) -> Slot | None:
        launch = self._compiled.launch
        start, size = self._compiled.offsets.get(leaf, -1), len(launch.parts[leaf])
        if start < 0 or leaf in self.settled or self._races_with(leaf) is not None or self._gathers_with(leaf):
            return None
        if launch.arrays[leaf] is None:
            return Slot(leaf, start, launch.kernel.parameters[index].value_key, size)
        return Slot(leaf, start, launch.keys[index], size, True, self._counter_of(leaf), self._rivals_of(leaf))

    def _rivals_of(self, leaf: int) -> tuple[int, ...]:
        """Return where the block has the addresses of arrays that the program takes for other memory than a leaf's."""
        offsets, pairs = self._compiled.offsets, self._compiled.launch.executable.distinct
        others = (b if a == leaf else a for a, b in pairs if leaf in (a, b))
        return tuple(offsets[other] for other in others if other in offsets)

    def _races_with(self, leaf: int) -> Races | None:
        """Return the check of an adjoint that depends on a value, or None."""
        races = None if self.adjoint is None else self.adjoint.executable.races
        return races if races is not None and leaf in races.arguments else None

    def _gathers_with(self, leaf: int) -> bool:
        """Return whether the choice of an adjoint's program depends on a value."""
        gathering = None if self.adjoint is None else self.adjoint.gathering
        return gathering is not None and leaf in gathering.arguments

    def scatter(self, leaf: int, packed: bytes) -> None:
        """Switch from gathering to the program for all values, if the change of a value makes gathering wrong."""
        adjoint = self.adjoint if self._gathers_with(leaf) else None
        if adjoint is not None and adjoint.gathers and not adjoint.gathers_with(leaf, packed):
            self._choose_again(may_gather=False)

    def gather(self, leaf: int) -> None:
        """Switch to the gathering program, if the change of a value has made it right."""
        adjoint = self.adjoint if self._gathers_with(leaf) else None
        if adjoint is not None and not adjoint.gathers and adjoint.gathers_with(leaf, self.launch.parts[leaf]):
            self._choose_again()

    def _choose_again(self, may_gather: bool = True) -> None:
        launch, cotangents = self.launch, self.adjoint.cotangents if self.adjoint is not None else {}
        self._take(launch, self._adjoint_of(launch, cotangents, may_gather), self._compiled.given)

    def check_races(self, leaf: int, parts: Sequence[bytes]) -> None:
        """Raise if threads may race when a value has been changed; `parts` are all leaves after the change."""
        races, launch = self._races_with(leaf), self.launch
        if races is not None:
            races.check(launch.kernel.name, launch.dims, parts.__getitem__)

    def settle(self, leaves: frozenset[int]) -> None:
        """Refuse other values for some leaves from now on."""
        self.settled |= leaves
        self._forget_slots()

    def _check_settled(self, leaf: int, packed: bytes) -> None:
        """Raise if a value would be changed that determines what a gradient keeps of arrays."""
        launch = self.launch
        if leaf in self.settled and packed != launch.parts[leaf]:
            raise LaunchError(
                f"kernel {launch.kernel.name!r}: which elements it overwrites, and a gradient keeps, depends on "
                f"{launch.leaves[leaf].name!r}, which cannot be set where a gradient was built for it",
                loc=place_of(launch.kernel.func),
                remedy="set it in the forward sequence and build its adjoint again, or record again",
            )

    def _counter_of(self, leaf: int) -> int | None:
        """Return the position of an array's counter in the plan, None if the kernel does not write to the array."""
        writes = [k for k in self.executable.writes if self._compiled.launch.arrays[k] is not None]
        return writes.index(leaf) if leaf in writes else None

    def watch(self, user: Any) -> None:
        """Notify an object that has a plan when this launch gets another compiled."""
        self._users = [weakref.ref(living) for living in (*self._living(), user)]

    def watched(self, stamp: Stamp) -> Stamp:
        """Return the stamp that every change renews: the given one, unless there is one already."""
        if self._stamp is None:
            self._stamp = stamp
        return self._stamp

    def _renew(self) -> None:
        if self._stamp is not None:
            self._stamp.renew()

    def _living(self) -> list[Any]:
        return [user for ref in self._users if (user := ref()) is not None]

    def _wait_idle(self) -> None:
        """Wait until no call is in progress that reads the block."""
        if self.plan.running:
            self.plan.wait_idle()
        if self._users:
            for user in self._living():
                user.plan.wait_idle()

    def _when_idle(self, effects: Iterator[object], members: Sequence[LaunchRecord] = ()) -> None:
        """Run an iterator, of functions in C alone, while no call is in progress that reads the blocks."""
        while True:
            for member in members or (self,):
                member._wait_idle()
            plans = [member.plan for member in members or (self,)]
            for member in members or (self,):
                if member._users:
                    plans += [user.plan for user in member._living() if user.plan not in plans]
            # Another thread may have begun a call since.
            if done_while_idle(plans, effects):
                return

    # -- running -----------------------------------------------------------------------------------------------------

    @brief
    def run(self, stream: Stream | None = None) -> None:
        """Run once from Python: on the tape, in a sequence, on a stream, or at once."""
        stream = self.stream if stream is None else stream
        if self._is_packed(stream):
            _ = self.launch  # packs the parameters that were changed in the block alone
            submit(self._compiled, stream)
            return
        self.check_alive()
        if self.adjoint is None:
            # A tape or sequence keeps the launch it is given, whose arguments must not change with this record's.
            dispatch(self.launch.copy(), self.record_tape, stream)
            return
        if stream is not None and not isinstance(stream, Stream):
            raise MisuseError(
                f"stream must be a dk.Stream, not {stream!r}", remedy="make one with dk.Stream(), or leave it out"
            )
        self._adjoint_of(self.launch.copy(), self.adjoint.cotangents).launch_by_hand(stream)

    def _is_packed(self, stream: Any) -> bool:
        """Return whether a GPU takes the block as it is: a tape, a sequence or a graph keeps a launch of its own."""
        device = self._compiled.device
        if device is CPU or not self._compiled.block or device.is_capturing:
            return False
        return isinstance(stream, (Stream, NoneType)) and not is_taken()

    def check_alive(self) -> None:
        """Raise if the record was released."""
        if self.released:
            raise LaunchError("this record was released", remedy="record the launch again")

    def release(self) -> None:
        """Release everything, after calls in progress; sequences that contain it cannot be replayed any more."""
        if not self.released:
            self._forget_slots()
            # The flag comes first, so that no new call enters while those in progress are waited for.
            self.plan.flag(RELEASED)
            self.released = True
            self._tell_users()
            self._renew()
            self._wait_idle()
            compiled = self._compiled
            compiled.launch = self.launch.copy()
            compiled.launch.arrays = [None] * len(compiled.launch.arrays)
            compiled.adjoint, compiled.given, compiled.native, compiled.block = None, [], None, bytearray()

    # -- changes -----------------------------------------------------------------------------------------------------

    def index_of(self, name: str) -> int:
        """Return the position of a parameter."""
        place = self._places.get(name)
        if place is not None:
            return place
        names = ", ".join(p.name for p in self.launch.kernel.parameters)
        raise LaunchError(
            f"kernel {self.launch.kernel.name!r} has no parameter {name!r}; it has {names}",
            remedy="take one of these names",
        )

    def check_index(self, index: int) -> int:
        """Return a position, checked."""
        count = len(self.launch.kernel.parameters)
        position = whole_number(index)
        if position is None:
            raise LaunchError(
                f"the index of a parameter is an integer, not {index!r}", remedy="count the parameters from 0"
            )
        if not 0 <= position < count:
            raise LaunchError(
                f"kernel {self.launch.kernel.name!r} has parameters 0 to {count - 1}, not {position}",
                remedy="count the parameters from 0",
            )
        return position

    @brief
    def set_param(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Change a parameter, or its gradient; the Python counterpart of the setter's native built-in."""
        if not adjoint:
            if not self._searched:
                self._find_slots()
            if type(index) is int and self._write_quickly(index, value):
                self.setter.note()
                return
        count = len(self.launch.kernel.parameters)
        if self.adjoint is not None and type(index) is int and count <= index < 2 * count:
            index, adjoint = index - count, True
        index = self.check_index(index)
        if adjoint:
            self.change({}, self.gradients({index: value}))
        else:
            self.set(index, value)

    def _write_quickly(self, index: int, value: Any) -> bool:
        """Write a struct, or a NumPy number, to the block; return whether it was one that fits."""
        put, writer = self._put, self._writers.get(index)
        if put is None:
            return False
        if writer is not None:
            made = writer.packed(value, self._compiled.block, self._compiled.launch.arrays)
            if made is None:
                return False
            self._wait_idle()
            while not put(writer.start, made):  # another thread has begun a call since
                self._wait_idle()
            return True
        slot = self._numbers.get(index)
        if slot is None or not isinstance(value, (np.floating, np.integer)):
            return False
        try:
            packed = slot[1](value)
        except (struct.error, OverflowError):  # said in words on the longer way
            return False
        self._wait_idle()
        while not put(slot[0], packed):
            self._wait_idle()
        return True

    def gradients(self, values: dict[int, Any], check: bool = True) -> dict[int, array | None]:
        """Return gradients by leaf from those by parameter."""
        self.check_alive()
        launch = self.launch
        if self.adjoint is None:
            raise LaunchError(
                f"this record of kernel {launch.kernel.name!r} runs forward and has no gradients to set",
                remedy="make the adjoint's record with record.adjoint(), or launch(..., adjoint=True, record_cmd=True)",
            )
        by_leaf = values_by_leaf(launch, [values.get(index) for index in range(len(launch.keys))])
        found: dict[int, array | None] = {}
        for leaf, value in enumerate(by_leaf):
            if launch.leaves[leaf].argument in values:
                as_is = value is None or (not check and isinstance(value, array))
                found[leaf] = value if as_is else cotangent(launch, leaf, value)
        return found

    def set(self, index: int, value: Any) -> None:
        """Change a parameter."""
        self.check_alive()
        launch = self.launch
        parameter = launch.kernel.parameters[index]
        leaf = launch.span(index).start
        if launch.leaves[leaf].path:
            self._set_leaves(index, value)
            return
        if type(value) is array and (parameter.is_array or parameter.annotation is None):
            key, packed, held = value._key, value._packed, value
        else:
            key, parts, leaves = parameter.convert_leaves(value)
            if len(parts) != 1:
                self.change({index: (key, parts, leaves)}, {})
                return
            if leaves[0] is None:
                self.set_value(index, key, parts[0])
                return
            packed, held = parts[0], leaves[0]
        # Another type takes another program, and so may an array that another parameter has too; an adjoint's arrays
        # have gradients: each is a change of the whole compiled.
        particular = key != launch.keys[index] or launch.is_particular(leaf, held)
        if particular or self.adjoint is not None or not self._compiled.block:
            self.change({index: (key, [packed], [held])}, {})
            return
        counter = self._counter_of(leaf)
        before = launch.arrays[leaf]
        # Only an array that is written and lies in other memory needs another counter of changes.
        other = counter is not None and before is not None and before._memory is not held._memory
        counted = held._memory.is_counted and not held._memory.is_host
        if other and (self.family or counted):
            self.change({index: (key, [packed], [held])}, {})
            return
        if self.fixed:
            raise _fixed()
        parts = [*launch.parts[:leaf], packed, *launch.parts[leaf + 1 :]]
        arrays = [*launch.arrays[:leaf], held, *launch.arrays[leaf + 1 :]]
        check_fit(launch.kernel, launch.executable, launch.grid, parts, arrays)
        compiled = self._compiled
        block, offset = compiled.block, compiled.offsets[leaf]
        behind = offset + len(packed)
        if compiled.device is not CPU:
            # On a GPU the addresses may select another variant of the program, which the plan does not have.
            arguments = arguments_of(block[:offset] + packed + block[behind:])
            if self.executable.chosen(arguments) is not compiled.program:
                self.change({index: (key, [packed], [held])}, {})
                return
        counters, address = self.plan.counters, ctypes.addressof(held._memory.counter)
        self._wait_idle()
        # Renewed before and after the change: a reader in between finds it outdated afterwards.
        self._renew()
        self._tell_users(of_arrays=True)
        # All in one call: an interrupt, and a replay by another thread, comes between two calls. The former array is
        # still in `before`.
        effects = chain(
            launch.putting(leaf, held), map(operator.setitem, (block,), (slice(offset, behind),), (packed,))
        )
        if counter is not None and other:
            effects = chain(map(operator.setitem, (counters,), (counter,), (address,)), effects)
        self._when_idle(effects)
        if self._searched and not self._are_alone():
            self._forget_slots()
        self._renew()
        self._tell_users(of_arrays=True)  # those too that another thread has brought up to date meanwhile

    def check(self, values: Mapping[int, Any]) -> None:
        """Raise if parameters cannot take values, which are set one after the other."""
        self.check_alive()
        launch = self.launch
        leaves = {index: launch.kernel.parameters[index].convert_leaves(value) for index, value in values.items()}
        if self.fixed and not all(self._same_arrays(index, held) for index, (_, _, held) in leaves.items()):
            raise _fixed()
        for index, (_, packed, _) in leaves.items():
            for leaf, part in enumerate(packed, launch.span(index).start):
                self._check_settled(leaf, part)
        launch.changed(leaves)
        parts = list(launch.parts)
        for index, (_, packed, _) in leaves.items():
            for leaf, part in zip(range(launch.span(index).start, len(parts)), packed, strict=False):
                parts[leaf] = part
                for member in self.family or (self,):
                    member.check_races(leaf, parts)

    def set_all(self, values: Mapping[int, Any]) -> None:
        """Change parameters that were checked together."""
        if self.fixed or len(values) == 1:
            for index, value in values.items():
                self.set(index, value)
        else:
            self.change({k: self.launch.kernel.parameters[k].convert_leaves(v) for k, v in values.items()}, {})

    def _same_arrays(self, index: int, held: Sequence[array | None]) -> bool:
        """Return whether the arrays of an argument are the present ones, so that at most its values differ."""
        present = self.launch.arrays[self.launch.span(index)]
        if len(present) != len(held):
            return False
        pairs = zip(present, held, strict=True)
        return all(a is b or (a is not None and b is not None and a._same_place(b)) for a, b in pairs)

    def _set_leaves(self, index: int, value: Any) -> None:
        """Change a struct parameter."""
        launch = self.launch
        key, packed, held = launch.kernel.parameters[index].convert_leaves(value)
        if key != launch.keys[index] or not self._same_arrays(index, held):
            self.change({index: (key, packed, held)}, {})
            return
        span = launch.span(index)
        for leaf, part in enumerate(packed, span.start):
            self._check_settled(leaf, part)
        for leaf, part in enumerate(packed, span.start):
            if launch.arrays[leaf] is None:
                self._write(leaf, part)

    def _write(self, leaf: int, packed: bytes) -> None:
        """Change a value in the block, and in those of all members that share it."""
        goals: list[Any] = [self._compiled.launch.parts]
        places: list[Any] = [leaf]
        members = self.family or (self,)
        parts = [*self.launch.parts[:leaf], packed, *self.launch.parts[leaf + 1 :]]
        # All checks come first, of all members: a refused value must not have reached any of them.
        for member in members:
            member._check_settled(leaf, packed)
            member.check_races(leaf, parts)
        # A member whose program gathers would be wrong for the new value, and is switched before the value is written.
        for member in members:
            member.scatter(leaf, packed)
        for member in members:
            member._wait_idle()
            member._renew()
            offset = member._compiled.offsets.get(leaf)
            if offset is not None:
                goals.append(member._compiled.block)
                places.append(slice(offset, offset + len(packed)))
        # All in one call: an interrupt, and a replay by another thread, comes between two calls.
        self._when_idle(map(operator.setitem, goals, places, repeat(packed)), members)
        for member in members:
            member._renew()
            member.gather(leaf)

    def set_value(self, index: int, key: str, packed: bytes) -> None:
        """Change a parameter by value."""
        launch = self.launch
        if key != launch.keys[index]:
            self.change({index: (key, [packed], [None])}, {})
        else:
            self._write(self.launch.span(index).start, packed)

    def change(self, forward: Mapping[int, Leaves], given: dict[int, array | None]) -> None:
        """Change any parameters, and gradients by leaf, at once; if they do not fit together, nothing changes."""
        if self.fixed:
            raise _fixed()
        launch = self.launch.changed(forward)
        merged = [given.get(i, old) for i, old in enumerate(self._compiled.given)]
        adjoint = None
        if self.adjoint is not None:
            checked = [None if ct is None else cotangent(launch, i, ct) for i, ct in enumerate(merged)]
            cotangents, before = with_default_gradients(launch, checked), self._compiled.launch.merged
            # All leaves of one array share a cotangent, which is listed under the first of them.
            wanted = [i for i in range(len(merged)) if before.get(i, i) in self.adjoint.cotangents]
            check_not_lost(launch, wanted, cotangents)
            adjoint = self._adjoint_of(launch, cotangents)
        self._take(launch, adjoint, merged)

    def join(self, family: list[LaunchRecord]) -> None:
        """Change parameters by value together with others."""
        self.family = family
        self._forget_slots()

    def fix(self) -> None:
        """Refuse other arrays and dimensions from now on."""
        self.fixed = True
        self._forget_slots()

    def set_dim(self, dim: Any) -> None:
        """Change the dimensions."""
        self.check_alive()
        if self.fixed:
            raise _fixed()
        launch = self.launch.changed(dim=dim)
        adjoint = None if self.adjoint is None else self._adjoint_of(launch, self.adjoint.cotangents)
        self._take(launch, adjoint, self._compiled.given)

    def _adjoint_of(
        self, launch: PackedLaunch, cotangents: dict[int, array] | Any, may_gather: bool = True
    ) -> AdjointLaunch:
        of = self.adjoint
        assert of is not None
        return AdjointLaunch(launch, cotangents, of.saved, of.contents, may_gather=may_gather, of_sweep=of.of_sweep)

    def _take(self, launch: PackedLaunch, adjoint: AdjointLaunch | None, given: list[array | None]) -> None:
        # The built-in stays the one it is, so what it points to has to be changed in place: a new plan for a new call.
        compiled = CompiledLaunch(launch, adjoint, given, 0 if self.stream is None else STREAM)
        self._wait_idle()
        self._forget_slots()
        self._tell_users()
        # Whoever compares the stamp meanwhile finds it changed, before and after the exchange.
        self._renew()
        self.plan.flag(STALE)
        self._compiled = compiled
        self._renew()
        self._complete()
        self._tell_users()  # those too that another thread has brought up to date meanwhile

    def _tell_users(self, of_arrays: bool = False) -> None:
        """Mark the plans that contain this launch as stale; with `of_arrays` only those that depend on its arrays."""
        for user in self._living():
            if user.leaves_out or not of_arrays:
                user.plan.flag(STALE)

    def _complete(self) -> None:
        """Make the plan that of the present form, also after an interrupt has prevented it."""
        if self.plan is self._compiled.plan:
            self.plan.renew()
        else:
            self.plan.become(self._compiled.plan)


def _fixed() -> LaunchError:
    return LaunchError(
        "arrays and dimensions of this launch are fixed: a gradient was built for them",
        remedy="set them in the forward sequence, and build its adjoint again",
    )


def from_ctype(value: Any, element: Element) -> Any:
    """Return a ctypes value as NumPy's: a number, or an array of numbers for a vector or matrix.

    Python numbers and values such as ``dk.vec3(…)`` are returned unchanged.

    Raises
    ------
    TypeError
        If it is something else, or its numbers are not of the type of `element`.
    """
    if element_of_value(value) is not None:
        return value
    try:
        numbers = np.array(value) if hasattr(value, "_length_") else np.dtype(type(value)).type(value.value)
    except (AttributeError, TypeError):
        raise TypeError(f"a number or an array of numbers from ctypes was expected, not {value!r}") from None
    wanted = SCALARS[scalar_of(element).name].numpy
    if numbers.dtype != wanted:
        raise TypeError(f"takes {element}, and {type(value).__name__} holds {numbers.dtype}")
    return numbers
