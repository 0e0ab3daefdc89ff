"""A GPU, which is a fake driver: launches, copies, records, captures, streams."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.traces import Trace

import diffkern as dk
from diffkern import cuda

from .kernels import N, Programs, countdown, move, number, ramp, square, total

G = "cuda:0"


def model(trace: Trace) -> tuple[Any, Any, Any]:
    x, y, s = ramp(device=G), dk.zeros(N, device=G), number(device=G)
    trace.arrays(x=x, y=y, s=s)
    return x, y, s


def forward(x: Any, y: Any, s: Any) -> None:
    s.zero_()
    dk.launch(square, N, [x, y, 1.0])
    dk.launch(total, N, [y, s])


def tapes(trace: Trace) -> None:
    """A tape on a device, and its second sweep."""
    x, y, s = model(trace)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, y, 1.0])
        dk.launch(move, N, [y, x, 0.1])
        dk.launch(total, N, [x, s])
    for k in range(2):
        trace.note(f"sweep {k + 1}")
        tape.backward(s)


def copies(trace: Trace) -> None:
    """To the device and back, in the device, to another one; parts that are not contiguous."""
    x, y, _ = model(trace)
    host, pinned, other = ramp(), dk.zeros(N, pinned=True), dk.zeros(N, device="cuda:1")
    trace.arrays(host=host, pinned=pinned, other=other)
    dk.copy(x, host)
    dk.copy(pinned, x)
    dk.copy(other, x)
    dk.copy(y, x, dest_offset=1, src_offset=2, count=3)
    y[::2] = x[1::2]
    dk.copy(host[::2], x[:3])
    y.fill_(2.0)
    y[::2].fill_(3.0)
    y[1] = 5.0
    x.to("cpu")


def records(trace: Trace) -> None:
    """A record gives its argument block to a stream as it is."""
    x, y, s = model(trace)
    record = dk.launch(square, N, [x, y, 1.0], record_cmd=True)
    record.launch()
    record.set_param_at_index(2, 2.0)
    stream = dk.Stream(G)
    record.launch(stream)
    trace.note("adjoint")
    y.requires_grad = True
    adjoint = record.adjoint()
    adjoint.launch()
    trace.note("on a tape")
    with dk.Tape() as tape:
        record.launch()
        dk.launch(total, N, [y, s])
    tape.backward(s)
    dk.synchronize()


def sequences(trace: Trace) -> None:
    """A sequence is replayed on the device, as a whole and on a stream."""
    x, y, s = model(trace)
    with dk.record(run=False) as sequence:
        forward(x, y, s)
        dk.copy(x, y)
    sequence.replay()
    stream = dk.Stream(G)
    sequence.replay(stream)
    stream.synchronize()


def mixed_sequences(trace: Trace) -> None:
    """Steps on the device and on the CPU in one sequence."""
    x, y, s = model(trace)
    host = dk.zeros(N)
    trace.arrays(host=host)
    with dk.record(run=False) as sequence:
        forward(x, y, s)
        dk.copy(host, y)
        dk.launch(square, N, [host, host, 1.0])
        dk.copy(x, host)
    sequence.replay()


def graphs(trace: Trace) -> None:
    """A capture is made, launched, and built again where a parameter has changed."""
    x, y, s = model(trace)
    with dk.record(run=False) as sequence:
        forward(x, y, s)
    graph = sequence.capture()
    trace.note("launch")
    graph.launch()
    sequence.set_param("a", 3.0)
    trace.note("with another number, on a stream")
    graph.launch(dk.Stream(G))
    dk.synchronize()


def gradients_in_graphs(trace: Trace) -> None:
    """The sweep of a tape is captured with its launches."""
    x, y, s = model(trace)
    with dk.ScopedCapture(G) as capture:
        s.zero_()
        with dk.Tape() as tape:
            dk.launch(square, N, [x, y, 1.0])
            dk.launch(total, N, [y, s])
        tape.zero()
        tape.backward(s)
    trace.note("launch")
    capture.graph.launch()


def conditionals(trace: Trace) -> None:
    """Conditions in a graph, and at once."""
    left, x = dk.full(1, 2, dtype=int, device=G), ramp(1, device=G)
    trace.arrays(left=left, x=x)

    def program() -> None:
        dk.capture_while(left, lambda: dk.launch(countdown, 1, [left, x]))
        dk.capture_if(left, lambda: x.fill_(1.0), lambda: x.fill_(2.0))

    with dk.ScopedCapture(G) as capture:
        program()
    trace.note("launch")
    capture.graph.launch()
    trace.note("at once")
    left.fill_(1)
    program()


def streams(trace: Trace) -> None:
    """Streams of a device, and one of the CPU that waits for it."""
    x, y, s = model(trace)
    host = dk.zeros(N)
    trace.arrays(host=host)
    first, second, cpu = dk.Stream(G), dk.Stream(G), dk.Stream("cpu")
    with dk.ScopedStream(first):
        dk.launch(square, N, [x, y, 1.0])
    second.wait_stream(first)
    dk.launch(total, N, [y, s], stream=second)
    dk.copy(host, y, stream=second)
    event = second.record_event()
    cpu.wait_event(event)
    dk.launch(square, N, [host, host, 1.0], stream=cpu)
    dk.synchronize()


def functions(trace: Trace) -> None:
    """Derivatives of a function on a device, of both orders."""
    x, _, _ = model(trace)
    v = dk.ones(N, device=G)
    trace.arrays(v=v)

    def function(a: Any) -> Any:
        y, s = dk.zeros(N, device=G), dk.zeros(1, device=G)
        dk.launch(square, N, [a, y, 1.0])
        dk.launch(total, N, [y, s])
        return s

    dk.grad(function)(x)
    trace.note("along")
    dk.jvp(function, (x,), (v,))
    trace.note("second derivatives")
    dk.hvp(function, (x,), (v,))


@cuda.jit
def doubled(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2.0 * x[i]


def numba_cuda(trace: Trace) -> None:
    """Launches and transfers in the spelling of ``numba.cuda``."""
    x = cuda.to_device(np.ones(N, np.float32))
    y = cuda.device_array_like(x)
    doubled[2, 4](x, y)
    y[1:3].copy_to_device(x[2:4])
    x.copy_to_device(np.zeros(N, np.float32))
    y.copy_to_host()


PROGRAMS: Programs = {
    f.__name__: f
    for f in (
        tapes, copies, records, sequences, mixed_sequences, graphs, gradients_in_graphs, conditionals, streams,
        functions, numba_cuda,
    )
}  # fmt: skip
