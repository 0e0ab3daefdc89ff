"""Threads in lanes against the same threads one by one: values, gradients, and which lanes touch memory.

Every kernel runs over more threads than a vector register has elements, and over a few that are left.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.targets.cpu import object_code
from diffkern.targets.cpu.lanes import choice

F64 = dk.float64
COUNT = 45
RNG = np.random.default_rng(7)
X = RNG.uniform(0.2, 1.8, COUNT)
P = RNG.normal(size=(COUNT, 3))
M = RNG.normal(size=(COUNT, 9))
W = RNG.uniform(0.2, 1.1, (COUNT, 6))
TRIPS = RNG.integers(0, 9, COUNT).astype(np.int32)
PLACES = RNG.integers(0, 7, COUNT).astype(np.int32)


def straight(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    y[i] = dk.sin(x[i]) * x[i] + dk.pow(x[i], 1.5) - dk.rsqrt(x[i])


def branches(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    v = x[i]
    if v > 1.0:
        if v > 1.5:
            v = dk.exp(v) - dk.log(v)
        else:
            v = v * v + dk.atan2(v, 2.0)
    elif i % 3 == 0:
        v = dk.sqrt(v)
        y[i] = 1.0
    y[i] = y[i] + v


def trips_of_threads(x: dk.array(dtype=F64), n: dk.array(dtype=int), y: dk.array(dtype=F64)):
    i = dk.tid()
    v = x[i]
    for k in range(n[i]):
        if k == 5:
            continue
        v = 0.7 * v + 0.1 * v * v * float(k + 1)
    y[i] = v


def trips_of_the_launch(x: dk.array(dtype=F64), m: int, y: dk.array(dtype=F64)):
    i = dk.tid()
    v = x[i]
    for k in range(1, m, 2):
        v = 0.5 * v * (2.0 - v) + 0.01 * float(k)
    y[i] = v


def until(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    v = x[i]
    k = 0
    while v * v < 9.0:
        v = v * 1.3 + 0.1
        k += 1
        if k > 6:
            break
    y[i] = v * float(k)


def pairs(p: dk.array(dtype=dk.vec3d), f: dk.array(dtype=dk.vec3d)):
    i = dk.tid()
    total = dk.vec3d(0.0, 0.0, 0.0)
    for j in range(p.shape[0]):
        d = p[j] - p[i]
        total += d / (dk.dot(d, d) + F64(0.1))
    f[i] = total


def matrices(m: dk.array(dtype=dk.mat33d), p: dk.array(dtype=dk.vec3d), f: dk.array(dtype=dk.vec3d)):
    i = dk.tid()
    q = p[i]
    for _k in range(3):
        q = m[i] @ q * F64(0.3) + p[i]
    f[i] = q


def gathered(x: dk.array(dtype=F64), at: dk.array(dtype=int), y: dk.array(dtype=F64)):
    i = dk.tid()
    v = F64(0.0)
    for k in range(3):
        v += x[at[i] + k] * x[at[i]]
    y[i] = v


def scattered(x: dk.array(dtype=F64), at: dk.array(dtype=int), y: dk.array(dtype=F64)):
    i = dk.tid()
    for k in range(2):
        dk.atomic_add(y, at[i] + k, x[i] * x[i] * float(k + 1))


def summed(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    for k in range(2):
        if x[i] > 0.7:
            dk.atomic_add(y, 3, x[i] * x[i])
        dk.atomic_sub(y, 4 + k, x[i] * float(k))


def two_axes(x: dk.array(dtype=F64), y: dk.array2d(dtype=F64)):
    i, j = dk.tid()
    v = x[j]
    for k in range(i + 1):
        v = v * 0.9 + x[k] * x[j]
    y[i, j] = v


def beyond(x: dk.array(dtype=F64), at: dk.array(dtype=int), y: dk.array(dtype=F64)):
    i = dk.tid()
    v = F64(0.0)
    k = at[i] + 20
    while k < x.shape[0]:  # where this is false nothing may be read
        v += x[k] * x[k]
        k += 1
    y[i] = v


def strided(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    v = x[-1 - i]
    for k in range(2):
        v = v * x[i // 2 + k]
    y[i] = v


def rows(x: dk.array2d(dtype=F64), y: dk.array2d(dtype=F64)):
    i = dk.tid()
    s = F64(0.0)
    for k in range(x.shape[1]):
        s = 0.5 * s + x[i, k] * x[i, x.shape[1] - 1 - k]
        y[i, k] = y[i, k] + dk.sin(s)


def places_of_two_axes(x: dk.array2d(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    j = i % 9
    s = F64(0.0)
    for k in range(3):
        s = s + x[j, j] * x[8 - j, k] * x[2 * k, j] + x[i // 9, -1]
    y[i] = s


def steps(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    v = F64(1.0)
    for k in range(2):
        v = v * x[2 * i + k] + x[x.shape[0] - 1 - 2 * i]
        y[3 * i + k] = v
    y[3 * i + 2] = v * v


def rows_of_matrices(m: dk.array2d(dtype=dk.mat22d), y: dk.array2d(dtype=dk.mat22d)):
    i = dk.tid()
    s = dk.mat22d(0.0)
    for k in range(m.shape[1]):
        s = s * F64(0.5) + m[i, k] @ m[i, 0]
        y[i, k] = s


def own_array(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    a = dk.zeros(shape=4, dtype=F64)
    for k in range(4):
        a[k] = x[i] * float(k)
    s = F64(0.0)
    for k in range(4):
        s += a[3 - k] * a[k]
    y[i] = s


def integers(x: dk.array(dtype=F64), n: dk.array(dtype=int), y: dk.array(dtype=F64)):
    i = dk.tid()
    v = F64(0.0)
    for k in range(1, 4):
        a = (n[i] * 7 + k) % 5 - n[i] // k + (n[i] << k) - (n[i] >> 1)
        v += x[i] * F64(a) + F64(dk.uint8(a) ^ dk.uint8(3)) + F64(int(x[i] * 10.0))
    y[i] = v


def sent(x: dk.array(dtype=F64), y: dk.array2d(dtype=F64)):
    i = dk.tid()
    y[0, i] = x[i] * x[i]
    y[1, i + 1] = dk.sin(x[i])
    y[2, i + 2] = 3.0 * x[i]


def sent_from_the_end(x: dk.array(dtype=F64), y: dk.array2d(dtype=F64)):
    i = dk.tid()
    y[0, i] = x[i] * x[i]
    y[-1, i + 1] = dk.sin(x[i])


def corners(x: dk.array(dtype=dk.vec3d), at: dk.array2d(dtype=int), y: dk.array(dtype=F64)):
    i = dk.tid()
    a, b, c = x[at[i, 0]], x[at[i, 1]], x[at[i, 2]]
    for _k in range(4):
        a, b, c = dk.cross(a, b) + c, dk.cross(b, c) + a, dk.cross(c, a) * dk.dot(a, b) + b
    y[i] = dk.sqrt(dk.dot(a, a) + dk.dot(b, c) * dk.dot(b, c) + 1.0)


CASES: dict[str, tuple[Callable[..., None], int | tuple[int, ...], list[Any], Any]] = {
    "straight": (straight, COUNT, [X], np.zeros(COUNT)),
    "branches": (branches, COUNT, [X], np.zeros(COUNT)),
    "trips_of_threads": (trips_of_threads, COUNT, [X, TRIPS], np.zeros(COUNT)),
    "trips_of_the_launch": (trips_of_the_launch, COUNT, [X, 12], np.zeros(COUNT)),
    "until": (until, COUNT, [X], np.zeros(COUNT)),
    "pairs": (pairs, COUNT, [P], np.zeros((COUNT, 3))),
    "matrices": (matrices, COUNT, [M.reshape(-1, 3, 3), P], np.zeros((COUNT, 3))),
    "gathered": (gathered, COUNT, [X, PLACES], np.zeros(COUNT)),
    "scattered": (scattered, COUNT, [X, PLACES], np.zeros(9)),
    "summed": (summed, COUNT, [X], np.zeros(9)),
    "two_axes": (two_axes, (5, COUNT), [X], np.zeros((5, COUNT))),
    "beyond": (beyond, COUNT, [X, PLACES], np.zeros(COUNT)),
    "strided": (strided, COUNT, [X], np.zeros(COUNT)),
    "rows": (rows, COUNT, [W], W * 0.5),
    "places_of_two_axes": (places_of_two_axes, COUNT, [W[:9, [0, 1, 2, 3, 4, 5, 0, 1, 2]]], np.zeros(COUNT)),
    "steps": (steps, COUNT, [W.reshape(-1)[: 2 * COUNT]], np.zeros(3 * COUNT)),
    "rows_of_matrices": (
        rows_of_matrices,
        COUNT,
        [W[:, [[[0, 1], [2, 3]], [[4, 5], [1, 2]]]]],
        np.zeros((COUNT, 2, 2, 2)),
    ),
    "own_array": (own_array, COUNT, [X], np.zeros(COUNT)),
    "sent": (sent, COUNT, [X], np.zeros((3, COUNT + 2))),
    "sent_from_the_end": (sent_from_the_end, COUNT, [X], np.zeros((2, COUNT + 1))),
    "corners": (corners, COUNT, [0.5 * P, PLACES[[[k, k - 1, k - 2, k - 3] for k in range(COUNT)]]], np.zeros(COUNT)),
    "integers": (integers, COUNT, [X, TRIPS], np.zeros(COUNT)),
}


def _array(values: Any) -> Any:
    if not isinstance(values, np.ndarray):
        return values
    smooth = values.dtype == np.float64
    of_shape = {(2, 3): dk.vec3d, (3, 3): dk.mat33d, (4, 2): dk.mat22d}
    dtype = of_shape.get((values.ndim, values.shape[-1]), F64 if smooth else dk.int32)
    return dk.array(values, dtype=dtype, requires_grad=smooth)


def run(kernel: Any, dim: Any, given: list[Any], out: Any) -> tuple[Any, ...]:
    """The output and the gradients of a weighted sum of it."""
    args, result = [_array(v) for v in given], _array(out)
    with dk.Tape() as tape:
        dk.launch(kernel, dim, args, [result])
    value = result.numpy().copy()
    seed = np.random.default_rng(1).normal(size=out.shape)
    tape.backward(grads={result: _array(seed)})
    return value, *(a.grad.numpy() for a in args if isinstance(a, dk.array) and a.grad is not None)


@pytest.mark.parametrize("name", CASES)
def test_lanes_compute_what_single_threads_do(name):
    func, dim, given, out = CASES[name]
    together, alone = (dk.kernel(func, lanes=lanes) for lanes in (True, False))
    types = (together, *(_array(v) for v in (*given, out)))
    assert re.search(r"threads run in (a|\d+) vector registers?: lanes=True", _said(*types))
    found, expected = run(together, dim, given, out), run(alone, dim, given, out)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("two_axes", "strided")])
def test_threads_that_do_not_fill_a_register_compute_the_same(name):
    func, _, given, out = CASES[name]
    together, alone = (dk.kernel(func, lanes=lanes) for lanes in (True, False))
    for threads in (1, 3, 5):
        found, expected = run(together, threads, given, out), run(alone, threads, given, out)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def scaled_rows(x: dk.array2d(dtype=F64), y: dk.array2d(dtype=F64)):
    i = dk.tid()
    s = F64(0.0)
    for k in range(x.shape[1]):
        s = 0.5 * s + x[i, k] * x[i, k]
        y[i, k] = s


@pytest.mark.parametrize("threads", [3, COUNT])
@pytest.mark.parametrize(
    "view",
    [lambda a: a, lambda a: a[::-1], lambda a: a[:, ::-2], lambda a: a[::2, 1:4], lambda a: a.transpose([1, 0])],
    ids=["whole", "backwards", "every_second_column", "part", "transposed"],
)
def test_rows_of_views(view, threads):
    """The elements of neighbouring threads lie as many bytes apart as the view says, before or behind one another."""
    found = []
    for lanes in (True, False):
        kernel = dk.kernel(scaled_rows, lanes=lanes)
        whole = [_array(np.outer(np.linspace(0.2, 1.1, 2 * COUNT), np.linspace(1.0, 0.5, 2 * COUNT))) for _ in range(2)]
        x, y = map(view, whole)
        with dk.Tape() as tape:
            dk.launch(kernel, min(threads, x.shape[0]), [x], [y])
        tape.backward(
            grads={y: _array(np.outer(np.linspace(1.0, 2.0, y.shape[0]), np.linspace(-1.0, 2.0, y.shape[1])))}
        )
        found.append((whole[1].numpy(), whole[0].grad.numpy()))
    for one, other in zip(*found, strict=True):
        assert np.ptp(one) > 0.0
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def narrow_recurrence(x: Any, at: Any, y: Any):
    i = dk.tid()
    v = dk.float32(x[i])
    for k in range(8):
        v = 3.1 * v * (1.0 - v)
        if v > 0.6:
            y[i, k] = v


def narrow_rows(x: Any, at: Any, y: Any):
    i = dk.tid()
    s = dk.float32(0.0)
    for k in range(8):
        s += x[i] * y[i, k] + x[at[i]]
        y[i, k] = s * 0.25


def narrow_sums(x: Any, at: Any, y: Any):
    i = dk.tid()
    for k in range(4):
        dk.atomic_add(y, at[i], k, x[i] * x[i])


@pytest.mark.parametrize("threads", [1, 5, COUNT])
@pytest.mark.parametrize("dtype", [dk.float16, dk.bfloat16])
@pytest.mark.parametrize("func", [narrow_recurrence, narrow_rows, narrow_sums])
def test_elements_of_16_bits(func, dtype, threads):
    """They are rounded as by single threads. Sums of gradients may be rounded in another order."""
    found = []
    for lanes in (True, False):
        kernel = dk.kernel(func, lanes=lanes)
        x = dk.array(X[:threads] * 0.5, dtype=dtype, requires_grad=True)
        at = dk.array(np.minimum(PLACES[:threads], threads - 1), dtype=int)
        y = dk.array(np.outer(X[:threads], np.linspace(0.1, 0.4, 8)), dtype=dtype, requires_grad=True)
        assert ("do not run in lanes" in _said(kernel, x, at, y)) != lanes
        with dk.Tape() as tape:
            dk.launch(kernel, threads, [x, at], [y])
        value = y.numpy().astype(np.float32)
        tape.backward(grads={y: dk.ones((threads, 8), dtype=dtype)})
        found.append((value, x.grad.numpy().astype(np.float32)))
    (value, gradient), (value_alone, gradient_alone) = found
    np.testing.assert_array_equal(value, value_alone)
    np.testing.assert_allclose(gradient, gradient_alone, rtol=0.03, atol=0.03)
    assert np.ptp(gradient) > 0.0 or threads == 1


@pytest.mark.parametrize("name", ["branches", "trips_of_the_launch", "summed"])
def test_threads_are_left_where_registers_are_too_short_for_masks(name, monkeypatch, tmp_path):
    monkeypatch.setattr(dk.config, "cache_dir", tmp_path)
    monkeypatch.setattr(choice, "_MASKED_BYTES", 1024)
    test_lanes_compute_what_single_threads_do(name)


def sought(x: dk.array(dtype=F64), most: dk.array(dtype=int), y: dk.array(dtype=F64)):
    i = dk.tid()
    v = F64(1.0)
    while v < 10.0:  # where x is 0, without end
        v += x[i]
    for k in range(most[i]):
        v += 1.0 / x[i] + F64(7 // (k + most[i]))
    y[i] = v


def test_lanes_without_a_thread_wait_for_nothing():
    for lanes in (True, False):
        kernel, y = dk.kernel(sought, lanes=lanes), dk.zeros(3, dtype=F64)
        kernel[3](_array(np.array([1.0, 2.0, 0.5])), _array(np.array([2, 0, 1], np.int32)), y)
        np.testing.assert_allclose(y.numpy(), [10 + 2 + 5, 11, 10 + 2 + 7])


def _said(kernel: Any, *args: Any, adjoint: bool = False) -> str:
    """How the threads run, by the first line of the assembly."""
    first: str = dk.compile(kernel, args, target="cpu", adjoint=adjoint).asm.splitlines()[0]
    return first


def test_the_adjoint_runs_in_lanes_too():
    func, _, given, out = CASES["trips_of_the_launch"]
    kernel = dk.kernel(func, lanes=True)
    assert "vector register" in _said(kernel, *(_array(v) for v in (*given, out)), adjoint=True)


@pytest.mark.parametrize("name", ["trips_of_threads", "trips_of_the_launch", "until"])
def test_lanes_whose_loops_keep_few_states_restart_from_checkpoints(name):
    func, dim, given, out = CASES[name]
    given = [v * 20 for v in given[1:]]
    together, alone = (dk.kernel(func, lanes=lanes, stack_bytes=96) for lanes in (True, False))
    found, expected = (run(kernel, dim, [X, *given], out) for kernel in (together, alone))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


def filter_in_own_array(x: dk.array(dtype=dk.float64), trips: dk.array(dtype=dk.int32), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    a = dk.zeros(5, dtype=dk.float64)
    for _ in range(trips[i]):
        a[0] = a[0] * x[i] + 1.0
    y[i] = a[0]


@pytest.mark.parametrize("lanes", [True, False])
@pytest.mark.parametrize("stack", [0, 256 << 10])
def test_states_of_own_arrays_need_not_fit_the_stack(stack, lanes):
    kernel = dk.kernel(filter_in_own_array, lanes=lanes)
    x, trips = np.linspace(0.0, 0.9, 11), np.arange(11) % 4
    given, y = dk.array(x, requires_grad=True), dk.zeros(11, dtype=dk.float64, requires_grad=True)

    def sweep():
        given.grad.zero_()
        with dk.Tape() as tape:
            dk.launch(kernel, 11, [given, dk.array(trips.astype(np.int32)), y])
        tape.backward(grads={y: np.ones(11)})

    if stack:
        sweep()  # for compiling takes a stack of its own
    before = threading.stack_size(stack)
    try:
        thread = threading.Thread(target=sweep)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    slopes = [0.0 * x, 0.0 * x, 1.0 + 0.0 * x, 1.0 + 2.0 * x]
    assert np.allclose(given.grad.numpy(), np.choose(trips, slopes))


@pytest.mark.lanes_choice("it reads what the estimate has chosen")
def test_float32_has_more_lanes_and_the_same_values():
    @dk.kernel
    def logistic(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
        i = dk.tid()
        v = x[i]
        for _k in range(n):
            v = 3.1 * v * (1.0 - v)
        y[i] = v

    x = np.linspace(0.1, 0.9, 83, dtype=np.float32)
    y = dk.zeros(83, dtype=float)
    logistic[83](dk.array(x), 50, y)
    expected = x
    for _ in range(50):
        expected = np.float32(3.1) * expected * (np.float32(1.0) - expected)
    np.testing.assert_allclose(y.numpy(), expected, rtol=2e-3)
    said = _said(logistic, dk.array(x), 50, y)
    assert "by estimate" in said
    assert "vector register" in said


def test_rows_shorter_than_a_register_and_empty_launches():
    func, _, given, _ = CASES["two_axes"]
    kernel = dk.kernel(func, lanes=True)
    for columns in (0, 1, 3, 5):
        y = dk.zeros((5, COUNT), dtype=F64)
        dk.launch(kernel, (5, columns), [_array(given[0]), y])
        assert not y.numpy()[:, columns:].any()
        assert y.numpy()[:, :columns].all()


def shared_sums(x: dk.array(dtype=F64), p: dk.array(dtype=F64), n: int, y: dk.array(dtype=F64), s: dk.array(dtype=int)):
    i = dk.tid()
    v = p[0]
    for k in range(n):
        v = v * p[1] + F64(k + 1)
        dk.atomic_add(y, 1, v)
        dk.atomic_add(y, 3 + k, v)
    dk.atomic_add(y, 0, v + x[i])
    dk.atomic_sub(s, 0, 1)
    if x[i] > 0.7:
        dk.atomic_add(y, 2, v)
        dk.atomic_add(s, 1, 2)
        for k in range(n):
            dk.atomic_sub(y, 5 + k, v)


@pytest.mark.parametrize("lanes", [True, False])
@pytest.mark.parametrize("threads", [1, 3, 8, 13, COUNT])
def test_lanes_without_a_thread_add_nothing_to_shared_elements(threads, lanes):
    """What they hold is not zero: it follows from numbers that all lanes share."""
    x, p = dk.array(X[:threads], dtype=F64), dk.array([0.5, 0.25], dtype=F64, requires_grad=True)
    y, s = dk.zeros(7, dtype=F64, requires_grad=True), dk.zeros(2, dtype=int)
    with dk.Tape() as tape:
        dk.launch(dk.kernel(shared_sums, lanes=lanes), threads, [x, p, 2, y, s])
    first, some = 0.5 * 0.25 + 1.0, int((X[:threads] > 0.7).sum())
    v = first * 0.25 + 2.0
    expected = [threads * v + X[:threads].sum(), threads * (first + v), some * v]
    expected += [threads * first, threads * v, -some * v, -some * v]
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)
    assert s.numpy().tolist() == [-threads, 2 * some]
    tape.backward(grads={y: np.array([1.0, 10.0, 100.0, 2.0, 3.0, 5.0, 7.0])})
    by_first, by_v = threads * 12.0, threads * 14.0 + some * 88.0
    of_p = [(by_first + by_v * 0.25) * 0.25, (by_first + by_v * 0.25) * 0.5 + by_v * first]
    np.testing.assert_allclose(p.grad.numpy(), of_p, rtol=1e-12)


def along_rows(
    x: dk.array(dtype=F64), at: dk.array(dtype=int), n: int, y: dk.array2d(dtype=F64), s: dk.array(dtype=F64)
):
    i, j = dk.tid()
    v = F64(0.0)
    for k in range(n):
        v = 0.5 * v + x[at[3 * i + j] + k]
    y[i, j] += v
    dk.atomic_add(s, 0, v)


@pytest.mark.parametrize("dim", [(7, 1), (1, 1), (0, 1), (5, 2), (1, 21)])
def test_rows_of_one_thread_run_without_lanes(dim):
    """Each lane would do for itself what only one of them is there for."""
    at = (np.arange(COUNT) * 7 % 11).astype(np.int32)
    found = []
    for lanes in (True, False):
        kernel = dk.kernel(along_rows, lanes=lanes)
        arrays = _array(X), dk.array(at), 3, _array(np.zeros((7, COUNT))), _array(np.zeros(1))
        if lanes and object_code.machine("native").isa.vector_bytes >= 32:
            assert ", and rows of one thread without: lanes=True" in _said(kernel, *arrays)
        dk.launch(kernel, dim, arrays)
        found.append((arrays[3].numpy(), arrays[4].numpy()))
    assert np.count_nonzero(found[0][0]) == np.prod(dim[:2])
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1])


def test_every_lane_that_is_on_reaches_a_branch_of_stores():
    @dk.kernel(lanes=True)
    def odd(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
        i = dk.tid()
        if i % 2 == 1:
            for k in range(i % 5):
                y[i] = y[i] + x[i] * float(k)

    y = dk.zeros(COUNT, dtype=F64)
    odd[COUNT](_array(X), y)
    i = np.arange(COUNT)
    sums = np.array([sum(range(n)) for n in i % 5])
    np.testing.assert_allclose(y.numpy(), np.where(i % 2 == 1, X * sums, 0.0), rtol=1e-14)


def counted(x: dk.array(dtype=F64), n: dk.array(dtype=int), m: dk.array(dtype=int), y: dk.array(dtype=F64)):
    i = dk.tid()
    v = x[i]
    for _k in range(3):
        v = v * 0.5 + 0.1
    if v < 0.3:
        k = dk.atomic_add(n, 0, 1)
        y[k] = v
    else:
        y[COUNT - 1 - dk.atomic_add(m, 0, 2) // 2] = v


def exchanged(a: dk.array(dtype=int), b: dk.array(dtype=dk.int64), c: dk.array(dtype=F64), old: dk.array2d(dtype=F64)):
    i = dk.tid()
    if i % 3 != 1:
        old[i, 0] = F64(dk.atomic_cas(a, i % 5, 0, i + 1))
    old[i, 1] = F64(dk.atomic_max(b, i // 4, dk.int64((i * 7) % 5)))
    old[i, 2] = dk.atomic_exch(c, i % 4, F64(i))
    old[i, 3] = old[i, 2]


def test_lanes_are_told_what_atomic_updates_return_in_their_order():
    results = []
    for lanes in (True, False):
        kernel = dk.kernel(counted, lanes=lanes)
        n, m, y = dk.zeros(1, dtype=int), dk.zeros(1, dtype=int), dk.zeros(COUNT, dtype=F64)
        kernel[COUNT](_array(X), n, m, y)
        assert ("vector register" in kernel.report()) is lanes
        results.append((n.numpy(), m.numpy(), y.numpy()))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_lanes_exchange_elements_in_their_order():
    results = []
    for lanes in (True, False):
        arrays = [dk.zeros(5, dtype=int), dk.zeros(COUNT, dtype=dk.int64), dk.zeros(4, dtype=F64)]
        old = dk.zeros((COUNT, 4), dtype=F64)
        dk.kernel(exchanged, lanes=lanes)[COUNT](*arrays, old)
        results.append([a.numpy() for a in (*arrays, old)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_lanes_swap_elements_without_a_look_at_what_was_there():
    def claimed(x: dk.array(dtype=F64), a: dk.array(dtype=int), c: dk.array(dtype=F64)):
        i = dk.tid()
        for k in range(2):
            dk.atomic_cas(a, i % 5, k, i + k)
            if x[i] > 1.0:
                dk.atomic_cas(c, 3, F64(0.0), x[i])

    results = []
    for lanes in (True, False):
        a, c = dk.zeros(5, dtype=int), dk.zeros(4, dtype=F64)
        kernel = dk.kernel(claimed, lanes=lanes)
        kernel[COUNT](_array(X), a, c)
        assert ("vector register" in kernel.report()) is lanes
        results.append((a.numpy(), c.numpy()))
    assert results[0][0].any()
    assert results[0][1][3] == X[X > 1.0][0]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_has_no_lanes_says_why():
    @dk.kernel(lanes=True)
    def slots(n: dk.array(dtype=int), y: dk.array(dtype=int)):
        i = dk.tid()
        for _k in range(i):
            y[dk.atomic_add(n, 0, 1)] = i

    @dk.kernel(lanes=True)
    def capped(n: dk.array(dtype=int), y: dk.array(dtype=int)):
        k = dk.atomic_add(n, 0, 1)
        if k > 6:
            dk.atomic_sub(n, 0, 1)
        y[k] = dk.tid()

    ints = dk.zeros(8, dtype=int)
    assert "it looks at what an atomic update in a loop returns" in _said(slots, ints, ints)
    assert "what an atomic update of n returns, and changes it elsewhere too" in _said(capped, ints, ints)


def test_threads_that_look_at_what_others_write_run_one_by_one():
    @dk.kernel(lanes=True)
    def running(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
        i = dk.tid()
        y[i + 1] = y[i] + x[i]

    @dk.kernel(lanes=True)
    def slices(x: dk.array(dtype=F64), n: int, y: dk.array(dtype=F64)):
        i = dk.tid()
        for k in range(n):
            y[i + k] = y[i + k] + x[i]

    for kernel, more in ((running, []), (slices, [3])):
        assert "may read what another one writes to y" in _said(kernel, _array(X), *more, _array(np.zeros(40)))
    y = dk.zeros(COUNT + 1, dtype=F64)
    running[COUNT](_array(X), y)
    np.testing.assert_allclose(y.numpy()[1:], np.cumsum(X))


def test_rows_of_constant_numbers_are_different_elements():
    """A row counted from the end may be one that is counted from the beginning."""
    types = dk.array(dtype=F64), dk.array2d(dtype=F64)
    assert "vector register" in dk.kernel(sent, lanes=True).report(*types, adjoint=True)
    report = dk.kernel(sent_from_the_end, lanes=True).report(*types, adjoint=True)
    assert "may read what another one writes to ct_y" in report


@pytest.mark.lanes_choice("it reads what the estimate has chosen")
def test_straight_code_runs_in_lanes_where_its_places_are_read():
    """LLVM vectorises no loop over threads that writes to places which it cannot compare."""
    types = dk.array(dtype=dk.vec3d), dk.array2d(dtype=int), dk.array(dtype=F64)
    report = dk.kernel(corners).report(*types, adjoint=True)
    assert "less work by a factor" in report
    assert "vector register" in report


@pytest.mark.lanes_choice("it reads why the estimate has chosen threads one by one")
def test_what_is_chosen_says_why():
    func, _, given, out = CASES["straight"]
    args = [_array(v) for v in (*given, out)]
    assert "lanes=False" in _said(dk.kernel(func, lanes=False), *args)
    assert "it has no loop" in _said(dk.kernel(func), *args)

    @dk.kernel
    def inner(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
        i = dk.tid()
        if i > 0 and x[i] > 1.0:
            y[i] = dk.sin(x[i - 1]) * dk.exp(x[i])

    assert "vector register" in _said(inner, *args)


def test_the_report_says_what_became_of_each_line():
    kernel = dk.kernel(CASES["beyond"][0], lanes=True)
    first = beyond.__code__.co_firstlineno
    types = dk.array(dtype=F64), dk.array(dtype=int), dk.array(dtype=F64)
    lanes, vectors, gathered, until = kernel.report(*types).splitlines()
    assert lanes.endswith("threads run in a vector register: lanes=True")
    assert vectors == f"  loaded or stored as vectors: at (line {first + 3}), y (line {first + 7})"
    assert gathered == f"  gathered: x (line {first + 5})"
    assert until == f"  until all lanes are done: while (line {first + 4})"
    adjoint = kernel.report(*types, adjoint=True)
    assert f"  lane by lane: ct_x (line {first + 5})" in adjoint
    assert f"  under a mask: if (line {first + 4})" in adjoint
    assert kernel.report(*types, adjoint=True, active=["x", "y"]) == adjoint
    assert f"# {until}\n" in dk.compile(kernel, types, target="cpu").asm


@pytest.mark.lanes_choice("it reads what LLVM made of threads that the estimate leaves one by one")
def test_the_report_says_whether_llvm_made_vectors():
    types = dk.array(dtype=F64), dk.array(dtype=F64)
    said = dk.kernel(straight).report(*types).splitlines()
    assert said[0].startswith("threads do not run in lanes: it has no loop")
    assert said[1] == "  LLVM makes vectors of a loop"
    debugged = dk.kernel(straight, mode="debug").report(*types)
    assert debugged.startswith("threads do not run in lanes: the program says which thread is in error")


def test_conversions_of_all_kinds():
    @dk.kernel
    def convert(
        x: dk.array(dtype=F64), b: dk.array(dtype=dk.bool), n: dk.array(dtype=dk.int64), y: dk.array(dtype=F64)
    ):
        i = dk.tid()
        v = F64(0.0)
        for k in range(2):
            f = dk.float32(x[i] * 100.0 - 80.0)
            v += F64(dk.int8(f)) + F64(dk.uint16(f)) + F64(f) + F64(int(n[i]) + k)
            if b[i]:
                v += F64(dk.int64(f)) - F64(x[i] > 1.0)
            v = dk.where(dk.isfinite(v), v, 0.0) + dk.min(v, 3.0) + dk.sign(v) + dk.abs(v)
        y[i] = v
        b[i] = v > 100.0

    results = []
    for lanes in (True, False):
        kernel = dk.kernel(convert.func, lanes=lanes)
        b, y = dk.array(X > 1.1, dtype=dk.bool), dk.zeros(COUNT, dtype=F64)
        kernel[COUNT](_array(X), b, dk.array(np.arange(COUNT) * 3, dtype=dk.int64), y)
        results.append((y.numpy(), b.numpy()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-12)
    assert (results[0][1] == results[1][1]).all()


@pytest.mark.parametrize("lanes", [False, True])
def test_fast_mathematics_is_an_option_of_the_kernel_and_keeps_nan(lanes):
    @dk.kernel(fast_math=True, lanes=lanes)
    def ratios(x: dk.array(dtype=F64), n: int, y: dk.array(dtype=F64)):
        i = dk.tid()
        s = F64(0.0)
        for k in range(n):
            s += x[k] * x[k]
        if dk.isnan(s):
            s = F64(-1.0)
        y[i] = s / x[i]

    value, gradient = run(ratios, COUNT, [X, COUNT], np.zeros(COUNT))
    total = (X * X).sum()
    np.testing.assert_allclose(value, total / X, rtol=1e-13)
    seed = np.random.default_rng(1).normal(size=COUNT)
    np.testing.assert_allclose(gradient, (2.0 * X * (seed / X).sum() - seed * total / X**2), rtol=1e-12, atol=1e-12)
    value, _ = run(ratios, COUNT, [np.append(X[:-1], np.nan), COUNT], np.zeros(COUNT))
    np.testing.assert_allclose(value, np.append(-1.0 / X[:-1], np.nan), rtol=1e-15)
