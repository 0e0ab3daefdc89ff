"""What a branch that is not taken has computed contributes exactly zero, whatever its operands are: every operation."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.ad.forward import with_tangents
from diffkern.compiler import pipeline
from diffkern.ir.builder import Builder
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Region, Value
from diffkern.ir.ops.row import Diff
from diffkern.ir.ops.table import all_ops
from diffkern.ir.types import FLOAT64, INT32, Array, Element, Scalar
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import CompiledFunction

from .oneop import OneOp
from .test_rules import COMPOSITE_ROWS, MATRIX_ROWS, SCALAR_ROWS

BAD = (np.inf, -np.inf, np.nan, 0.0, -1e300)
ROWS = [*SCALAR_ROWS, *COMPOSITE_ROWS, *MATRIX_ROWS]
GOOD = 3
"""Threads that take the branch, in front of those that do not and have bad operands."""


def applied(b: Builder, row: OneOp, operands: list[Value]) -> Value:
    return row.build(b, operands) if row.build else b.one(row.op, *operands, **row.attrs)


def select(b: Builder, row: OneOp, operands: list[Value], taken: Value) -> Value:
    """``where`` of a value that was computed before."""
    r = applied(b, row, operands)
    return b.select(taken, r, b.zero(r.type))


def branch(b: Builder, row: OneOp, operands: list[Value], taken: Value) -> Value:
    """A branch within a branch, which takes a value from outside."""
    r = applied(b, row, operands)
    zero = b.zero(r.type)
    inner, outer = Region(), Region()
    with b.into(inner):
        inner.yields = (b.add(r, r),)
    with b.into(outer):
        outer.yields = b.if_(taken, inner, Region(yields=(zero,)))
    return b.if_(taken, outer, Region(yields=(zero,)))[0]


def behind_loop(b: Builder, row: OneOp, operands: list[Value], taken: Value) -> Value:
    """``where`` of the result of a loop, and of what stands before it."""
    before = applied(b, row, operands)
    body = Region((Value(INT32, "k"), Value(before.type, "total")))
    with b.into(body):
        body.yields = (b.add(body.params[1], b.add(before, applied(b, row, operands))),)
    lo, hi, step = b.i32(0), b.one("cast", b.one("cast", taken, to=INT32), to=INT32), b.i32(1)
    (total,) = b.for_(lo, b.one("add", hi, b.i32(2)), step, [b.zero(before.type)], body)
    return b.select(taken, total, b.zero(before.type))


def in_loop(b: Builder, row: OneOp, operands: list[Value], taken: Value) -> Value:
    """A branch in a loop that takes a value from outside of the loop."""
    r = applied(b, row, operands)
    body = Region((Value(INT32, "k"), Value(r.type, "total")))
    with b.into(body):
        then = Region()
        with b.into(then):
            then.yields = (b.add(body.params[1], r),)
        body.yields = b.if_(taken, then, Region(yields=(body.params[1],)))
    hi = b.one("add", b.one("cast", taken, to=INT32), b.i32(2))
    return b.for_(b.i32(0), hi, b.i32(1), [b.zero(r.type)], body)[0]


SHAPES: dict[str, Callable[..., Value]] = {f.__name__: f for f in (select, branch, behind_loop, in_loop)}


def function(shape: str) -> Function:
    """All rows, each where ``c[i] > 0`` alone."""
    b = Builder()
    (i,) = b.op("tid", axis=0)
    mask = Value(Array(FLOAT64, 1), "c")
    taken = b.one("gt", b.one("load", mask, i, wrap=(False,)), b.const(0.0, FLOAT64))
    params = [mask]
    outputs = []
    for n, row in enumerate(ROWS):
        given = [Value(Array(t, 1), f"{row.name}_{n}_{k}") for k, t in enumerate(row.types)]
        params += given
        result = SHAPES[shape](b, row, [b.one("load", v, i, wrap=(False,)) for v in given], taken)
        outputs.append(Value(Array(result.type, 1), f"{row.name}_{n}_out"))  # type: ignore[arg-type]
        b.op("store", outputs[-1], i, result, wrap=(False,))
    return Function(f"untaken_{shape}", (*params, *outputs), b.region, tid_arity=1)


def shaped(t: Element) -> tuple[int, ...]:
    return (GOOD + len(BAD), *(() if isinstance(t, Scalar) else t.shape))


def arguments(fn: Function, bad: bool) -> list[np.ndarray]:
    args = [np.array([1.0] * GOOD + [-1.0] * len(BAD))]
    for row in ROWS:
        for t, points in zip(row.types, row.points, strict=True):
            found = np.resize(np.asarray(points, np.float64), shaped(t)).copy()
            for k, value in enumerate(BAD if bad else ()):
                found[GOOD + k] = value
            args.append(found)
    return args + [np.zeros(shaped(p.type.dtype)) for p in fn.params[len(args) :]]  # type: ignore[union-attr]


def test_all_operations_are_here() -> None:
    wanted = {name for name, row in all_ops().items() if row.diff is Diff.RULE and not name.startswith("tile_")}
    assert {row.op for row in ROWS} == wanted - {"round_float16", "round_bfloat16"}  # whose derivative is 1


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_what_is_not_taken(shape: str) -> None:
    vjp = Vjp(function(shape))
    count = GOOD + len(BAD)
    fine, bad = (arguments(vjp.fn, broken) for broken in (False, True))
    weights = vjp.weights(fine, np.random.default_rng(1))
    weights = {k: w * float(vjp.names[k].endswith("_out")) for k, w in weights.items()}
    expected, found = (vjp.gradients((count,), args, weights) for args in (fine, bad))
    for k, name in enumerate(vjp.names):
        if k in found and not name.endswith("_out") and name != "c":
            np.testing.assert_array_equal(found[k][GOOD:], 0.0, err_msg=name)
            np.testing.assert_array_equal(found[k][:GOOD], expected[k][:GOOD], err_msg=name)


@pytest.mark.parametrize("shape", ["select", "in_loop"])
def test_tangents_of_what_is_not_taken(shape: str) -> None:
    fn = function(shape)
    types = [p.type for p in fn.params]
    forward = with_tangents(fn, types, list(enumerate(types)), pipeline.FUNCS.tools)  # type: ignore[arg-type]
    program = CompiledFunction(pipeline.optimise(clone_function(forward)))
    given = arguments(fn, True)
    tangents = [np.ones_like(a) for a in given]
    program.run((GOOD + len(BAD),), [*given, *tangents])
    for p, t in zip(fn.params, tangents, strict=True):
        if p.name.endswith("_out"):
            np.testing.assert_array_equal(t[GOOD:], 0.0, err_msg=p.name)
            assert np.isfinite(t[:GOOD]).all()


# -- kernels -----------------------------------------------------------------------------------------------------------

KERNELS = {
    "where": ["p = a * b", "y[i] = dk.where(c > 0.0, p, 0.0)"],
    "used elsewhere too": ["p = a * b", "y[i] = dk.where(c > 0.0, p * p, 0.0) + dk.where(c > 0.0, p, 0.0)"],
    "early return": ["p = dk.sin(a * b)", "if c <= 0.0:", "    return", "y[i] = p"],
    "atomic": ["p = a * b", "if c > 0.0:", "    dk.atomic_add(y, i, p)"],
    "load in a branch": [
        "p = dk.float64(0.0)", "if i >= 0:", "    p = x[(i + 1) - 1] * z[i] * a", "y[i] = dk.where(c > 0.0, p, 0.0)",
    ],
    "while": [
        "p = a", "k = int(0)", "while k < 3:", "    p = p * b", "    k += 1", "y[i] = dk.where(c > 0.0, p, 0.0)",
    ],
    "loop with a bound that varies": [
        "w = a * b", "p = dk.float64(0.0)", "for k in range(x.shape[0]):", "    p += w * b * x[k % 2]",
        "if c > 0.0:", "    y[i] = p",
    ],
    "loop in a loop": [
        "w = a * b", "p = dk.float64(0.0)", "for k in range(2):", "    q = w", "    for l in range(x.shape[0] - 2):",
        "        q = q * b", "    if c > 0.0:", "        p += q", "y[i] = p",
    ],
    "loop that stores": [
        "w = a * b", "p = w", "for k in range(x.shape[0]):", "    q = p * b", "    p = q + w", "    u[k, i] = 2.0 * a",
        "if c > 0.0:", "    y[i] = p",
    ],
    "branch that stores": [
        "p = dk.float64(0.0)", "if i >= 0:", "    p = a * b", "    u[0, i] = 2.0 * a",
        "y[i] = dk.where(c > 0.0, p, 0.0)",
    ],
    "loop with a barrier": [
        "p = a", "for k in range(2):", "    h[dk.thread_index()] = a", "    dk.syncthreads()",
        "    p = p * b + h[3 - dk.thread_index()]", "    dk.syncthreads()", "y[i] = dk.where(c > 0.0, p, 0.0)",
    ],
    "max loses": ["p = a * dk.abs(b)", "y[i] = dk.max(c * 1e6, -p)"],
}  # fmt: skip


def gradients(lines: list[str], bad: float) -> list[np.ndarray]:
    head = ["i = dk.tid()", "a = x[i]", "b = z[i]", "c = s[i]"]
    if any("h[" in line for line in lines):
        head.append("h = dk.shared_array(4, dtype=dk.float64)")
    text = "\n".join(["def k(x, z, s, y, u):", *(f"    {line}" for line in (*head, *lines)), ""])
    file = f"<untaken {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"dk": dk}
    exec(compile(text, file, "exec"), names)
    s = np.array([1.0, 1.0, -1.0, -1.0])
    if "max" in text:
        s = -s
        s[2:] = 1.0
    z = np.where([False, False, True, True], bad, [0.5, 1.5, 0.7, -0.3])
    x, z, s, y = (dk.array(v, dtype=dk.float64, requires_grad=True) for v in ([0.3, 0.8, 1.2, 0.4], z, s, [0.0] * 4))
    u = dk.zeros((4, 4), dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(dk.kernel(names["k"]), dim=4, inputs=[x, z, s, y, u], block_dim=4 if "h[" in text else None)
    tape.backward(grads={y: np.ones(4), u: np.ones((4, 4))})
    return [x.grad.numpy(), z.grad.numpy()]


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str) -> None:
    expected = gradients(KERNELS[name], 0.9)
    assert any(g.any() for g in expected)
    for bad in (np.inf, -np.inf) if "max" in name else (np.inf, np.nan):
        for got, want in zip(gradients(KERNELS[name], bad), expected, strict=True):
            np.testing.assert_array_equal(got, want)


# -- tiles -------------------------------------------------------------------------------------------------------------

F64 = dk.float64
TILE = dk.array(dtype=F64)


@dk.func
def product(a: F64, b: F64):
    return a * b


@dk.func
def chosen(c: F64, p: F64):
    return dk.where(c > 0.0, p, F64(0.0))


@dk.kernel
def by_a_map(x: TILE, z: TILE, s: TILE, y: TILE):
    p = dk.tile_map(product, dk.tile_load(x, 4), dk.tile_load(z, 4))
    dk.tile_store(y, dk.tile_map(chosen, dk.tile_load(s, 4), p + p))


@dk.kernel
def by_a_minimum(x: TILE, z: TILE, s: TILE, y: TILE):
    p = dk.tile_map(product, dk.tile_load(x, 4), dk.tile_load(z, 4))
    dk.tile_store(y, dk.tile_min(dk.tile_map(dk.abs, p)))


@dk.kernel
def by_a_branch(x: TILE, z: TILE, s: TILE, y: TILE):
    p = dk.tile_map(product, dk.tile_load(x, 4), dk.tile_load(z, 4))
    for k in range(2):
        p = dk.tile_map(product, p, dk.tile_load(z, 4))
        if s[k] < 0.0:
            dk.tile_store(y, p)


@pytest.mark.parametrize("kernel", [by_a_map, by_a_minimum, by_a_branch])
def test_tiles(kernel: Any) -> None:
    """What a map has computed for an element that is not chosen, or for a branch that is not taken."""

    def along(bad: float) -> np.ndarray:
        z = np.full(4, bad) if kernel is by_a_branch else np.array([0.5, 1.5, bad, bad])
        x, z, s = (
            dk.array(v, dtype=F64, requires_grad=True) for v in ([0.3, 0.8, 1.2, 0.4], z, [1.0, 1.0, -1.0, -1.0])
        )
        y = dk.zeros(4, dtype=F64, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch_tiled(kernel, dim=[1], inputs=[x, z, s, y], block_dim=32)
        tape.backward(grads={y: np.ones(4)})
        return np.stack([x.grad.numpy(), z.grad.numpy()])

    expected = along(30.0)
    assert expected.any() == (kernel is not by_a_branch)
    np.testing.assert_array_equal(along(np.inf), expected)
