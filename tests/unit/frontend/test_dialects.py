"""Where dialects differ: quotients, remainders, NaN and ties in extrema, domains, quotients of literals by 0."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.frontend.syntax.canonical import fingerprint
from diffkern.lang.dialects import NATIVE, WARP, bind_dialect, dialect_of
from diffkern.testing import run_in_python

PAIRS = [
    (7, 2),
    (-7, 2),
    (7, -2),
    (-7, -2),
    (6, 3),
    (-6, 3),
    (0, 5),
    (5, 0),
    (-5, 0),
    (7, -1),
    (-7, -1),
    (-(2**31), -1),
]


def integers(a: dk.array(dtype=int), b: dk.array(dtype=int), q: dk.array(dtype=float), r: dk.array(dtype=int)):
    i = dk.tid()
    q[i] = a[i] / b[i]
    r[i] = a[i] % b[i]


def remainders(x: dk.array(dtype=float), y: dk.array(dtype=float), z: dk.array(dtype=float)):
    i = dk.tid()
    z[i] = x[i] % y[i]


def extrema(x: dk.array(dtype=float), y: dk.array(dtype=float), z: dk.array2d(dtype=float)):
    i = dk.tid()
    z[i, 0] = dk.min(x[i], y[i])
    z[i, 1] = dk.max(x[i], y[i])
    z[i, 2] = dk.clamp(x[i], y[i], y[i] + 1.0)


def run(kernel: Any, *inputs: Any, outputs: list[Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The outputs, and the gradients of the inputs for cotangents of 1."""
    tape = dk.Tape()
    with tape:
        dk.launch(kernel, len(inputs[0]), inputs=list(inputs), outputs=outputs)
    for out in outputs:
        if out.requires_grad:
            out.grad.fill_(1.0)
    tape.backward()
    return [o.numpy() for o in outputs], [x.grad.numpy() for x in inputs if x.requires_grad]


SIGNED = [dk.int8, dk.int16, dk.int32, dk.int64]


@pytest.mark.parametrize("dtype", SIGNED, ids=lambda t: t.__name__)
def test_quotients_by_minus_one(dtype: Any) -> None:
    """The processor's division of the least integer by -1 overflows; of all others it is the negative."""
    least = np.iinfo(dtype.__name__).min
    x = np.array([0, 1, -1, 7, -7, 100, -100, least + 1, least], dtype.__name__)

    @wp.kernel
    def k(a, b, q):
        i = wp.tid()
        q[i, 0] = a[i] / b[i]
        q[i, 1] = a[i] // b[i]
        q[i, 2] = a[i] % b[i]

    q = wp.zeros((len(x), 3), dtype=dtype)
    wp.launch(k, len(x), inputs=[wp.array(x, dtype=dtype), wp.array(np.full_like(x, -1), dtype=dtype)], outputs=[q])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(q.numpy(), np.stack([-x, -x, 0 * x], axis=1))


def special(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64), z: dk.array2d(dtype=dk.float64)):
    i = dk.tid()
    a = x[i]
    b = y[i]
    z[0, i] = dk.acos(a)
    z[1, i] = dk.asin(a)
    z[2, i] = dk.min(a, b)
    z[3, i] = dk.max(a, b)
    z[4, i] = dk.clamp(a, b, dk.float64(1.0))
    z[5, i] = a // b
    z[6, i] = dk.min(dk.vec2d(a, b))


INF, NAN, PI = math.inf, math.nan, math.pi
# a, b; of each row the value, and the derivatives with respect to a and b: what warp-lang 1.19 computes
OF_WARP = [
    ((2.0, 2.0), [(0, 0, 0), (PI / 2, 0, 0), (2, 0, 1), (2, 0, 1), (1, 0, 0), (1, 0, 0), (2, 1, 0)]),
    ((-1.5, 1.0),
     [(PI, 0, 0), (-PI / 2, 0, 0), (-1.5, 1, 0), (1, 0, 1), (1, 0, 0), (-2, 0, 0), (-1.5, 1, 0)]),
    ((1.0, -INF), [(0, 0, 0), (PI / 2, 0, 0), (-INF, 0, 1), (1, 1, 0), (1, 0, 0), (-0.0, 0, 0), (-INF, 0, 1)]),
    ((-1.0, -1.0), [(PI, 0, 0), (-PI / 2, 0, 0), (-1, 0, 1), (-1, 0, 1), (-1, 1, 0), (1, 0, 0), (-1, 1, 0)]),
    ((NAN, 0.5),
     [(PI, 0, 0), (-PI / 2, 0, 0), (0.5, 0, 1), (0.5, 0, 1), (0.5, 0, 1), (NAN, 0, 0), (0.5, 0, 1)]),
    ((0.5, NAN), [(PI / 3, -2 / 3**0.5, 0), (PI / 6, 2 / 3**0.5, 0), (0.5, 1, 0), (0.5, 1, 0), (0.5, 1, 0), (NAN, 0, 0),
                  (0.5, 1, 0)]),
]  # fmt: skip


def test_special_points_in_the_dialect_of_warp() -> None:
    kernel, wrong = wp.kernel(special), []
    for (a, b), right in OF_WARP:
        for row, expected in enumerate(right):
            x, y = (dk.array([v], dtype=dk.float64, requires_grad=True) for v in (a, b))
            z = dk.zeros((7, 1), dtype=dk.float64, requires_grad=True)
            with dk.Tape() as tape:
                dk.launch(kernel, 1, inputs=[x, y], outputs=[z])
            seed = np.zeros((7, 1))
            seed[row] = 1.0
            tape.backward(grads={z: dk.array(seed, dtype=dk.float64)})
            found = (z.numpy()[row, 0], x.grad.numpy()[0], y.grad.numpy()[0])
            if not np.allclose(found, expected, 1e-12, 1e-15, equal_nan=True):
                wrong.append(f"row {row} at {a}, {b}: {found} instead of {expected}")
    assert not wrong, "\n".join(wrong)


def test_special_points_in_the_native_dialect() -> None:
    x, y = (dk.array([v], dtype=dk.float64, requires_grad=True) for v in (2.0, 2.0))
    z = dk.zeros((7, 1), dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(dk.kernel(special), 1, inputs=[x, y], outputs=[z])
    tape.backward(grads={z: dk.array([[0.0], [0.0], [1.0], [1.0], [0.0], [0.0], [0.0]], dtype=dk.float64)})
    np.testing.assert_array_equal(z.numpy()[:, 0], [NAN, NAN, 2.0, 2.0, 1.0, 1.0, 2.0])
    assert (float(x.grad.numpy()[0]), float(y.grad.numpy()[0])) == (2.0, 0.0)


def floats(*values: float) -> Any:
    return dk.array(list(values), dtype=float, requires_grad=True)


@pytest.mark.parametrize(("make", "whole"), [(dk.kernel, False), (wp.kernel, True)], ids=["native", "warp"])
def test_quotients_and_remainders_of_integers(make: Callable[..., Any], whole: bool) -> None:
    a, b = (dk.array([p[k] for p in PAIRS], dtype=int) for k in (0, 1))
    q, r = dk.zeros(len(PAIRS), dtype=float), dk.zeros(len(PAIRS), dtype=int)
    dk.launch(make(integers), len(PAIRS), inputs=[a, b, q, r])
    with np.errstate(all="ignore"):
        quotients = np.float32([p[0] for p in PAIRS]) / np.float32([p[1] for p in PAIRS])
    if whole:
        quotients = np.where(np.isfinite(quotients), np.trunc(quotients), 0)
        quotients[-1] = -(2.0**31)  # wraps around
    rests = [0 if y == 0 else int(math.fmod(x, y)) if whole else x % y for x, y in PAIRS]
    assert np.array_equal(q.numpy(), quotients)
    assert r.numpy().tolist() == rests


@pytest.mark.parametrize(("make", "c"), [(dk.kernel, False), (wp.kernel, True)], ids=["native", "warp"])
def test_remainders_of_floats(make: Callable[..., Any], c: bool) -> None:
    x, y = floats(-7.5, 7.5, -7.5, 6.0, 0.0), floats(2.0, -2.0, -2.0, 2.0, 3.0)
    (z,), (dx, dy) = run(make(remainders), x, y, outputs=[floats(*[0.0] * 5)])
    ratio = x.numpy() / y.numpy()
    assert np.array_equal(z, np.fmod(x.numpy(), y.numpy()) if c else np.remainder(x.numpy(), y.numpy()))
    assert np.array_equal(dx, np.ones(5))
    assert np.array_equal(dy, -(np.trunc(ratio) if c else np.floor(ratio)))


@pytest.mark.parametrize(("make", "skips"), [(dk.kernel, False), (wp.kernel, True)], ids=["native", "warp"])
def test_nan_in_extrema(make: Callable[..., Any], skips: bool) -> None:
    x, y = floats(np.nan, 1.0, np.nan, 2.0), floats(3.0, np.nan, np.nan, 2.0)
    out = dk.zeros((4, 3), dtype=float, requires_grad=True)
    (z,), (dx, dy) = run(make(extrema), x, y, outputs=[out])
    if not skips:
        assert np.array_equal(np.isnan(z[:, :2]), np.isnan([[np.nan] * 2] * 3 + [[2.0] * 2]))
        return
    assert np.array_equal(z[:, :2], [[3.0, 3.0], [1.0, 1.0], [np.nan, np.nan], [2.0, 2.0]], equal_nan=True)
    assert (dx[0], dy[0]) == (0.0, 3.0)  # 1 for each to the one that was taken
    assert (dx[1], dy[1]) == (3.0, 0.0)


@pytest.mark.parametrize(("make", "skips"), [(dk.kernel, False), (wp.kernel, True)], ids=["native", "warp"])
def test_nan_in_atomic_extrema(make: Callable[..., Any], skips: bool) -> None:
    def least(x: dk.array(dtype=float), z: dk.array(dtype=float), w: dk.array(dtype=dk.vec2)):
        dk.atomic_min(z, 0, x[dk.tid()])
        dk.atomic_max(z, 1, x[dk.tid()])
        dk.atomic_min(w, 0, dk.vec2(x[dk.tid()], 1.0))
        dk.atomic_max(z, 2, x[dk.tid()])
        dk.atomic_min(z, 3, x[1])
        mine = dk.zeros(1, dtype=float)
        mine[0] = x[1]
        dk.atomic_min(mine, 0, x[0])
        z[4] = mine[0]

    x, z = dk.array([2.0, np.nan, 3.0], dtype=float), dk.array([9.0, -9.0, np.nan, np.nan, 0.0], dtype=float)
    w = dk.array([[9.0, 9.0]], dtype=dk.vec2)
    kernel = make(least)
    again = [x, dk.clone(z), dk.clone(w)]
    dk.launch(kernel, 3, inputs=[x, z, w])
    found = [*z.numpy(), *w.numpy()[0]]
    nan = np.nan
    wanted = [2.0, 3.0, 3.0, nan, 2.0, 2.0, 1.0] if skips else [nan, nan, nan, nan, nan, nan, 1.0]
    assert np.array_equal(found, wanted, equal_nan=True)
    in_python = run_in_python(kernel, 3, again)
    assert np.array_equal([*in_python["z"], *in_python["w"][0]], wanted, equal_nan=True)


@pytest.mark.parametrize(("make", "narrow"), [(dk.kernel, False), (wp.kernel, True)], ids=["native", "warp"])
def test_elements_of_float16_are_rounded_where_they_are_named(make: Callable[..., Any], narrow: bool) -> None:
    def square(x: dk.array(dtype=dk.float16), z: dk.array(dtype=float)):
        i = dk.tid()
        y = x[i] * x[i]
        z[i] = float(y)

    values = np.float16([0.3, 1.7, -2.9])
    z = dk.zeros(3, dtype=float)
    dk.launch(make(square), 3, inputs=[dk.array(values, dtype=dk.float16), z])
    squares = np.float32(values) ** 2
    assert np.array_equal(z.numpy(), np.float32(np.float16(squares)) if narrow else squares)


def test_the_quotient_of_two_integers_as_an_integer_is_exact() -> None:
    @dk.kernel
    def exact(a: dk.array(dtype=int), b: dk.array(dtype=int), q: dk.array(dtype=int)):
        i = dk.tid()
        q[i] = int(a[i] / b[i])

    a, b, q = dk.array([2**31 - 1, -7, 7], dtype=int), dk.array([1, 2, -2], dtype=int), dk.zeros(3, dtype=int)
    dk.launch(exact, 3, inputs=[a, b, q])
    assert q.numpy().tolist() == [2**31 - 1, -3, -3]


def test_literals() -> None:
    def numbers(z: dk.array(dtype=float)):
        z[0] = 7 / 2
        z[1] = -7 % 3
        z[2] = -7.5 % 2.0
        z[3] = 2.0 / 0.0
        z[4] = -1 / 0.0

    for make, expected in ((dk.kernel, [3.5, 2.0, 0.5]), (wp.kernel, [3.0, -1.0, -1.5])):
        z = dk.zeros(5, dtype=float)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dk.launch(make(numbers), 1, inputs=[z])
        assert z.numpy().tolist() == [*expected, np.inf, -np.inf]
    with pytest.warns(RuntimeWarning, match=r" / 0\.0 is -?inf"):
        dk.kernel(numbers).source()


@dk.func
def native_half(n: int):
    return float(n / 2)


@wp.func
def half_of_warp(n: int):
    return float(n / 2)


def test_a_func_is_lowered_in_its_own_dialect() -> None:
    def both(z: dk.array(dtype=float)):
        n = dk.tid() + 7
        z[0] = native_half(n)
        z[1] = half_of_warp(n)

    for make in (dk.kernel, wp.kernel):
        z = dk.zeros(2, dtype=float)
        dk.launch(make(both), 1, inputs=[z])
        assert z.numpy().tolist() == [3.5, 3.0]


def test_one_function_in_two_dialects() -> None:
    native, other = dk.kernel(integers), wp.kernel(integers)
    assert dialect_of(native.func) == NATIVE
    assert dialect_of(other.func) == WARP
    assert bind_dialect(other.func, WARP) is other.func
    assert dict(fingerprint(other.func))["dialect 0"] == b"warp"
    assert "dialect 0" not in dict(fingerprint(native.func))


def test_warps_built_ins_are_known_by_their_bare_names():
    @wp.kernel
    def bare(y: wp.array(dtype=float)):
        y[0] = length(vec3(3.0, 4.0, 0.0))  # noqa: F821

    y = dk.zeros(1)
    dk.launch(bare, 1, [y])
    assert y.numpy()[0] == 5.0

    @dk.kernel
    def native(y: dk.array(dtype=float)):
        y[0] = length(dk.vec3(3.0, 4.0, 0.0))  # noqa: F821

    with pytest.raises(dk.KernelTypeError, match="the name 'length' is not defined"):
        dk.launch(native, 1, [y])
