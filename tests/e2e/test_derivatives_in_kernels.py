"""grad, vjp and jvp of funcs in kernels and from Python; stop_gradient and no_grad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import AutodiffError, KernelError, LaunchError

F1, F2 = dk.array(dtype=dk.float64), dk.array(dtype=dk.float64, ndim=2)


@dk.func
def f(x: Any, y: Any, n: int) -> Any:
    return dk.sin(x) * y + x * x * y * y * float(n)


@dk.func
def cube(x: Any) -> Any:
    return x * x * x


@dk.func
def two(x: Any, v: dk.vec3d) -> Any:
    return x * dk.dot(v, v), v * x


@dk.func
def long_loop(x: Any, n: int) -> Any:
    s = x
    for _ in range(n):
        s = dk.sin(s) + x
    return s


@dk.func
def slope(x: Any) -> Any:
    return dk.grad(cube)(x)


@dk.func
def looked_up(i: int, x: Any, table: F1) -> Any:
    return x * x * table[i]


@dk.func
def applied(g: Any, x: Any) -> Any:
    return dk.grad(g)(x)


@dk.kernel
def all_forms(x: F1, o: F2):
    i = dk.tid()
    a, b = dk.grad(f)(x[i], 2.0 * x[i], 3)
    o[i, 0] = a
    o[i, 1] = b
    (p, _), (ct_x, ct_v) = dk.vjp(two)(x[i], dk.vec3d(x[i], 1.0, 2.0), 0.5, dk.vec3d(1.0, 1.0, 1.0))
    o[i, 2] = p + ct_x
    o[i, 3] = ct_v[1]
    value, change = dk.jvp(f)(x[i], 2.0 * x[i], 3, 1.0, -1.0)
    o[i, 4] = value
    o[i, 5] = change
    o[i, 6] = slope(x[i]) + dk.grad(slope)(x[i])
    o[i, 7] = dk.grad(looked_up)(i, x[i], x) + 2.0 * applied(cube, x[i])


def expected(x: np.ndarray) -> np.ndarray:
    y = 2 * x
    fx, fy = np.cos(x) * y + 6 * x * y * y, np.sin(x) + 6 * x * x * y
    value = np.sin(x) * y + 3 * x * x * y * y
    s = x * x + 5
    columns = [fx, fy, x * s + 0.5 * s + x + 3, x + x, value, fx - fy, 3 * x * x + 6 * x, 2 * x * x + 6 * x * x]
    return np.stack(columns, 1)


def test_values_and_their_derivatives() -> None:
    x = dk.array(np.array([0.3, 1.2, -0.7]), dtype=dk.float64, requires_grad=True)
    o = dk.zeros((3, 8), dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(all_forms, dim=3, inputs=[x, o])
    want = expected(x.numpy())
    want[:, 3] = 0.5 * x.numpy() * 2 + x.numpy()
    np.testing.assert_allclose(o.numpy(), want, rtol=1e-12)
    seed = np.random.default_rng(2).normal(size=(3, 8))
    tape.backward(grads={o: dk.array(seed, dtype=dk.float64)})
    step = 1e-6
    difference = (expected(x.numpy() + step) - expected(x.numpy() - step)) / (2 * step)
    np.testing.assert_allclose(x.grad.numpy(), (difference * seed).sum(1), rtol=1e-7)


@dk.kernel
def of_a_loop(x: F1, o: F1, n: int):
    i = dk.tid()
    o[i] = dk.grad(long_loop)(x[i], n)


@dk.kernel(enable_backward=False)
def of_a_loop_alone(x: F1, o: F1, n: int):
    i = dk.tid()
    o[i] = dk.grad(long_loop)(x[i], n)


@pytest.mark.parametrize("kernel", [of_a_loop, of_a_loop_alone])
def test_of_a_loop_once(kernel: Any) -> None:
    x, o = dk.array(np.array([0.3, 0.4]), dtype=dk.float64), dk.zeros(2, dtype=dk.float64)
    for n in (0, 5, 900):
        dk.launch(kernel, dim=2, inputs=[x, o, n])
        s, d = x.numpy(), np.ones(2)
        for _ in range(n):
            s, d = np.sin(s) + x.numpy(), np.cos(s) * d + 1
        np.testing.assert_allclose(o.numpy(), d)


def test_of_a_loop_it_is_not_differentiated_again() -> None:
    x = dk.array(np.array([0.3]), dtype=dk.float64, requires_grad=True)
    o = dk.zeros(1, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(of_a_loop, dim=1, inputs=[x, o, 5])
    with pytest.raises(AutodiffError, match="differentiated once more") as caught:
        tape.backward(grads={o: dk.ones(1, dtype=dk.float64)})
    assert "test_derivatives_in_kernels.py:" in str(caught.value)


def test_from_python() -> None:
    assert dk.grad(cube)(2.0) == 12.0
    assert dk.vjp(cube)(2.0, 0.5) == (8.0, 6.0)
    assert dk.jvp(cube)(2.0, 0.5) == (8.0, 6.0)
    (value, vector), (change, moved) = dk.jvp(two)(2.0, dk.vec3d(1.0, 2.0, 3.0), 1.0, dk.vec3d(1.0, 0.0, 0.0))
    assert (value, change) == (28.0, 18.0)
    np.testing.assert_allclose(vector, [2, 4, 6])
    np.testing.assert_allclose(moved, [3, 2, 3])
    with pytest.raises(KernelError, match="takes a func"):
        dk.grad(3)
    with pytest.raises(KernelError, match=r"decorated with @dk\.func"):
        dk.grad(np.sin)(2.0)


@dk.func
def wavy(x: dk.float64):
    return dk.sin(x) * x * x


@dk.func
def surface(x: dk.float64, y: dk.float64):
    return dk.sin(x) * y * y + x * x * x * y


curvature = dk.grad(dk.grad(wavy))


@dk.kernel
def nested(x: dk.array(dtype=dk.float64), out: dk.array2d(dtype=dk.float64)):
    i = dk.tid()
    out[i, 0] = dk.grad(dk.grad(wavy))(x[i])
    out[i, 1] = curvature(x[i])
    _, out[i, 2] = dk.jvp(dk.grad(wavy))(x[i], 1.0)
    _, out[i, 3] = dk.vjp(dk.grad(wavy))(x[i], 1.0)
    _, of_jvp = dk.vjp(dk.jvp(wavy))(x[i], 1.0, 0.0, 1.0)
    out[i, 4] = of_jvp[0]
    _, of_vjp = dk.vjp(dk.vjp(wavy))(x[i], 1.0, 0.0, 1.0)
    out[i, 5] = of_vjp[0]
    _, moved = dk.jvp(dk.vjp(wavy))(x[i], 1.0, 1.0, 0.0)
    out[i, 6] = moved[1]
    _, twice = dk.jvp(dk.jvp(wavy))(x[i], 1.0, 1.0, 0.0)
    out[i, 7] = twice[1]
    out[i, 8] = dk.grad(curvature)(x[i])
    _, (out[i, 9], out[i, 10]) = dk.jvp(dk.grad(surface))(x[i], dk.float64(2.0), 1.0, 0.5)


def test_derivatives_of_derivatives() -> None:
    x = np.array([0.3, 1.2])
    out = dk.zeros((2, 11), dtype=dk.float64)
    dk.launch(nested, dim=2, inputs=[dk.array(x, dtype=dk.float64), out])
    s, c = np.sin(x), np.cos(x)
    second = -s * x * x + 4 * x * c + 2 * s
    for k in range(8):
        np.testing.assert_allclose(out.numpy()[:, k], second, rtol=1e-12)
    np.testing.assert_allclose(out.numpy()[:, 8], -c * x * x - 6 * x * s + 6 * c, rtol=1e-12)
    np.testing.assert_allclose(out.numpy()[:, 9], -4 * s + 12 * x + 0.5 * (4 * c + 3 * x * x), rtol=1e-12)
    np.testing.assert_allclose(out.numpy()[:, 10], 4 * c + 3 * x * x + 0.5 * 2 * s, rtol=1e-12)
    assert curvature(0.3) == pytest.approx(second[0], rel=1e-12)
    assert wavy.grad.grad(0.3) == curvature(0.3)


def test_what_a_captured_derivative_is_of_counts() -> None:
    def programs(of_sine: bool):
        if of_sine:

            @dk.func
            def f(x: dk.float64):
                return dk.sin(x)

        else:

            @dk.func
            def f(x: dk.float64):
                return dk.exp(x)

        slope, bend = dk.grad(f), dk.grad(dk.grad(f))

        @dk.kernel
        def both(x: dk.array(dtype=dk.float64)):
            x[0], x[1] = slope(1.0), bend(1.0)

        x = dk.zeros(2, dtype=dk.float64)
        dk.launch(both, dim=1, inputs=[x])
        return x.list()

    assert programs(True) == pytest.approx([np.cos(1.0), -np.sin(1.0)])
    assert programs(False) == pytest.approx([np.e, np.e])


def test_compiles_for_cuda() -> None:
    for kernel in (all_forms, of_a_loop):
        assert kernel.source(target="cuda")
        dk.compile(kernel, target="sm_90")


def test_refusals() -> None:
    @dk.kernel
    def of_two(x: F1, o: F1):
        i = dk.tid()
        o[i] = dk.grad(two)(x[i], dk.vec3d(1.0, 2.0, 3.0))

    @dk.kernel
    def no_func(x: F1, o: F1):
        i = dk.tid()
        o[i] = dk.grad(x[i])(x[i])

    @dk.kernel
    def few(x: F1, o: F1):
        i = dk.tid()
        o[i] = dk.vjp(cube)(x[i])[0]

    x, o = dk.zeros(2, dtype=dk.float64), dk.zeros(2, dtype=dk.float64)
    for kernel, text in ((of_two, "of one number"), (no_func, "takes one func"), (few, "1 more, a cotangent each")):
        with pytest.raises(KernelError, match=text) as caught:
            dk.launch(kernel, dim=2, inputs=[x, o])
        assert "test_derivatives_in_kernels.py:" in str(caught.value)


@dk.kernel
def stopped(x: F1, o: F1):
    i = dk.tid()
    o[i] = dk.stop_gradient(x[i] * x[i]) * x[i] + dk.dot(dk.stop_gradient(dk.vec2d(x[i], 1.0)), dk.vec2d(x[i], x[i]))


def test_stop_gradient() -> None:
    x = dk.array(np.array([2.0, 3.0]), dtype=dk.float64, requires_grad=True)
    o = dk.zeros(2, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(stopped, dim=2, inputs=[x, o])
    np.testing.assert_array_equal(o.numpy(), [8 + 4 + 2, 27 + 9 + 3])
    tape.backward(grads={o: dk.ones(2, dtype=dk.float64)})
    np.testing.assert_array_equal(x.grad.numpy(), [4 + 2 + 1, 9 + 3 + 1])
    assert dk.stop_gradient(3.0) == 3.0


@dk.kernel
def double(x: F1, y: F1):
    i = dk.tid()
    y[i] = 2.0 * x[i]


def test_no_grad() -> None:
    x = dk.array(np.array([1.0, 2.0]), dtype=dk.float64, requires_grad=True)
    y, z = (dk.zeros(2, dtype=dk.float64, requires_grad=True) for _ in range(2))
    with dk.Tape() as tape:
        with dk.no_grad(), dk.no_grad():
            dk.launch(double, dim=2, inputs=[x, y])
        dk.launch(double, dim=2, inputs=[x, z])
    assert len(tape.launches) == 1
    tape.backward(grads={z: dk.ones(2, dtype=dk.float64)})
    np.testing.assert_array_equal(x.grad.numpy(), 2.0)
    with dk.Tape() as tape:
        dk.launch(double, dim=2, inputs=[x, y])
        with dk.no_grad():
            y.zero_()
        dk.launch(double, dim=2, inputs=[y, z])
    with pytest.raises(LaunchError, match="could not see"):
        tape.backward(grads={z: dk.ones(2, dtype=dk.float64)})


@dk.kernel
def of_built_ins(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64), o: dk.array(dtype=dk.float64, ndim=2)):
    i = dk.tid()
    by_y, by_x = dk.grad(dk.atan2)(y[i], x[i])
    o[i, 0] = by_y
    o[i, 1] = by_x
    v = dk.vec3d(x[i], y[i], 1.0)
    o[i, 2] = dk.grad(dk.length)(v)[1]
    o[i, 3] = dk.grad(dk.norm_huber)(v)[0]
    _, along = dk.vjp(dk.erfinv)(x[i], y[i])
    o[i, 4] = along
    first, second = dk.grad(dk.min)(x[i], y[i])
    o[i, 5] = first + 2.0 * second


def test_built_ins_have_derivatives_in_kernels():
    """Those of functions of the table and of the library; they are differentiated again."""
    x, y = 0.7, 0.3
    given = [dk.array(np.array([v]), dtype=dk.float64, requires_grad=True) for v in (x, y)]
    o = dk.zeros((1, 6), dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(of_built_ins, 1, given, [o])
    seed = np.zeros((1, 6))
    seed[0, 0] = 1.0
    tape.backward(grads={o: dk.array(seed, dtype=dk.float64)})
    square, norm = x * x + y * y, np.sqrt(x * x + y * y + 1.0)
    slope = 0.5 * np.sqrt(np.pi) * np.exp(dk.erfinv(x) ** 2)
    right = [x / square, -y / square, y / norm, x / norm, slope * y, 2.0]
    np.testing.assert_allclose(o.numpy()[0], right, rtol=1e-6)
    np.testing.assert_allclose(given[0].grad.numpy(), (y * y - x * x) / square**2)
    assert dk.grad(dk.sin)(0.0) == 1.0
    np.testing.assert_allclose(dk.grad(dk.atan2)(y, x), right[:2])
