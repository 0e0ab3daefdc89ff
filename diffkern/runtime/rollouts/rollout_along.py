"""Steps of a roll-out that carry tangents: what ``dk.hvp`` of a roll-out reverses.

A step, and the blocks of tangents in which it runs, become a step of a roll-out on the tape around these: it launches
kernels with tangents, so that the states which are kept include the tangents, and it does the same whenever it runs,
because it remembers the tangents that existed when it ran for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diffkern.runtime.effects.tangents import Tangents
from diffkern.runtime.effects.tape_recording import TapeRecording
from diffkern.runtime.memory.memory import Memory, births
from diffkern.runtime.memory.scope import under
from diffkern.runtime.memory.state import handler_now

__all__ = ["StepsAlong", "tangents_on_a_tape"]


def tangents_on_a_tape(around: object) -> tuple[list[Tangents], TapeRecording] | None:
    """Return the blocks of tangents, innermost first, and the tape around them; None without these."""
    found: list[Tangents] = []
    while isinstance(around, Tangents):
        found.append(around)
        around = around.around
    return (found, around) if found and isinstance(around, TapeRecording) else None


class StepsAlong:
    """A step, in blocks of tangents.

    Parameters
    ----------
    tangents : sequence of Tangents
        Innermost first.
    step : callable
        Runs the step of a given number.
    """

    def __init__(self, tangents: Sequence[Tangents], step: Callable[[int], object]) -> None:
        self._tangents, self._step = tangents, step
        # Of each block the memory with tangents, in the order in which it got them, and how many before each step.
        self._known: list[list[Memory]] = [list(one.varying) for one in tangents]
        self._before: list[list[int]] = [[] for _ in tangents]

    def __call__(self, number: int) -> None:
        """Run a step, on the current tape, which is the roll-out."""
        began = births()
        outermost = self._tangents[-1]
        # The outermost block hands its launches to the roll-out for the time of the step, instead of the tape around.
        around, outermost.around = outermost.around, handler_now()
        for one, known, before in zip(self._tangents, self._known, self._before, strict=True):
            if number == len(before):
                before.append(len(known))
            # Arrays that get a tangent in a later step have none here, although they do by now.
            one.resume(known[: before[number]])
        try:
            with under(self._tangents[0]):
                self._step(number)
        finally:
            outermost.around = around
            for one, known in zip(self._tangents, self._known, strict=True):
                one.suspend(began)
                known += [memory for memory in one.varying if memory not in known]
