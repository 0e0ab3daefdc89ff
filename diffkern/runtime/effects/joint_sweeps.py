"""Launches that are put off, and run as one native call with the reverse sweep that follows them.

Of a tape that is repeated the launches are known, and so is its sweep. The operations of both are those of a sequence
in which they stand one after the other, and are folded as there: an adjoint runs its launch as well, stores what it
would add to zeros, and reads a seed where it is. What is left out because some gradients are zero depends on these;
where they are not, or numbers of the launches are others, the launches run by themselves, and so does the sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple

from diffkern.runtime.accumulate.sequence_dce import folded
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign, Operation
from diffkern.runtime.effects.compiled_backward import Seed
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.native.replay import Step, Steps

if TYPE_CHECKING:
    from diffkern.runtime.effects.known_sweeps import Told

__all__ = ["JointSteps", "JointSweep", "joint_steps"]

_LEAST_WORK = 1e5
"""Simple operations of the launches from which on a program for launch and adjoint is worth its compilation."""


class JointSweep:
    """The launches of a tape and its sweep as one native call, which keeps no array.

    Parameters
    ----------
    call
        It.
    numbers
        The numbers of launches that it was made for.
    steps
        What it runs.
    """

    __slots__ = ("_numbers", "_steps", "call")

    def __init__(self, call: Callable[[], object], numbers: Sequence[bytes], steps: JointSteps) -> None:
        self.call, self._numbers, self._steps = call, numbers, steps

    def fits(self, numbers: Sequence[bytes], gradients: Sequence[Memory]) -> bool:
        """Return whether the call is right for launches with these numbers, and gradients in this memory."""
        return self._numbers == numbers and all(gradients[k].is_zero for k in self._steps.resting)

    def reads(self, seed: Any) -> bool:
        """Return whether a seed can be read where it is: its elements one after the other, in nobody else's hands."""
        return bool(self._steps.places) and seed._type.layout == "C" and not seed._memory.is_exposed

    def run_from(self, address: int) -> None:
        """Run it with the seed at an address."""
        places = self._steps.places
        own = [words[k] for words, k in places]
        try:
            for words, k in places:
                words[k] = address
            self.call()
        finally:
            for (words, k), before in zip(places, own, strict=True):
                words[k] = before


class JointSteps(NamedTuple):
    """The native steps of launches and their sweep.

    Attributes
    ----------
    steps
        The steps.
    resting
        The gradients that have to be zero before, by their positions.
    places
        Where steps are told the address of the one seed, if they read it where it is: words, and the position in them.
    """

    steps: Steps
    resting: Sequence[int]
    places: Sequence[tuple[Any, int]]


def joint_steps(
    launches: Sequence[PackedLaunch],
    sweep: Sequence[Operation],
    grads: Sequence[array],
    zero: Set[Memory],
    told: Told,
) -> JointSteps | None:
    """Return native steps for launches and their sweep.

    None if no adjoint runs its launch as well, or if that is too little work.

    Parameters
    ----------
    launches : sequence of PackedLaunch
        All launches of the tape.
    sweep : sequence of Operation
        The operations of the sweep.
    grads : sequence of array
        The gradients of all arrays on the tape that have one.
    zero : set of Memory
        Those of them that are zero.
    told : Told
        What the sweep follows from.
    """
    if sum([launch.executable.cost * launch.grid.n for launch in launches]) < _LEAST_WORK:
        return None
    if not all(operation.device.is_cpu for operation in (*launches, *sweep)):
        return None
    seeds = [operation for operation in sweep if isinstance(operation, Seed)]
    begun = {operation.goal._memory for operation in seeds}
    # A sequence begins with fills, which folding drops; here they have no effect, since all is zero.
    known = [k for k, grad in enumerate(grads) if _is_whole(grad) and grad._memory in zero]
    filled = [k for k in known if grads[k]._memory not in begun and told.gradients[k] not in told.resting]
    fills = [Assign(grads[k], 0) for k in filled]
    every: list[Operation] = [*fills, *launches, *sweep]
    given = [operation.steps() for operation in every]
    if any(form is None for form in given):
        return None
    forms: list[Steps] = [form for form in given if form is not None]
    made = folded(every, forms)
    first, behind = len(fills), len(fills) + len(launches)
    if any(made[k] not in ([], forms[k]) for k in range(first)) or all(made[first:behind]):
        return None
    resting = [*filled]
    # A seed that is read where it is leaves a fill of its gradient.
    read = [operation for k, operation in enumerate(every) if isinstance(operation, Seed) and made[k] is not forms[k]]
    for k, operation in enumerate(every):
        if k >= behind and isinstance(operation, Seed) and made[k] is not forms[k] and made[k]:
            at = next((n for n in known if grads[n]._memory is operation.goal._memory), None)
            if at is not None and _is_whole(operation.goal):
                resting.append(at)
                made[k] = []
    steps: Any = [step for form in made[first:] for step in form]
    places = _places_of(read[0], steps) if len(read) == len(seeds) == 1 else []
    return JointSteps(steps, resting, places)


def _places_of(seed: Seed, steps: Sequence[Any]) -> list[tuple[Any, int]]:
    """Return where steps are told the address of a seed."""
    address = seed.values.ctypes.data
    words = [step.replaced for step in steps if isinstance(step, Step) and step.replaced is not None]
    return [(one, k) for one in words for k in range(2, len(one), 2) if one[k] == address]


def _is_whole(grad: array) -> bool:
    """Return whether a gradient is all of its memory, in order."""
    return grad._type.layout == "C" and grad._data.nbytes == grad._memory.nbytes
