"""The loop over the steps of a plan in native code, on the CPU and on a GPU.

The steps are records of equal length that follow one another. They run in order, until one fails, or a signal handler
has raised an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diffkern.runtime.native.builder import Code, Word
from diffkern.runtime.native.draw_ir import Looks

__all__ = ["RAISED", "do_steps"]

RAISED = -1
"""The status after a handler of signals has raised an exception."""


def do_steps(
    c: Code,
    steps: Word,
    count: Word,
    words: int,
    watch: Word,
    do: Callable[[Word, Word], Word],
    before: Callable[[Word], Any] = lambda done: None,
) -> Word:
    """Run steps one after the other; return 0, or the status that ended them.

    Parameters
    ----------
    c : Code
        The code that the loop is appended to.
    steps, count : Word
        Address and number of the steps.
    words : int
        Length of a step.
    watch : Word
        The watch that knows whether a signal handler is due.
    do : callable
        Writes the code for a step, given its address and its number; returns the status, 0 for success.
    before : callable, optional
        Writes the code in front of each step, given its number, and behind the last one.
    """
    done, status = c.variable(0), c.variable(0)
    looks = Looks(c, 16, 256)
    with c.forever() as stop:
        before(done.get())
        stop(c.compare(">=", done.get(), count))
        status.set(do(c.add(steps, c.mul(done.get(), 8 * words)), done.get()))
        stop(c.compare("!=", status.get(), 0))
        done.set(c.add(done.get(), 1))
        with looks.due() as time, c.when(c.compare("!=", c.invoke("dk_interrupted", watch, time, 0), 0)):
            status.set(RAISED)
        stop(c.compare("!=", status.get(), 0))
    return status.get()
