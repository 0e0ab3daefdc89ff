"""``dk.matmul`` and ``a @ b``: values as NumPy's, and derivatives, on tapes, in functions, recordings and roll-outs."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import fake_cuda
from support.traces import traced

import diffkern as dk
from diffkern.errors import MisuseError

SHAPES = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((2, 2, 3, 4), (2, 2, 4, 5)), ((2, 2, 3, 4), (4, 1)),
]  # fmt: skip
EMPTY = [((0, 4), (4, 5)), ((3, 0), (0, 5)), ((0, 3, 4), (4, 5))]
TYPES = ["float16", "float32", "float64", "int32", "int64", "uint8"]


def numbers(shape: Any, seed: int, dtype: str = "float64") -> np.ndarray:
    return (6 * np.random.default_rng(seed).random(shape) - (0 if dtype == "uint8" else 3)).astype(dtype)


def doubles(values: Any, requires_grad: bool = False) -> Any:
    return dk.array(values, dtype=dk.float64, requires_grad=requires_grad)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("left", "right"), SHAPES + EMPTY)
def test_values_are_numpys(left: Any, right: Any, dtype: str) -> None:
    a, b = numbers(left, 0, dtype), numbers(right, 1, dtype)
    expected = np.atleast_1d(a @ b)
    found = dk.array(a) @ dk.array(b)
    assert found.numpy().dtype == dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=3e-2 if dtype == "float16" else 1e-5)
    np.testing.assert_array_equal((a @ dk.array(b)), np.matmul(a, b))


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_derivatives_in_both_modes_and_of_second_order(left: Any, right: Any) -> None:
    a, b, ta, tb = (numbers(s, k) for k, s in enumerate((left, right, left, right)))
    weight = numbers(np.atleast_1d(a @ b).shape, 4)

    def loss(x: Any, y: Any) -> Any:
        c = dk.matmul(x, y, alpha=1.5)
        return (c * c * doubles(weight)).sum()

    def expected(x: Any, y: Any) -> Any:
        return (np.atleast_1d(1.5 * (x @ y)) ** 2 * weight).sum()

    x, y = doubles(a), doubles(b)
    by_x, by_y = dk.grad(loss)(x, y)
    e = 1e-6
    for gradient, tangent, ends in (
        (by_x, ta, (expected(a + e * ta, b), expected(a - e * ta, b))),
        (by_y, tb, (expected(a, b + e * tb), expected(a, b - e * tb))),
    ):
        np.testing.assert_allclose((gradient.numpy() * tangent).sum(), (ends[0] - ends[1]) / (2 * e), rtol=1e-6)
    slope = (by_x.numpy() * ta).sum() + (by_y.numpy() * tb).sum()
    np.testing.assert_allclose(dk.jvp(loss, (x, y), (doubles(ta), doubles(tb)))[1].item(), slope)
    second = dk.hvp(loss, (x, y), (doubles(ta), doubles(tb)))
    ends = [dk.grad(loss)(doubles(a + h * ta), doubles(b + h * tb)) for h in (e, -e)]
    for found, high, low in zip(second, *ends, strict=True):
        np.testing.assert_allclose(found.numpy(), (high.numpy() - low.numpy()) / (2 * e), rtol=1e-5, atol=1e-6)


def test_third_order_of_a_matrix_with_itself() -> None:
    a, t = numbers((3, 3), 0), numbers((3, 3), 1)

    def cube(x: Any) -> Any:
        return (x @ x @ x.T @ x).sum()

    def third(x: Any) -> Any:
        return (dk.hvp(cube, (x,), (doubles(t),))[-1] * doubles(t)).sum()

    def second(x: np.ndarray) -> float:
        h = 1e-3
        f = [(y @ y @ y.T @ y).sum() for y in (x - h * t, x, x + h * t)]
        return float((f[0] - 2 * f[1] + f[2]) / h**2)

    found = dk.grad(third)(doubles(a)).numpy()
    h = 1e-3
    np.testing.assert_allclose((found * t).sum(), (second(a + h * t) - second(a - h * t)) / (2 * h), rtol=1e-4)


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.5])
@pytest.mark.parametrize("strided", [False, True])
def test_out_and_its_factors(beta: float, strided: bool) -> None:
    a, b, c, ct = (numbers(s, k) for k, s in enumerate(((3, 4), (4, 5), (3, 5), (3, 5))))
    whole = doubles(np.zeros((6, 10)), True)
    x, y = doubles(a, True), doubles(b, True)
    with dk.Tape() as tape:
        out = whole[::2, ::2] if strided else whole[:3, 5:]
        dk.copy(out, doubles(c, True))
        before = dk.clone(out)
        assert dk.matmul(x, y, out=out, alpha=2.0, beta=beta) is out
    np.testing.assert_allclose(out.numpy(), 2.0 * a @ b + beta * c)
    tape.backward(grads={out: doubles(ct)})
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * ct @ b.T)
    np.testing.assert_allclose(y.grad.numpy(), 2.0 * a.T @ ct)
    np.testing.assert_allclose(before.numpy(), c)


def test_the_gradient_of_out() -> None:
    ct = numbers((3, 5), 3)
    start = doubles(numbers((3, 5), 2), True)
    for beta in (1.0, -0.5):
        start.grad.zero_()
        with dk.Tape() as tape:
            out = dk.clone(start)
            dk.matmul(doubles(numbers((3, 4), 0)), doubles(numbers((4, 5), 1)), out=out, beta=beta)
        tape.backward(grads={out: doubles(ct)})
        np.testing.assert_allclose(start.grad.numpy(), beta * ct)


def test_without_beta_what_out_held_does_not_matter() -> None:
    out = doubles(np.full((2, 2), np.nan))
    dk.matmul(doubles(np.eye(2)), doubles(np.eye(2)), out=out)
    np.testing.assert_array_equal(out.numpy(), np.eye(2))


def test_a_result_over_its_factors() -> None:
    a, b, ct = numbers((4, 4), 0), numbers((4, 4), 1), numbers((4, 4), 2)

    def loss(x: Any, y: Any) -> Any:
        x = x + 0.0
        x @= y
        dk.matmul(x, x.T, out=x, beta=2.0)
        return (x * doubles(ct)).sum()

    def expected(x: Any, y: Any) -> Any:
        x = x @ y
        return ((x @ x.T + 2.0 * x) * ct).sum()

    gradients = dk.grad(loss)(doubles(a), doubles(b))
    e = 1e-6
    for k, gradient in enumerate(gradients):
        t = numbers((4, 4), 5 + k)
        high, low = ([a + (k == 0) * h * t, b + (k == 1) * h * t] for h in (e, -e))
        np.testing.assert_allclose(
            (gradient.numpy() * t).sum(), (expected(*high) - expected(*low)) / (2 * e), rtol=1e-6
        )


def test_factors_that_change_later_are_kept() -> None:
    a, b = numbers((3, 3), 0), numbers((3, 3), 1)
    x, y = doubles(a, True), doubles(b, True)
    with dk.Tape() as tape:
        z = x @ y
        y.zero_()
    tape.backward(grads={z: dk.ones_like(z)})
    np.testing.assert_allclose(x.grad.numpy(), np.ones((3, 3)) @ b.T)


def test_any_strides() -> None:
    a, b = numbers((160, 200), 0), numbers((200, 90), 1)
    x, y = doubles(a), doubles(b)
    for left, right, p, q in (
        (x[::-1], y, a[::-1], b),
        (x[:, ::2], y[::2], a[:, ::2], b[::2]),
        (x[::3], y[:, ::-2], a[::3], b[:, ::-2]),
        (y.T, x.T, b.T, a.T),
        (y.T[::2], x.T[:, 1::2], b.T[::2], a.T[:, 1::2]),
    ):
        np.testing.assert_allclose((left @ right).numpy(), p @ q, rtol=1e-12, atol=1e-12)


def test_its_trace() -> None:
    x, y = doubles(np.eye(2), True), doubles(np.eye(2), True)
    with traced() as trace:
        trace.arrays(x=x, y=y)
        with dk.Tape() as tape:
            z = x @ y
        trace.arrays(z=z)
        tape.backward(grads={z: dk.ones_like(z)})
    assert [line.split()[0] for line in trace.text.splitlines()][-3:] == ["matmul", "matmul", "fill"]


def test_recordings_roll_outs_and_streams_take_it() -> None:
    a = numbers((3, 3), 0) / 3
    x, s = doubles(a, True), doubles(np.zeros((3, 3)), True)
    with dk.record() as sequence:
        with dk.Tape() as tape:
            dk.copy(s, x @ x)
        tape.backward(grads={s: doubles(np.ones((3, 3)))})
    other = numbers((3, 3), 1)
    x.assign(other)
    x.grad.zero_()
    sequence.replay()
    np.testing.assert_allclose(s.numpy(), other @ other)
    np.testing.assert_allclose(x.grad.numpy(), np.ones((3, 3)) @ other.T + other.T @ np.ones((3, 3)))

    def loss(start: Any, m: Any) -> Any:
        state = dk.clone(start)
        dk.checkpoint(lambda k: dk.matmul(m, state, out=state), 6, 2)
        return state.sum()

    start, m = doubles(numbers(3, 2)), doubles(a)
    by_start, by_m = dk.grad(loss)(start, m)
    power = np.linalg.matrix_power(a, 6)
    np.testing.assert_allclose(by_start.numpy(), power.T @ np.ones(3))
    e, t = 1e-6, numbers((3, 3), 4)
    ends = [(np.linalg.matrix_power(a + h * t, 6) @ start.numpy()).sum() for h in (e, -e)]
    np.testing.assert_allclose((by_m.numpy() * t).sum(), (ends[0] - ends[1]) / (2 * e), rtol=1e-6)
    with dk.ScopedStream(dk.Stream("cpu")) as stream:
        z = x @ x
        stream.synchronize() if hasattr(stream, "synchronize") else dk.synchronize()
    np.testing.assert_allclose(z.numpy(), other @ other)


@pytest.mark.parametrize(("call", "says"), [
    (lambda a, b: a @ b[:3], "do not fit: 4 is not 3"),
    (lambda a, b: a @ b.astype(dk.float32), "two types"),
    (lambda a, b: dk.matmul(a, 2.0), "right operand of a product of matrices is 2.0"),
    (lambda a, b: dk.matmul(a, b, beta=1.0), "beta=1.0 without out"),
    (lambda a, b: dk.matmul(a, b, alpha=a), "alpha is"),
    (lambda a, b: dk.matmul(a, b, out=b), "out is"),
    (lambda a, b: dk.zeros((2, 3, 4)) @ dk.zeros((3, 4, 5)), "batches"),
    (lambda a, b: dk.zeros((2, 2), dtype=dk.vec2) @ dk.zeros((2, 2), dtype=dk.vec2), "not multiplied"),
    (lambda a, b: dk.matmul(dk.zeros((2, 2), dtype=int), dk.zeros((2, 2), dtype=int), alpha=0.5), "alpha=0.5"),
    (lambda a, b: dk.matmul(dk.zeros((2, 2), dtype=int), dk.zeros((2, 2), dtype=int), alpha=np.nan), "alpha=nan"),
    (lambda a, b: dk.matmul(dk.zeros((2, 2), dtype=int), dk.zeros((2, 2), dtype=int), alpha=2**31), "does not fit"),
])  # fmt: skip
def test_what_does_not_fit_is_an_error(call: Any, says: str) -> None:
    with pytest.raises(MisuseError, match=says):
        call(doubles(numbers((3, 4), 0)), doubles(numbers((4, 5), 1)))


def test_operands_of_other_kinds() -> None:
    a = doubles(np.eye(2))
    with pytest.raises(TypeError, match="unsupported operand"):
        a @ 2.0
    np.testing.assert_array_equal((a @ np.ones((2, 2))).numpy(), np.ones((2, 2)))
    with pytest.raises(MisuseError, match="operand"):
        a @= [[1.0]]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_kernels_of_a_gpu(dtype: str) -> None:
    require("cuda.bindings.nvjitlink", "nvidia")
    with fake_cuda(run="ptx"):
        for left, right in (((33, 5), (5, 3)), ((3,), (2, 3, 2))):
            a, b = numbers(left, 0, dtype), numbers(right, 1, dtype)
            product = np.atleast_1d(a @ b)
            c = numbers(product.shape, 2, dtype)
            x, y, z = (dk.array(v, device="cuda:0", requires_grad=dtype[0] == "f") for v in (a, b, c))
            with dk.Tape() as tape:
                w = x @ y
                dk.matmul(x, y, out=z, alpha=2, beta=3)
            np.testing.assert_allclose(w.numpy(), product, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(z.numpy(), 2 * product + 3 * c, rtol=1e-5, atol=1e-4)
            if dtype[0] == "f":
                tape.backward(grads={w: dk.ones_like(w), z: dk.ones_like(z)})
                seed = np.full(product.shape, 3.0)
                ones = (
                    dk.array(a, dtype=dk.float64, requires_grad=True),
                    dk.array(b, dtype=dk.float64, requires_grad=True),
                )
                with dk.Tape() as host:
                    on_host = ones[0] @ ones[1]
                host.backward(grads={on_host: doubles(seed)})
                np.testing.assert_allclose(x.grad.numpy(), ones[0].grad.numpy(), rtol=1e-4, atol=1e-4)
                np.testing.assert_allclose(y.grad.numpy(), ones[1].grad.numpy(), rtol=1e-4, atol=1e-4)


@pytest.fixture
def by_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a CPU run the kernels of a GPU."""
    module = sys.modules[dk.matmul.__module__]
    monkeypatch.setattr(module, "perform", lambda p: module._launched(p.goal, p.left, p.right, p.factor, p.adds))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "uint32", "int64", "uint64"])
def test_kernels_for_integers_wrap_as_numpys(dtype: str, by_launches: None) -> None:
    most = np.iinfo(dtype).max
    a, b, c = (np.full(shape, most - k, dtype) for k, shape in enumerate(((2, 3), (3, 2), (2, 2))))
    out = dk.array(c)
    dk.matmul(dk.array(a), dk.array(b), out=out, alpha=most, beta=1)
    np.testing.assert_array_equal(out.numpy(), (a @ b) * np.array(most, dtype) + c)


def test_kernels_take_factors_of_the_elements_type_and_any_strides(by_launches: None) -> None:
    a, b, w, ct = (numbers(s, k) for k, s in enumerate(((2, 3, 2, 4), (2, 3, 4, 2), (4, 3, 2, 2), (4, 3, 2, 2))))
    x, y, start = (doubles(v, True) for v in (a, b, w))
    with dk.Tape() as tape:
        whole = dk.clone(start)
        # No one axis has the strides of this batch.
        dk.matmul(x[:, ::2], y[:, 1:], out=whole[::2, :2], alpha=0.1, beta=0.3)
    wanted = w.copy()
    wanted[::2, :2] = 0.1 * (a[:, ::2] @ b[:, 1:]) + 0.3 * w[::2, :2]
    np.testing.assert_allclose(whole.numpy(), wanted, rtol=1e-13, atol=1e-15)
    tape.backward(grads={whole: doubles(ct)})
    by_a, by_w = np.zeros_like(a), ct.copy()
    by_a[:, ::2] = 0.1 * ct[::2, :2] @ b[:, 1:].swapaxes(2, 3)
    by_w[::2, :2] *= 0.3
    np.testing.assert_allclose(x.grad.numpy(), by_a, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(start.grad.numpy(), by_w, rtol=1e-14)
