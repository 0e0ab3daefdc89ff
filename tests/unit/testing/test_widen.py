"""Widening: float64 throughout, nothing else changed."""

from __future__ import annotations

import numpy as np

import diffkern as dk
from diffkern.frontend.statements import lowering
from diffkern.ir.nodes import walk
from diffkern.ir.types import FLOAT32, FLOAT64, INT32, Array, Scalar, Stack, Vec, scalar_of
from diffkern.ir.verify import verify
from diffkern.opt.widen import widen, widened


def mixed(x: dk.array(dtype=dk.float16), v: dk.array(dtype=dk.vec3), n: int, a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    s = 0.1
    for k in range(n):
        if x[i] > a:
            s = s * float(k) + v[i][1]
    y[i] = s


TYPES = [Array(dk.float16.ir, 1), Array(Vec(FLOAT32, 3), 1), INT32, FLOAT32, Array(FLOAT32, 1)]


def test_every_float_becomes_float64() -> None:
    fn = lowering.lower(mixed, TYPES)
    wide = widen(fn)
    assert wide is fn
    verify(wide)
    values = [*wide.params, *(r for op in walk(wide.body) for r in op.results)]
    floats = {scalar_of(v.type) for v in values if scalar_of(v.type).is_float}
    assert floats == {FLOAT64}
    assert wide.params[2].type == INT32
    constants = [op.attrs["value"] for op in walk(wide.body) if op.name == "const"]
    assert 0.1 in constants  # as the user wrote it, not rounded to float32


def test_types() -> None:
    assert widened(Stack((FLOAT32, INT32, Vec(FLOAT32, 2)), 7, 1)) == Stack((FLOAT64, INT32, Vec(FLOAT64, 2)), 7, 1)
    assert widened(Array(INT32, 2, "A")) == Array(INT32, 2, "A")
    assert isinstance(widened(FLOAT32), Scalar)


def test_results_differ_by_rounding_alone() -> None:
    kernel = dk.kernel(mixed)
    x, v = np.array([0.5, 1.5], np.float16), np.full((2, 3), 0.3, np.float32)
    y = np.zeros(2, np.float32)
    kernel[2](x, v, 4, 1.0, y)
    np.testing.assert_allclose(y, [0.1, ((((0.1 * 0 + 0.3) * 1) + 0.3) * 2 + 0.3) * 3 + 0.3], rtol=1e-6)
