"""Records of launches, sequences and graphs on the CPU, and what they do under a tape."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.traces import Trace

import diffkern as dk

from .kernels import N, Programs, countdown, move, number, ramp, settle, square, total


def model(trace: Trace) -> tuple[Any, Any, Any]:
    x, y, s = ramp(), dk.zeros(N, requires_grad=True), number()
    trace.arrays(x=x, y=y, s=s)
    return x, y, s


def forward(x: Any, y: Any, s: Any) -> None:
    s.zero_()
    dk.launch(square, N, [x, y, 1.0])
    dk.launch(total, N, [y, s])


def launches(trace: Trace) -> None:
    """A record runs, is changed, and is taken by a tape."""
    x, y, s = model(trace)
    other = ramp()
    trace.arrays(other=other)
    record = dk.launch(square, N, [x, y, 1.0], record_cmd=True)
    record.launch()
    record.set_param_at_index(0, other)
    record.set_dim(3)
    record.launch()
    with dk.Tape() as tape:
        record.launch()
        dk.launch(total, N, [y, s])
    trace.note("sweep")
    tape.backward(s)


def adjoint_records(trace: Trace) -> None:
    """The adjoint of a record, and a record of an adjoint."""
    x, y, _ = model(trace)
    record = dk.launch(square, N, [x, y, 1.0], record_cmd=True)
    adjoint = record.adjoint()
    record.launch()
    y.grad.fill_(1.0)
    adjoint.launch()
    trace.note("record of an adjoint")
    by_hand = dk.launch(square, N, [x, y, 1.0], adj_inputs=[x.grad, y.grad, None], adjoint=True, record_cmd=True)
    by_hand.launch()


def sequences(trace: Trace) -> None:
    """What is recorded runs, and runs again: with other numbers, in other parts."""
    x, y, s = model(trace)
    with dk.record() as sequence:
        forward(x, y, s)
        dk.copy(x, y)
        y[1:3].fill_(2.0)
    sequence.replay()
    trace.note("with other numbers")
    sequence.set_param("a", 3.0)
    sequence.replay()
    trace.note("a part")
    sequence[1:3].replay()


def recorded_without_running(trace: Trace) -> None:
    """Nothing happens until it is replayed."""
    x, y, s = model(trace)
    with dk.record(run=False) as sequence:
        forward(x, y, s)
    trace.note("replay")
    sequence.replay()


def recorded_sweeps(trace: Trace) -> None:
    """A tape in a recording: the gradient is part of the sequence."""
    x, y, s = model(trace)
    v = ramp()
    trace.arrays(v=v)
    with dk.record() as sequence:
        s.zero_()
        with dk.Tape() as tape:
            dk.launch(square, N, [x, y, 1.0])
            dk.launch(move, N, [y, v, 0.1])
            dk.launch(total, N, [y, s])
        tape.zero()
        tape.backward(s)
    trace.note("replay")
    sequence.replay()


def adjoints_of_sequences(trace: Trace) -> None:
    """``Sequence.adjoint``: forward and reverse as one."""
    x, y, s = model(trace)
    with dk.record(run=False) as sequence:
        forward(x, y, s)
    reverse = sequence.adjoint(s)
    trace.note("forward")
    sequence.replay()
    trace.note("reverse")
    reverse.replay()


def replays_on_a_tape(trace: Trace) -> None:
    """A tape takes each step of a replay; another recording does too."""
    x, y, s = model(trace)
    with dk.record(run=False) as sequence:
        forward(x, y, s)
    with dk.Tape() as tape:
        sequence.replay()
    trace.note("sweep")
    tape.backward(s)
    trace.note("recorded again")
    with dk.record(run=False) as outer:
        sequence.replay()
        dk.copy(x, y)
    outer.replay()


def recorded_derivatives(trace: Trace) -> None:
    """Derivatives of a function in a sequence begin anew at each replay."""
    x, _, _ = model(trace)

    def function(a: Any) -> Any:
        y, s = dk.zeros(N), dk.zeros(1)
        dk.launch(square, N, [a, y, 1.0])
        dk.launch(total, N, [y, s])
        return s

    with dk.record() as sequence:
        dk.grad(function)(x)
    trace.note("replay")
    sequence.replay()


def recorded_logs(trace: Trace) -> None:
    """A launch whose log is counted at each replay."""
    x, s = dk.full((3, 4), 0.5, requires_grad=True), number()
    trace.arrays(x=x, s=s)
    with dk.record() as sequence:
        with dk.Tape() as tape:
            dk.launch(settle, 3, [x])
            dk.launch(total, 12, [x.flatten(), s])
        tape.zero()
        tape.backward(s)
    trace.note("replay")
    sequence.replay()


def conditionals(trace: Trace) -> None:
    """Conditions: at once, recorded, and under a tape."""
    left, x, y, s = dk.full(1, 2, dtype=int), ramp(1), dk.zeros(1), number()
    trace.arrays(left=left, x=x, y=y, s=s)

    def program() -> None:
        dk.capture_while(left, lambda: dk.launch(countdown, 1, [left, x]))
        dk.capture_if(left, lambda: y.fill_(1.0), lambda: dk.copy(y, x))

    program()
    trace.note("recorded")
    with dk.record(run=False) as sequence:
        left.fill_(2)
        program()
    sequence.replay()
    trace.note("on a tape")
    left.fill_(1)
    with dk.Tape() as tape:
        program()
        dk.launch(total, 1, [y, s])
    tape.backward(s)


def graphs(trace: Trace) -> None:
    """Captures on the CPU are sequences."""
    x, y, s = model(trace)
    with dk.ScopedCapture("cpu") as capture:
        forward(x, y, s)
    dk.capture_launch(capture.graph)
    trace.note("on a stream")
    stream = dk.Stream("cpu")
    capture.graph.launch(stream)
    stream.synchronize()


def checked(trace: Trace) -> None:
    """A program that is watched while it runs has no native form."""
    x, y, s = model(trace)
    watched = dk.kernel(square.func, mode="debug")
    with dk.record(run=False) as sequence:
        s.zero_()
        dk.launch(watched, N, [x, y, 1.0])
        dk.launch(total, N, [y, s])
    sequence.replay()


def solves(trace: Trace) -> None:
    """A linear system that is solved in each replay, whose data are looked at on the host."""
    a, b, x = dk.array(np.float32([[4, 1], [1, 3]])), ramp(2), dk.zeros(2)
    trace.arrays(a=a, b=b, x=x)
    with dk.record(run=False) as sequence:
        dk.copy(x, dk.linear_solve(a, b, method="cg"))
    trace.note("replay")
    sequence.replay()


PROGRAMS: Programs = {
    f.__name__: f
    for f in (
        launches, adjoint_records, sequences, recorded_without_running, recorded_sweeps, adjoints_of_sequences,
        replays_on_a_tape, recorded_derivatives, recorded_logs, conditionals, solves, graphs, checked,
    )
}  # fmt: skip
