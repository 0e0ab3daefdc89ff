"""Kernels whose adjoints accumulate in each of the ways there are, and arguments for launches of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import diffkern as dk

F1, F2, F3 = (dk.array(dtype=float, ndim=n) for n in (1, 2, 3))
I1, I2 = (dk.array(dtype=int, ndim=n) for n in (1, 2))
V1 = dk.array(dtype=dk.vec3)
H1 = dk.array(dtype=dk.float16)
D1 = dk.array(dtype=dk.float64)

ONE_AXIS = ((200,), (5000,), (30_000,), (1_000_000,))
LONG = ((200,), (2000,), (5000,), (30_000,))
TWO_AXES = ((20, 20), (300, 300), (1000, 1000), (2, 400_000))


class Case(NamedTuple):
    """A kernel with what makes its arguments for launch dimensions."""

    function: Callable[..., None]
    arguments: Callable[..., list[Any]]
    dims: tuple[tuple[int, ...], ...] = ONE_AXIS
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


CASES: dict[str, Case] = {}


def floats(*shape: int, dtype: Any = float) -> Any:
    return dk.zeros(shape, dtype=dtype, requires_grad=True)


def indices(*shape: int) -> Any:
    return dk.zeros(shape, dtype=int)


def case(arguments: Callable[..., list[Any]], dims: Any = ONE_AXIS, **options: Any) -> Callable[[Any], Any]:
    """Collect a kernel."""

    def collect(function: Any) -> Any:
        CASES[function.__name__] = Case(function, arguments, dims, options)
        return function

    return collect


@case(lambda n, *_: [floats(n), floats(n)])
def elementwise(x: F1, y: F1):
    i = dk.tid()
    y[i] = x[i] * x[i]


@case(lambda n, *_: [floats(n), floats(n)])
def expensive(x: F1, y: F1):
    i = dk.tid()
    s = x[i]
    for _ in range(100):
        s = dk.sin(s) * x[i]
    y[i] = s


@case(lambda n, *_: [floats(n)])
def in_place(x: F1):
    i = dk.tid()
    x[i] = x[i] * x[i]


@case(lambda n, *_: [floats(n), floats(1)])
def sum_of_squares(x: F1, s: F1):
    i = dk.tid()
    dk.atomic_add(s, 0, x[i] * x[i])


@case(lambda n, *_: [floats(n), floats(1), floats(n)])
def scaled_by_element(x: F1, a: F1, y: F1):
    i = dk.tid()
    y[i] = x[i] * a[0]


@case(lambda n, *_: [floats(n), 2.0, floats(n)])
def scaled_by_value(x: F1, a: float, y: F1):
    i = dk.tid()
    y[i] = x[i] * a


@case(lambda n, *_: [floats(n), floats(n)])
def stencil(x: F1, y: F1):
    i = dk.tid()
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i - 1] * x[i + 1]


@case(lambda n, *_: [floats(n), floats(n)])
def wrapped_stencil(x: F1, y: F1):
    i = dk.tid()
    y[i] = x[i] * x[(i + 1) % x.shape[0]]


@case(lambda n, *_: [floats(n + 200), floats(n)])
def wide_stencil(x: F1, y: F1):
    i = dk.tid()
    y[i] = x[i] * x[i + 199]


@case(lambda n, m: [floats(n, m), floats(n, m)], TWO_AXES)
def heat(x: F2, y: F2):
    i, j = dk.tid()
    if i > 0 and j > 0 and i < x.shape[0] - 1 and j < x.shape[1] - 1:
        y[i, j] = x[i - 1, j] * x[i + 1, j] + x[i, j - 1] * x[i, j + 1]


@case(lambda n, m: [floats(n, m), floats(n)], TWO_AXES)
def rows(x: F2, s: F1):
    i, j = dk.tid()
    dk.atomic_add(s, i, x[i, j] * x[i, j])


@case(lambda n, m: [floats(m), floats(n, m)], TWO_AXES)
def broadcast(x: F1, y: F2):
    i, j = dk.tid()
    y[i, j] = x[j] * x[j]


@case(lambda n, m: [floats(n, m), floats(m, n)], TWO_AXES)
def transposed(x: F2, y: F2):
    i, j = dk.tid()
    y[j, i] = x[i, j] * x[i, j]


@case(lambda n, m: [floats(n, 8), floats(8, m), floats(n, m)], TWO_AXES)
def product(a: F2, b: F2, c: F2):
    i, j = dk.tid()
    s = 0.0
    for k in range(8):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@case(lambda n, *_: [floats(n), indices(n), floats(n)])
def gathered(x: F1, at: I1, y: F1):
    i = dk.tid()
    y[i] = x[at[i]] * x[at[i]]


@case(lambda n, *_: [floats(100), indices(n), floats(n)])
def gathered_of_few(x: F1, at: I1, y: F1):
    i = dk.tid()
    s = x[at[i]]
    for _ in range(20):
        s = dk.sin(s)
    y[i] = s


@case(lambda n, *_: [floats(n, dtype=dk.vec3), dk.zeros((n, 3), dtype=int), floats(n)])
def triangles(x: V1, face: I2, y: F1):
    i = dk.tid()
    a, b, c = x[face[i, 0]], x[face[i, 1]], x[face[i, 2]]
    y[i] = dk.length(dk.cross(b - a, c - a))


@case(lambda n, *_: [floats(n), indices(n), floats(n)])
def scattered(x: F1, at: I1, y: F1):
    i = dk.tid()
    dk.atomic_add(y, at[i], x[i] * x[i])


@case(lambda n, *_: [floats(n), indices(n), floats(10)])
def histogram(x: F1, at: I1, y: F1):
    i = dk.tid()
    dk.atomic_add(y, at[i] % 10, x[i] * x[i])


@case(lambda n, *_: [floats(n), floats(n), floats(n)])
def stencil_and_sum(x: F1, w: F1, y: F1):
    i = dk.tid()
    if i > 0:
        y[i] = x[i - 1] * x[i] * w[0]


@case(lambda n, *_: [floats(4, dtype=dk.float16), indices(n), floats(n, dtype=dk.float16)])
def halves(x: H1, at: I1, y: H1):
    i = dk.tid()
    y[i] = x[at[i]] * x[at[i]]


@case(lambda n, *_: [floats(4), indices(n), floats(n)], deterministic=True)
def deterministic(x: F1, at: I1, y: F1):
    i = dk.tid()
    y[i] = x[at[i]] * x[at[i]]


@case(
    lambda n, *_: [floats(min(n, 2000)), min(n, 2000), floats(n)],
    LONG,
    fast_math=True,
)
def pairs(x: F1, n: int, y: F1):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        d = x[j] - x[i]
        s += d / (d * d + 0.1)
    y[i] = s


@case(lambda n, *_: [floats(n, dtype=dk.vec3), n, floats(n, dtype=dk.vec3)], LONG, fast_math=True)
def attraction(x: V1, n: int, a: V1):
    i = dk.tid()
    total = dk.vec3(0.0, 0.0, 0.0)
    for j in range(n):
        d = x[j] - x[i]
        r = dk.sqrt(dk.dot(d, d) + 0.1)
        total += d / (r * r * r)
    a[i] = total


@case(lambda n, *_: [floats(n, 4), floats(4, 4), floats(n)])
def layer(x: F2, w: F2, y: F1):
    i = dk.tid()
    s = 0.0
    for j in range(4):
        for k in range(4):
            s += w[j, k] * x[i, k]
    y[i] = s


@case(lambda n, *_: [floats(n), floats(n)])
def greatest(x: F1, y: F1):
    i = dk.tid()
    dk.atomic_max(y, 0, x[i])


@case(lambda n, *_: [floats(n, dtype=dk.float64), indices(n), floats(n, dtype=dk.float64)])
def scattered_doubles(x: D1, at: I1, y: D1):
    i = dk.tid()
    dk.atomic_add(y, at[i], dk.exp(x[i]))


@case(lambda n, *_: [floats(2 * n), floats(n)])
def every_other(x: F1, y: F1):
    i = dk.tid()
    y[i] = x[2 * i] * x[2 * i + 1]


@case(lambda n, *_: [floats(n), floats(n)])
def reversed_elements(x: F1, y: F1):
    i = dk.tid()
    y[x.shape[0] - 1 - i] = x[i] * x[i]


@case(lambda n, *_: [floats(n), floats(n), floats(n), floats(n)])
def several_results(x: F1, a: F1, y: F1, z: F1):
    i = dk.tid()
    y[i] = x[i] * a[i]
    z[i] = dk.sin(x[i])
