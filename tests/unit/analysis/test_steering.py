"""Which arrays decide what a kernel executes and accesses."""

from __future__ import annotations

import pytest

import diffkern as dk
from diffkern.analysis.control_dependence import made_integral, steering
from diffkern.compiler.compilation import Compilation
from diffkern.ir.nodes import walk

A1, A2, I1 = dk.array(dtype=float), dk.array(dtype=float, ndim=2), dk.array(dtype=int)


@dk.kernel
def nothing(x: A1, b: A1, y: A1):
    i = dk.tid()
    y[i] = x[(i + 1) % x.shape[0]] * b[i]


@dk.kernel
def an_index(x: A1, k: I1, y: A1):
    i = dk.tid()
    y[i] = x[k[i] - 1]


@dk.kernel
def a_branch(x: A1, b: A1, y: A1):
    i = dk.tid()
    if b[i] * 2.0 > 1.0:
        y[i] = x[i]


@dk.kernel
def trips(x: A1, n: I1, y: A1):
    i = dk.tid()
    s = 0.0
    for k in range(n[i]):
        s += x[k]
    y[i] = s


@dk.kernel
def a_test(x: A1, b: A1, y: A1):
    i = dk.tid()
    v = b[i]
    while v < 10.0:
        v = v + b[i]
    y[i] = x[i]
    y[0] = v


@dk.kernel
def by_way_of_memory(x: A1, b: A1, c: A1, y: A1):
    i = dk.tid()
    c[i] = b[i]
    y[i] = x[int(c[i])]


@dk.kernel
def a_divisor(x: I1, k: I1, y: I1):
    i = dk.tid()
    y[i] = x[i] + 7 // k[i]


@dk.kernel
def a_choice(x: A1, b: A1, y: A1):
    i = dk.tid()
    v = x[i]
    y[i] = dk.where(b[i] > 0.0, v, 0.0)


@dk.kernel
def in_a_loop(x: A1, b: A1, y: A1):
    i = dk.tid()
    v = 0.0
    k = 0
    for n in range(4):
        v += b[n]
        k = int(x[k])
    y[i] = v


@dk.kernel
def a_tile(x: A1, k: I1, y: A1):
    t = dk.tile_load(x, shape=4, offset=k[0])
    dk.tile_store(y, dk.tile_map(dk.sin, t))


EXPECTED = {
    nothing: "",
    an_index: "k",
    a_branch: "b",
    trips: "n",
    a_test: "b",
    by_way_of_memory: "bc",
    a_divisor: "k",
    a_choice: "",
    in_a_loop: "x",
    a_tile: "k",
}


@pytest.mark.parametrize("kernel", EXPECTED, ids=[kernel.name for kernel in EXPECTED])
def test_what_steers(kernel: dk.Kernel) -> None:
    made = Compilation(kernel.func, kernel.argument_types(), kernel.variant)
    assert "".join(sorted(p.name for p in steering(made.primal))) == EXPECTED[kernel]


@dk.kernel
def a_sum_of_products(x: A1, y: A1):
    """The extents of what is written decide nothing about its elements."""
    i = dk.tid()
    s = 0.0
    for k in range(y.shape[0]):
        s += x[k] * x[i]
    y[i] = s


@dk.kernel
def a_place_of_a_sum(x: A1, y: A1):
    i = dk.tid()
    s = 0.0
    for k in range(y.shape[0]):
        s += x[k] * x[i]
    y[int(s) % y.shape[0]] = 1.0


@dk.kernel
def by_way_of_an_array(x: A1, y: A1, z: A1):
    i = dk.tid()
    y[i] = x[i] * 2.0 + 1.0
    z[i] = dk.floor(y[i])


@pytest.mark.parametrize(
    ("kernel", "found"), [(a_sum_of_products, False), (a_place_of_a_sum, True), (by_way_of_an_array, True)]
)
def test_numbers_from_which_integers_are_made(kernel: dk.Kernel, found: bool) -> None:
    made = Compilation(kernel.func, kernel.argument_types(), kernel.variant)
    names = {op.name for op in walk(made.primal.body) if not made_integral(made.primal).isdisjoint(op.results)}
    assert ("mul" in names) is found
