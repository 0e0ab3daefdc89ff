"""``dk.custom_operation``: derivatives of its own wherever derivatives are taken, of any order, or an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import LaunchError, MisuseError

F64 = dk.float64
N = 4
X = np.array([0.3, -0.7, 1.1, 0.5])
W = np.array([1.2, 0.4, -0.6, 0.9])
T = np.array([1.0, -2.0, 0.5, 0.3])


def doubles(values: Any, requires_grad: bool = False) -> dk.array:
    return dk.array(np.asarray(values, np.float64), dtype=F64, requires_grad=requires_grad)


@dk.kernel
def waves(x: dk.array[F64], w: dk.array[F64], y: dk.array[F64]):
    i = dk.tid()
    y[i] = dk.sin(w[i] * x[i]) * x[(i + 1) % N]


@dk.kernel
def waves_back(x: dk.array[F64], w: dk.array[F64], ct: dk.array[F64], ct_x: dk.array[F64], ct_w: dk.array[F64]):
    i = dk.tid()
    j = (i + N - 1) % N
    ct_x[i] = dk.cos(w[i] * x[i]) * w[i] * x[(i + 1) % N] * ct[i] + dk.sin(w[j] * x[j]) * ct[j]
    ct_w[i] = dk.cos(w[i] * x[i]) * x[i] * x[(i + 1) % N] * ct[i]


@dk.kernel
def waves_along(x: dk.array[F64], w: dk.array[F64], t_x: dk.array[F64], t_w: dk.array[F64], t: dk.array[F64]):
    i = dk.tid()
    k = (i + 1) % N
    inner = t_w[i] * x[i] + w[i] * t_x[i]
    t[i] = dk.cos(w[i] * x[i]) * inner * x[k] + dk.sin(w[i] * x[i]) * t_x[k]


def forward(x, w):
    y = dk.zeros_like(x)
    waves[N](x, w, y)
    return y


def vjp(args, results, cotangents):
    (x, w), (ct,) = args, cotangents
    ct_x, ct_w = dk.zeros_like(x), dk.zeros_like(w)
    waves_back[N](x, w, ct, ct_x, ct_w)
    return ct_x, ct_w


def jvp(args, results, tangents):
    (x, w), (t_x, t_w) = args, tangents
    t = dk.zeros_like(x)
    t_x, t_w = (dk.zeros_like(x) if tangent is None else tangent for tangent in (t_x, t_w))
    waves_along[N](x, w, t_x, t_w, t)
    return t


custom = dk.custom_operation(forward, vjp=vjp, jvp=jvp)
"""The same function as ``forward``, whose own derivatives are the oracle."""


@dk.kernel
def add_cubes(y: dk.array[F64], s: dk.array[F64]):
    i = dk.tid()
    dk.atomic_add(s, 0, y[i] * y[i] * y[i])


def loss_of(operation):
    def loss(x, w):
        s = dk.zeros(1, dtype=F64)
        add_cubes[N](operation(operation(x, w), w), s)
        return s

    return loss


def equal(found, expected):
    pairs = [(of if isinstance(of, tuple) else (of,)) for of in (found, expected)]
    for a, b in zip(*pairs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-11, atol=1e-12)


OF = (loss_of(custom), loss_of(forward))


def test_gradients_on_a_tape():
    found = []
    for loss in OF:
        x, w = doubles(X, True), doubles(W, True)
        with dk.Tape() as tape:
            s = loss(x, w)
        for _ in range(3):  # the second sweep would be compiled, and the third would run that
            tape.backward(s)
        found.append((x.grad, w.grad))
    equal(*found)


@pytest.mark.parametrize(
    "derivative",
    [
        lambda loss, x, w: dk.grad(loss)(x, w),
        lambda loss, x, w: dk.jvp(loss, (x, w), (doubles(T), None)),
        lambda loss, x, w: dk.jvp(loss, (x, w), (None, doubles(T))),
        lambda loss, x, w: dk.hvp(loss, (x, w), (doubles(T), doubles(W)))[-1],
        lambda loss, x, w: dk.grad(lambda x, w: inner(dk.grad(loss)(x, w)))(x, w),
        lambda loss, x, w: dk.jvp(lambda x, w: inner(dk.grad(loss)(x, w)), (x, w), (doubles(T), doubles(W))),
        lambda loss, x, w: dk.grad(lambda x, w: dk.jvp(loss, (x, w), (doubles(T), doubles(W)))[1])(x, w),
        lambda loss, x, w: dk.grad(lambda x, w: inner(dk.grad(lambda x, w: inner(dk.grad(loss)(x, w)))(x, w)))(x, w),
    ],
    ids=["grad", "jvp", "jvp_of_w", "hvp", "grad_of_grad", "jvp_of_grad", "grad_of_jvp", "third_order"],
)
def test_derivatives_of_functions(derivative):
    equal(*[derivative(loss, doubles(X), doubles(W)) for loss in OF])


@dk.kernel
def dot(a: dk.array[F64], b: dk.array[F64], s: dk.array[F64]):
    i = dk.tid()
    dk.atomic_add(s, 0, a[i] * b[i] * b[i])


def inner(pair):
    s = dk.zeros(1, dtype=F64)
    dot[N](pair[0], pair[1], s)
    return s


def test_hessians():
    found, expected = (dk.hessian(lambda x, of=loss: of(x, doubles(W)), doubles(X)) for loss in OF)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_in_a_roll_out(slots):
    found = []
    for operation in (custom, forward):
        x, w = doubles(X, True), doubles(W, True)
        state = dk.zeros_like(x, requires_grad=True)
        with dk.Tape() as tape:
            dk.copy(state, x)
            dk.checkpoint(lambda k, of=operation: dk.copy(state, of(state, w)), 5, slots)
            s = dk.zeros(1, dtype=F64, requires_grad=True)
            add_cubes[N](state, s)
        tape.backward(s)
        found.append((x.grad, w.grad))
    equal(*found)


def test_the_second_derivative_of_a_roll_out():
    found = []
    for operation in (custom, forward):

        def loss(x, w, of=operation):
            state = dk.clone(x)
            dk.checkpoint(lambda k: dk.copy(state, of(state, w)), 3, 2)
            s = dk.zeros(1, dtype=F64)
            add_cubes[N](state, s)
            return s

        found.append(dk.hvp(loss, (doubles(X), doubles(W)), (doubles(T), doubles(W)))[-1])
    equal(*found)


def test_a_sequence_records_what_it_does():
    x, w = doubles(X, True), doubles(W, True)
    with dk.record() as sequence:
        with dk.Tape() as tape:
            s = OF[0](x, w)
        tape.backward(s)
    for values in (X, T):
        x.assign(values)
        x.grad.zero_()
        w.grad.zero_()
        sequence.replay()
        equal((x.grad, w.grad), dk.grad(OF[1])(doubles(values), doubles(W)))


def test_arguments_and_results_are_as_they_were():
    x, w, y = doubles(X, True), doubles(W, True), dk.zeros(N, dtype=F64, requires_grad=True)
    with dk.Tape() as tape:
        result = custom(x, w)
        dk.copy(y, result)
        result.zero_()
        x.fill_(7.0)
    tape.backward(grads={y: dk.ones(N, dtype=F64)})
    expected = dk.vjp(forward, (doubles(X), doubles(W)), dk.ones(N, dtype=F64))[1]
    equal((w.grad,), (expected[1],))
    # What x held at first has no influence on what it holds at the end, but on the result.
    equal((x.grad,), (expected[0],))


def test_parts_of_arrays():
    x, w = doubles([*X, *T], True), doubles([*W, *W], True)
    with dk.Tape() as tape:
        s = OF[0](x[N:], w[:N])
    tape.backward(s)
    expected = dk.grad(OF[1])(doubles(T), doubles(W))
    equal((x.grad[N:], w.grad[:N]), expected)
    assert not x.grad.numpy()[:N].any()
    assert not w.grad.numpy()[N:].any()


def test_one_array_twice():
    equal(*[(dk.grad(lambda x, of=loss: of(x, x))(doubles(X)),) for loss in OF])


def test_an_array_without_a_gradient_and_an_unused_result():
    x = doubles(X, True)
    both = dk.custom_operation(lambda x, w: (forward(x, w), forward(w, x)), vjp=lambda a, r, ct: vjp(a, r, ct[:1]))
    with dk.Tape() as tape:
        y, _ = both(x, doubles(W))
        s = dk.zeros(1, dtype=F64, requires_grad=True)
        add_cubes[N](y, s)
    tape.backward(s)
    expected = dk.grad(lambda x: (s := dk.zeros(1, dtype=F64), add_cubes[N](forward(x, doubles(W)), s))[0])(doubles(X))
    equal((x.grad,), (expected,))


def test_an_error_in_the_derivative_leaves_gradients():
    def fails(args, results, cotangents):
        raise ValueError("no solution")

    x, w = doubles(X, True), doubles(W, True)
    w.grad.fill_(3.0)
    failing = dk.custom_operation(forward, vjp=fails)
    with dk.Tape() as tape:
        y = dk.zeros_like(x)
        waves[N](failing(x, w), w, y)
    with pytest.raises(ValueError, match="no solution"):
        tape.backward(grads={y: dk.ones(N, dtype=F64)})
    assert (w.grad.numpy() == 3.0).all()


# -- a solve, whose derivative calls it again -------------------------------------------------------------------------


@dk.kernel
def minus_outer(u: dk.array[F64], v: dk.array[F64], out: dk.array2d[F64]):
    i, j = dk.tid()
    out[i, j] = -u[i] * v[j]


@dk.kernel
def transposed(a: dk.array2d[F64], out: dk.array2d[F64]):
    i, j = dk.tid()
    out[i, j] = a[j, i]


def solve(a, b):
    return doubles(np.linalg.solve(a.numpy(), b.numpy()))


def solve_vjp(args, results, cotangents):
    (a, _), (x,), (ct,) = args, results, cotangents
    t, ct_a = dk.zeros_like(a), dk.zeros_like(a)
    transposed[a.shape](a, t)
    ct_b = solved(t, ct)
    minus_outer[a.shape](ct_b, x, ct_a)
    return ct_a, ct_b


solved = dk.custom_operation(solve, vjp=solve_vjp)
A = np.array([[3.0, 0.5, -0.2], [0.1, 2.5, 0.7], [0.4, -0.3, 4.0]])
B = np.array([1.0, -2.0, 0.5])


@dk.kernel
def add_quartics(x: dk.array[F64], s: dk.array[F64]):
    i = dk.tid()
    dk.atomic_add(s, 0, x[i] * x[i] * x[i] * x[i])


def solution(a, b):
    s = dk.zeros(1, dtype=F64)
    add_quartics[len(B)](solved(a, b), s)
    return s


def by_differences(f, values, h=1e-4):
    flat = values.reshape(-1)
    found = np.zeros_like(flat)
    for k in range(flat.size):
        ends = []
        for step in (-2, -1, 1, 2):
            moved = flat.copy()
            moved[k] += step * h
            ends.append(f(moved.reshape(values.shape)))
        found[k] = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)
    return found.reshape(values.shape)


def test_a_solve_has_gradients_of_any_order():
    def value(a, b):
        return (np.linalg.solve(a, b) ** 4).sum()

    ct_a, ct_b = dk.grad(solution)(doubles(A), doubles(B))
    np.testing.assert_allclose(ct_a.numpy(), by_differences(lambda a: value(a, B), A), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ct_b.numpy(), by_differences(lambda b: value(A, b), B), rtol=1e-8, atol=1e-9)

    def slope(a, b):
        s = dk.zeros(1, dtype=F64)
        add_quartics[len(B)](dk.grad(solution)(a, b)[1], s)
        return s

    def slope_of(a):
        return (dk.grad(solution)(doubles(a), doubles(B))[1].numpy() ** 4).sum()

    second = dk.grad(slope)(doubles(A), doubles(B))[0]
    np.testing.assert_allclose(second.numpy(), by_differences(slope_of, A), rtol=1e-7, atol=1e-8)


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_an_array_that_is_no_argument():
    hidden = doubles(W, True)
    operation = dk.custom_operation(lambda x: forward(x, hidden), vjp=lambda a, r, ct: (ct[0],))
    x = doubles(X, True)
    with dk.Tape(), pytest.raises(LaunchError, match="is none of its arguments"):
        operation(x)
    with pytest.raises(LaunchError, match="is none of its arguments"):
        dk.grad(lambda x, w: dk.custom_operation(lambda x: forward(x, w), vjp=vjp)(x))(x, hidden)
    with pytest.raises(LaunchError, match="is none of its arguments"):
        dk.jvp(lambda x, w: dk.custom_operation(lambda x: forward(x, w), jvp=jvp)(x), (x, hidden), (x, hidden))


def test_a_part_that_is_no_argument():
    x = doubles([*X, *T], True)
    operation = dk.custom_operation(lambda part: forward(part, x[N:]), vjp=lambda a, r, ct: (ct[0],))
    with dk.Tape(), pytest.raises(LaunchError, match="is none of its arguments"):
        operation(x[:N])


def test_what_it_has_not_made():
    x, w, y = doubles(X, True), doubles(W), dk.zeros(N, dtype=F64)
    with dk.Tape(), pytest.raises(LaunchError, match=r"writes to .* which has not made"):
        dk.custom_operation(lambda x, w: waves[N](x, w, y) or y, vjp=vjp)(x, w)
    with dk.Tape(), pytest.raises(LaunchError, match="is not its own"):
        dk.custom_operation(lambda x, w: x, vjp=vjp)(x, w)
    with dk.Tape(), pytest.raises(LaunchError, match="is not its own"):
        dk.custom_operation(lambda x, w: (y := forward(x, w), y), vjp=vjp)(x, w)
    with dk.Tape(), pytest.raises(LaunchError, match="returned 3"):
        dk.custom_operation(lambda x, w: 3, vjp=vjp)(x, w)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda ct: (ct,), "returned 1 cotangents for 2 arguments"),
        (lambda ct: (ct, 3.0), "as the cotangent of"),
        (lambda ct: (ct, ct[1:]), "as the cotangent of"),
        (lambda ct: (ct, dk.zeros(N, dtype=dk.float32)), "as the cotangent of"),
        (lambda ct: (ct, ct.numpy()), "as the cotangent of"),
    ],
)
def test_cotangents_that_do_not_fit(returned, message):
    operation = dk.custom_operation(forward, vjp=lambda args, results, ct: returned(ct[0]))
    with pytest.raises(LaunchError, match=message):
        dk.vjp(operation, (doubles(X), doubles(W)), dk.ones(N, dtype=F64))


def test_a_missing_derivative():
    with pytest.raises(LaunchError, match="no derivative in reverse mode"):
        dk.vjp(dk.custom_operation(forward), (doubles(X), doubles(W)), dk.ones(N, dtype=F64))
    with pytest.raises(LaunchError, match="no derivative in forward mode"):
        dk.jvp(dk.custom_operation(forward), (doubles(X), doubles(W)), (doubles(T), None))
    x = doubles(X, True)
    with dk.Tape() as tape:  # no gradient reaches it
        dk.custom_operation(forward)(x, doubles(W))
        s = OF[1](x, doubles(W))
    tape.backward(s)
    equal((x.grad,), dk.grad(OF[1])(doubles(X), doubles(W))[:1])


def test_second_derivatives_through_the_host():
    def on_the_host(args, results, cotangents):
        exact = vjp(args, results, cotangents)
        return tuple(doubles(held.numpy()) for held in exact)

    operation = dk.custom_operation(forward, vjp=on_the_host)
    equal(*[dk.grad(loss_of(of))(doubles(X), doubles(W)) for of in (operation, forward)])
    both = dk.custom_operation(forward, vjp=on_the_host, jvp=jvp)
    # A gradient of what is carried along tangents takes its first derivative alone.
    equal(*[dk.hvp(loss_of(of), (doubles(X), doubles(W)), (doubles(T), doubles(W)))[-1] for of in (both, forward)])
    with pytest.raises(LaunchError, match="on the host, where its own derivative is taken"):
        dk.jvp(lambda x, w: inner(dk.grad(loss_of(both))(x, w)), (doubles(X), doubles(W)), (doubles(T), doubles(W)))
    with pytest.raises(LaunchError, match="on the host, where its own derivative is taken"):
        dk.grad(lambda x, w: inner(dk.grad(loss_of(operation))(x, w)))(doubles(X), doubles(W))


def test_functions_only():
    with pytest.raises(MisuseError, match="vjp of"):
        dk.custom_operation(forward, vjp=3)
    with pytest.raises(MisuseError, match="forward of"):
        dk.custom_operation(None)


def test_without_a_tape_it_is_the_function():
    equal((custom(doubles(X), doubles(W)),), (forward(doubles(X), doubles(W)),))
    assert repr(custom) == "<custom operation 'forward'>"
