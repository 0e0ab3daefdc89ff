"""Registers that are worked on one after the other where they divide: each op after what it needs, the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import lowered

import diffkern as dk
from diffkern.analysis.scopes import ThreadScope, uniformity
from diffkern.ir.nodes import walk
from diffkern.ir.types import FLOAT32, INT32, Array
from diffkern.lower.composites import expand_composites
from diffkern.targets.cpu.lanes.by_register import stretches

ANY, PAIR = dk.array(dtype=float), dk.array(dtype=dk.vec3)
F32 = Array(FLOAT32, 1)


def pulls(x: ANY, m: ANY, n: int, y: ANY):
    """A quotient and a root in each trip, numbers of all lanes, the lesser of two."""
    i = dk.tid()
    s = 0.0
    t = 1.0
    for j in range(n):
        d = x[j] - x[i]
        r = dk.sqrt(d * d + 0.01)
        q = 1.0 / r
        a = m[j] * q * q * d
        a = dk.min(a, 0.5 + q)
        s = s + a * r - 0.25 * t
        t = 0.5 * t + q * a
    y[i] = s + t


def once(x: ANY, m: ANY, n: int, y: ANY):
    """Without carried values; what is found outside of the stretch is stored, and looked at by a branch."""
    i = dk.tid()
    for j in range(n):
        r = dk.sqrt(x[i] * x[i] + m[j])
        q = m[j] / r
        b = q * q - r
        c = b * q + r * b
        e = c * b - q * c
        f = e * e + c * b - q
        y[i] += dk.sin(f) * e
        if f > 1.0:
            y[i] += r


def nothing_to_divide(x: ANY, m: ANY, n: int, y: ANY):
    i = dk.tid()
    for j in range(n):
        y[i] = y[i] + x[i] * m[j]


def as_in_lanes(function):
    fn = expand_composites(lowered(function, F32, F32, INT32, F32))
    return fn, uniformity(fn, ThreadScope.VECTOR).varying


@pytest.mark.parametrize(("function", "divided"), [(pulls, True), (once, True), (nothing_to_divide, False)])
def test_each_op_comes_once_and_after_what_it_needs(function, divided):
    fn, varying = as_in_lanes(function)
    parted = 0
    for region in [fn.body, *(sub for op in walk(fn.body) for sub in op.regions)]:
        found = stretches(region, varying)
        order = [op for s in found for op in (*s.before, *s.slow, *s.rest, *s.after)]
        assert len(order) == len(region.ops)
        assert set(order) == set(region.ops)
        made = {r for op in region.ops for r in op.results}
        known = set()
        for op in order:
            assert known >= made.intersection(op.operands)
            known.update(op.results)
        accesses = [op for op in region.ops if op.name in ("load", "store", "atomic", "accumulate")]
        assert [op for op in order if op in accesses] == accesses
        for s in found:
            own = {op.result for op in (*s.slow, *s.rest)}
            used = {v for op in region.ops if op not in s.slow and op not in s.rest for v in op.operands}
            inner = {v for op in region.ops for sub in op.regions for x in walk(sub) for v in x.operands}
            assert own & (used | inner | set(region.yields)) <= set(s.found) <= own
            parted += bool(s.slow)
    assert bool(parted) is divided


KERNELS = {
    (name, lanes): dk.kernel(function, lanes=lanes, fuse_fp=False)
    for name, function in (("pulls", pulls), ("once", once))
    for lanes in (True, False)
}
"""Without fused products: which ones are is the compiler's choice, in lanes as without."""


@pytest.mark.parametrize("count", [1, 7, 8, 33, 131, 300])
@pytest.mark.parametrize("name", ["pulls", "once"])
def test_the_same_bits_as_without_lanes(name, count):
    rng = np.random.default_rng(count)
    x, m = rng.uniform(-1, 1, count).astype(np.float32), rng.uniform(0.5, 1, count).astype(np.float32)
    x[::5] = [0.0, np.inf, np.nan, -0.0][count % 4]
    found = []
    for lanes in (True, False):
        y = dk.zeros(count)
        dk.launch(KERNELS[name, lanes], dim=count, inputs=[dk.array(x), dk.array(m), min(count, 9)], outputs=[y])
        found.append(y.numpy())
    np.testing.assert_array_equal(*found)


@dk.kernel
def attraction(x: PAIR, m: ANY, n: int, f: PAIR):
    i = dk.tid()
    a = dk.vec3()
    for j in range(n):
        d = x[j] - x[i]
        q = 1.0 / dk.sqrt(dk.dot(d, d) + 0.01)
        a += (m[j] * q * q * q) * d
    f[i] = a


@pytest.mark.parametrize("count", [5, 150])
def test_gradients_of_all_pairs(count):
    rng = np.random.default_rng(3)
    x, m, seed = rng.uniform(size=(count, 3)), rng.uniform(0.5, 1.5, count), rng.normal(size=(count, 3))
    d = x[None] - x[:, None]
    q = 1.0 / np.sqrt((d * d).sum(-1) + 0.01)
    along = (seed[:, None] * d).sum(-1)
    part = (m[None] * q**3)[..., None] * seed[:, None] - (3.0 * m[None] * q**5 * along)[..., None] * d
    points, masses = dk.array(x, dtype=dk.vec3, requires_grad=True), dk.array(m, dtype=float, requires_grad=True)
    out = dk.zeros(count, dtype=dk.vec3, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(attraction, dim=count, inputs=[points, masses, count], outputs=[out])
    tape.backward(grads={out: dk.array(seed, dtype=dk.vec3)})
    np.testing.assert_allclose(points.grad.numpy(), part.sum(0) - part.sum(1), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(masses.grad.numpy(), (q**3 * along).sum(0), rtol=1e-3, atol=1e-3)
