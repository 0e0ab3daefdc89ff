"""Tiles of structs: what moves, adds, sorts and maps them, against NumPy; derivatives against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk


@dk.struct
class Point:
    m: dk.float64
    r: dk.vec3d


@dk.struct
class Body:
    at: Point
    kind: dk.int8
    heat: dk.float64


POINTS = dk.array(dtype=Point)
BODIES = dk.array(dtype=Body)
F64 = dk.array(dtype=dk.float64)
N = 6


def points(seed: int = 1, n: int = N) -> Any:
    made = dk.zeros(n, dtype=Point, requires_grad=True)
    rng = np.random.default_rng(seed)
    content = made.numpy()
    content["m"], content["r"] = rng.uniform(0.5, 2.0, n), rng.normal(size=(n, 3))
    made.assign(content)
    return made


@dk.func
def energy(p: Point) -> dk.float64:
    return p.m * dk.dot(p.r, p.r) + dk.sin(p.m)


@dk.func
def moved(p: Point, by: Point) -> Point:
    return Point(p.m * by.m, p.r + by.m * by.r)


@dk.func
def joined(a: Point, b: Point) -> Point:
    return Point(a.m + b.m, (a.m * a.r + b.m * b.r) / (a.m + b.m))


@dk.kernel
def program(x: POINTS, order: dk.array(dtype=dk.int32), n: int, y: F64):
    """Maps, views, sums, changes of elements and of parts, loops, all with derivatives."""
    t = dk.tile_load(x, shape=N)
    u = dk.tile_map(moved, t, x[0])
    keys = dk.tile_load(order, shape=N)
    dk.tile_sort(keys, u)
    for k in range(n):
        row = u[0:3]
        row += dk.tile_view(t, offset=(k,), shape=(3,))
        u[4] = t[k]
        u[5] += x[0]
    m = dk.tile_reshape(u, shape=(2, 3))
    m[1, 2] += x[1]
    t -= u
    whole = dk.tile_sum(t + u)
    columns = dk.tile_sum(m, axis=0)
    middle = dk.tile_reduce(joined, u)
    dk.tile_store(y, dk.tile_map(energy, u))
    y[6] = energy(whole[0]) + energy(columns[1])
    y[7] = energy(middle[0]) + u.m[1] * energy(dk.tile_extract(dk.tile_transpose(m), 2, 1))


def expected(content: Any, order: Any, n: int) -> Any:
    m, r = content["m"], content["r"]
    um, ur = m * m[0], r + m[0] * r[0]
    places = np.argsort(order, kind="stable")
    um, ur = um[places], ur[places]
    for k in range(n):
        um[:3] += m[k : k + 3]
        ur[:3] += r[k : k + 3]
        um[4], ur[4] = m[k], r[k]
        um[5], ur[5] = um[5] + m[0], ur[5] + r[0]
    um[5], ur[5] = um[5] + m[1], ur[5] + r[1]

    def e(m: Any, r: Any) -> Any:
        return m * np.sum(r * r, axis=-1) + np.sin(m)

    out = np.empty(8)
    out[:6] = e(um, ur)
    out[6] = e(m.sum(), r.sum(0)) + e(um[1] + um[4], ur[1] + ur[4])
    centre = (um[:, None] * ur).sum(0) / um.sum()
    out[7] = e(um.sum(), centre) + um[1] * e(um[5], ur[5])
    return out


ORDER = np.array([3, 1, 2, 1, 9, -4], np.int32)


@pytest.mark.parametrize("n", [0, 2])
def test_a_program(n: int) -> None:
    x, y = points(), dk.zeros(8, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch_tiled(program, dim=1, inputs=[x, ORDER.copy(), n], outputs=[y])
    np.testing.assert_allclose(y.numpy(), expected(x.numpy(), ORDER, n), rtol=1e-12)
    weights = np.random.default_rng(2).normal(size=8)
    tape.backward(grads={y: dk.array(weights, dtype=dk.float64)})
    found = x.grad.numpy()
    direction = points(7).numpy()
    sides = []
    for step in (1e-6, -1e-6):
        content = x.numpy().copy()
        for name in ("m", "r"):
            content[name] += step * direction[name]
        sides.append(weights @ expected(content, ORDER, n))
    along = np.sum(found["m"] * direction["m"]) + np.sum(found["r"] * direction["r"])
    np.testing.assert_allclose(along, (sides[0] - sides[1]) / 2e-6, rtol=1e-7)


@dk.kernel
def stored(x: BODIES, places: dk.array(dtype=dk.int32), y: BODIES, z: BODIES, sums: BODIES):
    t = dk.tile_load(x, shape=N)
    chosen = dk.tile_load(places, shape=N)
    dk.tile_store_indexed(y, chosen, t)
    dk.tile_atomic_add(z, t + dk.tile_load_indexed(x, chosen, shape=N))
    dk.tile_store(sums, dk.tile_sum(t))
    s = dk.tile_stack(2, Body)
    for k in range(3):
        dk.tile_stack_push(s, x[k], k != 1)
    body, slot = dk.tile_stack_pop(s)
    sums[slot] = body
    dk.tile_stack_clear(s)
    u = dk.tile_full(shape=2, value=body)
    dk.tile_scatter_add(u, 1, x[5], True)
    sums[2] = u[1]


def test_fields_that_are_no_numbers_to_add_are_carried() -> None:
    x, y, z, sums = (dk.zeros(n, dtype=Body) for n in (N, N, N, 3))
    content = x.numpy()
    content["at"]["m"], content["kind"], content["heat"] = np.arange(6.0), np.arange(6) + 1, np.arange(6.0) ** 2
    content["at"]["r"] = np.arange(18.0).reshape(6, 3)
    x.assign(content)
    places = np.array([5, 3, 1, 0, 2, 4], np.int32)
    dk.launch_tiled(stored, dim=1, inputs=[x, places], outputs=[y, z, sums])
    np.testing.assert_array_equal(y.numpy()[places], content)
    added = z.numpy()
    np.testing.assert_array_equal(added["heat"], content["heat"] + content["heat"][places])
    np.testing.assert_array_equal(added["at"]["r"], content["at"]["r"] + content["at"]["r"][places])
    np.testing.assert_array_equal(added["kind"], np.zeros(6))  # no atomic addition
    found = sums.numpy()
    assert (found["heat"][0], found["kind"][0], found["at"]["m"][0]) == (55.0, 1, 15.0)
    assert found[1] == content[2]
    assert (found["heat"][2], found["kind"][2]) == (4.0 + 25.0, 3)


@pytest.mark.parametrize(("kernel", "adjoint"), [(stored, False), (program, True)])
def test_it_is_compiled_for_a_gpu(kernel: dk.Kernel, adjoint: bool) -> None:
    assert ".visible .entry" in dk.compile(kernel, target="sm_90", block_dim=32, adjoint=adjoint).ptx


def ones(x: POINTS, y: F64):
    dk.tile_ones(shape=N, dtype=Point)


def least(x: POINTS, y: F64):
    dk.tile_min(dk.tile_load(x, shape=N))


def product(x: POINTS, y: F64):
    t = dk.tile_load(x, shape=N)
    dk.tile_sum(t * 2.0)


def changed_field(x: POINTS, y: F64):
    t = dk.tile_load(x, shape=N)
    t.m = dk.tile_zeros(shape=N, dtype=dk.float64)


def another_struct(x: POINTS, y: F64):
    t = dk.tile_load(x, shape=N)
    t[0] = Body()


def no_field(x: POINTS, y: F64):
    t = dk.tile_load(x, shape=N)
    y[0] = t.speed[0]


def changed_under_a_view(x: POINTS, y: F64):
    t = dk.tile_load(x, shape=N)
    v = dk.tile_zeros(shape=2, dtype=Point)
    for k in range(3):
        v[0] = x[k]
        v = t[1:3]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (ones, "tile_ones of a tile of structs"),
        (least, "take a field, as in t.x"),
        (product, "or write a func of elements, as in dk.tile_map(f, t)"),
        (changed_field, "assign elements, as in t[i] = value"),
        (another_struct, "for two tiles of Point, or for a tile and a value of Point"),
        (no_field, "it has m, r, shape and ndim"),
        (changed_under_a_view, "v is a view of another tile"),
    ],
)
def test_refusals(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(dk.KernelError) as caught:
        dk.launch_tiled(dk.kernel(function), dim=1, inputs=[points(), dk.zeros(8, dtype=dk.float64)])
    assert said in str(caught.value)
    assert "help: " in str(caught.value)
    assert "test_struct_tiles.py:" in str(caught.value)
