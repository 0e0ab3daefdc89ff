"""Gradients of functions that launch kernels are values: they are computed with, and differentiated in all orders."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import AutodiffError, LaunchError, MisuseError

F64 = dk.float64
N = 4
X = np.array([0.3, -0.7, 1.1, 0.5])
W = np.array([1.2, 0.4, -0.6, 0.9])
T = np.array([1.0, -2.0, 0.5, 0.3])


@dk.kernel
def wave(x: dk.array(dtype=F64), w: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    y[i] = 2.0 + dk.sin(w[i] * x[i]) * x[(i + 1) % N]


@dk.kernel
def in_place(y: dk.array(dtype=F64), x: dk.array(dtype=F64)):
    i = dk.tid()
    y[i] = y[i] * y[i] + x[i] * y[i]


@dk.kernel
def add_cubes(y: dk.array(dtype=F64), s: dk.array(dtype=F64)):
    i = dk.tid()
    dk.atomic_add(s, 0, y[i] * y[i] * y[i])


@dk.kernel
def descend(x: dk.array(dtype=F64), g: dk.array(dtype=F64)):
    i = dk.tid()
    x[i] = x[i] - 0.01 * g[i]


def doubles(values):
    return dk.array(np.asarray(values, np.float64), dtype=F64)


def zeros(n):
    return dk.zeros(n, dtype=F64)


def loss(x, w):
    y, s = zeros(N), zeros(1)
    wave[N](x, w, y)
    z = dk.clone(y)
    in_place[N](z, y)
    z[1:3] = y[0:2]
    add_cubes[N](z, s)
    return s


def penalty(x, w):
    gradient, _ = dk.grad(loss)(x, w)
    s = zeros(1)
    add_cubes[N](gradient, s)
    return s


def of_penalty(x, w):
    _, gradient = dk.grad(penalty)(x, w)
    s = zeros(1)
    add_cubes[N](gradient, s)
    return s


def unrolled(x, w):
    z = dk.clone(x)
    for _ in range(2):
        descend[N](z, dk.grad(lambda z: loss(z, w))(z))
    return loss(z, w)


def slopes(f, at, h=1e-6):
    """Central differences."""
    steps = h * np.eye(at.size)
    return np.array([(f(at + d) - f(at - d)) / (2 * h) for d in steps])


@pytest.mark.parametrize("function", [loss, penalty, of_penalty, unrolled])
def test_against_differences(function):
    x, w = doubles(X), doubles(W)
    grad_x, grad_w = dk.grad(function)(x, w)
    for found, expected in (
        (grad_x, slopes(lambda v: function(doubles(v), w).numpy()[0], X)),
        (grad_w, slopes(lambda v: function(x, doubles(v)).numpy()[0], W)),
    ):
        np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=1e-7 * np.abs(expected).max())
    assert x.grad is None


def test_gradients_on_a_tape():
    x, w = (dk.array(v, dtype=F64, requires_grad=True) for v in (X, W))
    expected = dk.grad(penalty)(doubles(X), doubles(W))
    with dk.Tape() as tape:
        p = penalty(x, w)
        x.fill_(5.0)  # a penalty's gradient needs it
    for _ in range(3):
        tape.zero()
        tape.backward(p)
        np.testing.assert_allclose(w.grad.numpy(), expected[1].numpy(), rtol=1e-12)
        np.testing.assert_allclose(x.grad.numpy(), expected[0].numpy(), rtol=1e-12)


def test_a_tape_sees_writes_to_what_a_gradient_of_a_gradient_needs():
    x, w = (dk.array(v, dtype=F64, requires_grad=True) for v in (X, W))
    with dk.Tape() as tape:
        p = penalty(x, w)
    w.numpy()[0] = 7.0
    with pytest.raises(LaunchError, match=r"'w' of .*kernel 'wave'.* changed outside"):
        tape.backward(p)


def test_all_orders_agree():
    w = doubles(W)

    def of_x(x):
        return loss(x, w)

    x, t = doubles(X), doubles(T)
    (expected,) = dk.hvp(of_x, (x,), (T,))
    _, forward_of_reverse = dk.jvp(dk.grad(of_x), (x,), (t,))
    _, (twice_reverse,) = dk.vjp(dk.grad(of_x), (x,), T)
    reverse_of_forward = dk.grad(lambda x: dk.jvp(of_x, (x,), (t,))[1])(x)
    _, twice_forward = dk.jvp(lambda x: dk.jvp(of_x, (x,), (t,))[1], (x,), (t,))
    for found in (forward_of_reverse, twice_reverse, reverse_of_forward):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-11)
    assert twice_forward.numpy()[0] == pytest.approx(T @ expected.numpy(), rel=1e-11)
    np.testing.assert_allclose(dk.jacobian(dk.grad(of_x), x), dk.hessian(of_x, x), rtol=1e-11)


def test_third_order_by_three_modes():
    w, x, t = doubles(W), doubles(X), doubles(T)

    def of_x(x):
        return loss(x, w)

    def curvature(x):
        return dk.jvp(dk.grad(of_x), (x,), (t,))[1]

    _, (expected,) = dk.vjp(curvature, (x,), t)
    _, along = dk.jvp(curvature, (x,), (t,))
    np.testing.assert_allclose(along.numpy(), expected.numpy(), rtol=1e-10)


@dk.struct
class Body:
    at: dk.vec2d
    mass: F64


@dk.kernel
def energy(bodies: dk.array(dtype=Body), scale: F64, e: dk.array(dtype=F64)):
    i = dk.tid()
    for j in range(bodies.shape[0]):
        if j != i:
            d = bodies[i].at - bodies[j].at
            dk.atomic_add(e, 0, scale * bodies[i].mass * bodies[j].mass / dk.length(d))


def test_arrays_of_structs():
    values = np.zeros(3, Body.numpy_dtype())
    values["at"], values["mass"] = [[0.0, 0.1], [1.0, -0.3], [-0.5, 0.8]], [1.0, 2.0, 0.5]

    def total(bodies):
        e = zeros(1)
        energy[3](bodies, 0.7, e)
        return e

    bodies, ways = dk.array(values, dtype=Body), values.copy()
    ways["at"] *= 0.3
    t = dk.array(ways, dtype=Body)
    (expected,) = dk.hvp(total, (bodies,), (t,))
    _, along = dk.jvp(dk.grad(total), (bodies,), (t,))
    _, (back,) = dk.vjp(dk.grad(total), (bodies,), t)
    for name in ("at", "mass"):
        np.testing.assert_allclose(along.numpy()[name], expected.numpy()[name], rtol=1e-11)
        np.testing.assert_allclose(back.numpy()[name], expected.numpy()[name], rtol=1e-11)


@dk.kernel
def shared_sum(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    part = dk.shared_array(shape=N, dtype=F64)
    part[i % N] = x[i] * x[i]
    dk.syncthreads()
    y[i] = part[(i + 1) % N] * x[i]


def test_blocks_of_threads():
    def total(x):
        y, s = zeros(2 * N), zeros(1)
        dk.launch(shared_sum, dim=2 * N, inputs=[x, y], block_dim=N)
        add_cubes[2 * N](y, s)
        return s

    x, t = doubles([*X, *W]), doubles([*T, *X])
    (expected,) = dk.hvp(total, (x,), (t,))
    np.testing.assert_allclose(dk.vjp(dk.grad(total), (x,), t)[1][0].numpy(), expected.numpy(), rtol=1e-11)
    np.testing.assert_allclose(dk.jvp(dk.grad(total), (x,), (t,))[1].numpy(), expected.numpy(), rtol=1e-11)


def test_value_and_gradient():
    x, w = doubles(X), doubles(W)
    value, (grad_x, grad_w) = dk.value_and_grad(loss)(x, w)
    assert value.numpy() == loss(x, w).numpy()
    for found, expected in zip((grad_x, grad_w), dk.grad(loss)(x, w), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    np.testing.assert_array_equal(dk.grad(lambda x: loss(x, w))(x[::1]).numpy(), grad_x.numpy())


def test_a_view_has_the_gradient_of_its_elements():
    whole = doubles([9.0, *X, 9.0])
    found = dk.grad(lambda x: loss(x, doubles(W)))(whole[1:5])
    np.testing.assert_array_equal(found.numpy(), dk.grad(loss)(doubles(X), doubles(W))[0].numpy())


def test_a_gradient_that_is_constant_has_the_gradient_zero():
    def linear(x):
        s = zeros(1)
        dk.copy(s, x[1:2])
        return s

    x = doubles(X)
    assert dk.grad(linear)(x).list() == [0, 1, 0, 0]
    assert dk.hvp(linear, (x,), (T,))[0].list() == [0, 0, 0, 0]
    assert not dk.jacobian(dk.grad(linear), x).any()


@dk.kernel
def first_come(x: dk.array(dtype=F64), count: dk.array(dtype=int), y: dk.array(dtype=F64)):
    i = dk.tid()
    k = dk.atomic_add(count, 0, 1)
    y[k] = x[i] * x[i] * x[i]


def test_what_has_no_second_derivative():
    def slots(x):
        y, s = zeros(N), zeros(1)
        first_come[N](x, dk.zeros(1, dtype=int), y)
        add_cubes[N](y, s)
        return s

    x = doubles(X)
    np.testing.assert_allclose(dk.grad(slots)(x).numpy(), 9 * X**8, rtol=1e-12)
    for twice in (lambda: dk.vjp(dk.grad(slots), (x,), T), lambda: dk.jvp(dk.grad(slots), (x,), (T,))):
        with pytest.raises(AutodiffError, match="atomic") as error:
            twice()
        assert error.value.loc is not None


@dk.kernel
def overwrites(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    y[i] = x[i]
    for _ in range(3):
        y[i] = dk.sin(y[i] * x[i]) + y[i]


def test_overwritten_values():
    def total(x):
        y, s = zeros(N), zeros(1)
        overwrites[N](x, y)
        add_cubes[N](y, s)
        return s

    x, t = doubles(X), doubles(T)
    (expected,) = dk.hvp(total, (x,), (t,))
    np.testing.assert_allclose(dk.vjp(dk.grad(total), (x,), t)[1][0].numpy(), expected.numpy(), rtol=1e-11)
    np.testing.assert_allclose(dk.jvp(dk.grad(total), (x,), (t,))[1].numpy(), expected.numpy(), rtol=1e-11)


def test_roll_outs():
    def rolled(x, w):
        z = dk.clone(x)
        dk.checkpoint(lambda k: in_place[N](z, w), steps=3, slots=2)
        s = zeros(1)
        add_cubes[N](z, s)
        return s

    def in_a_loop(x, w):
        z, s = dk.clone(x), zeros(1)
        for _ in range(3):
            in_place[N](z, w)
        add_cubes[N](z, s)
        return s

    x, w = doubles(X), doubles(W)
    for function in (dk.grad, lambda f: lambda x, w: dk.hvp(f, (x, w), (T, X))):
        for found, expected in zip(function(rolled)(x, w), function(in_a_loop)(x, w), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
    of_gradient = dk.vjp(dk.grad(rolled), (x, w), (T, X))[1]  # without states, as tapes in tapes do
    for found, expected in zip(of_gradient, dk.hvp(rolled, (x, w), (T, X)), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)


def test_a_gradient_in_a_step_of_a_roll_out_is_refused():
    x, w = (dk.array(v, dtype=F64, requires_grad=True) for v in (X, W))
    with dk.Tape(), pytest.raises(LaunchError, match=r"step 0 of dk\.checkpoint .* computes a gradient itself"):
        dk.checkpoint(lambda k: descend[N](x, dk.grad(lambda x: loss(x, w))(x)), steps=3, slots=2)


@dk.kernel
def square(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    y[i] = x[i] * x[i]


def test_one_array_by_two_parameters():
    def total(x):
        z, s = dk.clone(x), zeros(1)
        square[N](z, z)
        add_cubes[N](z, s)
        return s

    x = doubles(X)
    np.testing.assert_allclose(dk.grad(total)(x).numpy(), 6 * X**5, rtol=1e-12)
    with pytest.raises(AutodiffError, match="reads and writes one array by two parameters"):
        dk.vjp(dk.grad(total), (x,), T)


def test_what_is_misused():
    with pytest.raises(MisuseError, match="none of 1 arguments is an array of floats"):
        dk.grad(loss)(2.0)
    with pytest.raises(MisuseError, match="an array of one element"):
        dk.grad(lambda x: x)(doubles(X))
    with pytest.raises(MisuseError, match="takes a func or a built-in"):
        dk.grad(wave)
    with pytest.raises(MisuseError, match="of a function of arrays"):
        dk.value_and_grad(3)
    with pytest.raises(MisuseError, match="a cotangent for each of the 1 results"):
        dk.vjp(lambda x: (x,), (doubles(X),), ())
    with pytest.raises(MisuseError, match="is not like"):
        dk.vjp(dk.clone, (doubles(X),), doubles(X[:2]))


@dk.kernel
def _square_of(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = x[i] * x[i]


def _squares(x):
    y = dk.zeros(3, dtype=dk.float64)
    dk.launch(_square_of, 3, [x, y])
    return y


def test_cotangents_of_results_that_are_one_array_or_parts_of_it_add_up():
    x = dk.array(np.array([1.0, 2.0, 3.0]))

    def twice(x):
        y = _squares(x)
        return y, y, y[1:]

    weights = [dk.array(np.array(w)) for w in ([1.0, 1.0, 1.0], [2.0, 0.0, 1.0], [5.0, 7.0])]
    _, (gradient,) = dk.vjp(twice, (x,), tuple(weights))
    np.testing.assert_allclose(gradient.numpy(), [3 * 2.0, 6 * 4.0, 9 * 6.0])


def test_a_result_may_be_an_argument_that_no_launch_touches():
    x, y = dk.array(np.array([1.0, 2.0, 3.0])), dk.array(np.array([2.0]))
    _, gradients = dk.vjp(lambda x, y: (y, _squares(x), x, x[:2]), (x, y), tuple(map(dk.ones_like, (y, x, x, x[:2]))))
    assert [g.numpy().tolist() for g in gradients] == [[4.0, 6.0, 7.0], [1.0]]
    assert [g.numpy().tolist() for g in dk.grad(lambda x, y: y)(x, y)] == [[0.0, 0.0, 0.0], [1.0]]
    assert dk.grad(lambda x: x[1:2])(x).numpy().tolist() == [0.0, 1.0, 0.0]
