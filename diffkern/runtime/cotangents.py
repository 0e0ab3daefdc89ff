"""The cotangents of one reverse sweep of a tape.

In: the arrays that own a gradient. Out: for every array on the tape the array that holds its cotangent: its own
gradient, or a temporary one of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from diffkern.ir.types import UINT8
from diffkern.runtime.alias import gradient_of_alias
from diffkern.runtime.array import _make, array, new
from diffkern.runtime.beside import Beside
from diffkern.runtime.kept import Rooms
from diffkern.runtime.memory import Memory
from diffkern.runtime.operation import Assign, Copy, Operation, perform
from diffkern.runtime.state import current

__all__ = ["Cotangents", "may_differ_from_zero", "take"]

_ALIGNMENT = 256  # of what devices allocate, and more than a cache line of the host


class Cotangents:
    """Cotangents of one reverse sweep: gradients, and temporary arrays where there are none.

    Parameters
    ----------
    owners : mapping of Memory to array
        The arrays that have gradients.
    gradient : callable
        Gives the gradient of one of them, or of a view of one.
    views : Beside, optional
        What gives the temporary ones, for a tape or tangents to see views of one array in them; by default they are
        bytes that lie as those of the array do.

    Attributes
    ----------
    live : set of Memory
        Memory whose cotangent may differ from zero.
    rooms : Rooms
        Where adjoints find copies of parts of arrays.
    """

    def __init__(
        self, owners: Mapping[Memory, array], gradient: Callable[[array], array | None], views: Beside | None = None
    ) -> None:
        self.live: set[Memory] = set()
        self.rooms = Rooms()
        self._owners, self._gradient, self._views = owners, gradient, views
        self._temporary: dict[Memory, array] = {}
        # The parts of them that stand beside arrays, which are kept so that their ids stay theirs.
        self._made: dict[int, tuple[array, array]] = {}

    def clear(self, act: Callable[[Operation], object] = perform) -> None:
        """Let a sequence that is being recorded begin its replays with temporary cotangents of zero.

        Parameters
        ----------
        act : callable, optional
            Does what is to be done for that.
        """
        if current.recorder is None:
            return
        for whole in self._temporary.values():
            act(Assign(whole, 0))
        if self._views is not None:
            for _, whole in self._views.pairs.values():
                act(Assign(whole, 0))

    def inside(self, live: Iterable[Memory]) -> Cotangents:
        """Return the same cotangents for a sweep inside this one, in which other memory is live."""
        made = Cotangents(dict(self._owners), self._gradient, self._views)
        made._temporary, made.rooms = self._temporary, self.rooms
        made.live.update(live)
        return made

    def own(self, owners: Mapping[Memory, array]) -> None:
        """Take the gradients of more arrays, in a sweep inside another."""
        self._owners = {**self._owners, **owners}

    def forget(self, memories: Iterable[Memory]) -> None:
        """Forget arrays that are gone, in a sweep inside another."""
        gone = set(memories)
        if gone:
            self._owners = {memory: owner for memory, owner in self._owners.items() if memory not in gone}
            self.live -= gone
            self._made = {key: pair for key, pair in self._made.items() if pair[0]._memory not in gone}
            for memory in gone:
                self._temporary.pop(memory, None)
                if self._views is not None:
                    self._views.pairs.pop(memory, None)

    def of(self, a: array) -> array:
        """Return the cotangent of an array."""
        owner = self._owners.get(a._memory)
        if owner is not None:
            if (grad := self._gradient(a)) is not None:
                return grad
            if (whole := self._gradient(owner)) is not None and a._data.size:
                return gradient_of_alias(a, owner, whole)
        if self._views is not None:
            return self._views.made(a)
        known = self._made.get(id(a))
        if known is None:
            known = self._made[id(a)] = a, self._part(a)
        return known[1]

    def begun(self, goal: array) -> array:
        """Return the cotangent of an array that a sweep begins with, whose own gradient the tape may not know."""
        owner = self._owners.get(goal._memory)
        if owner is not None and goal._data.size and (whole := self._gradient(owner)) is not None:
            grad = self._gradient(goal)
            if grad is not None and grad._memory is not whole._memory:
                return gradient_of_alias(goal, owner, whole)
        return self.of(goal)

    def _part(self, a: array) -> array:
        """Return the part of a temporary cotangent that lies there as an array does in its memory."""
        memory = a._memory
        whole = self._temporary.get(memory)
        if whole is None:
            whole = self._temporary[memory] = new((memory.nbytes + _ALIGNMENT,), UINT8, True, memory.device)
        # Its elements are aligned like those of the array.
        start = (memory.address - whole._range[0]) % _ALIGNMENT + int(a._data.ctypes.data) - memory.address
        return _make(memory.view(whole._data, start, a._data), a._element, whole._memory, True)


def may_differ_from_zero(grad: array) -> bool:
    """Whether a gradient may hold anything but zeros."""
    # What is known now need not hold when a sequence that is being recorded is replayed.
    return current.recorder is not None or not grad._memory.is_zero


def take(grad: array) -> array:
    """Return a copy of a gradient, and set it to zero."""
    copy = new(grad.shape, grad._element, False, grad._memory.device)
    perform(Copy(copy, grad))
    grad.zero_()
    return copy
