"""Forward mode as users have it: kernels, blocks and functions along tangents, products with second derivatives."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import AutodiffError, LaunchError, MisuseError
from diffkern.testing import gradcheck

F64 = dk.float64
RNG = np.random.default_rng(3)


def doubles(values: Any, **options: Any) -> Any:
    return dk.array(np.asarray(values, float), dtype=F64, **options)


def zeros(*shape: int) -> Any:
    return dk.zeros(shape, dtype=F64)


@dk.kernel
def wave(x: dk.array(dtype=F64), y: dk.array(dtype=F64), a: F64):
    i = dk.tid()
    y[i] = a * dk.sin(x[i]) + x[i] * x[(i + 1) % x.shape[0]]


@dk.kernel
def total(x: dk.array(dtype=F64), s: dk.array(dtype=F64)):
    i = dk.tid()
    dk.atomic_add(s, 0, x[i] * x[i])


@dk.kernel
def step(x: dk.array(dtype=F64), v: dk.array(dtype=F64)):
    i = dk.tid()
    v[i] = v[i] - 0.1 * dk.sin(x[i])
    x[i] = x[i] + 0.1 * v[i]


def roll(x: np.ndarray, a: float = 2.0) -> np.ndarray:
    return a * np.sin(x) + x * np.roll(x, -1)


def slope(f: Any, x: np.ndarray, t: np.ndarray, h: float = 1e-6) -> np.ndarray:
    return (f(x + h * t) - f(x - h * t)) / (2 * h)


POINT, WAY = np.linspace(0.1, 0.9, 6), RNG.normal(size=6)


# -- kernels -----------------------------------------------------------------------------------------------------------


def test_a_launch_with_tangents():
    y, t_y = zeros(6), zeros(6)
    wave.jvp[6](doubles(POINT), y, 2.0, doubles(WAY), t_y, 0.5)
    np.testing.assert_allclose(y.numpy(), roll(POINT), rtol=1e-15)
    expected = slope(roll, POINT, WAY) + 0.5 * np.sin(POINT)
    np.testing.assert_allclose(t_y.numpy(), expected, rtol=1e-8)


@dk.kernel
def pull(x: dk.array(dtype=dk.vec3), y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    p = x[i]
    r2 = dk.dot(p, p) + 0.01
    y[i] = p / (r2 * dk.sqrt(r2))


@dk.kernel
def quotient(x: dk.array(dtype=F64), y: dk.array(dtype=F64), q: dk.array(dtype=F64)):
    i = dk.tid()
    q[i] = x[i] / y[i]


def test_tangents_are_multiplied_by_an_inverse_that_is_finite():
    """One inverse serves three components; where the divisor may be next to 0 there is none."""
    x, t = np.random.default_rng(5).normal(size=(2, 4, 3))
    y, t_y = dk.zeros(4, dtype=dk.vec3), dk.zeros(4, dtype=dk.vec3)
    pull.jvp[4](dk.array(x, dtype=dk.vec3), y, dk.array(t, dtype=dk.vec3), t_y)
    expected = slope(lambda p: p / ((p * p).sum(1, keepdims=True) + 0.01) ** 1.5, x, t)
    np.testing.assert_allclose(t_y.numpy(), expected, rtol=1e-4, atol=1e-4)
    assert pull.jvp.source().count("1.0 / ") == 2  # of the divisor and of the root

    q, t_q = zeros(1), zeros(1)
    quotient.jvp[1](doubles([0.0]), doubles([1e-310]), q, doubles([2e-310]), doubles([0.0]), t_q)
    np.testing.assert_allclose(t_q.numpy(), 2.0)


@dk.struct
class Weights:
    a: F64
    b: F64


@dk.kernel
def weighted(w: Weights, x: dk.array(dtype=F64), y: dk.array(dtype=F64), z: dk.array(dtype=F64)):
    i = dk.tid()
    y[i] = w.a * x[i] ** 2
    z[i] = w.b * dk.sin(x[i])


def test_inputs_and_their_tangents_before_outputs_and_theirs():
    kernel = weighted.jvp.ordered(2)
    assert [p.name for p in kernel.parameters] == ["w", "x", "t_w", "t_x", "y", "z", "t_y", "t_z"]
    assert weighted.jvp.ordered(2) is kernel
    assert weighted.jvp.ordered(4) is weighted.jvp
    with pytest.raises(MisuseError, match="has 4 parameters, so 5 of them"):
        weighted.jvp.ordered(5)
    w, t_w = Weights(2.0, 3.0), Weights(0.5, 0.25)
    y, z, t_y, t_z = (zeros(6) for _ in range(4))
    kernel[6](w, doubles(POINT), t_w, doubles(WAY), y, z, t_y, t_z)
    np.testing.assert_allclose(t_y.numpy(), 0.5 * POINT**2 + 4.0 * POINT * WAY, rtol=1e-14)
    np.testing.assert_allclose(t_z.numpy(), 0.25 * np.sin(POINT) + 3.0 * np.cos(POINT) * WAY, rtol=1e-14)


def test_two_orders_of_tangents_before_the_outputs():
    kernel = weighted.jvp.ordered(2).jvp.ordered(4)
    assert [p.name[-1] for p in kernel.parameters] == [*"wxwxwxwx", *"yzyzyzyz"]
    w, nothing, x, along = Weights(2.0, 3.0), Weights(0.0, 0.0), doubles(POINT), doubles(WAY)
    results = [zeros(6) for _ in range(8)]
    kernel[6](w, x, nothing, along, nothing, along, nothing, None, *results)
    np.testing.assert_allclose(results[6].numpy(), 4.0 * WAY**2, rtol=1e-14)
    np.testing.assert_allclose(results[7].numpy(), -3.0 * np.sin(POINT) * WAY**2, rtol=1e-14)


def test_none_is_a_constant_or_not_wanted():
    t_y = zeros(6)
    wave.jvp[6](doubles(POINT), zeros(6), 2.0, None, t_y, 1.0)
    np.testing.assert_allclose(t_y.numpy(), np.sin(POINT), rtol=1e-14)
    wave.jvp[6](doubles(POINT), zeros(6), 2.0, doubles(WAY), None, 1.0)


def test_tangents_that_would_be_lost_are_refused():
    with pytest.raises(AutodiffError, match="v carries values with tangents inside the kernel") as error:
        step.jvp[6](doubles(POINT), zeros(6), doubles(WAY), None)
    assert "tangent of v" in str(error.value)
    assert error.value.loc.line == step.func.__code__.co_firstlineno + 3


def test_values_in_place():
    x, v, t_x, t_v = doubles(POINT), zeros(6), doubles(WAY), zeros(6)
    step.jvp[6](x, v, t_x, t_v)
    np.testing.assert_allclose(t_v.numpy(), -0.1 * np.cos(POINT) * WAY, rtol=1e-13)
    np.testing.assert_allclose(t_x.numpy(), WAY + 0.1 * t_v.numpy(), rtol=1e-13)


@dk.struct
class Spring:
    k: F64
    rest: dk.array(dtype=F64)
    n: int


@dk.kernel
def springs(s: Spring, x: dk.array(dtype=dk.vec3d), out: dk.array(dtype=F64)):
    i = dk.tid()
    out[i] = s.k * (dk.length(x[i]) - s.rest[i]) ** 2.0 * F64(s.n)


def test_structs_and_vectors():
    def made(k: float, rest: Any, n: int = 3) -> Any:
        s = Spring()
        s.k, s.rest, s.n = k, rest, n
        return s

    x, rest = RNG.normal(size=(4, 3)), RNG.uniform(0.5, 1.0, 4)
    t_x, t_rest = RNG.normal(size=(4, 3)), RNG.normal(size=4)
    out, t_out = zeros(4), zeros(4)
    vectors = [dk.array(v, dtype=dk.vec3d) for v in (x, t_x)]
    springs.jvp[4](made(2.0, doubles(rest)), vectors[0], out, made(0.3, doubles(t_rest)), vectors[1], t_out)

    def energy(h: float) -> np.ndarray:
        length = np.linalg.norm(x + h * t_x, axis=1)
        return (2.0 + 0.3 * h) * (length - rest - h * t_rest) ** 2 * 3

    np.testing.assert_allclose(t_out.numpy(), (energy(1e-6) - energy(-1e-6)) / 2e-6, rtol=1e-7)


@dk.kernel
def blurred(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    part = dk.shared_array(shape=64, dtype=float)
    k = dk.thread_index()
    part[k] = dk.exp(x[i])
    dk.syncthreads()
    y[i] = part[k] * part[63 - k]


def test_shared_arrays():
    x, t = RNG.uniform(size=128).astype(np.float32), RNG.normal(size=128).astype(np.float32)
    y, t_y = dk.zeros(128), dk.zeros(128)
    dk.launch(blurred.jvp, dim=128, inputs=[dk.array(x), y, dk.array(t), t_y], block_dim=64)
    other = np.concatenate([t[:64][::-1], t[64:][::-1]])
    np.testing.assert_allclose(t_y.numpy(), y.numpy() * (t + other), rtol=1e-5, atol=1e-6)


@dk.func
def softened(x: F64):
    return dk.abs(x)


@dk.func_grad(softened)
def softened_adjoint(x: F64, ct: F64):
    dk.adjoint[x] += ct * dk.tanh(10.0 * x)


@dk.kernel
def with_rule(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    y[i] = softened(x[i]) * x[i]


def test_the_transpose_of_a_rule():
    t_y, x = zeros(6), POINT - 0.5
    with_rule.jvp[6](doubles(x), zeros(6), doubles(WAY), t_y)
    np.testing.assert_allclose(t_y.numpy(), (np.tanh(10 * x) * x + np.abs(x)) * WAY, rtol=1e-12)


def test_twice_and_the_gradient_of_it():
    second = zeros(6)
    ones = doubles(np.ones(6))
    wave.jvp.jvp[6](doubles(POINT), zeros(6), 2.0, ones, zeros(6), 0.0, ones, None, 0.0, None, second, 0.0)
    np.testing.assert_allclose(second.numpy(), -2 * np.sin(POINT) + 2.0, rtol=1e-12)
    gradcheck(wave.jvp, 6, [doubles(POINT), zeros(6), 2.0, doubles(WAY), zeros(6), 0.5])


def test_half_precision():
    @dk.kernel
    def half(x: dk.array(dtype=dk.float16), y: dk.array(dtype=dk.float16)):
        i = dk.tid()
        y[i] = x[i] * x[i]

    x, y, t, t_y = (dk.array(v, dtype=dk.float16) for v in ([1.5, 2.0], [0, 0], [1.0, -1.0], [0, 0]))
    half.jvp[2](x, y, t, t_y)
    assert t_y.numpy().tolist() == [3.0, -4.0]


def test_it_is_a_kernel():
    assert [p.name for p in wave.jvp.parameters] == ["x", "y", "a", "t_x", "t_y", "t_a"]
    assert wave.jvp is wave.jvp
    assert copy.copy(wave.jvp) is wave.jvp
    assert pickle.loads(pickle.dumps(wave.jvp)) is wave.jvp
    record = dk.launch(wave.jvp, 6, [doubles(POINT), zeros(6), 2.0, doubles(WAY), t := zeros(6), 0.0], record_cmd=True)
    record.launch()
    np.testing.assert_allclose(t.numpy(), slope(roll, POINT, WAY), rtol=1e-7)
    assert "t_y[i] = " in wave.jvp.source()
    assert "ct_t_x[i] += " in wave.jvp.adjoint_source() or "ct_t_x" in wave.jvp.adjoint_source()
    assert "cuda.jit" in wave.jvp.source(target="cuda")
    with pytest.raises(MisuseError, match=r"f\.jvp"):
        wave.jvp.thread


def test_a_tangent_is_like_its_argument():
    with pytest.raises(LaunchError, match="t_x"):
        wave.jvp[6](doubles(POINT), zeros(6), 2.0, dk.array(WAY, dtype=float), zeros(6), 0.0)

    @dk.kernel
    def generic(x: dk.array(dtype=Any), y: dk.array(dtype=Any)):
        y[dk.tid()] = x[dk.tid()]

    with pytest.raises(LaunchError, match="the tangent of 'x' is"):
        generic.jvp[6](doubles(POINT), zeros(6), dk.array(WAY, dtype=float), zeros(6))


# -- functions ---------------------------------------------------------------------------------------------------------


def twice(x: Any) -> Any:
    y, z = zeros(6), zeros(6)
    wave[6](x, y, 2.0)
    dk.copy(z, y)
    wave[6](z, y, 2.0)
    return y


def loss(x: Any) -> Any:
    s = zeros(1)
    total[6](twice(x), s)
    return s


def energy(x: np.ndarray) -> float:
    return float(np.sum(roll(roll(x)) ** 2))


def test_functions_along_tangents():
    y, t = dk.jvp(twice, (doubles(POINT),), (WAY,))
    np.testing.assert_allclose(y.numpy(), roll(roll(POINT)), rtol=1e-14)
    np.testing.assert_allclose(t.numpy(), slope(lambda x: roll(roll(x)), POINT, WAY), rtol=1e-8)


def test_tangents_of_everything():
    x, v = doubles(POINT), zeros(6)
    with dk.Tangents({x: WAY}) as tangents:
        for _ in range(3):
            step[6](x, v)

    def after(h: float) -> tuple[np.ndarray, np.ndarray]:
        a, b = POINT + h * WAY, np.zeros(6)
        for _ in range(3):
            b = b - 0.1 * np.sin(a)
            a = a + 0.1 * b
        return a, b

    for held, k in ((x, 0), (v, 1)):
        np.testing.assert_allclose(tangents[held].numpy(), (after(1e-6)[k] - after(-1e-6)[k]) / 2e-6, rtol=1e-7)
    assert not tangents[zeros(3)].numpy().any()


def test_views_fills_and_constants():
    x, y = doubles(POINT), zeros(6)
    with dk.Tangents({x[2:4]: [1.0, 2.0]}) as tangents:
        y[1:5] = x[1:5]
        assert tangents[y].numpy().tolist() == [0, 0, 1, 2, 0, 0]
        y[2:3].fill_(4.0)
        assert tangents[y].numpy().tolist() == [0, 0, 0, 2, 0, 0]
        assert tangents[y.reshape((2, 3))].numpy().tolist() == [[0, 0, 0], [2, 0, 0]]
        x.zero_()
    assert not tangents[x].numpy().any()


@dk.kernel
def first_is_constant(x: dk.array(dtype=F64)):
    i = dk.tid()
    if i == 0:
        x[i] = F64(2.0)


def test_what_is_overwritten_with_a_constant_has_no_tangent():
    x, y, constant = doubles(POINT), doubles(POINT), doubles(POINT + 1.0)
    with dk.Tangents({x: WAY, y: WAY}) as tangents:
        first_is_constant[6](x)
        dk.copy(y, constant)
    np.testing.assert_array_equal(tangents[x].numpy(), [0.0, *WAY[1:]])
    assert not tangents[y].numpy().any()


def test_changes_by_others_are_noticed():
    x, y = doubles(POINT), zeros(6)
    seen = x.numpy()
    with dk.Tangents({x: WAY}) as tangents:
        wave[6](x, y, 2.0)
        seen[0] = 9.0
        with pytest.raises(LaunchError, match="changed by other means"):
            wave[6](x, y, 2.0)
    with pytest.raises(LaunchError, match="changed by other means"):
        tangents[x]


@dk.struct
class Body:
    m: F64
    v: dk.vec3d
    n: int


@dk.kernel
def kinetic(b: dk.array(dtype=Body), e: dk.array(dtype=F64)):
    i = dk.tid()
    e[i] = 0.5 * b[i].m * dk.dot(b[i].v, b[i].v)


def test_arrays_of_structs():
    bodies = dk.zeros(2, dtype=Body)
    bodies.field("m").assign([2.0, 3.0])
    bodies.field("v").assign([[1.0, 0, 0], [0, 2.0, 0]])
    ways = dk.zeros(2, dtype=Body)
    ways.field("m").assign([1.0, 0.0])
    ways.field("v").assign([[0.0, 0, 0], [0, 1.0, 0]])
    e = zeros(2)
    with dk.Tangents({bodies: ways}) as tangents:
        kinetic[2](bodies, e)
    assert tangents[e].numpy().tolist() == [0.5, 6.0]


def test_products_with_second_derivatives():
    x = doubles(POINT, requires_grad=True)
    (product,) = dk.hvp(loss, (x,), (WAY,))

    def gradient(p: np.ndarray) -> np.ndarray:
        return np.array([slope(energy, p, e, 1e-5) for e in np.eye(6)])

    np.testing.assert_allclose(product.numpy(), slope(gradient, POINT, WAY, 1e-5), rtol=1e-4)
    assert not x.grad.numpy().any()
    with pytest.raises(MisuseError, match="one element"):
        dk.hvp(twice, (x,), (WAY,))


@pytest.mark.parametrize("mode", ["forward", "reverse", None])
def test_jacobians(mode: Any):
    x = doubles(POINT)
    expected = np.array([slope(roll, POINT, e) for e in np.eye(6)]).T

    def once(x: Any) -> Any:
        y = zeros(6)
        wave[6](x, y, 2.0)
        return y

    np.testing.assert_allclose(dk.jacobian(once, x, mode=mode), expected, rtol=1e-7, atol=1e-9)
    pattern = np.eye(6, dtype=bool) | np.roll(np.eye(6, dtype=bool), 1, axis=1)
    np.testing.assert_allclose(dk.jacobian(once, x, mode=mode, sparsity=pattern), expected, rtol=1e-7, atol=1e-9)
    assert x.grad is None


def test_fewer_sweeps_with_a_pattern():
    count = 0

    def counted(x: Any) -> Any:
        nonlocal count
        count += 1
        y = zeros(6)
        wave[6](x, y, 2.0)
        return y

    dk.jacobian(counted, doubles(POINT), mode="forward", sparsity=np.eye(6) + np.roll(np.eye(6), 1, axis=1))
    assert count == 2


def test_hessians():
    x = doubles(POINT)
    whole = dk.hessian(loss, x)
    np.testing.assert_allclose(whole, whole.T, rtol=1e-12)
    (product,) = dk.hvp(loss, (x,), (WAY,))
    np.testing.assert_allclose(whole @ WAY, product.numpy(), rtol=1e-12)
    pattern = np.abs(whole) > 0
    np.testing.assert_allclose(dk.hessian(loss, x, sparsity=pattern), whole, rtol=1e-12)


def test_what_is_misused():
    with pytest.raises(MisuseError, match="a tangent for each"):
        dk.jvp(twice, (doubles(POINT),), ())
    with pytest.raises(MisuseError, match="sequence of arrays"):
        dk.jvp(twice, (POINT,), (WAY,))
    with pytest.raises(LaunchError, match="the tangent of"):
        dk.Tangents({doubles(POINT): doubles(WAY[:2])})


def test_tangents_of_tangents():
    x = doubles(POINT)
    with dk.Tangents({x: WAY}) as outer:
        with dk.Tangents({x: WAY}) as inner:
            y = twice(x)
        second = outer[inner[y]].numpy()
    h = 1e-4
    values = [twice(doubles(POINT + step * WAY)).numpy() for step in (h, 0.0, -h)]
    np.testing.assert_allclose(second, (values[0] - 2 * values[1] + values[2]) / h**2, rtol=1e-5, atol=1e-6)


def test_an_operand_without_a_derivative():
    @dk.kernel
    def signed(x: dk.array(dtype=F64), s: dk.array(dtype=F64), y: dk.array(dtype=F64)):
        i = dk.tid()
        y[i] = dk.copysign(x[i], s[i])

    t_y, signs = zeros(6), np.array([1.0, -1, 1, -1, 1, -1])
    signed.jvp[6](doubles(POINT), doubles(signs), zeros(6), doubles(WAY), doubles(WAY), t_y)
    np.testing.assert_array_equal(t_y.numpy(), signs * WAY)


def test_adjoints_by_hand_are_refused():
    x, y = doubles(POINT, requires_grad=True), dk.ones(6, dtype=F64, requires_grad=True)
    with dk.Tangents({x: WAY}), pytest.raises(LaunchError, match="tangents are carried along"):
        dk.launch(wave, 6, [x, y, 2.0], adj_inputs=[x.grad, y.grad, None], adjoint=True)


@pytest.mark.parametrize("run", [False, True])
def test_what_is_recorded_in_a_block_is_not_replayed_in_it(run: bool):
    """It holds tangents beside what they are of: a sum would be added to its tangent once for several times."""

    def summed(x: Any) -> Any:
        s = zeros(1)
        with dk.record(run=run) as sequence:
            dk.launch(total, 6, [x, s])
        sequence.replay()
        return s

    with pytest.raises(LaunchError, match="by what was recorded in the block"):
        dk.jvp(summed, (doubles(POINT),), (doubles(WAY),))
    with dk.record(run=False) as whole:
        s, t_s = dk.jvp(dk.clone, (doubles(POINT),), (doubles(WAY),))
    whole.replay()
    np.testing.assert_array_equal([s.numpy(), t_s.numpy()], [POINT, WAY])
