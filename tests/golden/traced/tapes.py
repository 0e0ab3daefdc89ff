"""Tapes: what is recorded, what is kept for sweeps, and what sweeps do."""

from __future__ import annotations

import contextlib

import numpy as np
from support.traces import Trace

import diffkern as dk

from .kernels import N, Programs, State, energy, move, number, ramp, scatter, settle, slots, smooth, square, total

PROGRAMS: Programs = {}


def chain(trace: Trace) -> None:
    """The second sweep is compiled, and the ones behind it run that."""
    x, y, s = ramp(), dk.zeros(N), number()
    trace.arrays(x=x, y=y, s=s)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, y, 2.0])
        dk.launch(total, N, [y, s])
    for k in range(3):
        trace.note(f"sweep {k + 1}")
        tape.backward(s)


def in_place(trace: Trace) -> None:
    """What launches overwrite is copied before if an adjoint reads it."""
    x, v, s = ramp(), ramp(), number()
    trace.arrays(x=x, v=v, s=s)
    with dk.Tape() as tape:
        for _ in range(2):
            dk.launch(move, N, [x, v, 0.1])
        dk.launch(total, N, [x, s])
    trace.note("sweep")
    tape.backward(s)


def parts(trace: Trace) -> None:
    """Of what is overwritten only that part is kept which is lost."""
    x, y, z = ramp(), dk.zeros(N), dk.zeros(N, requires_grad=True)
    trace.arrays(x=x, y=y, z=z)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, y, 1.0])
        dk.launch(square, N, [y, z, 1.0])
        y[1:3].fill_(4.0)
        dk.launch(square, 2, [x, y[3:5], 1.0])
    trace.note("sweep")
    tape.backward(grads={z: np.ones(N, np.float32)})


def copies_and_fills(trace: Trace) -> None:
    """Copies between parts of arrays, constants, assignments of NumPy's arrays."""
    x, y, s = ramp(), dk.zeros(N), number()
    trace.arrays(x=x, y=y, s=s)
    with dk.Tape() as tape:
        y.assign(x)
        y[1:4] = x[2:5]
        y[0] = 2.0
        y[4:] = np.array([1.0, 3.0], np.float32)
        z = dk.clone(y[::2])
        trace.arrays(z=z)
        dk.copy(y, z, dest_offset=1, src_offset=0, count=2)
        dk.launch(total, N, [y, s])
        x.zero_()
    trace.note("sweep")
    tape.backward(s)


def seeds(trace: Trace) -> None:
    """A sweep begins with what it is given, with a loss, or with what gradients hold."""
    x, y, s = ramp(), dk.zeros(N, requires_grad=True), number()
    trace.arrays(x=x, y=y, s=s)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, y, 1.0])
        dk.launch(total, N, [y, s])
    trace.note("an array and a loss")
    tape.backward(s, grads={y: dk.ones(N)})
    trace.note("a part")
    tape.backward(grads={y: np.arange(N, dtype=np.float32)})
    trace.note("what they hold")
    y.grad.fill_(1.0)
    tape.backward()


def zero_and_reset(trace: Trace) -> None:
    """Gradients that are known to be zero are not set to zero again."""
    x, y, s = ramp(), dk.zeros(N), number()
    trace.arrays(x=x, y=y, s=s)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, y, 1.0])
        dk.launch(total, N, [y, s])
    tape.zero()
    tape.backward(s)
    trace.note("zero")
    tape.zero()
    tape.zero()
    trace.note("reset")
    tape.backward(s)
    tape.reset()


def functions(trace: Trace) -> None:
    """A function of the user's stands in a sweep for what was not recorded."""
    x, y, s = ramp(), dk.zeros(N, requires_grad=True), number()
    trace.arrays(x=x, y=y, s=s)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, y, 1.0], record_tape=False)

        def doubled() -> None:
            dk.launch(square, N, [x, y, 1.0], adj_inputs=[x.grad, y.grad, None], adjoint=True)

        tape.record_func(doubled, [x, y])
        dk.launch(total, N, [y, s])
    trace.note("sweep")
    tape.backward(s)


def left_out(trace: Trace) -> None:
    """What is left out of derivatives happens, and has no adjoint."""
    x, y, z, s = ramp(), dk.zeros(N), dk.zeros(N), number()
    trace.arrays(x=x, y=y, z=z, s=s)
    with dk.Tape() as tape:
        with dk.no_grad():
            dk.launch(square, N, [x, z, 1.0])
            z[0] = 1.0
        dk.launch(square, N, [x, y, 1.0])
        dk.launch(total, N, [z, s])
        dk.launch(total, N, [y, s])
    trace.note("sweep")
    tape.backward(s)


def structs(trace: Trace) -> None:
    """Arrays in a struct."""
    state, s = State(ramp(), ramp(), 2.0), number()
    trace.arrays(x=state.x, v=state.v, s=s)
    with dk.Tape() as tape:
        dk.launch(energy, N, [state, s])
    trace.note("sweep")
    tape.backward(s)


def overwritten_values(trace: Trace) -> None:
    """How much is logged is counted on copies before the launch."""
    x, s = dk.array(np.full((3, 4), 0.5, np.float32), requires_grad=True), number()
    trace.arrays(x=x, s=s)
    with dk.Tape() as tape:
        dk.launch(settle, 3, [x])
        dk.launch(total, 12, [x.flatten(), s])
    trace.note("sweep")
    tape.backward(s)


def returned_values(trace: Trace) -> None:
    """What atomic updates returned is logged."""
    x, count, out, s = ramp(), dk.zeros(1, dtype=int), dk.zeros(N), number()
    trace.arrays(x=x, count=count, out=out, s=s)
    with dk.Tape() as tape:
        dk.launch(slots, N, [x, count, out])
        dk.launch(total, N, [out, s])
    trace.note("sweep")
    tape.backward(s)


def stencils(trace: Trace) -> None:
    """The threads of the adjoint gather, and another pass clears."""
    x, y, s = ramp(), dk.zeros(N), number()
    trace.arrays(x=x, y=y, s=s)
    with dk.Tape() as tape:
        dk.launch(smooth, N, [x, y])
        dk.launch(total, N, [y, s])
    trace.note("sweep")
    tape.backward(s)


def indices_of_data(trace: Trace) -> None:
    """Destinations that only the data tell."""
    where, x, y, s = dk.array([0, 2, 2, 1, 0, 5], dtype=int), ramp(), dk.zeros(N), number()
    trace.arrays(where=where, x=x, y=y, s=s)
    with dk.Tape() as tape:
        dk.launch(scatter, N, [x, where, y])
        dk.launch(total, N, [y, s])
    trace.note("sweep")
    tape.backward(s)


def one_array_twice(trace: Trace) -> None:
    """Two parameters that are one array."""
    x, s = ramp(), number()
    trace.arrays(x=x, s=s)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, x, 1.0])
        dk.launch(total, N, [x, s])
    trace.note("sweep")
    tape.backward(s)


def strided(trace: Trace) -> None:
    """Parts that are not contiguous, and their gradients."""
    x, y, s = ramp(2 * N), dk.zeros(N), number()
    trace.arrays(x=x, y=y, s=s)
    with dk.Tape() as tape:
        dk.launch(square, N, [x[::2], y, 1.0])
        dk.launch(square, N, [x[::-2], y[::-1], 1.0])
        dk.launch(total, N, [y, s])
    trace.note("sweep")
    tape.backward(s)


def adjoints_by_hand(trace: Trace) -> None:
    """Off a tape, on one where no gradient goes, and on one where it does."""
    x, y, s = ramp(), dk.zeros(N, requires_grad=True), number()
    ct_x, ct_y = dk.zeros(N), dk.ones(N)
    trace.arrays(x=x, y=y, s=s, ct_x=ct_x, ct_y=ct_y)
    dk.launch(square, N, [x, y, 1.0])
    dk.launch(square, N, [x], [y, 1.0], adj_inputs=[ct_x], adj_outputs=[ct_y, None], adjoint=True)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, y, 1.0])
        dk.launch(square, N, [x], [y, 1.0], adj_inputs=[ct_x], adj_outputs=[ct_y, None], adjoint=True)
        dk.launch(total, N, [y, s])
    trace.note("sweep")
    tape.backward(s)


def refused(trace: Trace) -> None:
    """A sweep that is refused has done nothing."""
    x, y, s = ramp(), dk.zeros(N), number()
    trace.arrays(x=x, y=y, s=s)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, y, 1.0])
        dk.launch(total, N, [y, s])
    x.fill_(1.0)
    trace.note("sweep")
    with contextlib.suppress(dk.LaunchError):
        tape.backward(s)


def new_gradients(trace: Trace) -> None:
    """Arrays that get a gradient when all is recorded; a gradient that is another array from one sweep to the next."""
    x, y, s = ramp(), dk.zeros(N), number()
    trace.arrays(x=x, y=y, s=s)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, y, 1.0])
        dk.launch(total, N, [y, s])
    y.requires_grad = True
    tape.backward(s)
    trace.note("another gradient")
    x.grad = dk.zeros(N)
    tape.backward(s)


def anomalies(trace: Trace) -> None:
    """Where numbers that are not finite are looked for."""
    x, y, s = ramp(), dk.zeros(N), number()
    trace.arrays(x=x, y=y, s=s)
    with dk.detect_anomaly(), dk.Tape() as tape:
        dk.launch(square, N, [x, y, 1.0])
        dk.launch(total, N, [y, s])
    tape.backward(s)


def of_no_use(trace: Trace) -> None:
    """Steps that no gradient reaches have no adjoint."""
    x, y, z, s = ramp(), dk.zeros(N), dk.zeros(N), number()
    trace.arrays(x=x, y=y, z=z, s=s)
    with dk.Tape() as tape:
        dk.launch(square, N, [x, z, 1.0])
        dk.launch(square, N, [x, y, 1.0])
        dk.launch(square, N, [y, z, 3.0])
        dk.launch(total, N, [y, s])
        y.fill_(1.0)
    trace.note("sweep")
    tape.backward(s)


PROGRAMS |= {
    f.__name__: f
    for f in (
        chain, in_place, parts, copies_and_fills, seeds, zero_and_reset, functions, left_out, structs,
        overwritten_values, returned_values, stencils, indices_of_data, one_array_twice, strided, adjoints_by_hand,
        refused, new_gradients, anomalies, of_no_use,
    )
}  # fmt: skip
