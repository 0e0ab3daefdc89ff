"""The tape's view of memory: versions, owners of gradients, and memory that others may write to.

Whenever the tape uses an array, unseen changes become steps, and the needs that are lost by them are noted. Changes
that diffkern makes are counted; memory that others may write to is compared by digests.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any, Protocol

from diffkern.errors import LaunchError, described
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.external_writes import Exposures, Place, place_of
from diffkern.runtime.arrays.recast import check_passes, is_opaque
from diffkern.runtime.effects.custom_operations_met import CustomOperationsMet
from diffkern.runtime.effects.residuals import Needs
from diffkern.runtime.effects.step import Barrier, TapeStep
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.memory import Memory, watch
from diffkern.runtime.memory.state import will_replay

__all__ = ["Followed", "TapeMemory"]


class Followed(Protocol):
    """An object of another library with a gradient there, and the arrays over its memory."""

    def update(self, results: Container[Memory], create: bool) -> list[array]:
        """Give the arrays the gradient that the object has now; return those whose gradient is a different one."""
        ...


class TapeMemory(CustomOperationsMet):
    """The memory that a tape has met."""

    def __init__(self) -> None:
        self._clear()
        watch(self)

    def _clear(self) -> None:
        self._steps: list[TapeStep] = []
        self._launches = 0
        # What is being recorded, and behind how many launches: an interrupt leaves it here, and what the tape knows is
        # incomplete then.
        self._unfinished: tuple[PackedLaunch | KernelProtocol | str, int] | None = None
        # Per memory: its version after the tape's last look; unchanged contents that adjoints may need.
        self._versions: dict[Memory, int] = {}
        self._needs: dict[Memory, Needs] = {}
        self._exposures = Exposures()
        # Memory that depends on an array with a gradient; the array that owns the gradient; memory used without one.
        self._varied: set[Memory] = set()
        self._owners: dict[Memory, array] = {}
        self._without: dict[Memory, array] = {}
        # Whether some array shows the bytes of another one as other numbers.
        self._sees_bytes = False
        self._arrays: dict[int, array] = {}
        # Where memory lies that others have allocated, in order; and arrays in memory whose address others know, kept
        # alive: where one was freed, the next would seem to overlap it.
        self._foreign: dict[Device, list[tuple[int, int]]] = {}
        self._exposed: list[array] = []
        # What belongs to other libraries, by its id.
        self._followed: dict[int, Followed] = {}

    @property
    def follower(self) -> TapeMemory | None:
        """The tape that carries gradients of arrays themselves, None if there is none."""
        return self

    def followed(self, value: Any, make: Callable[[Any], Any]) -> Any:
        """Return the follower of another library's object, which is made for it the first time."""
        found = self._followed.get(id(value))
        if found is None:
            found = self._followed[id(value)] = make(value)
        return found

    def _follow(self, create: bool) -> list[array]:
        """Give arrays the gradients that another library has for them now; return those with a different one."""
        return [held for followed in self._followed.values() for held in followed.update(self._varied, create)]

    def _look_at(self, held: array, what: str) -> None:
        """Register an array, and notice changes since the tape last looked."""
        memory = held._memory
        known, now = self._versions.get(memory), memory.now
        if known is None and self._insides:
            self._check_not_inside(held)
        # Ordered by cost: this runs for every array of every launch. Without digests a comparison of versions is
        # enough.
        if self._exposures.seen:
            self._notice(held, what)
        elif known is None and not memory.exposed and not memory.lent:
            self._versions[memory] = now
        elif known != now:
            self._notice(held, what)
        if held._parent is not None and is_opaque(held):
            self._sees_bytes = True
            self._look_at(held._parent, what)  # whose gradient the view does not know
        if not held._smooth:
            return
        grad = self._gradient(held)
        if grad is not None:
            # The owner of a gradient that the tape has met is known already, as is that of an array which is no view.
            owner, known_as = self._owners.get(memory), id(held)
            if memory in self._without:
                self._register(held, grad)
            elif owner is None and held._parent is None:
                self._owners[memory] = self._arrays[known_as] = held
            elif owner is not held or self._arrays.get(known_as) is not held:
                self._register(held, grad)
            return
        self._without.setdefault(memory, held)
        # The memory was used with a gradient before, and this view of it shows none.
        if memory in self._owners:
            check_passes(held)
            raise _two_views(held)

    def _notice(self, held: array, what: str) -> None:
        """Mark the needs as lost whose contents were changed since the tape last looked."""
        memory = held._memory
        known, now = self._versions.get(memory), memory.now
        changed = self._exposures.inspect(held) if self._exposures.seen else None
        if known != now:
            if known is None:
                # Only memory with an address that others know can lie over other memory of the tape.
                if memory.exposed or memory.lent:
                    self._check_overlap(memory)
                if memory.exposed:
                    self._exposed.append(held)
            else:
                for need in self._needs.pop(memory, ()):
                    need.lose()
                # A gradient that has to pass this position of the tape is an error from now on.
                self._bar(memory, what)
            self._versions[memory] = now
        elif changed:
            self._lose(memory, changed)
            self._bar(memory, what)

    def _bar(self, memory: Memory, what: str) -> None:
        """Note that no gradient can pass a change which the tape did not see."""
        self._steps.append(Barrier([memory], partial(_unseen, f"launch {self._launches} of the tape ({what})")))

    def _register(self, held: array, grad: array) -> None:
        """Register an array by its gradient, which is that of one array for each block of memory."""
        memory, whole = held._memory, held._whole
        self._arrays[id(whole)] = whole
        owner = self._owners.get(memory)
        if owner is None:
            owner = self._owners[memory] = self._owner(held)
        if owner is not held:
            self._check_owner(held, grad)
        if memory in self._without:
            raise _two_views(held)

    def _check_owner(self, held: array, grad: array) -> None:
        """Raise for a gradient that lies elsewhere than the one that the tape knows for the memory."""
        own = self._gradient(self._owners[held._memory])
        if own is not None and own._memory is not grad._memory:
            raise _two_views(held)

    def _check_gradients(self) -> None:
        """Raise for a view that was given a gradient of its own after it was recorded with that of its array."""
        owners = self._owners
        for held in self._arrays.values():
            grad = held._grad
            if grad is not None and owners.get(held._memory, held) is not held:
                self._check_owner(held, grad)

    def _gradient(self, held: array) -> array | None:
        """Return the array that the gradient of an array is added to, None if it has none."""
        grad: array | None = held._grad
        return held.grad if grad is None and held._parent is not None else grad

    def _owner(self, held: array) -> array:
        """Return the array that owns the gradient of a view."""
        while held._grad is None and held._parent is not None:
            held = held._parent
        return held

    def _is_all(self, held: array) -> bool:
        """Return whether an array is all of the array whose gradient it shares, not a part and not a field."""
        return self._owner(held)._data.nbytes == held._data.nbytes

    def _carries(self, held: array) -> bool:
        """Return whether an array has a cotangent in the reverse sweep."""
        return held._memory in self._varied or held._memory in self._owners

    def _check_bytes(self, active: Iterable[array], written: Iterable[array]) -> None:
        """Raise for reinterpreted bytes among what is differentiated, or written over it.

        Bytes read as integers are constants.
        """
        for held in active:
            check_passes(held)
        for held in written:
            if self._carries(held):
                check_passes(held)

    def _note(self, held: array) -> None:
        memory = held._memory
        self._versions[memory] = memory.now
        if self._exposures.seen:
            self._exposures.written(held)
        if (memory.exposed or memory.lent) and self._carries(held):
            self._exposures.note(held)

    def before_exposure(self, memory: Memory) -> None:
        """Store digests of what the tape relies on in memory that is about to be given away."""
        if self._versions.get(memory) == memory.now:  # else its contents are unknown anyway
            for held in self._used(memory):
                self._exposures.note_now(held)

    def _used(self, memory: Memory) -> list[array]:
        """Return the arrays of a block whose contents take part in gradients."""
        found = [need.held for need in self._needs.get(memory, ())]
        for step in self._steps:
            found += [held for held in step.relied_on() if held._memory is memory]
        return found

    def _verify(self) -> bool:
        """Check whether others changed what gradients need, and return whether they did."""
        found = False
        if self._exposures.seen and not will_replay():  # whose replays are meant for other contents
            for memory in list(self._exposures.seen):
                places = {place_of(need.held) for need in self._needs.get(memory, ()) if need.is_wanted}
                changed = self._exposures.verify(memory, places)
                if changed:
                    self._lose(memory, changed)
                    found = True
        return found

    def _lose_changed(self) -> None:
        """Note that memory was changed outside the tape since it last looked."""
        for memory, version in self._versions.items():
            if memory.now != version:
                # The journal narrows the change down: needs of other rows of a trajectory stay valid.
                for low, high in memory.changes_since(version):
                    for need in self._needs.get(memory, ()):
                        if need.low < high and low < need.high:
                            need.lose()

    def _lose(self, memory: Memory, changed: set[Place]) -> None:
        """Note that others changed what launches left or read in these places."""
        for need in self._needs.get(memory, ()):
            if place_of(need.held) in changed:
                need.lose()

    def _check_overlap(self, memory: Memory) -> None:
        """Raise for memory that overlaps other memory of the tape without a common owner: its overwrites are missed."""
        low, high = memory.address, memory.address + memory.nbytes
        if low == high:
            return
        foreign = self._foreign.setdefault(memory.device, [])  # apart from each other
        # Disjoint and sorted: only the neighbours on both sides can overlap.
        at = bisect.bisect(foreign, (low, high))
        own = (m for m in self._versions if not m.foreign and m.device is memory.device and m.is_exposed)
        others = itertools.chain(foreign[max(at - 1, 0) : at + 1], ((m.address, m.address + m.nbytes) for m in own))
        if any(low < end and start < high for start, end in others):
            raise LaunchError(
                "two arrays on this tape lie over the same memory, and NumPy does not know that they are one",
                remedy="make both views of one NumPy array, or wrap the memory once with dk.array(copy=False)",
            )
        if memory.foreign:
            foreign.insert(at, (low, high))

    def differentiates(self, memory: Memory) -> bool:
        """Return whether a block takes part in gradients."""
        return memory in self._varied or memory in self._owners

    def known(self, memories: Iterable[Memory]) -> list[Memory]:
        """Return those blocks whose contents the tape knows."""
        return [memory for memory in memories if self._versions.get(memory) == memory.now]

    def know(self, memories: Iterable[Memory]) -> None:
        """Record the present contents of blocks, which were different meanwhile, as those that the tape knows."""
        for memory in memories:
            self._versions[memory] = memory.now


def _unseen(place: str) -> LaunchError:
    return LaunchError(
        f"an array was changed before {place} where the tape could not see it, and a gradient passes it",
        remedy="make the change inside the tape's block, and without record_tape=False",
    )


def _two_views(held: array) -> LaunchError:
    return LaunchError(
        f"the memory of {described(held)} is used on this tape with a gradient and without it, or with two gradients",
        remedy="set requires_grad before the first use, and pass one array (or views of it) for one block of memory",
    )
