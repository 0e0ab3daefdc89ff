"""Elementary functions of what all threads, or all of a row, share: the loop vectoriser asks for ever about these.

As a program it compiles all of them, forward and adjoint, in both widths, and prints a digest of each object.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.ir.nodes import Function
from diffkern.targets import target_named


@dk.kernel
def power(x, p, y):
    i = dk.tid()
    y[i] = x[i] * dk.pow(p[0], p[1])


@dk.kernel
def damped(x, p, y):
    i = dk.tid()
    y[i] = x[i] * dk.exp(-p[0] * dk.sin(p[1]))


@dk.kernel
def nested(x, p, y):
    i = dk.tid()
    y[i] = x[i] * dk.sin(dk.exp(p[0]))


@dk.kernel
def power_of_exp(x, p, y):
    i = dk.tid()
    y[i] = x[i] * dk.pow(dk.exp(p[0]), p[1])


@dk.kernel
def thrice(x, p, y):
    i = dk.tid()
    y[i] = x[i] * dk.sin(dk.cos(dk.sin(p[0])))


@dk.kernel
def repeated(x, p, y):
    i = dk.tid()
    a = p[0]
    for _ in range(4):
        a = dk.sin(a) * dk.cos(a) + dk.exp(-a * a)
    y[i] = x[i] * a


@dk.kernel
def guarded(x, p, y):
    i = dk.tid()
    if x[i] > 0.0:
        y[i] = x[i] * dk.pow(dk.exp(p[0]), p[1])


@dk.kernel
def in_a_loop(x, p, y):
    i = dk.tid()
    for j in range(3):
        y[i] = y[i] + x[j] * dk.pow(dk.exp(p[0]), p[1])


@dk.kernel
def from_a_written_array(x, p, y):
    i = dk.tid()
    y[i + 1] = x[i] * dk.pow(dk.exp(y[0]), p[1])


@dk.kernel
def squares(x, p, y):
    i = dk.tid()
    if x[i] > 0.0:
        a = p[1]
        for _ in range(60):
            a = a * a - 0.5 * a
        y[i] = x[i] * a


@dk.kernel
def same_choice(x, p, y):
    i = dk.tid()
    y[i] = x[i] * dk.log(dk.asinh(dk.where(x[i] > x[i], p[0], p[0])))


@dk.kernel
def rows(x, p, y):
    i, j = dk.tid()
    y[i, j] = dk.sin(dk.exp(x[i, 0])) + p[j]


@dk.kernel
def rows_and_all(x, p, y):
    i, j = dk.tid()
    a = p[i]
    for _ in range(3):
        a = dk.sin(a) * dk.cos(p[0]) + dk.exp(-a * a)
    y[i, j] = x[i, j] * a


@dk.kernel
def own(x, p, y):
    i = dk.tid()
    y[i] = x[i] * dk.sin(dk.exp(p[i]))


@dk.kernel
def straight(x, p, y):
    i = dk.tid()
    y[i] = x[i] * p[0] + p[1]


LINES = (
    power,
    damped,
    nested,
    power_of_exp,
    thrice,
    repeated,
    guarded,
    in_a_loop,
    from_a_written_array,
    squares,
    same_choice,
)
GRIDS = (rows, rows_and_all)
PLAIN = (own, straight)


def arguments(kernel: dk.Kernel, dtype: str, count: int = 20) -> list[np.ndarray]:
    """Arrays for ``count`` threads, or for rows of so many."""
    shape = (5, count) if kernel in GRIDS else (count + 1,)
    random = np.random.default_rng(7)
    return [random.uniform(-1, 1, s).astype(dtype) for s in (shape, (count + 1,), shape)]


def functions(kernel: dk.Kernel, dtype: str) -> Iterator[Function]:
    """The forward, and the adjoint of a kernel that has one."""
    types = kernel.argument_types(*arguments(kernel, dtype))
    yield Compilation(kernel.func, types).forward
    if kernel is not from_a_written_array:
        yield Compilation(kernel.func, types, Variant(active=frozenset({0, 1, 2}))).adjoint.fn


def main() -> None:
    for kernel in (*LINES, *GRIDS, *PLAIN):
        for dtype in ("float32", "float64"):
            for fn in functions(kernel, dtype):
                code = target_named().compile(fn, "k").code
                print(kernel.name, dtype, fn.name, hashlib.sha256(code).hexdigest())


if __name__ == "__main__":
    main()
