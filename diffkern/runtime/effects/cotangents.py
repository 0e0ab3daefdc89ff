"""The cotangents of one reverse sweep of a tape.

For every array on the tape they give the array that holds its cotangent: its own gradient, or a temporary one of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from diffkern.ir.types import UINT8
from diffkern.runtime.arrays.alias import gradient_of_alias
from diffkern.runtime.arrays.array import _make, array, new
from diffkern.runtime.arrays.operation import Assign, Copy, Operation, submit
from diffkern.runtime.effects.kept import Rooms
from diffkern.runtime.effects.tangent_map import Beside
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.state import will_replay

if TYPE_CHECKING:
    from diffkern.runtime.effects.residuals import Needs
    from diffkern.runtime.launch.resources import Remade, Resource

__all__ = ["Cotangents", "may_differ_from_zero", "take"]

_ALIGNMENT = 256  # of what devices allocate, and more than a cache line of the host


class Cotangents:
    """Cotangents of one reverse sweep: gradients, and temporary arrays where there are none.

    Parameters
    ----------
    owners : mapping of Memory to array
        The arrays that have gradients.
    gradient : callable
        Returns the gradient of one of them, or of a view of one.
    views : Beside, optional
        Provides the temporary ones as views of one array each, for a tape or tangents to follow; by default they are
        bytes laid out like those of the array.

    Attributes
    ----------
    live : set of Memory
        Memory whose cotangent may differ from zero.
    rooms : Rooms
        The rooms where adjoints find copies of parts of arrays.
    remade : dict
        Arrays of objects that steps have made for their adjoints, see :meth:`Use.around`.
    relied : list of mapping
        Of each tape that is swept the needs by memory: what functions of the user's must not write to.
    """

    def __init__(
        self, owners: Mapping[Memory, array], gradient: Callable[[array], array | None], views: Beside | None = None
    ) -> None:
        self.live: set[Memory] = set()
        self.rooms = Rooms()
        self.remade: dict[Resource, Remade] = {}
        self.relied: list[Mapping[Memory, Needs]] = []
        self._owners, self._gradient, self._views = owners, gradient, views
        self._temporary: dict[Memory, array] = {}
        # The parts of them that stand beside arrays, which are kept so that their ids stay theirs.
        self._made: dict[int, tuple[array, array]] = {}

    def clear(self, act: Callable[[Operation], object] = submit) -> None:
        """Make a sequence that is being recorded start its replays with temporary cotangents of zero.

        Parameters
        ----------
        act : callable, optional
            Performs the operations for that.
        """
        # Outside of a recording the temporaries are new, and zero from their allocation.
        if not will_replay():
            return
        for whole in self._temporary.values():
            act(Assign(whole, 0))
        if self._views is not None:
            for _, whole in self._views.pairs.values():
                act(Assign(whole, 0))

    def inside(self, live: Iterable[Memory]) -> Cotangents:
        """Return the same cotangents for a sweep nested in this one, with other memory live."""
        made = Cotangents(dict(self._owners), self._gradient, self._views)
        # The temporaries are shared: the nested sweep adds to cotangents that the outer one goes on with.
        made._temporary, made.rooms = self._temporary, self.rooms
        made.live.update(live)
        return made

    def own(self, owners: Mapping[Memory, array]) -> None:
        """Add the gradients of more arrays, in a nested sweep."""
        self._owners = {**self._owners, **owners}

    def forget(self, memories: Iterable[Memory]) -> None:
        """Forget the cotangents of arrays that are gone, in a nested sweep."""
        gone = set(memories)
        if gone:
            # The mapping may belong to the outer sweep, and is replaced instead of changed.
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
            # The array has no gradient by itself but lies in memory of one that has: it is an alias of a part of it.
            if (whole := self._gradient(owner)) is not None and a._data.size:
                return gradient_of_alias(a, owner, whole)
        if self._views is not None:
            return self._views.made(a)
        known = self._made.get(id(a))
        if known is None:
            known = self._made[id(a)] = a, self._part(a)
        return known[1]

    def begun(self, goal: array) -> array:
        """Return the cotangent that a sweep starts from for an array whose own gradient the tape may not know."""
        owner = self._owners.get(goal._memory)
        if owner is not None and goal._data.size and (whole := self._gradient(owner)) is not None:
            grad = self._gradient(goal)
            # The tape accumulates into the owner's gradient, so that a gradient which the array has elsewhere is not
            # the seed.
            if grad is not None and grad._memory is not whole._memory:
                return gradient_of_alias(goal, owner, whole)
        return self.of(goal)

    def _part(self, a: array) -> array:
        """Return the part of a temporary cotangent that lies in it as the array lies in its memory."""
        memory = a._memory
        whole = self._temporary.get(memory)
        if whole is None:
            # One buffer of bytes for the whole memory: views that overlap have cotangents that overlap in the same way.
            whole = self._temporary[memory] = new((memory.nbytes + _ALIGNMENT,), UINT8, True, memory.device)
        # Its elements are aligned like those of the array.
        start = (memory.address - whole._range[0]) % _ALIGNMENT + int(a._data.ctypes.data) - memory.address
        return _make(memory.view(whole._data, start, a._data), a._element, whole._memory, True)


def may_differ_from_zero(grad: array) -> bool:
    """Return whether a gradient may hold anything but zeros."""
    # What is known now need not hold when a sequence that is being recorded is replayed.
    return will_replay() or not grad._memory.is_zero


def take(grad: array) -> array:
    """Return a copy of a gradient, and set the gradient to zero."""
    copy = new(grad.shape, grad._element, False, grad._memory.device)
    submit(Copy(copy, grad))
    grad.zero_()
    return copy
