"""The winner of an atomic extremum is found again by the adjoint, to the last bit."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def bins_max(x: dk.array(dtype=float), y: dk.array(dtype=float), m: dk.array(dtype=float)):
    i = dk.tid()
    s = 0.0
    for _ in range(3):
        s = s + x[i] * x[i] * y[i] + y[i]
    dk.atomic_max(m, i % 7, s)


@pytest.mark.parametrize("seed", range(5))
def test_one_winner_per_bin(seed):
    # A product and a sum that were fused in the forward launch and not in the replay would lose winners.
    rng = np.random.default_rng(seed)
    n = 1000
    x = dk.array(rng.normal(size=n).astype(np.float32), requires_grad=True)
    y = dk.array(rng.normal(size=n).astype(np.float32), requires_grad=True)
    m = dk.full(7, -1.0e9, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(bins_max, n, inputs=[x, y, m])
    tape.backward(grads={m: np.ones(7, np.float32)})
    winners = np.flatnonzero(y.grad.numpy())
    s = 3 * (x.numpy().astype(float) ** 2 * y.numpy() + y.numpy())
    expected = {max(range(k, n, 7), key=lambda i: s[i]) for k in range(7)}
    assert set(winners) == expected
    assert not m.grad.numpy().any()


@pytest.mark.parametrize("dtype", [dk.float16, dk.bfloat16])
def test_winners_in_arrays_of_narrow_floats(dtype):
    @dk.kernel
    def extremes(x: dk.array(dtype=float), m, v):
        i = dk.tid()
        s = x[i] * 1.1 + 0.3
        dk.atomic_max(m, i % 3, s)
        dk.atomic_min(v, 0, dk.vec2(s, -s))

    rng = np.random.default_rng(4)
    x = dk.array(rng.normal(size=60).astype(np.float32), requires_grad=True)
    m = dk.full(3, -100.0, dtype=dtype, requires_grad=True)
    v = dk.full(1, 100.0, dtype=dk.types.vector(2, dtype), requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(extremes, 60, inputs=[x, m, v])
    one = dk.ones(3, dtype=dtype)
    tape.backward(grads={m: one, v: dk.full(1, 2.0, dtype=dk.types.vector(2, dtype))})
    gradient, s = x.grad.numpy() / np.float32(1.1), x.numpy()
    wanted = [max(range(k, 60, 3), key=lambda i: s[i]) for k in range(3)]
    for k in range(3):  # ties of rounded numbers have one winner, of which any is right
        taken = gradient[k::3][s[k::3] > s[wanted[k]] - 0.05].sum()
        both = (2.0 if wanted[k] == s.argmin() else 0.0) - (2.0 if wanted[k] == s.argmax() else 0.0)
        assert taken == pytest.approx(1.0 + both, abs=2e-2)
    assert gradient.sum() == pytest.approx(3.0 + 2.0 - 2.0, abs=2e-2)
    assert gradient[s.argmin()] == pytest.approx(2.0, abs=2e-2)


PROGRAM = """
import ctypes, mmap
import numpy as np
import diffkern as dk

@dk.kernel
def least(x: dk.array(dtype=dk.float32), m: dk.array(dtype=dk.float32), h: dk.array(dtype=dk.float16)):
    i = dk.tid()
    dk.atomic_min(m, 0, x[i])
    dk.atomic_max(h, 1, -x[i])

page = mmap.mmap(-1, mmap.PAGESIZE)
floats, halves = np.frombuffer(page, np.float32, 2), np.frombuffer(page, np.float16, 2, 8)
x = dk.array([1.0, float("inf"), 0.0], dtype=dk.float32)
m, h = dk.from_numpy(floats), dk.from_numpy(halves)
dk.launch(least, 3, inputs=[x, m, h], device="cpu")
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(floats.ctypes.data), mmap.PAGESIZE, mmap.PROT_READ) == 0
dk.launch(least, 3, inputs=[x, m, h], device="cpu")
print(floats[0], halves[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="protects a page of memory")
def test_an_extremum_that_changes_nothing_does_not_write(tmp_path):
    """It runs on memory that may not be written."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["0.0", "0.0"]), done.stderr


@dk.func
def over_a_root(v: Any, m: Any):
    return v / dk.sqrt(m * m + 0.3)


@dk.func
def steep(v: Any, m: Any):
    return dk.tanh(v / dk.sqrt(m * m + 0.3)) / dk.sqrt(m * m + 0.3)


@dk.func
def of_a_unit_vector(v: Any, m: Any):
    t = dk.vector(v, m, 0.7)
    u = t / dk.length(t)
    return u[0] - u[1] * u[2]


@dk.func
def in_a_loop(v: Any, m: Any):
    r = v
    for _ in range(3):
        r = r / dk.sqrt(m * m + r * r + 0.1) + v
    return r


QUOTIENTS = (over_a_root, steep, of_a_unit_vector, in_a_loop)


@pytest.mark.parametrize("threads", [3, 1500])
@pytest.mark.parametrize("dtype", [dk.float32, dk.float64])
@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("value", QUOTIENTS, ids=lambda f: f.__name__)
def test_winners_that_are_quotients_by_roots(value, kind, dtype, threads):
    # A reciprocal that the derivative shares with the replayed value would round that in another way.
    update = dk.atomic_min if kind == "min" else dk.atomic_max

    @dk.kernel
    def extreme(x, e, m: float):
        i = dk.tid()
        update(e, i // 2, value(x[i], x.dtype(m)))

    rng = np.random.default_rng(threads)
    before = rng.normal(size=(threads + 1) // 2) * 0.3 + (2.0 if kind == "min" else -2.0) * (threads < 10)
    x = dk.array(rng.normal(size=threads), dtype=dtype, requires_grad=True)
    e = dk.array(before, dtype=dtype, requires_grad=True)
    before = e.numpy().copy()
    with dk.Tape() as tape:
        dk.launch(extreme, threads, [x, e, 0.8])
    changed = e.numpy() != before
    tape.backward(grads={e: dk.ones_like(e)})
    assert 0 < changed.sum()
    np.testing.assert_array_equal(e.grad.numpy(), (~changed).astype(e.numpy().dtype))
    moved = np.zeros(2 * len(before), int)
    moved[:threads] = x.grad.numpy() != 0.0
    np.testing.assert_array_equal(moved.reshape(-1, 2).sum(1), changed.astype(int))


def test_the_second_derivative_has_the_same_winners():
    @dk.kernel
    def extreme(x: dk.array(dtype=dk.float64), e: dk.array(dtype=dk.float64), m: dk.float64):
        i = dk.tid()
        dk.atomic_max(e, 0, x[i] * x[i] / dk.sqrt(m * m + x[i] * x[i]) + i // 40)

    def total(x):
        e = dk.full(1, -1.0, dtype=dk.float64)
        dk.launch(extreme, 64, [x, e, 0.8])
        return e

    rng = np.random.default_rng(2)
    for _ in range(10):
        numbers = rng.normal(size=64)
        x = dk.array(numbers, dtype=dk.float64)
        v = dk.ones(64, dtype=dk.float64)
        product = dk.hvp(total, [x], [v])[0].numpy()
        k = 40 + np.argmax(np.abs(numbers[40:]))
        r = np.hypot(0.8, numbers[k])
        z = numbers[k]
        # d2/dz2 of z^2 / sqrt(m^2 + z^2)
        second = 2 / r - 5 * z**2 / r**3 + 3 * z**4 / r**5
        np.testing.assert_array_equal(np.flatnonzero(product), [k])
        assert product[k] == pytest.approx(second, rel=1e-10)


def test_an_element_chosen_by_a_quotient_is_the_same_in_the_adjoint():
    @dk.kernel
    def pick(x, w, y, m: dk.float64):
        i = dk.tid()
        r = dk.sqrt(m)
        y[i] = w[int(x[i] / r)] * (x[i] / r) + 1.0 / r

    # Multiples of 49 by 1/49 are not all integers.
    numbers = np.arange(1, 100) * 49.0
    x = dk.array(numbers, dtype=dk.float64, requires_grad=True)
    w = dk.array(np.arange(101.0), dtype=dk.float64, requires_grad=True)
    y = dk.zeros(99, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(pick, 99, [x, w, y, 49.0**2])
    tape.backward(grads={y: dk.ones_like(y)})
    np.testing.assert_allclose(w.grad.numpy()[1:100], np.arange(1.0, 100.0), rtol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), np.arange(1.0, 100.0) / 49.0, rtol=1e-12)


@pytest.mark.parametrize("threads", [5, 1500])
@pytest.mark.parametrize("whole", [int, dk.floor, dk.round], ids=["int", "floor", "round"])
def test_an_element_chosen_by_a_sum_of_products_is_the_same_in_the_adjoint(whole, threads):
    # Where the product is needed again it is not fused with the sum; the adjoint does not need it.
    @dk.kernel
    def pick(x, w, y, a: dk.float64, b: dk.float64):
        i = dk.tid()
        t = x[i] * a
        y[i] = w[int(whole(t + b))] * t

    a, b = 1.0 / 3.0, 0.7
    rng = np.random.default_rng(threads)
    whole_or_half = rng.integers(1, 200, threads) + (0.5 if whole is dk.round else 0.0)
    numbers = (whole_or_half - b) / a * (1.0 + rng.integers(-2, 3, threads) * 2.0**-52)
    x = dk.array(numbers, dtype=dk.float64, requires_grad=True)
    w = dk.array(np.arange(1.0, 203.0), dtype=dk.float64)
    y = dk.zeros(threads, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(pick, threads, [x, w, y, a, b])
    tape.backward(grads={y: dk.ones_like(y)})
    chosen = y.numpy() / (numbers * a)
    np.testing.assert_array_equal(np.rint(x.grad.numpy() / a), np.rint(chosen))
