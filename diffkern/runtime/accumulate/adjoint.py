"""The launch of the adjoint of a launch.

It matches gradients to arguments, chooses a way to accumulate in which threads do not race, and runs. It takes a
forward launch, the cotangent array of each active parameter and copies of what the forward overwrote. Afterwards the
cotangents of arrays that the forward wrote are consumed and the others are added to. Arguments that do not fit raise
:class:`LaunchError` before anything has run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from diffkern.contracts.manifest import Log
from diffkern.contracts.options import ATOMIC, GATHERING, PLAIN, AdjointForm
from diffkern.errors import LaunchError, described
from diffkern.ir.structs import Leaf, Struct, StructArray, declared, holds_arrays
from diffkern.ir.types import Array, Element, is_differentiable, value_type
from diffkern.lang.dtypes import element_of_value
from diffkern.process.tracebacks import place_of
from diffkern.runtime.accumulate.accumulation import NOTHING, Sweep, choose, copied_of
from diffkern.runtime.accumulate.sorting import sorting_of
from diffkern.runtime.arrays.array import _given, array, new, wrap
from diffkern.runtime.arrays.structured import StructuredArray
from diffkern.runtime.arrays.type_keys import type_of_key
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.launch_checks import DIMS
from diffkern.runtime.launch.nested_arrays import nested_arrays
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.resources import check_not_given
from diffkern.runtime.launch.stamps import with_one_writer
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.memory import overlaps
from diffkern.runtime.memory.operation import Assign, Copy, Operation, perform
from diffkern.runtime.memory.state import current, slow_path_flags
from diffkern.runtime.memory.stream import Stream
from diffkern.runtime.native.replay import Steps

__all__ = [
    "AdjointLaunch",
    "check_aliases",
    "check_not_lost",
    "cotangent",
    "match_cotangents",
    "near_pairs",
    "values_by_leaf",
    "with_default_gradients",
]

_Held: TypeAlias = "tuple[int, bool, array]"
"""A leaf of a launch, whether it is its cotangent that is meant, and the array."""


class AdjointLaunch(Operation):
    """The adjoint of a launch, checked and packed.

    Parameters
    ----------
    launch : PackedLaunch
        The forward launch.
    cotangents : mapping of int to array
        The cotangent of each active parameter: of the same shape as the array, of one element for a value.
    saved : mapping of int to array, optional
        Copies of what arrays held before the forward ran, where the adjoint needs it.
    contents : mapping of int to array, optional
        Copies to read in place of arrays that no longer hold what they held after the forward ran.
    executable : Executable, optional
        The adjoint program for these cotangents that accumulates plainly, if it is at hand.
    may_gather : bool, optional
        Whether the program whose threads gather may run, if the arguments are such that it is right.
    at_once : bool, optional
        Whether it runs on what the arrays hold now, and once: then these are looked at for threads that store to one
        element.
    """

    in_elements = False
    """True if it reaches cotangents through elements of arrays."""

    by_hand = False
    """True if a user launches it, and not a sweep: then no gradient can pass it."""

    def __init__(
        self,
        launch: PackedLaunch,
        cotangents: Mapping[int, array],
        saved: Mapping[int, array] | None = None,
        contents: Mapping[int, array] | None = None,
        executable: Executable | None = None,
        may_gather: bool = True,
        at_once: bool = False,
    ) -> None:
        kernel = launch.kernel
        # Only a tape pairs arrays that a kernel finds by their ids with cotangents; here their gradients would be lost.
        if launch.executable.by_id and not self.in_elements:
            check_not_given(launch, (), "outside of a tape")
        if launch.merged:
            cotangents = _merged(launch, cotangents)
        program = launch.adjoint(frozenset(cotangents)) if executable is None else executable
        if at_once and program.granted is not None:
            launch = with_one_writer(launch, frozenset(cotangents), program, after=True)
            program = launch.adjoint(frozenset(cotangents))
        self.launch = launch
        self.cotangents = cotangents
        self.saved = saved or {}
        self.contents = contents or {}
        self.executable = program
        derivative = program.derivative
        if derivative.before:
            _check_saved(kernel, program, self.saved)
        if derivative.log is not None:
            _check_log(launch, derivative.log)
        if launch.executable.manifest.pointing:
            _check_elements(launch, cotangents)
        # Stamps proved only that the threads of this very launch do not race. A recorded adjoint would be replayed for
        # other data, about which nothing was proved.
        if launch.stamped and not kernel.race_free and (current.recorder is not None or launch.device.is_capturing):
            raise _only_now(launch)
        if program.races is not None:
            program.races.check(kernel.name, launch.dims, launch.parts.__getitem__)
        shared = self._are_shared = check_aliases(kernel, launch, cotangents)
        self._strided = []
        for index, ct in cotangents.items():
            # Cotangents that share memory, or whose elements coincide (stride 0), break the assumption of the plain
            # program that distinct elements have distinct addresses.
            if ct._type.layout == "A":
                self._strided.append(index)
                shared = shared or _is_repeated(ct)
        self.gathering = program.gathering
        self.cleared: tuple[array, ...] = ()
        # Gathering overwrites each element of a cotangent from one thread, which is only right if no other array of the
        # launch can contribute to the same bytes.
        self.gathers = may_gather and not shared and self._may_gather(launch.parts.__getitem__)
        try:
            sweep = self.sweep = self._chosen(shared)
        except LaunchError:
            raise
        except ValueError as error:
            raise LaunchError(f"the adjoint of kernel {kernel.name!r}: {error}", remedy=DIMS) from None
        # The sweep replaced the program only because threads collide in it. Sorting by destination may then beat
        # atomics.
        is_racing = sweep.executable is not program and not (self.gathers or shared or self.in_elements)
        self.sorting = sorting_of(launch, program, cotangents, self.contents) if is_racing else None
        self.executable, self.grid = sweep.executable, sweep.grid
        # What was packed for the check, and the parts it is made of, which a record may exchange before it is run.
        self._checked: tuple[list[bytes], bytes] | None = None
        self.executable.check(self._passed)

    @property
    def label(self) -> str:
        """The name of the launch for messages."""
        return f"adjoint of {self.launch.kernel.name}"

    kind = "adjoint"

    def launch_by_hand(self, stream: Stream | None = None) -> None:
        """Hand it on as a launch of the user's."""
        self.by_hand = True
        perform(self, stream)

    def facts(self) -> dict[str, Any]:
        """Return the dimensions, the device and the title of the program."""
        return {"dim": self.launch.dims, "device": str(self.device), "title": self.executable.manifest.title}

    def touch(self) -> None:
        """Raise the versions of the memory that it changes."""
        for ct in self.writes():
            ct._memory.version += 1
        whole = self.launch.executable.fully_overwritten
        if not whole:
            return
        # Only a launch that runs at once tells what memory holds now; a recorded or queued one runs later, or
        # repeatedly.
        if not slow_path_flags.word[0] or (current.recorder is None and current.stream is None and not current.streams):
            self._note_zero(whole)

    def _note_zero(self, whole: Sequence[tuple[int, int]]) -> None:
        """Mark the cotangents that are zero afterwards: those of arrays that the launch overwrites as a whole."""
        launch, cotangents = self.launch, self.cotangents
        # A cotangent that several leaves share is added to after it has been consumed for one of them.
        if self.in_elements or launch.merged or self._are_shared:
            return
        dims = launch.dims
        for k, axes in whole:
            ct = cotangents.get(k)
            if ct is not None and axes == len(dims) and ct.shape == dims:
                memory = ct._memory
                # The mark is about the whole memory, so that a view of a part does not set it.
                if ct._data.nbytes == memory.nbytes:
                    memory.zero_version = memory.now

    @property
    def device(self) -> Device:
        """The device that it runs on."""
        return self.launch.executable.device

    def block(self) -> bytearray:
        """Return the argument block of a GPU's launch; empty on the CPU, and where cotangents have to be copied."""
        if self._copies():
            return bytearray()
        return self.executable.block(self.grid, self._pack(self.cotangents))

    def _copies(self) -> bool:
        """Return whether a cotangent that has to be contiguous is not."""
        return bool(self._strided) and not self.executable.contiguous_cotangents.isdisjoint(self._strided)

    def reads(self) -> list[array]:
        """Return the arrays that the adjoint reads."""
        held = [self.contents.get(i, self.launch.arrays[i]) for i in self.executable.derivative.after]
        kept = (*self.saved.values(), *(self.launch.log or ()))
        return [a for a in (*held, *kept, *self.cotangents.values()) if a is not None]

    def writes(self) -> list[array]:
        """Return the cotangents, each of which is read, added to or consumed."""
        return list(self.cotangents.values())

    def steps(self) -> Steps | None:
        """Return the adjoint as steps of native code, or None if it cannot be expressed so.

        It cannot if cotangents have to be copied to contiguous buffers, which the steps do not do, or if
        contributions may be
        sorted by destination: each launch inspects the destinations again.
        """
        if self.sorting is not None:
            return None
        # The gathering program reads the cotangents that it consumes from several threads, and so cannot zero them
        # itself.
        found, behind = self._swept(), [Assign(ct, 0).steps() for ct in self.cleared]
        if not found or not behind:
            return found
        return None if None in behind else [*found, *(step for steps in behind for step in steps or ())]

    def _swept(self) -> Steps | None:
        plan = self.sweep.plan
        if self._copies():
            return None
        # Private accumulation needs one copy of the cotangents for each worker, which the native steps make and reduce.
        copied = copied_of(self.executable, plan, self.cotangents) if plan.private else None
        if copied is not None:
            return self.executable.copied_steps(self.grid, self._pack(self.cotangents), plan.colours, copied)
        return None if plan.private else self.executable.steps(self.grid, self._pack(self.cotangents), plan.colours)

    def execute(self) -> None:
        """Run the adjoint once."""
        given = self.cotangents
        if self._copies():
            wanted = self.executable.contiguous_cotangents
            given = {index: _contiguous(ct) if index in wanted else ct for index, ct in given.items()}
        try:
            if self.sorting is None or not self.sorting.run(self._pack):
                self.sweep.run(given, partial(self._pack, given))
            for ct in self.cleared:
                Assign(ct, 0).execute()
        except BaseException:
            for ct in self.cotangents.values():
                # A failed run may have written anything, so that the memory is no longer known to be zero.
                ct._memory.zero_version = -1
            raise
        # Strided cotangents were replaced by contiguous copies for the run; copy what was accumulated back.
        if given is not self.cotangents:
            for index, ct in self.cotangents.items():
                if given[index] is not ct:
                    Copy(ct, given[index]).execute()

    def _may_gather(self, part: Callable[[int], bytes]) -> bool:
        """Return whether the gathering program is right for arguments with these bytes."""
        gathering, launch = self.gathering, self.launch
        if gathering is None or launch.merged or not gathering.holds(launch.dims, part):
            return False
        cleared = [self.cotangents[k] for k in gathering.cleared]
        return all(ct.shape == launch.dims and ct._data.flags.c_contiguous for ct in cleared)

    def gathers_with(self, leaf: int, packed: bytes) -> bool:
        """Return whether the gathering program is still right if one by-value leaf has these bytes."""
        return self._may_gather(lambda k: packed if k == leaf else self.launch.parts[k])

    @property
    def form(self) -> AdjointForm:
        """The form of the program that it runs, unless it adds atomically."""
        return GATHERING if self.gathers else PLAIN

    def _chosen(self, shared: bool) -> Sweep:
        """Choose the program and the sweep, the gathering one if it may run."""
        if self.gathers:
            program = self._gathering_program()
            if program is not None:
                found = self._choose(program, shared)
                # The choice may fall back to atomics after all, in which case gathering has no advantage left.
                if found.executable is program:
                    assert self.gathering is not None
                    self.cleared = tuple(self.cotangents[k] for k in self.gathering.cleared)
                    return found
            self.gathers = False
        return self._choose(self.executable, shared)

    def _gathering_program(self) -> Executable | None:
        """Return the gathering program, or None if it has not been shipped and there is no compiler."""
        program = self.launch.optional_adjoint(frozenset(self.cotangents), GATHERING)
        if program is None:
            self.executable.gathering = self.gathering = None
        return program

    def _choose(self, program: Executable, shared: bool) -> Sweep:
        """Return how a program runs, or how the one with atomic additions runs in its place."""
        launch = self.launch
        shapes = tuple([ct.shape for ct in self.cotangents.values()])
        # The choice depends on nothing but extents and sharing, and is cached because training repeats one launch.
        found = program.sweeps.get((launch.dims, shared, shapes))
        return found or choose(program, self._atomic, launch.dims, shapes, self._sizes, shared, launch.blocks)

    def _atomic(self) -> Executable:
        """Return the program that adds atomically."""
        return self.launch.adjoint(frozenset(self.cotangents), ATOMIC)

    def _sizes(self) -> dict[int, int]:
        """Return the number of scalars in each cotangent."""
        return {index: ct._data.size for index, ct in self.cotangents.items()}

    def _passed(self) -> bytes | None:
        """Return the packed arguments for the check, or None where cotangents have to be copied first.

        The first run takes the same bytes.
        """
        if self._copies():
            return None
        packed = self._pack(self.cotangents)
        self._checked = list(self.launch.parts), packed
        return packed

    def _pack(self, cotangents: Mapping[int, array], own: Mapping[int, bytes] = NOTHING) -> bytes:
        """Return the argument block without its header; `own` gives the bytes to pass in place of some cotangents."""
        behind = self.executable.layout.cotangents
        # In the usual layout the forward's arguments are followed by nothing but cotangents, and the parts are joined
        # as they are.
        if behind is not None and not own and not self.contents:
            checked, self._checked = self._checked, None
            # A record may have exchanged parts since the check. The checked bytes are reused only if they are
            # unchanged, and once.
            if checked is not None and cotangents is self.cotangents and checked[0] == self.launch.parts:
                return checked[1]
            return b"".join(self.launch.parts + [cotangents[k]._packed for k in behind])
        parts, own_count = [], len(self.launch.parts)
        for role, index in self.executable.layout.entries:
            if role == "param":
                held = self.contents.get(index)
                parts.append(self.launch.parts[index] if held is None else held._packed)
            elif role == "log":
                assert self.launch.log is not None
                parts.append(self.launch.log[index - own_count]._packed)
            elif role == "saved":
                parts.append(self.saved[index]._packed)
            else:
                parts.append(own.get(index) or cotangents[index]._packed)
        return b"".join(parts)


def _is_repeated(ct: array) -> bool:
    """Return whether several elements of a cotangent have the same address."""
    return 0 in ct.strides and ct.size > 1


def _merged(launch: PackedLaunch, cotangents: Mapping[int, array]) -> Mapping[int, array]:
    """Return the cotangents with one for all parameters that are given the same array."""
    merged = launch.merged
    found: dict[int, array] = {}
    for index, ct in cotangents.items():
        of = merged.get(index, index)
        if not found.setdefault(of, ct)._same_place(ct):
            first, second = (launch.executable.name_of(k) for k in (of, index))
            raise LaunchError(
                f"kernel {launch.kernel.name!r}: {first!r} and {second!r} are one array, and have two gradients",
                remedy="give both the same gradient, which is that of the array",
            )
    return found


def _check_saved(kernel: KernelProtocol, adjoint: Executable, saved: Mapping[int, array]) -> None:
    """Raise if the adjoint reads what the forward has overwritten and there is no copy of it."""
    missing = [i for i in adjoint.derivative.before if i not in saved]
    if missing:
        names = ", ".join(repr(adjoint.name_of(i)) for i in missing)
        raise LaunchError(
            f"kernel {kernel.name!r}: the adjoint needs what {names} held before the kernel overwrote it",
            remedy="launch the kernel under a dk.Tape, which keeps a copy, or write to another array",
        )


def _only_now(launch: PackedLaunch) -> LaunchError:
    """Return the error for an adjoint that would be repeated although only one launch was checked for races."""
    return LaunchError(
        f"kernel {launch.kernel.name!r}: that no threads race was seen in this one launch, and a sequence would "
        "repeat its adjoint for others",
        loc=place_of(launch.kernel.func),
        remedy="call tape.backward() outside of the sequence, or split the kernel in two launches",
    )


def _check_log(launch: PackedLaunch, log: Log) -> None:
    """Raise if the adjoint reads values that the forward logs and the launch has not kept them."""
    if launch.logged != log:
        raise LaunchError(
            f"kernel {launch.kernel.name!r}: the adjoint needs {log.what} in each thread of the forward launch, "
            "which has not kept it",
            loc=log.loc,
            remedy="launch the kernel under a dk.Tape, which keeps it, and call tape.backward(grads={y: ct_y})",
        )


def _check_elements(launch: PackedLaunch, cotangents: Mapping[int, array]) -> None:
    """Raise if the adjoint would leave out gradients of arrays that are reached through elements of arrays."""
    executable = launch.executable
    lost = [k for k in executable.manifest.pointing if k in executable.uses and k not in cotangents]
    for held in nested_arrays(executable, launch.arrays, lost):
        if held.requires_grad:
            raise LaunchError(
                f"kernel {launch.kernel.name!r} uses {held!r} through an element of an array, and it has a gradient, "
                "which an adjoint that is launched by hand does not find",
                loc=place_of(launch.kernel.func),
                remedy="launch the kernel under a dk.Tape, and call tape.backward(grads={y: ct_y})",
            )


def match_cotangents(
    launch: PackedLaunch, n_inputs: int, n_outputs: int, adj_inputs: Sequence[Any], adj_outputs: Sequence[Any]
) -> list[array | None]:
    """Return the checked gradient given by hand for each leaf, or None where none is given."""
    kernel = launch.kernel
    given = (
        *_padded(kernel, "adj_inputs", adj_inputs, "inputs", n_inputs),
        *_padded(kernel, "adj_outputs", adj_outputs, "outputs", n_outputs),
    )
    # The common case, one leaf per argument and gradients of exactly the expected type, takes no look-up of types.
    if len(launch.arrays) == len(given) == len(launch.keys):  # no structs
        for held, value in zip(launch.arrays, given, strict=True):
            if value is not None and not (type(value) is array and _is_usual(launch, held, value)):
                break
        else:
            return list(given)
    return [None if v is None else cotangent(launch, i, v) for i, v in enumerate(values_by_leaf(launch, given))]


def _is_usual(launch: PackedLaunch, held: array | None, given: array) -> bool:
    """Return whether a gradient fits its argument beyond doubt, so that no further check is needed."""
    return (
        held is not None
        and held._smooth
        and held._is_like(given)
        and given._writable
        and given._memory.device is launch.device
    )


def with_default_gradients(launch: PackedLaunch, given: Sequence[array | None]) -> dict[int, array]:
    """Return the cotangents of a launch: those given, and the arguments' own gradients.

    Raises
    ------
    LaunchError
        If there is none.
    """
    cotangents: dict[int, array] = {}
    for index, value in enumerate(given):
        if value is None:
            held = launch.arrays[index]
            own = None if held is None else held.grad
            value = None if own is None else cotangent(launch, index, own)
        if value is not None:
            cotangents[index] = value
    if not cotangents:
        raise LaunchError(
            f"kernel {launch.kernel.name!r}: no argument has a gradient, so there is nothing to differentiate for",
            remedy="pass adj_inputs and adj_outputs, or arrays made with requires_grad=True",
        )
    return cotangents


def check_not_lost(launch: PackedLaunch, before: Iterable[int], cotangents: Collection[int]) -> None:
    """Raise if a leaf that had a gradient has none now, as what the record adds to it would be lost."""
    for leaf in before:
        if leaf not in cotangents:
            raise LaunchError(
                f"kernel {launch.kernel.name!r}, parameter {launch.leaves[leaf].name!r}: this record of an adjoint "
                "adds to its gradient, and the array has none",
                remedy="make the array with requires_grad=True, or set it and its gradient together, with "
                "set_params(values, adj_values); for a launch without this gradient make another record",
            )


def check_aliases(kernel: KernelProtocol, launch: PackedLaunch, cotangents: Mapping[int, array]) -> bool:
    """Return whether cotangents share memory with each other.

    Raises
    ------
    LaunchError
        If a written array or a cotangent shares memory with another argument, so that the adjoint would be wrong.
    """
    # Without structs the ranges of bytes decide the usual case, that all are disjoint, in one sorted pass. Only if two
    # ranges meet are the strides looked at, which tell interleaved views from views that overlap.
    if len(launch.arrays) == len(launch.keys):
        ranges = [held._range for held in launch.arrays if held is not None]
        ranges += [ct._range for ct in cotangents.values()]
    else:
        ranges = _whole_ranges(launch, cotangents)
    ranges.sort()
    end = 0
    for low, high in ranges:
        if low < end and high > low:
            return _explain_overlaps(kernel, launch, cotangents)
        if high > end:
            end = high
    return False


def _whole_ranges(launch: PackedLaunch, cotangents: Mapping[int, array]) -> list[tuple[int, int]]:
    """Return the byte ranges of arguments and cotangents, with one range for a whole array of structs.

    The fields of an array of structs are interleaved, so that their ranges always overlap.
    """
    found: dict[tuple[int, bool, int], tuple[int, int]] = {}
    for index, leaf in enumerate(launch.leaves):
        for a, is_cotangent in ((launch.arrays[index], False), (cotangents.get(index), True)):
            if a is not None:
                found[leaf.argument, is_cotangent, id(a._whole)] = a._whole._range
    return list(found.values())


def _explain_overlaps(kernel: KernelProtocol, launch: PackedLaunch, cotangents: Mapping[int, array]) -> bool:
    names = [leaf.name for leaf in launch.leaves]
    writes = launch.executable.writes
    # Of a struct come all fields, also those that the kernel does not touch.
    used = {i for i, leaf in enumerate(launch.leaves) if not leaf.path} | {*writes, *launch.executable.reads}
    held = [(i, False, a) for i, a in enumerate(launch.arrays) if a is not None and i in used]
    every = held + [(i, True, ct) for i, ct in cotangents.items() if i in used]
    shared, merged = False, launch.merged
    # Two cotangents may share memory if neither array is written: both are only added to, and the sum of contributions
    # is the gradient of what they share.
    for (i, i_is_ct, a), (j, j_is_ct, b) in near_pairs(every):
        if not (i_is_ct or j_is_ct) and merged.get(i, i) == merged.get(j, j):
            continue  # one array, which the adjoint takes as such
        if a._whole is b._whole is not a and a._packed != b._packed:
            continue  # two fields of one array of structs
        if not overlaps(a._data, b._data):
            continue
        written = i in writes or j in writes
        if i_is_ct and j_is_ct and not written:
            shared = True
        elif i_is_ct or j_is_ct or written:
            first = f"the gradient of {names[i]!r}" if i_is_ct else repr(names[i])
            second = f"the gradient of {names[j]!r}" if j_is_ct else repr(names[j])
            raise LaunchError(
                f"kernel {kernel.name!r}: {first} and {second} share memory, and one of them is written; such a "
                "launch cannot be differentiated",
                remedy="pass arrays that do not overlap, for example dk.clone() of one of them",
            )
    return shared


def near_pairs(every: list[_Held]) -> Iterator[tuple[_Held, _Held]]:
    """Yield the pairs of arrays whose ranges of addresses overlap, each pair in the order of the parameters."""
    # A sweep over the ranges by their lower end. `still` holds those that have not ended, so that only candidates are
    # compared instead of all pairs.
    ordered = sorted(enumerate(every), key=lambda entry: entry[1][2]._range)
    still: list[tuple[int, _Held]] = []
    for position, held in ordered:
        low, _ = held[2]._range
        still = [entry for entry in still if entry[1][2]._range[1] > low]
        for other, earlier in still:
            yield (earlier, held) if other < position else (held, earlier)
        still.append((position, held))


def _padded(kernel: KernelProtocol, label: str, values: Sequence[Any], of: str, count: int) -> Sequence[Any]:
    if len(values) not in (0, count):
        raise LaunchError(
            f"kernel {kernel.name!r}: {label} has {len(values)} entries for {count} {of}",
            remedy="give one entry for each argument, None where the argument's own gradient or none is meant",
        )
    return values or (None,) * count


def values_by_leaf(launch: PackedLaunch, given: Sequence[Any]) -> list[Any]:
    """Return the gradient of each leaf of a launch, from those given for each argument.

    For an array of structs that is an array of the same structs; for a struct by value an array of one struct, or a
    mapping from names of fields (with dots for those of nested structs) to arrays.
    """
    if all(value is None or type(value) is array for value in given) and not any(leaf.path for leaf in launch.leaves):
        return [given[leaf.argument] if leaf.argument < len(given) else None for leaf in launch.leaves]
    for argument, value in enumerate(given):
        if isinstance(value, Mapping):
            known = [".".join(leaf.path) for leaf in launch.leaves if leaf.argument == argument]
            unknown = [name for name in value if name not in known]
            if unknown:
                name = launch.kernel.parameters[argument].name
                raise LaunchError(
                    f"kernel {launch.kernel.name!r}, parameter {name!r}: a gradient is given for {unknown[0]!r}, which "
                    "is no field",
                    remedy=f"the fields are {', '.join(known)}",
                )
    out: list[Any] = []
    for leaf in launch.leaves:
        value = given[leaf.argument] if leaf.argument < len(given) else None  # it may be a parameter with a default
        out.append(_of_field(launch, leaf, value) if leaf.path and value is not None else value)
    # A number or vector in the place of the gradient of a value: there is nothing that it could be added to.
    pairs = zip(out, launch.arrays, strict=True)
    return [None if held is None and element_of_value(value) is not None else value for value, held in pairs]


def _of_field(launch: PackedLaunch, leaf: Leaf, value: Any) -> array | None:
    if isinstance(value, Mapping):
        found: array | None = value.get(".".join(leaf.path))
        return found
    if isinstance(value, np.ndarray) and value.dtype.names is not None:
        t = declared(type_of_key(launch.keys[leaf.argument]))
        if isinstance(t, Struct) and not holds_arrays(t):
            value = wrap(value, t)
        elif isinstance(t, StructArray):
            value = wrap(value, t.dtype)
    in_elements = isinstance(leaf.type, Array) and leaf.type.outer > 0
    if isinstance(value, StructuredArray) and is_differentiable(leaf.type) and not in_elements:
        return value.field(".".join(leaf.path))
    if isinstance(value, StructuredArray):
        return None
    raise LaunchError(
        f"kernel {launch.kernel.name!r}, parameter {launch.kernel.parameters[leaf.argument].name!r}: the gradient of a "
        f"struct cannot be {described(value)}",
        remedy="pass an array of structs (of one, for a struct by value), or a dict of arrays by names of fields",
    )


def cotangent(launch: PackedLaunch, index: int, given: Any) -> array:
    """Return a gradient as an array, checked against the argument it belongs to."""
    held = launch.arrays[index]
    if isinstance(given, array) and _is_usual(launch, held, given):
        return given
    leaf = launch.leaves[index]
    where = f"kernel {launch.kernel.name!r}, parameter {leaf.name!r}"
    t = leaf.type
    if not is_differentiable(t):
        raise LaunchError(f"{where}: an argument of type {t} has no gradient", remedy="pass None in its place")
    element: Element = t.dtype if isinstance(t, Array) else value_type(t)  # type: ignore[arg-type]
    if isinstance(given, array):
        value: array = given
    elif isinstance(given, np.ndarray) or hasattr(given, "__cuda_array_interface__"):
        try:
            value = _given(given, element)
        except (TypeError, ValueError) as error:
            raise LaunchError(
                f"{where}: its gradient does not fit: {error}",
                remedy=f"pass an array of {element}, as dk.zeros makes it",
            ) from None
    else:
        raise LaunchError(
            f"{where}: its gradient must be an array, not {described(given)}",
            remedy="pass an array of one element for a value, or None",
        )
    # A value by value has a gradient of one element, to which all threads add.
    shape = (1,) if held is None else held.shape
    if value.shape != shape or value._element != element:
        raise LaunchError(
            f"{where}: its gradient must have shape {shape} and type {element}, not {described(value)}",
            remedy="make it with dk.zeros_like(argument), which has both",
        )
    if not value._writable:
        raise LaunchError(
            f"{where}: its gradient is read-only memory",
            remedy="pass a copy that may be written, as in dk.array(gradient)",
        )
    if value._memory.device is not launch.device:
        raise LaunchError(
            f"{where}: its gradient is on {value.device}, and the launch on {launch.device}",
            remedy="allocate it on the same device",
        )
    return value


def _contiguous(ct: array) -> array:
    if ct._type.layout == "C":
        return ct
    made = new(ct.shape, ct._element, False, ct._memory.device)
    Copy(made, ct).execute()
    return made
