"""The loop over the steps of a plan in native code, on the CPU and on a GPU.

In: records of equal length that follow one another, and what does one of them. Out: all are done in their order, until
one fails, or a handler of signals has raised an exception.
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
    """Do steps one after the other; return 0, or the status that ended them.

    Parameters
    ----------
    c : Code
        Where the loop is written.
    steps, count : Word
        Address and number of the steps.
    words : int
        Length of a step.
    watch : Word
        What knows whether a handler of signals is due.
    do : callable
        Writes what does a step, of its address and its number; returns the status, 0 if it was done.
    before : callable, optional
        Writes what comes in front of each step, of its number, and behind the last one.
    """
    done, status = c.variable(0), c.variable(0)
    looks = Looks(c, 16, 256)
    with c.forever() as stop:
        before(done.get())
        stop(c.compare(">=", done.get(), count))
        status.set(do(c.add(steps, c.mul(done.get(), 8 * words)), done.get()))
        stop(c.compare("!=", status.get(), 0))
        done.set(c.add(done.get(), 1))
        with looks.due() as time, c.when(c.compare("!=", c.invoke("dk_interrupted", watch, time), 0)):
            status.set(RAISED)
        stop(c.compare("!=", status.get(), 0))
    return status.get()
