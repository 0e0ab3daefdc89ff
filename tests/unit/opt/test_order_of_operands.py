"""Operations of two operands: exchanging them gives one value only where the operation is commutative."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import names

import diffkern as dk
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Value
from diffkern.ir.types import FLOAT64, INT32, Array, Mat, Scalar, Vec
from diffkern.ir.verify import verify
from diffkern.opt.cse import eliminate_common

V3, M3 = Vec(FLOAT64, 3), Mat(FLOAT64, 3, 3)

OPERATIONS = {
    "add": (FLOAT64, True), "mul": (FLOAT64, True), "eq": (FLOAT64, True), "ne": (FLOAT64, True),
    "sub": (FLOAT64, False), "div": (FLOAT64, False), "pow": (FLOAT64, False), "mod": (FLOAT64, False),
    "floordiv": (FLOAT64, False), "atan2": (FLOAT64, False), "lt": (FLOAT64, False), "le": (FLOAT64, False),
    "gt": (FLOAT64, False), "ge": (FLOAT64, False), "min": (FLOAT64, False), "max": (FLOAT64, False),
    "and": (INT32, True), "or": (INT32, True), "xor": (INT32, True), "shl": (INT32, False), "shr": (INT32, False),
    "cross": (V3, False), "matmul": (M3, False), "outer": (V3, False), "cw_div": (V3, False),
}  # fmt: skip
"""With what is the same after an exchange; of ``min`` and ``max`` the first of equals is taken, so they are not."""


def both_ways(name: str, t: Scalar | Vec | Mat) -> Function:
    """``out[0] = x[0] op y[0]; out[1] = y[0] op x[0]``."""
    b = Builder()
    x, y = (Value(Array(t, 1), n) for n in "xy")
    p, q = (b.one("load", v, b.i32(0), wrap=(False,)) for v in (x, y))
    results = [b.one(name, *pair) for pair in ((p, q), (q, p))]
    out = Value(Array(results[0].type, 1), "out")
    for k, r in enumerate(results):
        b.op("store", out, b.i32(k), r, wrap=(False,))
    fn = Function("f", (x, y, out), b.region)
    verify(fn)
    return fn


@pytest.mark.parametrize("name", OPERATIONS)
def test_exchanged_operands(name: str) -> None:
    t, same = OPERATIONS[name]
    fn = eliminate_common(both_ways(name, t))
    assert names(fn).count(name) == (1 if same else 2)


@dk.kernel
def differences(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64), z: dk.array(dtype=dk.float64, ndim=2)):
    i = dk.tid()
    z[i, 0] = x[i] - y[i]
    z[i, 1] = y[i] - x[i]
    z[i, 2] = x[i] / y[i]
    z[i, 3] = y[i] / x[i]


def test_differences_and_quotients_both_ways() -> None:
    x, y = dk.array(np.array([3.0, 5.0]), requires_grad=True), dk.array(np.array([2.0, 8.0]), requires_grad=True)
    z = dk.zeros((2, 4), dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(differences, 2, [x, y, z])
    a, b = x.numpy(), y.numpy()
    np.testing.assert_allclose(z.numpy(), np.stack([a - b, b - a, a / b, b / a], axis=1))
    seeds = np.array([[1.0, 10.0, 100.0, 1000.0]] * 2)
    tape.backward(grads={z: seeds})
    np.testing.assert_allclose(x.grad.numpy(), 1 - 10 + 100 / b - 1000 * b / a**2)
    np.testing.assert_allclose(y.grad.numpy(), 10 - 1 - 100 * a / b**2 + 1000 / a)
