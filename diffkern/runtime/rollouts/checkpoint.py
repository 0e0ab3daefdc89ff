"""``dk.checkpoint``: a roll-out of many steps on a tape that keeps few states and recomputes the others.

It takes a function that does step k with launches, copies and fills, and the number of states to keep. Afterwards all
steps have run, and the tape, if there is one, can go back through them as :mod:`diffkern.runtime.rollouts.rollout`
describes.
"""

from __future__ import annotations

import operator
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from diffkern.errors import MisuseError
from diffkern.process.tracebacks import brief
from diffkern.runtime.effects.tape_recording import TapeRecording
from diffkern.runtime.memory.state import check_not_replayed, handler_now
from diffkern.runtime.rollouts.progress import Bar
from diffkern.runtime.rollouts.rollout import Rollout
from diffkern.runtime.rollouts.rollout_along import StepsAlong, tangents_on_a_tape

__all__ = ["checkpoint"]


@brief
def checkpoint(
    step: Callable[[int], object],
    steps: int,
    slots: int,
    *,
    slots_on_disk: int = 0,
    directory: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> None:
    """Run ``step(0)``, …, ``step(steps - 1)``; a tape around it keeps few states and recomputes the others.

    The state that a step passes on consists of the arrays that it overwrites; these are detected. A step that runs
    again
    must do the same again: what it does depends on its number, on arrays, and on numbers drawn in kernels or from
    Python's
    or NumPy's global generators, whose states are kept too. Without a tape the steps just run.

    Parameters
    ----------
    step : callable
        Takes the number of the step, and launches, copies and fills; ``sequence.launch`` of a recorded sequence, too.
    steps : int
        Number of steps.
    slots : int
        Largest number of states kept in memory, the first among them.
    slots_on_disk : int, optional
        Number of further states kept in files.
    directory : path, optional
        The directory of the files; by default that for temporary files.
    progress : bool, optional
        Whether to show a progress bar on standard error once that takes more than a second; by default where that is
        a terminal.

    Raises
    ------
    LaunchError
        If a step changes arrays otherwise than by launches, copies and fills, or uses arrays that an earlier step has
        made; in :meth:`Tape.backward`, if a step does something else when it runs again. After an error in a step the
        arrays hold what they held before that step, and the tape has the steps before it.
    MisuseError
        If the numbers are negative, no state may be kept, or `step` is not callable.

    Examples
    --------
    >>> import diffkern as dk
    >>> @dk.kernel
    ... def grow(x: dk.array(dtype=float), rate: dk.array(dtype=float)):
    ...     i = dk.tid()
    ...     x[i] = x[i] * rate[0]
    >>> x, rate = dk.ones(1, requires_grad=True), dk.array([1.01], dtype=float, requires_grad=True)
    >>> with dk.Tape() as tape:
    ...     dk.checkpoint(lambda k: dk.launch(grow, dim=1, inputs=[x, rate]), steps=100, slots=5)
    >>> tape.backward(x)
    >>> rate.grad.numpy().round(1)
    array([267.8], dtype=float32)
    """
    count, held, filed = (operator.index(number) for number in (steps, slots, slots_on_disk))
    if not callable(step):
        raise MisuseError(
            f"dk.checkpoint takes a function of the step's number, not {step!r}",
            remedy="write def step(t): ..., which launches the kernels of one step",
        )
    if count < 0 or held < 0 or filed < 0 or held + filed < 1:
        raise MisuseError(
            f"dk.checkpoint has {count} steps and {held} slots in memory and {filed} on disk",
            remedy="let one state be kept at least: the first",
        )
    folder = Path(tempfile.gettempdir() if directory is None else directory)
    if filed and not folder.is_dir():
        raise MisuseError(
            f"{folder} is no directory, where dk.checkpoint could make files",
            remedy="make it first, or leave directory out for the system's own",
        )
    with Bar(count, "steps", progress) as bar:
        _run(step, lambda tape, along: Rollout(tape, along, held + filed, filed, folder, progress), count, bar)


Step = Callable[[int], object]


def _run(step: Step, rollout: Callable[[TapeRecording, Step], Rollout], steps: int, bar: Bar) -> None:
    """Run all steps, as a roll-out if a tape records them."""
    tape: object = handler_now()
    along = tangents_on_a_tape(tape)
    # Tangents of a tape around it are carried along with the primal steps, so that the tape below them is the one to
    # ask.
    if along is not None and not along[1].keeps_inputs:
        tangents, tape = along
        step = StepsAlong(tangents, step)
    if not isinstance(tape, TapeRecording) or tape.keeps_inputs:
        # Nothing is recorded; or by a roll-out around this one, which runs all of these steps again as one of its own;
        # or tangents are carried along, for which no state has to be kept; or a gradient is differentiated itself.
        for number in range(steps):
            step(number)
            bar.update()
        return
    check_not_replayed(
        "dk.checkpoint on a tape is not recorded in a sequence: its backward runs the steps by way of Python",
        "record what one step does, and launch that sequence in the step",
    )
    rollout(tape, step).run(steps, bar)
