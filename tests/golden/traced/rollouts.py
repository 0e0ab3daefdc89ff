"""Roll-outs: steps that run again in sweeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.traces import Trace

import diffkern as dk

from .kernels import N, Programs, move, number, ramp, square, total

STEPS = 4


def steps(trace: Trace) -> tuple[Any, Any, Any, Callable[[int], None]]:
    """What moves, a force that each step computes anew, and the sum."""
    x, v, f, s = ramp(), ramp(), dk.zeros(N), number()
    trace.arrays(x=x, v=v, f=f, s=s)

    def step(k: int) -> None:
        dk.launch(square, N, [x, f, 1.0])
        dk.launch(move, N, [f, v, 0.1])
        dk.copy(x, f)

    return x, v, s, step


def without_a_tape(trace: Trace) -> None:
    """The steps run, and that is all."""
    _, _, _, step = steps(trace)
    dk.checkpoint(step, STEPS, slots=1)


def one_slot(trace: Trace) -> None:
    """Each step begins at the start, twice over."""
    x, _, s, step = steps(trace)
    with dk.Tape() as tape:
        dk.checkpoint(step, STEPS, slots=1)
        dk.launch(total, N, [x, s])
    for k in range(2):
        trace.note(f"sweep {k + 1}")
        tape.backward(s)


def two_slots(trace: Trace) -> None:
    """States are kept where the schedule says."""
    x, _, s, step = steps(trace)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, x, 0.5])
        dk.checkpoint(step, STEPS, slots=2)
        dk.launch(total, N, [x, s])
    trace.note("sweep")
    tape.backward(s)


def on_disk(trace: Trace) -> None:
    """A slot on disk, from which a state is assigned."""
    x, _, s, step = steps(trace)
    with dk.Tape() as tape:
        dk.checkpoint(step, STEPS, slots=1, slots_on_disk=1)
        dk.launch(total, N, [x, s])
    trace.note("sweep")
    tape.backward(s)


def of_a_function(trace: Trace) -> None:
    """A roll-out in a function: its gradient and its derivative along vectors."""
    given, v = ramp(requires_grad=False), dk.ones(N)
    trace.arrays(given=given, v=v)

    def function(a: Any) -> Any:
        x, w, s = dk.zeros(N), dk.zeros(N), dk.zeros(1)
        dk.copy(x, a)
        dk.checkpoint(lambda k: dk.launch(move, N, [x, w, 0.1]), 3, slots=1)
        dk.launch(total, N, [x, s])
        return s

    trace.note("gradient")
    dk.grad(function)(given)
    trace.note("along")
    dk.jvp(function, (given,), (v,))
    trace.note("second derivatives")
    dk.hvp(function, (given,), (v,))


def new_arrays(trace: Trace) -> None:
    """Steps that make arrays, and a tape that is reset."""
    x, _, s, _ = steps(trace)

    def step(k: int) -> None:
        y = dk.zeros(N)
        dk.launch(square, N, [x, y, 1.0])
        dk.launch(square, N, [y, x, 1.0])

    with dk.Tape() as tape:
        dk.checkpoint(step, 3, slots=2)
        dk.launch(total, N, [x, s])
    trace.note("sweep")
    tape.backward(s)


PROGRAMS: Programs = {f.__name__: f for f in (without_a_tape, one_slot, two_slots, on_disk, of_a_function, new_arrays)}
