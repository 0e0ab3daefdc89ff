"""The launch of the adjoint of a launch.

It matches gradients to arguments, chooses a way to accumulate in which threads do not race, and runs. It takes a
forward launch, the cotangent array of each active parameter and copies of what the forward overwrote. Afterwards the
cotangents of arrays that the forward wrote are consumed and the others are added to. Arguments that do not fit raise
:class:`LaunchError` before anything has run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from diffkern.contracts.argument_block import with_bits
from diffkern.contracts.manifest import Log
from diffkern.contracts.options import ATOMIC, CLEARING, GATHERING, PLAIN, AdjointForm
from diffkern.errors import LaunchError
from diffkern.process.tracebacks import place_of
from diffkern.runtime.accumulate.accumulation import (
    NOTHING,
    Accumulation,
    Atomic,
    Candidates,
    Coloured,
    Gathered,
    Plain,
    Private,
    Sorted,
    choose,
)
from diffkern.runtime.accumulate.aliases import check_aliases
from diffkern.runtime.accumulate.sorting import Sorting, sorting_of
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Copy, Operation, perform
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.launch_checks import DIMS
from diffkern.runtime.launch.nested_arrays import nested_arrays
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.race_checks import Gathering
from diffkern.runtime.launch.resources import check_no_stores, check_not_given
from diffkern.runtime.launch.schedule import WITHOUT_BLOCKS, Grid
from diffkern.runtime.launch.stamps import with_one_writer
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.state import runs_at_once, will_replay
from diffkern.runtime.memory.stream import Stream
from diffkern.runtime.native.replay import Steps
from diffkern.runtime.native.slow_path import slow_path_flags

__all__ = ["AdjointLaunch"]

_UNKNOWN: tuple[Grid | None, Any] = None, None
_NO_LEAVES: Sequence[int] = ()
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
    of_sweep : bool, optional
        Whether a reverse sweep runs it, which knows that arrays are constants that the kernel finds by ids or in
        elements of others, and that have no cotangent here.
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
        of_sweep: bool = False,
    ) -> None:
        kernel = launch.kernel
        self.of_sweep = of_sweep
        self._is_recorded = will_replay()
        self._zero: list[int] = []
        # Only a tape pairs arrays that a kernel finds by their ids with cotangents; here their gradients would be lost.
        if launch.executable.by_id and not self.in_elements:
            if not of_sweep:
                check_not_given(launch, "outside of a tape")
            check_no_stores(launch, "outside of a tape")
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
        self.gathering, self._may_sort = program.gathering, program.sorts
        if self._has_fitted(program):
            return
        derivative = program.derivative
        if derivative.before:
            _check_saved(kernel, program, self.saved)
        if derivative.log is not None:
            _check_log(launch, derivative.log)
        if launch.executable.manifest.pointing and not of_sweep:
            _check_elements(launch, cotangents)
        # Stamps proved only that the threads of this very launch do not race. A recorded adjoint would be replayed for
        # other data, about which nothing was proved.
        if launch.stamped and not kernel.race_free and (will_replay() or launch.device.is_capturing):
            raise _only_now(launch)
        if program.races is not None:
            program.races.check(kernel.name, launch.dims, launch.parts.__getitem__)
        shared = self._are_shared = check_aliases(kernel, launch, cotangents)
        self._strided: Sequence[int] = []
        for index, ct in cotangents.items():
            # Cotangents that share memory, or whose elements coincide (stride 0), break the assumption of the plain
            # program that distinct elements have distinct addresses.
            if ct._type.layout == "A":
                self._strided = [*self._strided, index]
                shared = shared or _is_repeated(ct)
        shapes = tuple([ct.shape for ct in cotangents.values()])
        # Gathering overwrites each element of a cotangent from one thread, which is only right if no other array of the
        # launch can contribute to the same bytes.
        candidates = _Programs(self, program, may_gather and not shared)
        try:
            self.accumulation = choose(candidates, launch.dims, shapes, self._sizes, shared, launch.blocks)
        except LaunchError:
            raise
        except ValueError as error:
            raise LaunchError(f"the adjoint of kernel {kernel.name!r}: {error}", remedy=DIMS) from None
        self.executable, self.grid = self.accumulation.executable, self.accumulation.grid
        # What was packed for the check, and the parts it is made of, which a record may exchange before it is run.
        self._checked: tuple[list[bytes], bytes] | None = None
        self.executable.check(self._passed)
        self._note_fit(program, shared)

    def _deciding(self, program: Executable) -> tuple[object, ...] | None:
        """Return the bytes that decide all that there is to find out; None if more does."""
        launch, behind = self.launch, program.layout.cotangents
        if behind is None or not (launch.is_apart and launch.executable.is_plain) or self.saved or self.contents:
            return None
        if program.granted is not None or self.in_elements:
            return None
        if program.gathering is not None and program.gathering.arguments:
            return None
        own = launch.executable.deciding(launch.parts) if program.races is None else (*launch.parts,)
        return own, *[self.cotangents[k]._packed for k in behind]

    def _has_fitted(self, program: Executable) -> bool:
        """Return whether an adjoint of these very arrays has passed all checks, and take what was chosen for it."""
        deciding = self._deciding(program) if program.fits else None
        grid, chosen = program.fits.get(deciding, _UNKNOWN)
        if deciding is None or grid is not self.launch.grid or self.launch.blocks not in WITHOUT_BLOCKS:
            return False
        self._are_shared, self._strided = False, _NO_LEAVES
        if isinstance(chosen, Gathered):
            assert self.gathering is not None
            chosen = replace(chosen, cleared=tuple(self.to_clear(self.gathering)))
        self.accumulation, self.executable, self.grid = chosen, chosen.executable, chosen.grid
        self._checked = None
        return True

    @property
    def is_told(self) -> bool:
        """True if the bytes of its arrays and gradients decide all that there was to find out about it."""
        is_usual = not self._are_shared and not self._strided and self.launch.blocks in WITHOUT_BLOCKS
        return is_usual and not self._looks_at_contents and self._deciding(self.executable) is not None

    @property
    def _looks_at_contents(self) -> bool:
        """True if each launch looks whether contributions are to be sorted by destinations."""
        return self._may_sort and isinstance(self.accumulation, (Atomic, Sorted))

    def _note_fit(self, program: Executable, shared: bool) -> None:
        """Note what was chosen, for the next adjoint of the same arrays."""
        is_told = not (shared or self._strided or self._looks_at_contents) and self.launch.blocks in WITHOUT_BLOCKS
        deciding = self._deciding(program) if is_told else None
        found = self.accumulation
        if isinstance(found, Gathered):
            found = replace(found, cleared=())  # these are of one adjoint
        if deciding is not None and isinstance(found, (Plain, Atomic, Coloured, Private, Gathered)):
            program.fit(deciding, (self.launch.grid, found))

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
        if self.executable.zeroed:
            self._zero = self._known_zero()
        for ct in self.writes():
            ct._memory.version += 1
        if not self.launch.executable.fully_overwritten:
            return
        # Only a launch that runs at once tells what memory holds now; a recorded or queued one runs later, or
        # repeatedly.
        if not slow_path_flags.word[0] or runs_at_once():
            for memory in self.consumed():
                memory.zero_version = memory.now

    def _known_zero(self) -> list[int]:
        """Return the parameters whose cotangents are known to be zero at present: none where others run it later."""
        if self._is_recorded or will_replay() or self.device.is_capturing:
            return []
        # Another library may write to its own memory unseen.
        return [k for k, ct in self.cotangents.items() if (own := ct._memory).is_zero and not own.foreign]

    def consumed(self) -> list[Memory]:
        """Return the memory that is zero when it has run: of cotangents of arrays that the launch overwrites."""
        launch, cotangents = self.launch, self.cotangents
        # A cotangent that several leaves share is added to after it has been consumed for one of them.
        if self.in_elements or launch.merged or self._are_shared:
            return []
        dims, found = launch.dims, []
        for k, axes in launch.executable.fully_overwritten:
            ct = cotangents.get(k)
            # Zero is said of the whole memory, so that a view of a part says nothing.
            if ct is not None and axes == len(dims) and ct.shape == dims and ct._data.nbytes == ct._memory.nbytes:
                found.append(ct._memory)
        return found

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

    def constants(self) -> bytes:
        """Return nothing: its launch says what it does."""
        return b""

    def steps(self) -> Steps | None:
        """Return the adjoint as steps of native code, or None if it cannot be expressed so.

        It cannot if cotangents have to be copied to contiguous buffers, which the steps do not do, or if contributions
        may be sorted by destination.
        """
        return None if self._copies() else self.accumulation.steps(self.cotangents, self._pack)

    def execute(self) -> None:
        """Run the adjoint once."""
        given = self.cotangents
        if self._copies():
            wanted = self.executable.contiguous_cotangents
            given = {index: _contiguous(ct) if index in wanted else ct for index, ct in given.items()}
        try:
            self._used().run(given, self._pack)
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

    def clear(self) -> None:
        """Clear what its program has left to be cleared behind it."""
        if isinstance(self.accumulation, Gathered):
            self.accumulation.clear(self.cotangents, self._pack)

    def _used(self) -> Accumulation:
        """Return the accumulation for one run: what is known to be zero is not read."""
        used, zero = self.accumulation, self._zero
        self._zero = []
        bits = self.executable.bits_of_zeros(self.grid, zero) if zero and type(used) in (Plain, Atomic) else 0
        if not bits:
            return used
        return type(used)(used.executable, replace(self.grid, header=with_bits(self.grid.header, bits)))

    @property
    def gathers(self) -> bool:
        """True if the program runs whose threads gather."""
        return isinstance(self.accumulation, Gathered)

    def may_gather(self, part: Callable[[int], bytes]) -> bool:
        """Return whether the gathering program is right for arguments with these bytes."""
        gathering, launch = self.gathering, self.launch
        if gathering is None or launch.merged or not gathering.holds(launch.dims, part):
            return False
        return all(ct.shape == launch.dims and ct._data.flags.c_contiguous for ct in self.to_clear(gathering))

    def to_clear(self, gathering: Gathering) -> list[array]:
        """Return the cotangents that have to be cleared behind the gathering program."""
        return [self.cotangents[k] for k in gathering.cleared]

    def gathers_with(self, leaf: int, packed: bytes) -> bool:
        """Return whether the gathering program is still right if one by-value leaf has these bytes."""
        # A record changes the arguments of one program; the one that clears behind it has been packed already.
        if self.gathering is not None and leaf in (self.gathering.numbers or ()) and packed != self.launch.parts[leaf]:
            return False
        return self.may_gather(lambda k: packed if k == leaf else self.launch.parts[k])

    @property
    def form(self) -> AdjointForm:
        """The form of the program that it runs, unless it adds atomically."""
        return GATHERING if self.gathers else PLAIN

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


class _Programs(Candidates):
    """The programs that the adjoint of a launch could run.

    Parameters
    ----------
    adjoint : AdjointLaunch
        The adjoint.
    plain : Executable
        Its program that accumulates plainly.
    may_gather : bool
        Whether the one that gathers may run, if the arguments are such that it is right.
    """

    __slots__ = ("_active", "_adjoint", "_may_gather")

    def __init__(self, adjoint: AdjointLaunch, plain: Executable, may_gather: bool) -> None:
        active = self._active = frozenset(adjoint.cotangents)
        super().__init__(plain, lambda: adjoint.launch.adjoint(active, ATOMIC))
        self._adjoint, self._may_gather = adjoint, may_gather

    def gathering(self) -> tuple[Executable, Sequence[array], Executable | None] | None:
        adjoint = self._adjoint
        if not self._may_gather or not adjoint.may_gather(adjoint.launch.parts.__getitem__):
            return None
        assert adjoint.gathering is not None
        forms = [GATHERING] if adjoint.gathering.numbers is None else [GATHERING, CLEARING]
        programs = [adjoint.launch.optional_adjoint(self._active, form) for form in forms]
        program, behind = [*programs, None][:2]
        if program is None or None in programs:  # they have not been shipped, and there is no compiler
            self.plain.gathering = adjoint.gathering = None
            return None
        return program, adjoint.to_clear(adjoint.gathering), behind

    def sums(self) -> Sorting | None:
        adjoint = self._adjoint
        if adjoint.in_elements:
            return None
        return sorting_of(adjoint.launch, self.plain, adjoint.cotangents, adjoint.contents)


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


def _contiguous(ct: array) -> array:
    if ct._type.layout == "C":
        return ct
    made = new(ct.shape, ct._element, False, ct._memory.device)
    Copy(made, ct).execute()
    return made
