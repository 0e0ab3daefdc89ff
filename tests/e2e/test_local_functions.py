"""Functions defined in kernels, and variables that expressions set: values as Python's, gradients by differences."""

from __future__ import annotations

import numpy as np

import diffkern as dk

WIDE = dk.array(dtype=dk.float64)


@dk.func
def twice(f, x):
    return f(f(x))


@dk.func
def least(f, lo, hi):
    """Halve an interval by its own function."""
    middle = lambda: 0.5 * (lo + hi)  # noqa: E731 - what is tested
    for _ in range(20):
        if f(middle()) > 0.0:
            hi = middle()
        else:
            lo = middle()
    return lo


def program(x, y, out, i):
    a = y[i]

    def bent(u, s: float = 2.0, *, k=1.0):
        """Read a variable that changes later."""

        def inner(v):
            return v * a

        if u < 0.0:
            return inner(u) * k
        return np.sin(u) * a + s * k

    square = lambda u: u * u + a  # noqa: E731
    if (z := bent(x[i])) > 2.0:
        z = z * 3.0
    total = 0.0
    for j in range(3):
        a = a * 1.1
        total += bent(z, s=float(j)) + twice(square, 0.1 * z) + twice(lambda v: v * a * 0.1, x[i])
    n, last = 0, 0
    while (w := total * 0.5 ** float(n)) > 0.2 and (last := n) < 20:
        n += 1
        total -= 0.01 * w
    else:
        total += 0.5
    r = least(lambda u: u * u - 2.0, 0.0, 2.0)
    out[i] = total + w + ((q := w * w) if w > 0.1 else (q := 3.0)) * q + r + (0.0 if n == 0 else float(last))


@dk.kernel
def compiled(x: WIDE, y: WIDE, out: WIDE):
    program_of_kernel(x, y, out, dk.tid())


program_of_kernel = dk.func(program)


def by_python(x, y):
    out = np.zeros(len(x))
    for i in range(len(x)):
        plain(x, y, out, i)
    return out


def plain(x, y, out, i):
    """The program with Python's funcs."""
    names = {"twice": twice.pyfunc, "least": least.pyfunc, "np": np}
    type(program)(program.__code__, names)(x, y, out, i)


def test_values_are_pythons_and_gradients_are_right():
    rng = np.random.default_rng(0)
    x, y, h = rng.normal(size=8), rng.normal(size=8), 1e-6
    ax, ay = dk.array(x, requires_grad=True), dk.array(y, requires_grad=True)
    out = dk.zeros(8, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(compiled, 8, [ax, ay], [out])
    np.testing.assert_allclose(out.numpy(), by_python(x, y), rtol=1e-9)
    tape.backward(grads={out: np.ones(8)})
    for grad, dx, dy in ((ax.grad, h, 0.0), (ay.grad, 0.0, h)):
        slopes = (by_python(x + dx, y + dy) - by_python(x - dx, y - dy)) / (2 * h)
        np.testing.assert_allclose(grad.numpy(), slopes, rtol=1e-5, atol=1e-5)


SCALE = 2.0


def test_a_global_that_a_local_function_reads_counts():
    global SCALE

    @dk.kernel
    def scaled(x: WIDE):
        f = lambda u: u * SCALE  # noqa: E731
        x[dk.tid()] = f(x[dk.tid()])

    x = dk.array(np.ones(2))
    dk.launch(scaled, 2, [x])
    SCALE = 3.0
    dk.launch(scaled, 2, [x])
    assert x.list() == [6.0, 6.0]


def test_arrays_and_tiles_around_a_local_function():
    @dk.kernel
    def stored(x: WIDE, out: WIDE):
        i = dk.tid()
        mine = dk.zeros(3, dtype=dk.float64)
        scale = x[i] * x[i]

        def keep(k, v):
            mine[k] = v
            out[i] += v

        for k in range(3):
            keep(k, x[i] * float(k))
        doubled = dk.tile_map(lambda v: scale * v, dk.tile_full((4,), x[i], dtype=dk.float64))
        out[i] += mine[1] + mine[2] + doubled[0]

    x = dk.array(np.arange(1.0, 4.0), requires_grad=True)
    out = dk.zeros(3, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch_tiled(stored, 3, [x], [out])
    assert out.list() == [7.0, 20.0, 45.0]
    tape.backward(grads={out: np.ones(3)})
    assert x.grad.list() == [9.0, 18.0, 33.0]
