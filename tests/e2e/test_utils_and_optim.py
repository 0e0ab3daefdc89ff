"""Sums, scans, sorts and run lengths of arrays against NumPy; optimizers against their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern import optim, utils
from diffkern.errors import LaunchError, MisuseError

RNG = np.random.default_rng(5)


def smooth(values: Any, dtype: Any = dk.float64) -> Any:
    return dk.array(np.asarray(values), dtype=dtype, requires_grad=True)


def gradient(run: Any, a: Any, out: Any, seed: Any) -> np.ndarray:
    with dk.Tape() as tape:
        run(a, out)
    tape.backward(grads={out: dk.array(np.asarray(seed), dtype=out.dtype)})
    return a.grad.numpy()


@pytest.mark.parametrize("n", [0, 1, 1024, 5000])
def test_sums_and_inner_products(n: int) -> None:
    x = RNG.normal(size=n)
    a, out = smooth(x), dk.zeros(1, dtype=dk.float64, requires_grad=True)
    assert utils.array_sum(a) == pytest.approx(x.sum())
    assert utils.array_inner(a, a) == pytest.approx((x * x).sum())
    if n:
        np.testing.assert_allclose(gradient(utils.array_sum, a, out, [3.0]), 3.0)
        a.grad.zero_()
        out = dk.zeros(1, dtype=dk.float64, requires_grad=True)
        np.testing.assert_allclose(gradient(lambda a, o: utils.array_inner(a, a, o), a, out, [3.0]), 6.0 * x)


def test_sums_of_parts_of_vectors_and_along_axes() -> None:
    v = smooth(RNG.normal(size=(7, 3)), dk.vec3d)
    np.testing.assert_allclose(np.array(utils.array_sum(v)), v.numpy().sum(0))
    assert utils.array_inner(v, v) == pytest.approx((v.numpy() ** 2).sum())
    assert utils.array_sum(smooth([1, 2, 3, 4]), value_count=3) == 6
    assert utils.array_sum(dk.array([1, 2, 3], dtype=int)) == 6
    m = smooth(RNG.normal(size=(3, 4, 5)))
    for axis in range(3):
        np.testing.assert_allclose(utils.array_sum(m, axis=axis).numpy(), m.numpy().sum(axis, keepdims=True))
        want = (m.numpy() ** 2).sum(axis, keepdims=True)
        np.testing.assert_allclose(utils.array_inner(m, m, axis=axis).numpy(), want)
    out = dk.zeros((3, 1, 5), dtype=dk.float64, requires_grad=True)
    seed = RNG.normal(size=(3, 1, 5))
    found = gradient(lambda a, o: utils.array_sum(a, o, axis=1), m, out, seed)
    np.testing.assert_allclose(found, np.broadcast_to(seed, (3, 4, 5)))


@pytest.mark.parametrize("inclusive", [True, False])
def test_scans(inclusive: bool) -> None:
    x, seed = RNG.normal(size=100), RNG.normal(size=100)
    a, out = smooth(x), dk.zeros(100, dtype=dk.float64, requires_grad=True)
    found = gradient(lambda a, o: utils.array_scan(a, o, inclusive), a, out, seed)
    whole = np.cumsum(x) if inclusive else np.cumsum(x) - x
    np.testing.assert_allclose(out.numpy(), whole, atol=1e-12)
    back = np.cumsum(seed[::-1])[::-1]
    np.testing.assert_allclose(found, back if inclusive else back - seed, atol=1e-12)


def test_casts() -> None:
    out = dk.zeros(3, dtype=dk.float64)
    utils.array_cast(dk.array([1, 2, 3], dtype=int), out)
    np.testing.assert_array_equal(out.numpy(), [1, 2, 3])
    a, b = smooth([[1, 2, 3]], dk.vec3), dk.zeros(1, dtype=dk.vec3d, requires_grad=True)
    np.testing.assert_array_equal(gradient(utils.array_cast, a, b, [[1.0, 2.0, 3.0]]), [[1, 2, 3]])
    part = dk.zeros(3, dtype=dk.float64)
    utils.array_cast(smooth([1, 2, 3], dk.float32), part, 2)
    np.testing.assert_array_equal(part.numpy(), [1, 2, 0])
    with pytest.raises(LaunchError, match="shapes differ"):
        utils.array_cast(dk.zeros((2, 3)), dk.zeros((3, 2)))


def test_casts_of_components() -> None:
    vectors, numbers = smooth([[1, 2], [3, 4]], dk.vec2), dk.zeros(4, dtype=dk.float64, requires_grad=True)
    np.testing.assert_array_equal(gradient(utils.array_cast, vectors, numbers, [1, 2, 3, 4]), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(numbers.numpy(), [1, 2, 3, 4])
    back = dk.zeros(2, dtype=dk.vec2)
    utils.array_cast(numbers, back, 2)
    np.testing.assert_array_equal(back.numpy(), [[1, 2], [0, 0]])
    first = dk.zeros(2)
    utils.array_cast(vectors, first, 1)
    np.testing.assert_array_equal(first.numpy(), [1, 2])
    with pytest.raises(LaunchError, match="4 elements are to be converted of 4, to an array of 3"):
        utils.array_cast(vectors, dk.zeros(3))


def test_a_sum_of_doubles_is_numpys() -> None:
    found = utils.array_sum(dk.array([1.0, 2.5], dtype=dk.float64))
    assert isinstance(found, np.float64)
    assert found == 3.5
    assert type(utils.array_sum(dk.array([1.0, 2.5], dtype=float))) is float


def pairs(keys: np.ndarray) -> tuple[Any, Any]:
    both = np.concatenate([keys, np.zeros_like(keys)])
    return dk.array(both), dk.array(np.arange(len(both), dtype=np.int32))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32, np.int64, np.uint64, np.float64])
def test_sorts(dtype: Any) -> None:
    keys = RNG.normal(size=300) * 50
    keys = (abs(keys) if np.dtype(dtype).kind == "u" else keys).astype(dtype)
    keys[::7] = keys[0]
    k, v = pairs(keys)
    utils.radix_sort_pairs(k, v, len(keys))
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(v.numpy()[: len(keys)], order)
    np.testing.assert_array_equal(k.numpy()[: len(keys)], keys[order])


def test_sorts_by_some_bits_and_in_segments() -> None:
    k, v = pairs(np.array([8, 1, 10, 3, 4, 5, 6, 7], np.int32))
    utils.radix_sort_pairs(k, v, 8, end_bit=2)
    np.testing.assert_array_equal(k.numpy()[:8], [8, 4, 1, 5, 10, 6, 3, 7])
    k, v = pairs(np.array([7, -2, 8, 4, 1, 6, 5, 3], np.float32))
    utils.segmented_sort_pairs(k, v, 8, dk.array([0, 4, 8], dtype=int))
    np.testing.assert_array_equal(k.numpy()[:8], [-2, 4, 7, 8, 1, 3, 5, 6])
    np.testing.assert_array_equal(v.numpy()[:8], [1, 3, 0, 2, 4, 7, 6, 5])
    with pytest.raises(LaunchError, match="twice as long"):
        utils.radix_sort_pairs(k, v, 9)
    with pytest.raises(LaunchError, match="bits"):
        utils.radix_sort_pairs(k, v, 8, 4, 2)


def test_run_lengths() -> None:
    values, lengths = dk.zeros(6, dtype=int), dk.zeros(6, dtype=int)
    assert utils.runlength_encode(dk.array([1, 1, 1, 2, 2, 3], dtype=int), values, lengths) == 3
    np.testing.assert_array_equal(values.numpy()[:3], [1, 2, 3])
    np.testing.assert_array_equal(lengths.numpy()[:3], [3, 2, 1])
    assert utils.runlength_encode(values, values, lengths, value_count=0) == 0


TYPES = [dk.float32, dk.float64, dk.float16, dk.vec3, dk.mat22]


def step(optimizer: Any, p: Any, g: Any, times: int = 5) -> np.ndarray:
    for _ in range(times):
        optimizer.step([g])
    return p.numpy().astype(float)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam(dtype: Any, decay: float) -> None:
    p, g = dk.full(4, 1.0, dtype=dtype), dk.full(4, 0.5, dtype=dtype)
    optimizer = optim.AdamW([p], lr=0.1, weight_decay=decay) if decay else optim.Adam([p], lr=0.1)
    x, m, v = 1.0, 0.0, 0.0
    for t in range(5):
        m, v = 0.9 * m + 0.1 * 0.5, 0.999 * v + 0.001 * 0.25
        x = x * (1 - 0.1 * decay) - 0.1 * (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8)
    np.testing.assert_allclose(step(optimizer, p, g), x, rtol=3e-3 if dtype is dk.float16 else 1e-5)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("nesterov", [True, False])
def test_sgd(dtype: Any, nesterov: bool) -> None:
    p, g = dk.full(4, 1.0, dtype=dtype), dk.full(4, 0.5, dtype=dtype)
    optimizer = optim.SGD([p], 0.1, momentum=0.9, dampening=0.1, weight_decay=0.01, nesterov=nesterov)
    x = b = 1.0
    for t in range(5):
        slope = 0.5 + 0.01 * x
        b = slope if t == 0 else 0.9 * b + 0.9 * slope
        x -= 0.1 * (slope + 0.9 * b if nesterov else b)
    np.testing.assert_allclose(step(optimizer, p, g), x, rtol=3e-3 if dtype is dk.float16 else 1e-5)


def test_optimizers_keep_their_state_and_check_what_they_get() -> None:
    p = dk.zeros(4, dtype=dk.float16)
    optimizer = optim.Adam([p])
    m = optimizer.m[0]
    optimizer.set_params([p])
    assert optimizer.m[0] is m
    assert m.numpy().dtype == np.float32
    with pytest.raises(TypeError, match="elements of type"):
        optimizer.step([dk.zeros(4)])
    with pytest.raises(ValueError, match="shape"):
        optimizer.step([dk.zeros(3, dtype=dk.float16)])
    with pytest.raises(RuntimeError, match="no parameters"):
        optim.SGD().step([])
    with pytest.raises(TypeError, match="contiguous"):
        optim.SGD([dk.zeros(4, dtype=int)])


def test_clipping() -> None:
    g = dk.array([3.0, 4.0], dtype=dk.float64)
    assert optim.clip_grad_norm([g], 1.0) == 5.0
    np.testing.assert_allclose(g.numpy(), [0.6, 0.8])
    optim.clip_grad_value([g], 0.7)
    np.testing.assert_allclose(g.numpy(), [0.6, 0.7])


@dk.kernel
def rosenbrock(x: dk.array(dtype=dk.float64), loss: dk.array(dtype=dk.float64)):
    i = dk.tid()
    a, b = x[2 * i], x[2 * i + 1]
    dk.atomic_add(loss, 0, 100.0 * (b - a * a) ** 2.0 + (1.0 - a) ** 2.0)


@dk.kernel
def quadratic(x: dk.array(dtype=dk.vec3), y: dk.array(dtype=float), loss: dk.array(dtype=float)):
    i = dk.tid()
    v = x[i] - dk.vec3(1.0, 2.0, float(i))
    dk.atomic_add(loss, 0, float(i + 1) * dk.dot(v, v) + (y[i] - v[0]) ** 2.0)


def closure_of(kernel: Any, dim: int, *arrays: Any) -> Any:
    def closure() -> Any:
        loss = dk.zeros(1, dtype=dk.float64 if kernel is rosenbrock else float, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(kernel, dim, [*arrays, loss])
        tape.backward(loss)
        return loss

    return closure


def test_lbfgs_on_rosenbrock() -> None:
    x = dk.array(np.tile([-1.2, 1.0], 4), requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=100)
    loss = optimizer.step(closure_of(rosenbrock, 4, x))
    assert loss < 1e-12
    assert optimizer.evaluations < 80
    np.testing.assert_allclose(x.numpy(), 1.0, atol=1e-5)


def test_lbfgs_on_a_quadratic_of_vectors() -> None:
    x = dk.zeros(5, dtype=dk.vec3, requires_grad=True)
    y = dk.ones(5, requires_grad=True)
    optimizer = optim.LBFGS([x, y], history_size=4)
    for _ in range(3):
        loss = optimizer.step(closure_of(quadratic, 5, x, y))
    assert loss < 1e-6
    np.testing.assert_allclose(x.numpy(), [[1, 2, i] for i in range(5)], atol=1e-3)


def test_lbfgs_says_what_is_wrong() -> None:
    with pytest.raises(TypeError, match="with gradients"):
        optim.LBFGS([dk.zeros(3)])
    x = dk.array(np.full(2, np.nan), requires_grad=True)
    with pytest.raises(ValueError, match="not finite"):
        optim.LBFGS([x]).step(closure_of(rosenbrock, 1, x))


# -- arrays of structs -------------------------------------------------------------------------------------------------


@dk.struct
class Body:
    kind: int
    mass: float
    at: dk.vec3


@pytest.mark.parametrize("made", [lambda p: dk.optim.AdamW(p, lr=0.1), lambda p: dk.optim.SGD(p, 0.1, momentum=0.9)])
def test_optimizers_change_the_numbers_of_structs(made):
    bodies, plain = dk.zeros((2, 3), dtype=Body, requires_grad=True), dk.zeros(4, requires_grad=True)
    given = np.random.default_rng(3).normal(size=24).astype(np.float32)
    slopes = bodies.grad.numpy()
    slopes["mass"], slopes["at"] = given[:6].reshape(2, 3), given[6:].reshape(2, 3, 3)
    plain.grad.assign(given[:4])
    alone = [dk.zeros(6), dk.zeros(18), dk.zeros(4)]
    found, wanted = made([bodies, plain]), made(alone)
    for _ in range(3):
        found.step([bodies.grad, plain.grad])
        wanted.step([dk.array(given[:6]), dk.array(given[6:]), dk.array(given[:4])])
    np.testing.assert_array_equal(bodies.numpy()["mass"].ravel(), alone[0].numpy())
    np.testing.assert_array_equal(bodies.numpy()["at"].ravel(), alone[1].numpy())
    np.testing.assert_array_equal(plain.numpy(), alone[2].numpy())
    assert not bodies.numpy()["kind"].any()
    assert dk.optim.clip_grad_norm([bodies.grad], 1.0) == pytest.approx(np.linalg.norm(given), rel=1e-5)
    assert np.hypot(*(np.linalg.norm(slopes[name]) for name in ("mass", "at"))) == pytest.approx(1.0, rel=1e-5)
    dk.optim.clip_grad_value([bodies.grad], 0.01)
    assert np.abs(slopes["at"]).max() == np.float32(0.01)


def test_what_optimizers_say_of_structs_that_point_to_arrays():
    @dk.struct
    class Layer:
        weights: dk.array(dtype=float)
        scale: float

    layers = dk.array([Layer(dk.zeros(2), 1.0)], dtype=Layer)
    with pytest.raises(TypeError, match="an optimizer"):
        dk.optim.Adam([layers])


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW])
def test_a_step_says_what_it_takes(make: Any) -> None:
    x = dk.array(np.ones(3), requires_grad=True)
    optimizer = make([x], lr=0.1)
    for wrong in ((), (x.grad,), (3,), (np.ones(3),)):
        with pytest.raises(MisuseError, match="gradients") as caught:
            optimizer.step(*wrong)
        assert "`optimizer.step([x.grad])`" in str(caught.value)
    with pytest.raises(MisuseError, match="of type ndarray") as caught:
        optimizer.step([np.ones(3)])
    assert "dk.array(g, dtype=x.dtype)" in str(caught.value)
    with pytest.raises(MisuseError, match="None"):
        optimizer.step([None])
    with pytest.raises(MisuseError, match="1 parameters and 2 gradients"):
        optimizer.step([x.grad, x.grad])
    np.testing.assert_array_equal(x.numpy(), 1.0)
    optimizer.step(g for g in [dk.array(np.ones(3), dtype=x.dtype)])
    assert (x.numpy() < 1.0).all()
