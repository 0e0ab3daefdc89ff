"""Race detection at run time, for launches whose adjoints need it.

The adjoint of some launches is right only if no two threads race. When a tape is about to record such a launch, it is
marked as race-free, or an :class:`AutodiffError` names two threads. A program of its own runs on copies of what the
launch writes to, and stamps elements with the threads that read and write them (:mod:`diffkern.ad.stamps`). The result
is remembered as long as nothing changes that it depends on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from diffkern.errors import AutodiffError, Loc
from diffkern.ir.stamp_layout import BLOCK, EARLY, LEAST, READ, SITES, STORED, UPDATED, VALUE
from diffkern.ir.types import Scalar, parse_type
from diffkern.manifest import Stamped
from diffkern.runtime.array import array
from diffkern.runtime.convert import component_shape
from diffkern.runtime.device import CPU
from diffkern.runtime.operation import perform
from diffkern.runtime.packed import PackedLaunch
from diffkern.runtime.program import Executable
from diffkern.runtime.race_checks import number_in
from diffkern.runtime.state import current

__all__ = ["checked_by_stamps", "with_one_writer"]

Numbers = np.ndarray[Any, Any]
_ONE_WRITER: Final = "let one thread write each element, or add with dk.atomic_add"
_CACHED: Final = 64
_EXTENTS: Final = 8
"""Where in the bytes of an array its extents begin."""


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
        raise error from None  # which stands first in the kernel's way
    arrays = tuple(sorted({pair.array for pair in program.manifest.unproved}))
    if any(_overlaps_itself(held) for k in arrays if (held := launch.arrays[k]) is not None):
        raise error  # one element has several indices, by which the stamps are found
    # A kernel that is declared race-free is believed, and costs no second run.
    if arrays and not trusted:
        _look(launch, program, arrays)
    return made


def with_one_writer(launch: PackedLaunch, active: frozenset[int], program: Executable) -> PackedLaunch:
    """Return a launch with the right adjoint, where one assumes that one thread stores to each element.

    That is a precondition of plain stores: where it cannot be checked it is left to the user.

    Parameters
    ----------
    launch : PackedLaunch
        The launch, which has not run yet.
    active : frozenset of int
        The parameters for which it is to be differentiated.
    program : Executable
        The adjoint.

    Raises
    ------
    AutodiffError
        If two threads race.
    """
    trusted = program.manifest.trusted
    arrays = tuple(sorted({pair.array for pair in trusted}))
    overlapping = any(_overlaps_itself(held) for k in arrays if (held := launch.arrays[k]) is not None)
    if launch.kernel.race_free or overlapping or not _can_look(launch):
        return launch
    try:
        launch.stamper(arrays)
    except AutodiffError:  # stamps would not tell what the launch does
        return launch
    # Several threads store, all the same number: right for the forward launch, but the adjoint would count the
    # cotangent several times. The adjoint of a marked launch is made for that case.
    if not _look(launch, program, arrays):
        return launch
    pair = trusted[0]
    error = AutodiffError(
        f"kernel {launch.kernel.name!r}: several threads store to one element, and the adjoint takes for granted that "
        f"one does (line {'?' if pair.write is None else pair.write.line})",
        loc=pair.load,
        remedy=_ONE_WRITER,
    )
    return checked_by_stamps(launch, active, error)


def _can_look(launch: PackedLaunch) -> bool:
    """Return whether the launch can be checked: not if it is repeated, and may do other things then."""
    is_repeated = current.recorder is not None or launch.device.is_capturing
    return not (is_repeated or launch.executable.by_id)


def _look(launch: PackedLaunch, program: Executable, arrays: tuple[int, ...]) -> bool:
    """Raise if two threads of a launch race for an element of one of some arrays.

    Returns
    -------
    bool
        Whether several threads store to one element, the same number.
    """
    stamper = launch.stamper(arrays)
    manifest = stamper.manifest
    axes = manifest.tid_arity
    # Stamps tell threads apart by the index that the kernel asks for.
    if not manifest.stamped[0].blocks and any(extent > 1 for extent in launch.dims[axes:]):
        raise _same_index(launch)
    key = _key(launch, manifest.stamped)
    if key is not None and key in program.stamped:
        return False
    stamping, copies = launch.stamping(stamper)
    # The stamping program runs the whole kernel, on copies: the launch itself follows and must find its inputs
    # unchanged.
    for operation in (*copies, stamping):
        perform(operation)
    shared = False
    for one, held in zip(manifest.stamped, stamping.log or (), strict=True):
        found = _Stamps(launch, one, held._elements())
        found.check()
        shared = shared or found.shared
    if key is not None and not shared:  # threads that write the same value may write different ones the next time
        if len(program.stamped) >= _CACHED:
            program.stamped.clear()
        program.stamped.add(key)
    return shared


def _key(launch: PackedLaunch, stamped: Sequence[Stamped]) -> tuple[Any, ...] | None:
    """Return the values that determine which elements the threads of a launch access; None if they are not known."""
    deciding = stamped[0].deciding
    if deciding is None:
        return None
    found: list[Any] = [launch.dims, launch.blocks.block_dim]
    for index in deciding:
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
    found += [launch.parts[one.array][_EXTENTS:] for one in stamped]
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

    def check(self) -> None:
        """Raise if two threads race for an element."""
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
        # Several threads may store to one element if all store the same value: the bits of the largest and the smallest
        # agree.
        differing = self.several & (rows[:, VALUE] != LEAST - rows[:, VALUE + 1])
        for k in np.flatnonzero(differing)[:1]:
            raise self._two_values(int(k))
        # A thread that has not stored there itself, or not yet, may read the old value or another thread's. Which
        # threads these are is known only where they run one after the other.
        before = rows[:, EARLY] if self.launch.device is CPU else late
        writing = np.where(_thread(before) != _thread(self.last), self.last, self.first)
        self._refuse(self.several & (before > 0), before, writing)

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

    def _two_values(self, k: int) -> AutodiffError:
        one, other = self._side(int(self.first[k])), self._side(int(self.last[k]))
        return AutodiffError(
            f"kernel {self.launch.kernel.name!r}: thread {one.thread} writes {self._element(k)} here, and thread "
            f"{other.thread} another value{other.line}{self._numbers()}; the gradient of such a launch depends on "
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
        index = np.unravel_index(k, held.shape)
        return f"{leaf.name}[{', '.join(map(str, index))}]"

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
