"""Race detection at run time, for launches whose adjoints need it.

A launch that a tape is about to record may have an adjoint that is right only if no two threads race. It is either
marked as race-free here, or gets the :class:`AutodiffError` that names two threads. A program of its own runs on copies
of what the launch writes to, and stamps elements with the threads that read and write them
(:mod:`diffkern.ad.stamps`). The result, an error too, is remembered as long as nothing changes that decides about it.

The look is made before the launch, when all that it reads is there; later steps may overwrite it. The error is kept
with the step, and raised only when a cotangent comes to what the launch wrote: scratch arrays, which no gradient
needs, may have elements to which several threads store. A forward program says if it ``scatters``: other launches of
kernels that do not read what they write are not asked about at all.

An adjoint relies on one thread for each element of a plain store. Several threads are right only if it does not matter
which of them is last: if all have computed the stored value in the same way from the same elements. Then one of them
takes the cotangent, by an exchange. Equal values alone do not suffice, as zeros are equal by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Any, Final

import numpy as np

from diffkern.contracts.manifest import Stamped
from diffkern.errors import AutodiffError, Loc
from diffkern.ir.stamp_layout import BLOCK, EARLY, LEAST, READ, SITES, SOURCE, STORED, UPDATED, VALUE
from diffkern.ir.types import Scalar, parse_type
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.convert import component_shape
from diffkern.runtime.arrays.operation import submit
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.race_checks import number_in
from diffkern.runtime.memory.device import CPU
from diffkern.runtime.memory.state import will_replay

__all__ = ["checked_by_stamps", "with_one_writer"]

Numbers = np.ndarray[Any, Any]
_ONE_WRITER: Final = "let one thread write each element, or add with dk.atomic_add"
_CACHED: Final = 64
_EXTENTS: Final = 8
"""The byte offset of an array's extents in its descriptor."""


def checked_by_stamps(launch: PackedLaunch, active: frozenset[int], error: AutodiffError) -> PackedLaunch:
    """Return a launch whose threads do not race, marked as such.

    Parameters
    ----------
    launch : PackedLaunch
        The launch, which has not run yet.
    active : frozenset of int
        The parameters for which it is to be differentiated.
    error : AutodiffError
        The error for its adjoint as long as the absence of races is not known.

    Raises
    ------
    AutodiffError
        If two threads race; or `error`, if that cannot be determined.
    """
    trusted = launch.kernel.race_free
    if not trusted and not _can_look(launch):
        raise error
    made = launch.copy()
    made.stamped = True
    try:
        program = made.adjoint(active)
    except AutodiffError:
        # The marked program has another obstacle; what the user can mend is the first.
        raise error from None
    arrays = () if program.granted is None else program.granted.arrays(launch.dims, launch.parts.__getitem__)
    if any(_overlaps_itself(held) for k in arrays if (held := launch.arrays[k]) is not None):
        raise error  # one element has several indices, by which the stamps are found
    # A kernel that is declared race-free is believed, and costs no second run.
    if arrays and not trusted:
        stamper = _stamper(launch, program, arrays)
        if stamper is None:
            launch.stamper(arrays)  # says why there is none
        else:
            _look(launch, program, stamper)
    return made


def with_one_writer(
    launch: PackedLaunch, active: frozenset[int], program: Executable, *, after: bool = False
) -> PackedLaunch:
    """Return a launch with the adjoint that is right for it, where one takes for granted that one thread stores to each
    element.

    That is a precondition of plain stores: where it cannot be checked it is left to the user.

    Parameters
    ----------
    launch : PackedLaunch
        The launch, which has not run yet.
    active : frozenset of int
        The parameters for which it is to be differentiated.
    program : Executable
        The adjoint.
    after : bool, optional
        Whether the launch has run already: then it is looked at if it cannot have changed what decides about it.

    Raises
    ------
    AutodiffError
        If two threads race.
    """
    if launch.kernel.race_free or not _can_look(launch):
        return launch
    granted = program.granted
    arrays = () if granted is None else granted.arrays(launch.dims, launch.parts.__getitem__)
    if not arrays or any(_overlaps_itself(held) for k in arrays if (held := launch.arrays[k]) is not None):
        return launch
    stamper = _stamper(launch, program, arrays)
    if stamper is None or (after and stamper.manifest.stamped[0].deciding is None):
        return launch
    if not _look(launch, program, stamper):
        return launch
    manifest = program.manifest
    loc = next(iter([*(pair.write for pair in manifest.trusted), *(one.second for one in manifest.stores)]))
    error = AutodiffError(
        f"kernel {launch.kernel.name!r}: several threads store to one element, and the adjoint takes for granted that "
        "one does",
        loc=loc,
        remedy=_ONE_WRITER,
    )
    return checked_by_stamps(launch, active, error)


def _can_look(launch: PackedLaunch) -> bool:
    """Return whether the launch can be checked: not if it is repeated, and may do other things then, nor if it writes
    through addresses that lie in memory, where no copy takes its place.
    """
    is_repeated = will_replay() or launch.device.is_capturing
    executable = launch.executable
    return not (is_repeated or executable.changes or executable.manifest.pointing)


def _stamper(launch: PackedLaunch, program: Executable, arrays: tuple[int, ...]) -> Executable | None:
    """The program that stamps elements of some arrays; None if stamps would not tell what the launch does."""
    if arrays not in program.stampers:
        try:
            program.stampers[arrays] = launch.stamper(arrays)
        except AutodiffError:
            program.stampers[arrays] = None
    return program.stampers[arrays]


def _look(launch: PackedLaunch, program: Executable, stamper: Executable) -> bool:
    """Raise if two threads of a launch race for an element of an array that a program stamps.

    Returns
    -------
    bool
        Whether several threads store to one element, the same number.
    """
    manifest = stamper.manifest
    axes = manifest.tid_arity
    # Stamps tell threads apart by the index that the kernel asks for.
    if not manifest.stamped[0].blocks and any(extent > 1 for extent in launch.dims[axes:]):
        raise _same_index(launch)
    key = _key(launch, manifest.stamped, with_sources=False)
    if key in program.stamped:
        return False
    shared_key = _key(launch, manifest.stamped, with_sources=True)
    found = program.stamped.get(shared_key) if shared_key is not None else None
    if found is None:
        found = _seen(launch, program, stamper)
        # Threads that share no element do so whatever they store; those that do may store other values the next time.
        known = shared_key if found is not False else key
        if known is not None:
            if len(program.stamped) >= _CACHED:
                program.stamped.clear()
            program.stamped[known] = found
    if isinstance(found, AutodiffError):
        raise copy(found)  # without what its traceback holds
    return found


def _seen(launch: PackedLaunch, program: Executable, stamper: Executable) -> bool | AutodiffError:
    """Run the program that stamps, and say whether threads store to one element, or how they race."""
    stamping, copies = launch.stamping(stamper)
    # The stamping program runs the whole kernel, on copies: the launch itself follows and must find its inputs
    # unchanged.
    for operation in (*copies, stamping):
        submit(operation)
    pairs = {pair.array for pair in (*program.manifest.trusted, *program.manifest.unproved)}
    only_stored = {one.array for one in program.manifest.stores} - pairs
    shared = False
    try:
        for one, held in zip(stamper.manifest.stamped, stamping.log or (), strict=True):
            found = _Stamps(launch, one, held._elements())
            if one.array not in only_stored:
                found.check_reads()
            found.check_stores()
            shared = shared or found.shared
    except AutodiffError as error:
        return copy(error)
    return shared


def _key(launch: PackedLaunch, stamped: Sequence[Stamped], *, with_sources: bool) -> tuple[Any, ...] | None:
    """Return the cache key of a race check: all that decides which elements the threads of a launch access, and from
    which elements they compute the values that they store. None where that is not known.
    """
    deciding, sources = stamped[0].deciding, stamped[0].sources if with_sources else ()
    if deciding is None or sources is None:
        return None
    found: list[Any] = [launch.dims, launch.blocks.block_dim, with_sources]
    for index in dict.fromkeys((*deciding, *sources)):
        held = launch.arrays[index]
        found.append(launch.parts[index])
        if held is not None:
            memory = held._memory
            # The contents may change without a change of the version, so that a version says nothing about them.
            if memory.is_exposed or memory.is_counted:
                return None
            # The version stands for the contents. `born` tells it from later memory at the same address.
            found += (memory.born, memory.now, memory.lendings)
    # Of the arrays themselves the extents alone: from them negative indices count.
    for one in stamped:
        found += one.array, launch.parts[one.array][_EXTENTS:]
    return tuple(found)


def _overlaps_itself(held: array) -> bool:
    """Return whether two elements of an array may share memory, as those of a broadcast array do."""
    reach = held._data.itemsize * math.prod(component_shape(held._element))
    for stride, extent in sorted((abs(s), n) for s, n in zip(held.strides, held.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach = stride * extent
    return False


def _same_index(launch: PackedLaunch) -> AutodiffError:
    return AutodiffError(
        f"kernel {launch.kernel.name!r}: several threads of a launch over {launch.dims} have the same index",
        remedy=f"ask for all {len(launch.dims)} axes with dk.tid()",
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """A thread and the place where it accesses an element."""

    thread: str
    loc: Loc | None

    @property
    def line(self) -> str:
        return f" (line {self.loc.line})" if self.loc is not None else ""


class _Stamps:
    """The stamps of an array after a launch."""

    def __init__(self, launch: PackedLaunch, stamped: Stamped, rows: Numbers) -> None:
        self.launch, self.stamped, self.rows = launch, stamped, rows
        # Stamps are taken with an atomic maximum. The second of each pair holds LEAST minus the number, so that its
        # maximum gives the smallest number: of all threads that store, the first and the last are known.
        self.last, self.first = rows[:, STORED], LEAST - rows[:, STORED + 1]
        stored = self.last > 0
        several = stored & (_thread(self.last) != _thread(self.first))
        self.several = several
        self.shared = bool(several.any())

    def check_reads(self) -> None:
        """Raise if a thread reads or updates an element to which another one writes."""
        rows, read = self.rows, self.rows[:, READ] > 0
        # Elements that one thread stores to: any other thread that reads them races, the first or the last reader at
        # least.
        alone = (self.last > 0) & ~self.several
        late, early = rows[:, READ], LEAST - rows[:, READ + 1]
        for numbers in (late, early):
            self._refuse(alone & read & (_thread(numbers) != _thread(self.last)), numbers, self.last)
            # An atomic update also races with reads by other threads, as with plain stores below.
            for updates in (rows[:, UPDATED], LEAST - rows[:, UPDATED + 1]):
                updated = (rows[:, UPDATED] > 0) & read
                self._refuse(updated & (_thread(numbers) != _thread(updates)), numbers, updates, "updates atomically")
        for updates in (rows[:, UPDATED], LEAST - rows[:, UPDATED + 1]):
            for stores in (self.last, self.first):
                racing = (rows[:, UPDATED] > 0) & (self.last > 0) & (_thread(updates) != _thread(stores))
                self._refuse(racing, stores, updates, "updates atomically", "stores to")

    def check_stores(self) -> None:
        """Raise if threads store to one element what is not the same, or was read there."""
        rows = self.rows
        for k in np.flatnonzero(self._differ(VALUE))[:1]:
            raise self._two_values(int(k), "another value")
        # A thread that has not stored there itself, or not yet, may read the old value or another thread's. Which
        # threads these are is known only where they run one after the other.
        before = rows[:, EARLY] if self.launch.device is CPU else rows[:, READ]
        writing = np.where(_thread(before) != _thread(self.last), self.last, self.first)
        self._refuse(self.several & (before > 0), before, writing)
        for k in np.flatnonzero(self._differ(SOURCE))[:1]:
            raise self._two_values(int(k), "an equal value, computed in another way or from other elements")
        for k in np.flatnonzero(self.several)[:1] if self.stamped.rows > 1 else ():
            raise self._two_values(int(k), "the same")

    def _differ(self, field: int) -> Numbers:
        """Of which elements several threads have different numbers."""
        found: Numbers = self.several & (self.rows[:, field] != LEAST - self.rows[:, field + 1])
        return found

    def _refuse(
        self, which: Numbers, reading: Numbers, writing: Numbers, verb: str = "writes", first: str = "reads"
    ) -> None:
        """Raise for the first element of some, with a load and a write of it, or a store and an update."""
        for k in np.flatnonzero(which)[:1]:
            one, other = self._side(int(reading[k])), self._side(int(writing[k]))
            what = f"thread {one.thread} {first} {self._element(int(k))} here"
            raise AutodiffError(
                f"kernel {self.launch.kernel.name!r}: {what}, which thread {other.thread} {verb}{other.line}"
                f"{self._numbers()}; {self._why}",
                loc=one.loc,
                remedy="read from a copy of the array, or split the kernel in two launches",
            )

    def _two_values(self, k: int, what: str) -> AutodiffError:
        one, other = self._side(int(self.first[k])), self._side(int(self.last[k]))
        return AutodiffError(
            f"kernel {self.launch.kernel.name!r}: thread {one.thread} writes {self._element(k)} here, and thread "
            f"{other.thread} {what}{other.line}{self._numbers()}; the gradient of such a launch depends on "
            "which comes last",
            loc=one.loc,
            remedy=_ONE_WRITER,
        )

    @property
    def _why(self) -> str:
        if self.stamped.blocks:
            return "threads of a block hand on gradients through shared memory alone"
        return "the gradient of such a launch depends on which comes first"

    def _numbers(self) -> str:
        """Return the numbers that determine which elements are accessed, for the message."""
        launch, found = self.launch, []
        for index in self.stamped.deciding or ():
            t = parse_type(launch.executable.manifest.params[index].type)
            if launch.arrays[index] is None and isinstance(t, Scalar) and t.is_integer:
                found.append(f"{launch.leaves[index].name}={number_in(launch.parts[index], t, -1)}")
        return f" with {', '.join(found)}" if found else ""

    def _element(self, k: int) -> str:
        """Return an element in the notation of the source."""
        held, leaf = self.launch.arrays[self.stamped.array], self.launch.leaves[self.stamped.array]
        assert held is not None
        rows = self.stamped.rows
        index = np.unravel_index(k // rows, held.shape)
        return f"{leaf.name}[{', '.join(map(str, index))}]" + (f"[{k % rows}]" if rows > 1 else "")

    def _side(self, number: int) -> _Side:
        # A stamp is a thread and the site of the access in one number, and 0 for no access.
        thread, site = (number - 1) // SITES, (number - 1) % SITES
        return _Side(self._name(thread), self.stamped.sites[site])

    def _name(self, thread: int) -> str:
        if self.stamped.blocks:
            return f"{thread % BLOCK} of block {thread // BLOCK}"
        dims = self.launch.dims
        index = tuple(int(k) for k in np.unravel_index(thread, dims)) if math.prod(dims) > thread else (thread,)
        return str(index[0] if len(index) == 1 else index)


def _thread(numbers: Numbers) -> Numbers:
    """Return the threads of accesses, -1 where there is none."""
    found: Numbers = (numbers - 1) // SITES
    return found
