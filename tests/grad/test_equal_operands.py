"""Operations that take one value twice or three times, after functions whose derivative is infinite at a point.

Forward mode has rules of its own for products of a value with itself and for what comes from such a function.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.ir.ops.row import Diff
from diffkern.ir.ops.table import all_ops, lookup

from .test_singular import load

STEEP = {
    "sqrt": "dk.sqrt(s)", "pow": "dk.pow(s, number(0.6))", "pow of two": "s ** t", "cbrt": "dk.cbrt(s)",
    "asin": "dk.asin(s)", "acos": "dk.acos(s)", "acosh": "dk.acosh(s + number(1.2))",
}  # fmt: skip
OTHERS = {
    "log": "dk.log(s)", "log1p": "dk.log1p(s)", "rsqrt": "dk.rsqrt(s)", "exp": "dk.exp(s)", "tan": "dk.tan(s)",
    "atanh": "dk.atanh(s)", "lgamma": "dk.lgamma(s)", "digamma": "dk.digamma(s)", "div": "t / s",
    "mod": "dk.mod(t, s)", "atan2": "dk.atan2(s, t)", "hypot": "dk.hypot(s, t)", "length": "dk.length(vec2(s, t))",
    "normalize": "dk.normalize(vec2(s, t))[0]", "unscale": "(vec2(s, t) / s)[1]",
    "cw_div": "dk.cw_div(vec2(s, t), vec2(t, s))[0]", "inverse": "dk.inverse(mat22(s, t, t, number(3.0)))[0, 1]",
}  # fmt: skip
SOURCES = {**STEEP, **OTHERS}
"""Where the factor of all values comes from."""

USES = {
    "add": "p + p | v: v + v",
    "sub": "p - p | m: m - m | p + p - p",
    "mul": "p * p | p * p * p | dk.lerp(p, p, p) | v: dk.lerp(v, v, p)",
    "div": "p / p | p / (p * p)",
    "mod": "dk.mod(p, p)",
    "pow": "dk.pow(o, o)",
    "atan2": "dk.atan2(p, p)",
    "hypot": "dk.hypot(p, p)",
    "min": "dk.min(p, p) | v: dk.min(v, v)",
    "max": "dk.max(p, p) | dk.max(p, p, p)",
    "copysign": "dk.copysign(p, p)",
    "select": "dk.where(p > number(0.0), p, p) | dk.clamp(p, p, p)",
    "construct": "v: vec3(p, p, p)",
    "scale": "v: v * p | v: v * v[0] | m: m * m[0, 0] | v: v * dk.dot(v, v)",
    "unscale": "v: v / v[1] | v: v / dk.dot(v, v)",
    "cw_mul": "v: dk.cw_mul(v, v) | m: dk.cw_mul(m, m) | u: dk.cw_mul(u, dk.cw_mul(u, u))",
    "cw_div": "v: dk.cw_div(v, v) | m: dk.cw_div(m, dk.cw_mul(m, m))",
    "dot": "dk.dot(u, u) | dk.dot(v, v) | dk.dot(q, q) | dk.ddot(m, m) | dk.ddot(k, k) | dk.dot(v, v) * dk.dot(v, v)"
    " | dk.dot(v, v * number(2.0)) | dk.dot(v, b) | dk.dot(b, v) | dk.dot(b, b) * p | dk.sqrt(dk.dot(v, v))"
    " | dk.length_sq(v) | dk.length(v) | v: dk.normalize(v)",
    "cross": "v: dk.cross(v, v) | v: dk.cross(v, dk.cross(v, b))",
    "matmul": "m: m @ m | m: m @ m @ m | k: k @ k | m: dk.transpose(m) @ m",
    "matvec": "v: k @ v | v: dk.outer(v, v) @ v",
    "vecmat": "v: v @ k | u: u @ dk.outer(u, u)",
    "outer": "k: dk.outer(v, v) | m: dk.outer(u, dk.outer(u, u) @ u)",
    "quat_mul": "q: q * q | q: q * q * q | q: dk.quat_inverse(q) * q | v: dk.quat_rotate(q, vec3(q[0], q[1], q[2]))",
}
"""Expressions by operation in the numbers p and o, which is between 0 and 1, the vectors u of 2, v and b of 3
components, the matrices m of 2 and k of 3 rows and the quaternion q; in front of a colon a value of the expression's
type, if it is no number. All but b are products with what comes from a source."""

KINDS = {"u": "vec2", "v": "vec3", "m": "mat22", "k": "mat33", "q": "quat", "b": "vec3"}
PLACES = {
    "u": ("[0]", "[1]"), "v": ("[0]", "[1]", "[2]"), "b": ("[0]", "[1]", "[2]"), "q": ("[0]", "[1]", "[2]", "[3]"),
    "m": tuple(f"[{n}, {m}]" for n in range(2) for m in range(2)),
    "k": tuple(f"[{n}, {m}]" for n in range(3) for m in range(3)), "": ("",),
}  # fmt: skip
TEXTS = [text.strip().rpartition(": ") for texts in USES.values() for text in texts.split(" | ")]
INPUTS = 3 + sum(len(PLACES[name]) for name in KINDS)
THREADS = 3

ELEMENTS = {"insert", "extract_dyn", "insert_dyn"}
"""Their operands are a composite, an element and its index."""
REMAINDERS = {"rem"}
"""Remainders with the sign of the dividend, which ``diffkern.warp`` alone spells; otherwise as mod."""


def test_every_operation_of_several_operands_has_a_use() -> None:
    rows = [row for name in all_ops() if (row := lookup(name)).family in ("scalar", "composite")]
    several = {row.name for row in rows if row.diff is Diff.RULE and row.arity != 1}
    assert several - ELEMENTS - REMAINDERS == set(USES)
    steep = {row.name for row in rows if row.singular is not None and row.singular.steep}
    assert steep == {name.split()[0] for name in STEEP}


def _kernel(source: str, number: Any) -> Any:
    """The kernel of all uses: of each the sum of the result's components, with weights that differ."""
    lines = ["def k(x, y):", "    i = dk.tid()", "    s, t = x[i, 0], x[i, 1]"]
    lines += [f"    f = {source}", "    p = x[i, 2] * f", "    o = p * p / (p * p + number(1.0))"]
    start = 3
    for name, kind in KINDS.items():
        size = len(PLACES[name])
        numbers = ", ".join(f"x[i, {start + n}]" for n in range(size))
        lines.append(f"    {name} = {kind}({numbers})" + " * f" * (name != "b"))
        start += size
    for n, (kind, _, text) in enumerate(TEXTS):
        terms = [f"number({1.0 - 0.3 * m:.1f}) * r{n}{place}" for m, place in enumerate(PLACES[kind])]
        lines += [f"    r{n} = {text}", f"    y[i, {n}] = {' + '.join(terms)}"]
    types = {f"vec{n}": dk.types.vector(n, number) for n in (2, 3)}
    types |= {f"mat{n}{n}": dk.types.matrix((n, n), number) for n in (2, 3)}
    return load(lines, {"number": number, "quat": dk.types.quaternion(number), **types})


def _points() -> tuple[np.ndarray, np.ndarray]:
    """The operands, a row for each thread, and a direction."""
    rng = np.random.default_rng(5)
    x = rng.uniform(0.3, 1.2, (THREADS, INPUTS))
    x[:, :2] = rng.uniform(0.3, 0.8, (THREADS, 2))
    return x, rng.normal(size=x.shape)


def _of_one(kernel: Any, number: Any) -> Any:
    """The launch as a function of an array."""

    def run(x: Any) -> Any:
        y = dk.zeros((THREADS, len(TEXTS)), dtype=number, requires_grad=True)
        dk.launch(kernel, dim=THREADS, inputs=[x], outputs=[y])
        return y

    return run


def _difference(f: Any, x: np.ndarray, along: np.ndarray) -> np.ndarray:
    step = 1e-5
    return (f(x + step * along) - f(x - step * along)) / (2 * step)


def _check(found: np.ndarray, right: np.ndarray, tolerance: float) -> None:
    for n, (_, _, text) in enumerate(TEXTS):
        np.testing.assert_allclose(found[:, n], right[:, n], rtol=tolerance, atol=tolerance, err_msg=text)


def _gradient(run: Any, x: Any, seeds: np.ndarray, number: Any) -> np.ndarray:
    given = dk.array(x, dtype=number, requires_grad=True)
    with dk.Tape() as tape:
        y = run(given)
    tape.backward(grads={y: dk.array(seeds, dtype=number)})
    return given.grad.numpy()


LONG = [pytest.param(name, marks=pytest.mark.full) for name in SOURCES if name != "sqrt"]


@pytest.mark.parametrize("name", ["sqrt", *LONG])
def test_tangents(name: str) -> None:
    """Tangents against differences, and the sums of them against reverse mode."""
    x, along = _points()
    run = _of_one(_kernel(SOURCES[name], dk.float64), dk.float64)
    found = dk.jvp(run, (dk.array(x),), (dk.array(along),))[1].numpy()
    _check(found, _difference(lambda at: run(dk.array(at)).numpy(), x, along), 1e-6)
    seeds = np.random.default_rng(6).normal(size=found.shape)
    sums = (_gradient(run, x, seeds, dk.float64) * along).sum(axis=1)
    np.testing.assert_allclose((found * seeds).sum(axis=1), sums, rtol=1e-10)


@pytest.mark.full
@pytest.mark.parametrize("name", SOURCES)
def test_tangents_in_single_precision(name: str) -> None:
    """Tangents and sums of them against those in double precision."""
    x, along = _points()
    of_type = {number: _of_one(_kernel(SOURCES[name], number), number) for number in (dk.float32, dk.float64)}
    found, right = (
        dk.jvp(run, (dk.array(x, dtype=number),), (dk.array(along, dtype=number),))[1].numpy()
        for number, run in of_type.items()
    )
    _check(found, right, 3e-4)
    seeds = np.random.default_rng(6).normal(size=found.shape)
    gradients = [_gradient(run, x, seeds, number) for number, run in of_type.items()]
    np.testing.assert_allclose(*gradients, rtol=1e-3, atol=1e-3)


@pytest.mark.full
@pytest.mark.parametrize("name", SOURCES)
def test_second_derivatives(name: str) -> None:
    """Tangents of tangents against differences, and gradients of tangents and tangents of gradients against both."""
    x, along = _points()
    run = _of_one(_kernel(SOURCES[name], dk.float64), dk.float64)
    t = dk.array(along)

    def tangents(at: Any) -> Any:
        return dk.jvp(run, (at,), (t,))[1]

    def total(at: Any) -> Any:
        z = dk.zeros(1, dtype=dk.float64, requires_grad=True)
        dk.launch(weighted, dim=1, inputs=[run(at), dk.array(seeds)], outputs=[z])
        return z

    found = dk.jvp(tangents, (dk.array(x),), (t,))[1].numpy()
    _check(found, _difference(lambda at: tangents(dk.array(at)).numpy(), x, along), 1e-5)
    seeds = np.random.default_rng(6).normal(size=found.shape)
    right = (found * seeds).sum()
    by_tangents = dk.hvp(total, (dk.array(x),), (t,))[0].numpy()
    by_gradients = dk.jvp(dk.grad(total), (dk.array(x),), (t,))[1].numpy()
    np.testing.assert_allclose((by_tangents * along).sum(), right, rtol=1e-9)
    np.testing.assert_allclose(by_gradients, by_tangents, rtol=1e-8, atol=1e-8)


@dk.kernel
def weighted(
    y: dk.array(dtype=dk.float64, ndim=2), w: dk.array(dtype=dk.float64, ndim=2), z: dk.array(dtype=dk.float64)
):
    total = dk.float64(0.0)
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            total += y[i, j] * w[i, j]
    z[0] = total


@pytest.mark.parametrize("source", ["dk.sqrt(r)", "r ** 0.5"])
def test_product_of_a_vector_with_itself(source: str) -> None:
    """The two equal terms of its tangent are computed once and added."""
    kernel = load(["def k(x, y):", "    r = x[0][0]", f"    d = x[0] * ({source})", "    y[0] = dk.dot(d, d)"], {})
    x, along = (dk.array([v], dtype=dk.vec2) for v in ((1.3, 0.7), (1.0, 0.0)))
    y = dk.zeros(1)
    dk.launch(kernel.jvp, dim=1, inputs=[x, dk.zeros(1), along, y])
    # d . d = a^3 + a b^2
    np.testing.assert_allclose(y.numpy(), [3 * 1.3**2 + 0.7**2], rtol=1e-6)


@dk.func
def rooted(a: dk.float64):
    return dk.sqrt(a)


@dk.func
def powers(a: dk.float64, b: dk.float64, c: dk.float64):
    d = dk.vec2d(a, b) * dk.sqrt(c)
    return dk.dot(d, d) + a * b * c


@dk.kernel
def of_tiles(x: dk.array(dtype=dk.float64, ndim=2), y: dk.array(dtype=dk.float64, ndim=2)):
    a = dk.tile_map(rooted, dk.tile_load(x, shape=(3, 3)))
    dk.tile_store(y, dk.tile_matmul(a, a), offset=(0, 0))
    dk.tile_store(y, dk.tile_matmul(dk.tile_transpose(a), a), offset=(3, 0))
    dk.tile_store(y, a * a * a, offset=(6, 0))
    dk.tile_store(y, dk.tile_map(powers, a, a, a), offset=(9, 0))
    dk.tile_store(y, a + a - a / a, offset=(12, 0))
    total = a * dk.float64(1.0)
    dk.tile_matmul(a, a, total)
    dk.tile_store(y, total, offset=(15, 0))


def test_tiles() -> None:
    rng = np.random.default_rng(7)
    x, along = rng.uniform(0.5, 1.5, (3, 3)), rng.normal(size=(3, 3))

    def run(at: Any) -> Any:
        y = dk.zeros((18, 3), dtype=dk.float64, requires_grad=True)
        dk.launch_tiled(of_tiles, dim=1, inputs=[at], outputs=[y], block_dim=1)
        return y

    found = dk.jvp(run, (dk.array(x),), (dk.array(along),))[1].numpy()
    right = _difference(lambda at: run(dk.array(at)).numpy(), x, along)
    np.testing.assert_allclose(found, right, rtol=1e-7, atol=1e-9)
    seeds = rng.normal(size=found.shape)
    np.testing.assert_allclose((found * seeds).sum(), (_gradient(run, x, seeds, dk.float64) * along).sum(), rtol=1e-12)
