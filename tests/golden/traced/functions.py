"""Derivatives of functions, in both modes and of second order, and tangents along a block."""

from __future__ import annotations

from typing import Any

from support.traces import Trace

import diffkern as dk

from .kernels import N, Programs, move, number, ramp, scatter, slots, square, total


def loss(x: Any, w: Any) -> Any:
    y, s = dk.zeros(N), dk.zeros(1)
    dk.launch(square, N, [x, y, 2.0])
    dk.launch(move, N, [y, w, 0.1])
    dk.launch(total, N, [y, s])
    return s


def along(x: Any, w: Any) -> tuple[Any, Any]:
    y = dk.zeros(N)
    dk.launch(square, N, [x, y, 2.0])
    y[1:3] = w[0:2]
    return y, y[2:4]


def given(trace: Trace) -> tuple[Any, Any]:
    x, w = ramp(requires_grad=False), ramp(requires_grad=False)
    trace.arrays(x=x, w=w)
    return x, w


def gradient(trace: Trace) -> None:
    """``dk.grad``, which leaves arguments as they were."""
    dk.grad(loss)(*given(trace))


def value_and_gradient(trace: Trace) -> None:
    """``dk.value_and_grad``."""
    dk.value_and_grad(loss)(*given(trace))


def products_with_the_transpose(trace: Trace) -> None:
    """``dk.vjp`` of two results that share memory, and its pullback."""
    x, w = given(trace)
    v = dk.ones(N)
    trace.arrays(v=v)
    dk.vjp(along, (x, w), (v, v[:2]))


def products(trace: Trace) -> None:
    """``dk.jvp``; None is a zero tangent."""
    x, w = given(trace)
    v = dk.ones(N)
    trace.arrays(v=v)
    dk.jvp(along, (x, w), (v, None))
    trace.note("both")
    dk.jvp(loss, (x, w), (v, v))


def second_derivatives(trace: Trace) -> None:
    """``dk.hvp``: the adjoint of a forward mode."""
    x, w = given(trace)
    v = dk.ones(N)
    trace.arrays(v=v)
    dk.hvp(loss, (x, w), (v, None))


def gradient_of_gradient(trace: Trace) -> None:
    """A tape around that of a function: the adjoints of adjoints."""
    x, _ = given(trace)

    def length(a: Any) -> Any:
        s = dk.zeros(1)
        dk.launch(total, N, [dk.grad(simple)(a), s])
        return s

    def simple(a: Any) -> Any:
        y, s = dk.zeros(N), dk.zeros(1)
        dk.launch(square, N, [a, y, 2.0])
        dk.launch(total, N, [y, s])
        return s

    dk.grad(length)(x)


def gradient_on_a_tape(trace: Trace) -> None:
    """``dk.grad`` inside the block of a tape, whose sweep goes through its sweep."""
    x, s = ramp(), number()
    trace.arrays(x=x, s=s)

    def inner(a: Any) -> Any:
        r = dk.zeros(1)
        dk.launch(total, N, [a, r])
        return r

    with dk.Tape() as tape:
        found = dk.grad(inner)(x)
        dk.launch(total, N, [found, s])
    trace.note("sweep")
    tape.backward(s)


def tangents_of_a_gradient(trace: Trace) -> None:
    """Forward over reverse by hand: tangents around a function's gradient."""
    x, w = given(trace)
    v = dk.ones(N)
    trace.arrays(v=v)
    with dk.Tangents({x: v}):
        dk.grad(loss)(x, w)


def jacobians(trace: Trace) -> None:
    """``dk.jacobian`` in both modes."""
    x = ramp(2, requires_grad=False)
    trace.arrays(x=x)

    def function(a: Any) -> Any:
        y = dk.zeros(2)
        dk.launch(square, 2, [a, y, 2.0])
        return y

    for mode in ("forward", "reverse"):
        trace.note(mode)
        dk.jacobian(function, x, mode=mode)


def hessians(trace: Trace) -> None:
    """``dk.hessian``, whole and where columns are computed together."""
    x = ramp(2, requires_grad=False)
    trace.arrays(x=x)

    def function(a: Any) -> Any:
        s = dk.zeros(1)
        dk.launch(total, 2, [a, s])
        return s

    dk.hessian(function, x)
    trace.note("sparse")
    dk.hessian(function, x, sparsity=[[True, False], [False, True]])


def tangents(trace: Trace) -> None:
    """A block along tangents: launches, copies, fills, and what was put aside."""
    x, y, z, s = ramp(requires_grad=False), dk.zeros(N), dk.zeros(N), dk.zeros(1)
    t_x = dk.ones(N)
    trace.arrays(x=x, y=y, z=z, s=s, t_x=t_x)
    with dk.Tangents({x: t_x}) as block:
        dk.launch(square, N, [x, y, 1.0])
        y[0] = 3.0
        y[1:3] = x[2:4]
        with dk.no_grad():
            dk.launch(square, N, [y, z, 1.0])
        dk.launch(total, N, [y, s])
        block[s].numpy()


def tangents_on_a_tape(trace: Trace) -> None:
    """Tangents inside a tape, which is taken back through them."""
    x, v, s = ramp(), ramp(), number()
    t_x = ramp()
    trace.arrays(x=x, v=v, s=s, t_x=t_x)
    with dk.Tape() as tape:
        with dk.Tangents({x: t_x}) as block:
            dk.launch(move, N, [x, v, 0.1])
        dk.launch(total, N, [block[x], s])
    trace.note("sweep")
    tape.backward(s)


def kernels_along(trace: Trace) -> None:
    """The kernel in forward mode, launched by itself, on a tape."""
    x, y, t_x, t_y = ramp(), dk.zeros(N, requires_grad=True), ramp(), dk.zeros(N, requires_grad=True)
    trace.arrays(x=x, y=y, t_x=t_x, t_y=t_y)
    with dk.Tape() as tape:
        dk.launch(square.jvp, N, [x, y, 1.0, t_x, t_y, 0.0])
    trace.note("sweep")
    tape.backward(grads={t_y: dk.ones(N)})


def logged(trace: Trace) -> None:
    """A function whose adjoint reads a log; its tape and one around it have one each."""
    x, s = ramp(), number()
    trace.arrays(x=x, s=s)

    def function(a: Any) -> Any:
        count, out, r = dk.zeros(1, dtype=int), dk.zeros(N), dk.zeros(1)
        dk.launch(slots, N, [a, count, out])
        dk.launch(total, N, [out, r])
        return r

    dk.grad(function)(x)


def data_that_tell_indices(trace: Trace) -> None:
    """``dk.jvp`` and ``dk.grad`` of scattered sums."""
    x, where = ramp(requires_grad=False), dk.array([0, 2, 2, 1, 0, 5], dtype=int)
    v = dk.ones(N)
    trace.arrays(x=x, where=where, v=v)

    def function(a: Any) -> Any:
        y, s = dk.zeros(N), dk.zeros(1)
        dk.launch(scatter, N, [a, where, y])
        dk.launch(total, N, [y, s])
        return s

    dk.jvp(function, (x,), (v,))
    trace.note("gradient")
    dk.grad(function)(x)


def _squares(x: Any) -> Any:
    y = dk.zeros(N)
    dk.launch(square, N, [x, y, 2.0])
    return y


def _squares_back(args: Any, results: Any, cotangents: Any) -> Any:
    return (cotangents[0] * args[0] * 4.0,)


def _squares_along(args: Any, results: Any, tangents: Any) -> Any:
    return tangents[0] * args[0] * 4.0


squared = dk.custom_operation(_squares, vjp=_squares_back, jvp=_squares_along)


def custom_operations(trace: Trace) -> None:
    """A custom operation on a tape whose argument is overwritten, in both modes, and in a second derivative."""
    x, v, s = ramp(), dk.ones(N), number()
    trace.arrays(x=x, v=v, s=s)
    trace.note("tape")
    with dk.Tape() as tape:
        dk.launch(total, N, [squared(x), s])
        x.zero_()
    trace.note("sweep")
    tape.backward(s)
    trace.note("jvp")
    dk.jvp(squared, (x,), (v,))
    trace.note("gradient of a gradient")
    dk.grad(lambda x: dk.grad(lambda x: squared(x).sum())(x).sum())(x)


PROGRAMS: Programs = {
    f.__name__: f
    for f in (
        gradient, value_and_gradient, products_with_the_transpose, products, second_derivatives, gradient_of_gradient,
        gradient_on_a_tape, tangents_of_a_gradient, jacobians, hessians, tangents, tangents_on_a_tape, kernels_along,
        logged, data_that_tell_indices, custom_operations,
    )
}  # fmt: skip
