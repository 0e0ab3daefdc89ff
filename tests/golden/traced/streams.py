"""Streams of the CPU: what waits for what, where the streams are given their work."""

from __future__ import annotations

from support.traces import Trace

import diffkern as dk

from .kernels import N, Programs, number, ramp, square, total


def events(trace: Trace) -> None:
    """Two streams, one of which waits for the other."""
    x, y, s = ramp(), dk.zeros(N), number()
    trace.arrays(x=x, y=y, s=s)
    first, second = dk.Stream("cpu"), dk.Stream("cpu")
    dk.launch(square, N, [x, y, 1.0], stream=first)
    event = first.record_event()
    second.wait_event(event)
    dk.launch(total, N, [y, s], stream=second)
    dk.copy(x, y, stream=second)
    first.wait_stream(second)
    with dk.ScopedStream(first):
        y.zero_()
        dk.launch(square, N, [x, y, 1.0])
    dk.synchronize()


def work_of_the_user(trace: Trace) -> None:
    """A function on a stream, and what waits for it at once."""
    x, y = ramp(), dk.zeros(N)
    trace.arrays(x=x, y=y)
    stream = dk.Stream("cpu")
    stream.enqueue(lambda: dk.copy(y, x))
    dk.launch(square, N, [x, y, 1.0])  # waits
    stream.synchronize()


def records_on_streams(trace: Trace) -> None:
    """Records and sequences that a stream is given."""
    x, y, s = ramp(), dk.zeros(N), number()
    trace.arrays(x=x, y=y, s=s)
    stream = dk.Stream("cpu")
    record = dk.launch(square, N, [x, y, 1.0], record_cmd=True)
    with dk.record(run=False) as sequence:
        s.zero_()
        dk.launch(total, N, [y, s])
    record.launch(stream)
    sequence.replay(stream)
    stream.synchronize()


def tapes_on_streams(trace: Trace) -> None:
    """A tape in the block of a stream."""
    x, y, s = ramp(), dk.zeros(N), number()
    trace.arrays(x=x, y=y, s=s)
    stream = dk.Stream("cpu")
    with dk.ScopedStream(stream):
        with dk.Tape() as tape:
            dk.launch(square, N, [x, y, 1.0])
            dk.launch(total, N, [y, s])
        trace.note("sweep")
        tape.backward(s)
    stream.synchronize()


PROGRAMS: Programs = {f.__name__: f for f in (events, work_of_the_user, records_on_streams, tapes_on_streams)}
