"""How many vector registers side by side hold a value of all lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant

F32, F64 = dk.float32, dk.float64
LEVELS = {"x86-64-v3": 16, "x86-64-v4": 32}
"""Vector registers by target; both have room for four numbers of 64 bits in one."""


@dk.kernel
def shared(x: dk.array(dtype=F64), w: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    """The adjoint adds to the same element of `ct_w` in all threads, in each trip."""
    i = dk.tid()
    total = F64(0.0)
    for j in range(len(w)):
        total += dk.sin(x[i] * w[j])
    y[i] = total


@dk.kernel
def neighbours(x: dk.array(dtype=F64), w: dk.array2d(dtype=F64), y: dk.array(dtype=F64)):
    """Each thread has its own column of `w`."""
    i = dk.tid()
    total = F64(0.0)
    for j in range(w.shape[0]):
        total += dk.sin(x[i] * w[j, i])
    y[i] = total


@dk.kernel
def outside(x: dk.array(dtype=F64), w: dk.array2d(dtype=F64), k: int, y: dk.array2d(dtype=F64)):
    """The element that all threads of a row add to is the same in all trips: it is added to behind the loop."""
    r, i = dk.tid()
    v, scale = x[i], w[k, r]
    for _j in range(10):
        v = 0.5 * v * (2.0 - v)
    y[r, i] = v * scale


@dk.kernel
def once(x: dk.array(dtype=F64), w: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    """All threads of the launch add to one element, which is summed up in a register."""
    i = dk.tid()
    total = F64(0.0)
    for j in range(10):
        total += dk.sin(x[i] * w[0] + F64(j))
    y[i] = total


@dk.kernel(lanes=True)
def trips(x: dk.array(dtype=F64), n: dk.array(dtype=int), w: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    """Lanes wait for the one with the most trips."""
    i = dk.tid()
    total = F64(0.0)
    for j in range(n[i]):
        total += dk.sin(x[i] * w[j])
    y[i] = total


@dk.kernel(lanes=True)
def springs(x: dk.array(dtype=dk.vec3), most: int, y: dk.array(dtype=dk.vec3)):
    """One mass, held by a spring."""
    i = dk.tid()
    p, v = x[i], dk.vec3(0.0)
    for _ in range(most):
        length = dk.length(p)
        v = 0.99 * v - 0.02 * (length - 0.5) * p / length
        p = p + 0.01 * v
    y[i] = p


@dk.kernel(lanes=True)
def chain(x: dk.array(dtype=dk.vec3), most: int, y: dk.array(dtype=dk.vec3)):
    """Two masses."""
    i = dk.tid()
    p, q = x[i], 0.5 * x[i]
    v, w = dk.vec3(0.0), dk.vec3(0.0)
    for _ in range(most):
        first, second = dk.length(p), dk.length(p - q)
        f = -2.0 * (first - 0.5) * p / first - 0.1 * v
        g = 2.0 * (second - 0.5) * (p - q) / second - 0.1 * w
        v = v + 0.01 * (f - g)
        w = w + 0.01 * g
        p = p + 0.01 * v
        q = q + 0.01 * w
    y[i] = p + q


@dk.kernel(lanes=True)
def net(x: dk.array(dtype=dk.vec3), most: int, y: dk.array(dtype=dk.vec3)):
    """Three masses."""
    i = dk.tid()
    p, q, r = x[i], 0.5 * x[i], 0.25 * x[i]
    u, v, w = dk.vec3(0.0), dk.vec3(0.0), dk.vec3(0.0)
    for _ in range(most):
        first, second, third = dk.length(p), dk.length(p - q), dk.length(q - r)
        f = -2.0 * (first - 0.5) * p / first - 0.1 * u
        g = 2.0 * (second - 0.5) * (p - q) / second - 0.1 * v
        h = 2.0 * (third - 0.5) * (q - r) / third - 0.1 * w
        u = u + 0.01 * (f - g)
        v = v + 0.01 * (g - h)
        w = w + 0.01 * h
        p = p + 0.01 * u
        q = q + 0.01 * v
        r = r + 0.01 * w
    y[i] = p + q + r


MASSES = {"springs": springs, "chain": chain, "net": net}


def registers(kernel: Any, target: str, adjoint: bool) -> int:
    """What the first line of the report says."""
    first = dk.compile(kernel, target=target, adjoint=adjoint).asm.partition("\n")[0]
    assert "vector register" in first, first
    return int(first.split()[5]) if "registers" in first else 1


@pytest.mark.lanes_choice("it reads what the estimate has chosen")
@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize(
    ("kernel", "adjoint"),
    [(shared, False), (neighbours, True), (outside, True), (once, True)],
    ids=["forward", "neighbours", "outside", "once"],
)
def test_four_as_a_rule(kernel, adjoint, target):
    assert registers(kernel, target, adjoint) == 4


@pytest.mark.lanes_choice("it reads what the estimate has chosen")
@pytest.mark.parametrize("target", LEVELS)
def test_as_many_as_there_are_where_a_loop_adds_to_what_all_lanes_share(target):
    # Where there are few registers the sums of more lanes would not fit.
    expected = {"x86-64-v3": LEVELS[target] // 4, "x86-64-v4": LEVELS[target] // 2}
    assert registers(shared, target, adjoint=True) == expected[target]


@pytest.mark.parametrize(
    ("name", "adjoint", "target", "expected"),
    [
        ("springs", False, "x86-64-v3", 4),
        ("springs", True, "x86-64-v3", 2),
        ("springs", False, "x86-64-v4", 4),
        ("springs", True, "x86-64-v4", 2),  # for its operations
        ("chain", False, "x86-64-v3", 4),
        ("chain", True, "x86-64-v3", 2),
        ("chain", True, "x86-64-v4", 2),
        ("net", False, "x86-64-v3", 2),
        ("net", True, "x86-64-v3", 1),
        ("net", True, "x86-64-v4", 2),
    ],
)
def test_fewer_where_a_thread_holds_many_numbers(name, adjoint, target, expected):
    assert registers(MASSES[name], target, adjoint) == expected


def test_one_where_lanes_make_different_numbers_of_trips():
    assert registers(trips, "x86-64-v4", adjoint=True) == 1


@dk.kernel(lanes=True)
def mixed(x: dk.array(dtype=F64), n: dk.array(dtype=int), y: dk.array(dtype=F64), m: int):
    """The adjoint adds to 24 elements of each thread's own choice."""
    i = dk.tid()
    total = F64(0.0)
    for j in range(dk.static(24)):
        total += x[n[i] + j] * dk.static(F64(j))
    for _j in range(m):
        total = F64(0.5) * total
    y[i] = total


@dk.kernel(lanes=True)
def straight(x: dk.array(dtype=F64), n: dk.array(dtype=int), y: dk.array(dtype=F64)):
    i = dk.tid()
    y[i] = x[n[i]] * x[n[i] + 1]


def test_fewer_where_lanes_add_to_many_elements_by_themselves():
    assert registers(mixed, "x86-64-v4", adjoint=True) == 2


def test_one_where_lanes_have_accesses_of_their_own_and_no_loop():
    assert registers(straight, "x86-64-v4", adjoint=False) == 1
    assert registers(straight, "x86-64-v4", adjoint=True) == 1


def groups(kernel: Any, target: str) -> tuple[int, ...]:
    """How many threads of an adjoint run together."""
    types = kernel.argument_types()
    variant = Variant(active=frozenset(range(len(types))), options=kernel.options, target=target)
    return Compilation(kernel.func, types, variant).build("kernel").manifest.lane_counts


@dk.kernel(lanes=True)
def newton(x: dk.array(dtype=F64), y: dk.array(dtype=F64), n: int):
    i = dk.tid()
    a = x[i]
    s = F64(1.0)
    for _k in range(n):
        s = F64(0.5) * (s + a / s)
    y[i] = s


@dk.kernel(lanes=True)
def logistic(x: dk.array(dtype=F64), y: dk.array(dtype=F64), n: int):
    """What the adjoint adds to an element of `ct_x` in each trip is summed in a register."""
    i = dk.tid()
    s = F64(0.4)
    for _k in range(n):
        s = x[i] * s * (F64(1.0) - s)
    y[i] = s


@dk.kernel(lanes=True)
def columns(x: dk.array2d(dtype=F64), y: dk.array(dtype=F64), n: int):
    """The adjoint adds to neighbouring elements of `ct_x` in each trip."""
    i = dk.tid()
    s = F64(0.4)
    for k in range(n):
        s = x[k, i] * s * (F64(1.0) - s)
    y[i] = s


@dk.kernel(lanes=True)
def own_rows(x: dk.array2d(dtype=F64), y: dk.array(dtype=F64), n: int):
    """Each lane loads by itself in each trip."""
    i = dk.tid()
    s = F64(0.4)
    for k in range(n):
        s = x[i, k] * s * (F64(1.0) - s)
    y[i] = s


@dk.kernel(lanes=True)
def around_loops(x: dk.array2d(dtype=F64), y: dk.array(dtype=F64), n: int):
    """Each lane loads by itself, but around a loop."""
    i = dk.tid()
    s = F64(0.4)
    for k in range(n):
        a = x[i, k]
        for _k in range(n):
            s = a * s * (F64(1.0) - s)
    y[i] = s


@dk.kernel(lanes=True)
def rows(x: dk.array2d(dtype=F64), y: dk.array2d(dtype=F64), n: int):
    """The rows of a launch may be short."""
    i, j = dk.tid()
    a = x[i, j]
    s = F64(1.0)
    for _k in range(n):
        s = F64(0.5) * (s + a / s)
    y[i, j] = s


@pytest.mark.lanes_choice("it reads what the estimate has chosen")
@pytest.mark.parametrize(
    ("kernel", "target", "expected"),
    [
        (newton, "x86-64-v4", (16,)),
        (newton, "x86-64-v3", (16, 4)),
        (logistic, "x86-64-v4", (16,)),
        (columns, "x86-64-v4", (16, 4)),
        (own_rows, "x86-64-v4", (16, 4)),
        (around_loops, "x86-64-v4", (16,)),
        (rows, "x86-64-v4", (16, 4)),
    ],
    ids=["free-masks", "no-mask-registers", "summed", "neighbours", "by-lane", "by-lane-seldom", "several-axes"],
)
def test_one_form_for_all_threads_where_masks_are_free(kernel, target, expected):
    assert groups(kernel, target) == expected


@pytest.mark.parametrize("count", [1, 5, 16, 19, 64, 77])
def test_gradients_of_lanes_that_update_by_themselves(count):
    """Registers that all threads fill, and what is left; rows with a loop in them against the sum that NumPy makes."""
    rng = np.random.default_rng(count)
    values = rng.uniform(0.5, 3.5, (count, 3))
    x, y = (dk.array(a, dtype=F64, requires_grad=True) for a in (values, np.zeros(count)))
    with dk.Tape() as tape:
        dk.launch(around_loops, count, inputs=[x, y, 3])
    tape.backward(grads={y: dk.array(np.ones(count), dtype=F64)})
    found, expected = x.grad.numpy(), np.zeros_like(values)
    for k in range(3):
        moved = values.astype(complex)
        moved[:, k] += 1e-30j
        s = np.full(count, 0.4 + 0j)
        for j in range(3):
            for _ in range(3):
                s = moved[:, j] * s * (1.0 - s)
        expected[:, k] = s.imag * 1e30
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("dtype", "error"), [(F32, 2e-5), (F64, 1e-12)])
@pytest.mark.parametrize("count", [7, 33, 64, 167])
def test_gradients_of_what_lanes_share(dtype, error, count):
    """Rows that fill all registers, some of them, and none; against the sum that NumPy computes."""

    @dk.kernel(lanes=True)
    def weighted(x: dk.array(dtype=dtype), w: dk.array2d(dtype=dtype), y: dk.array2d(dtype=dtype)):
        k, i = dk.tid()
        total = dtype(0.0)
        for j in range(w.shape[1]):
            total += dk.sin(x[i] * w[k, j])
        y[k, i] = total

    rng = np.random.default_rng(count)
    x, w = rng.uniform(0.2, 1.8, count), rng.normal(size=(3, 5))
    seed = rng.normal(size=(3, count))
    given = [dk.array(v, dtype=dtype, requires_grad=True) for v in (x, w)]
    y = dk.zeros((3, count), dtype=dtype, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(weighted, (3, count), given, [y])
    tape.backward(grads={y: dk.array(seed, dtype=dtype)})
    slopes = np.cos(x * w[:, :, None]) * seed[:, None, :]
    for found, expected in zip(given, ((slopes * w[:, :, None]).sum((0, 1)), (slopes * x).sum(2)), strict=True):
        np.testing.assert_allclose(found.grad.numpy(), expected, rtol=error, atol=error * abs(expected).max())
