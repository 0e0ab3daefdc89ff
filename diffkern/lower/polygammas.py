"""Expands digamma and polygamma functions into arithmetic.

The result is an equivalent function without these operations, which no target's library has. The expansion has neither
branches nor loops, so that it can be computed in lanes and on GPUs alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Final

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.polygamma import ROOT, cotangents, series, tail_from_root
from diffkern.ir.stages import EXPANDED
from diffkern.ir.types import FLOAT32, FLOAT64, Scalar
from diffkern.opt.fold import rounded

__all__ = ["expand_polygammas"]

_BITS: Final = {FLOAT32: 26, FLOAT64: 55}
_MAX_SINGLE: Final = 12
"""The highest order whose factors all fit into a float32."""


def expand_polygammas(fn: Function) -> Function:
    """Expand the operations in place, and return the function."""
    _expand(fn.body, {})
    return fn


def _expand(region: Region, values: dict[Value, Value]) -> None:
    ops: list[Op] = []
    for op in region.ops:
        op.operands = tuple(values.get(v, v) for v in op.operands)
        for inner in op.regions:
            _expand(inner, values)
        if op.name in EXPANDED:
            new = Region()
            values[op.result] = _polygamma(Builder(new, op.loc), op.attrs.get("order", 0), op.operands[0])
            ops += new.ops
        else:
            ops.append(op)
    region.ops = ops
    region.yields = tuple(values.get(v, v) for v in region.yields)


def _polygamma(b: Builder, order: int, x: Value) -> Value:
    t = x.type
    assert isinstance(t, Scalar)
    if t == FLOAT32 and order > _MAX_SINGLE:
        return b.cast(_polygamma(b, order, b.cast(x, FLOAT64)), FLOAT32)
    zero, one = b.const(0.0, t), b.const(1.0, t)
    above = b.one("gt", x, zero)
    # The reflection formula relates psi(x) to psi(1 - x); both sides are evaluated for a positive argument.
    positive = b.select(above, x, b.sub(one, x))
    mirrored = _above_zero(b, order, positive) if order else _digamma_above_zero(b, positive)
    # x minus the nearest integer is exact, so the periodic cotangent keeps its relative accuracy.
    rest = b.sub(x, b.one("rint", x))
    cot = _cotangent(b, rest)
    slope = _horner(b, cotangents(order), b.mul(cot, cot))
    if order % 2:
        return b.select(above, mirrored, b.neg(b.add(mirrored, slope)))
    below = b.sub(mirrored, b.mul(slope, cot))
    # A pole where the sign changes; at 0 that of the argument decides.
    pole = b.select(b.one("eq", x, zero), b.div(b.const(-1.0, t), x), b.const(math.nan, t))
    below = b.select(b.one("eq", rest, zero), pole, below)
    return b.select(above, mirrored, below)


def _cotangent(b: Builder, x: Value) -> Value:
    """Return ``cot(pi * x)`` for x between -1/2 and 1/2; near the ends, computed from the distance to them."""
    t = x.type
    assert isinstance(t, Scalar)
    size = b.one("abs", x)
    steep = b.one("le", size, b.const(0.25, t))
    angle = b.select(steep, size, b.sub(b.const(0.5, t), size))
    tangent = b.one("tan", b.mul(b.const(math.pi, t), angle))
    return b.one("copysign", b.select(steep, b.div(b.const(1.0, t), tangent), tangent), x)


def _above_zero(b: Builder, order: int, x: Value) -> Value:
    t = x.type
    assert isinstance(t, Scalar)
    found = series(order, _BITS[t])
    scale, one = b.const(found.scale, t), b.const(1.0, t)
    # The recurrence moves the argument to where the asymptotic series converges; terms are added from the smallest on.
    near = (b.add(x, b.const(float(k), t)) if k else x for k in reversed(range(found.terms)))
    total = functools.reduce(b.add, (_power(b, b.div(scale, v), order + 1) for v in near))
    w = b.add(x, b.const(float(found.terms), t))
    inverse = b.div(one, w)
    # (a_1/w + a_2/w^3 + ... + 1/2) / w
    small = b.mul(b.mul(_horner(b, found.tail, b.mul(inverse, inverse)), inverse), inverse)
    small = b.add(small, b.mul(b.const(0.5, t), inverse))
    far = b.mul(_power(b, b.mul(scale, inverse), order), b.add(b.const(1.0 / order, t), small))
    total = b.add(b.mul(far, scale), total)
    return b.mul(b.const(found.rest if order % 2 else -found.rest, t), total)


def _digamma_above_zero(b: Builder, x: Value) -> Value:
    t = x.type
    assert isinstance(t, Scalar)
    # Near its root digamma is small, so the series is expanded around the root, which is kept in two parts.
    terms, root = series(0, _BITS[t]).terms, rounded(ROOT[0], t)
    d = b.sub(b.sub(x, b.const(root, t)), b.const((ROOT[0] - root) + ROOT[1], t))
    near = (b.mul(b.div(d, b.add(x, b.const(float(k), t))), b.const(1.0 / (ROOT[0] + k), t)) for k in range(terms))
    total = functools.reduce(b.add, near)
    end, w = ROOT[0] + terms, b.add(x, b.const(float(terms), t))
    inverse = b.div(b.const(1.0, t), w)
    far = _horner(b, tail_from_root(_BITS[t]), b.mul(inverse, inverse))
    far = b.add(b.mul(b.add(inverse, b.const(1.0 / end, t)), far), b.const(0.5, t))
    far = b.mul(b.mul(b.div(d, w), b.const(1.0 / end, t)), far)
    total = b.add(total, b.add(b.one("log1p", b.mul(d, b.const(1.0 / end, t))), far))
    return b.select(b.one("isinf", x), x, total)


def _power(b: Builder, x: Value, n: int) -> Value:
    """Return ``x**n`` for n > 0, by repeated squaring."""
    if n == 1:
        return x
    half = _power(b, b.mul(x, x), n // 2)
    return b.mul(half, x) if n % 2 else half


def _horner(b: Builder, coefficients: Sequence[float], x: Value) -> Value:
    t = x.type
    assert isinstance(t, Scalar)
    total = b.const(coefficients[-1], t)
    for c in reversed(coefficients[:-1]):
        total = b.add(b.mul(total, x), b.const(c, t))
    return total
