"""Derivatives of functions in sequences: each replay begins anew, whatever the one before has left in helper arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from tests.e2e.test_gradients_of_gradients import add_cubes, in_place

F64 = dk.float64
N = 4
POINTS = (
    (np.array([0.3, -0.7, 1.1, 0.5]), np.array([1.2, 0.4, -0.6, 0.9])),
    (np.array([0.2, 0.4, -0.3, 0.8]), np.array([0.7, 1.4, 0.6, -0.9])),
)


@dk.kernel
def add_squares(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    dk.atomic_add(y, i, x[i] * x[i])


@dk.kernel
def cube_every_other(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    if i % 2 == 0:
        y[i] = x[i] * x[i] * x[i]


def doubles(values: Any) -> Any:
    return dk.array(np.asarray(values, np.float64), dtype=F64)


def sums(x: Any, w: Any, y: Any, s: Any) -> None:
    y.zero_()
    s.zero_()
    add_squares[N](x, y)
    add_squares[N](w, y)
    add_cubes[N](y, s)


def parts(x: Any, w: Any, y: Any, s: Any) -> None:
    y.fill_(0.5)
    s.zero_()
    cube_every_other[N](x, y)
    in_place[N](y, w)
    add_cubes[N](y, s)


def copies(x: Any, w: Any, y: Any, s: Any) -> None:
    s.zero_()
    y.assign(x)
    y[1:3] = w[0:2]
    z = dk.zeros(N, dtype=F64)
    z.assign(y[::-1])
    add_squares[N](z, y)
    add_cubes[N](y, s)


V, W = doubles([1.0, -2.0, 0.5, 0.3]), doubles([0.1, 0.2, 0.3, 0.4])
Results = Callable[[Any, Any], tuple[Any, Any]]
DERIVATIVES: dict[str, Callable[[Results, Any, Any], Sequence[Any]]] = {
    "grad": lambda f, x, w: dk.grad(lambda a, b: f(a, b)[1])(x, w),
    "vjp of a whole and a part": lambda f, x, w: dk.vjp(lambda a, b: _parts(*f(a, b)), (x, w), (V, W[:2], V[:1]))[1],
    "vjp of parts": lambda f, x, w: dk.vjp(lambda a, b: _parts(*f(a, b))[::-1], (x, w), (V[:1], W[:2], V))[1],
    "jvp": lambda f, x, w: dk.jvp(f, (x, w), (V, W))[1],
    "hvp": lambda f, x, w: dk.hvp(lambda a, b: f(a, b)[1], (x, w), (V, W)),
    "gradient of a gradient": lambda f, x, w: dk.vjp(lambda a, b: dk.grad(lambda c, d: f(c, d)[1])(a, b)[0], (x, w), V)[
        1
    ],
}


def _parts(y: Any, s: Any) -> tuple[Any, Any, Any]:
    return y, y[1:3], s


@pytest.mark.parametrize("derivative", DERIVATIVES.values(), ids=DERIVATIVES)
@pytest.mark.parametrize("compute", [sums, parts, copies])
def test_replays_begin_anew(compute: Callable[..., None], derivative: Callable[..., Sequence[Any]]) -> None:
    x, w, y, s = (doubles(values) for values in (*POINTS[0], np.zeros(N), np.zeros(1)))

    def function(a: Any, b: Any) -> tuple[Any, Any]:
        compute(a, b, y, s)
        return y, s

    def at(point: tuple[Any, Any]) -> None:
        x.assign(point[0])
        w.assign(point[1])

    expected = []
    for point in POINTS:
        at(point)
        expected.append([result.numpy().copy() for result in derivative(function, x, w)])
    at(POINTS[0])
    with dk.record() as sequence:
        found = derivative(function, x, w)
    for k in (0, 1, 1, 0):
        at(POINTS[k])
        sequence.replay()
        for own, wanted in zip(found, expected[k], strict=True):
            np.testing.assert_allclose(own.numpy(), wanted, rtol=1e-12)
