"""The determinant by expansion by minors, and its gradient.

A func expands along the first of the rows that are left, and calls that of a row less for each column that is left; the
set of columns is the bits of an integer. A thread has the minor of two columns of the first two rows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import diffkern as dk
from benchmarks.outside.gradbench.protocol import Given, Program

REAL = dk.float64


@cache
def minor(size: int) -> Any:
    """The func for a number of rows and columns."""
    if size == 1:

        @dk.func
        def only(a: dk.array2d[REAL], columns: int):
            return a[a.shape[0] - 1, dk.bit_count(columns - 1)]

        return only
    smaller = minor(size - 1)

    @dk.func
    def expand(a: dk.array2d[REAL], columns: int):
        total, sign, left = REAL(0.0), REAL(1.0), columns
        for _ in range(size):
            column = left & -left
            total += sign * a[a.shape[0] - size, dk.bit_count(column - 1)] * smaller(a, columns - column)
            left = left - column
            sign = -sign
        return total

    return expand


@cache
def kernel(size: int) -> Any:
    """The kernel for a matrix with a number of rows and columns; a thread has one column of the first row."""
    smaller = minor(size - 1)

    @dk.kernel
    def determinant(a: dk.array2d[REAL], value: dk.array[REAL]):
        j = dk.tid()
        sign = REAL(1.0) if j % 2 == 0 else REAL(-1.0)
        dk.atomic_add(value, 0, sign * a[0, j] * smaller(a, (1 << size) - 1 - (1 << j)))

    return determinant


def _record(given: Given):
    size = given["ell"]
    a = dk.array(np.array(given["A"]).reshape(size, size), dtype=REAL, requires_grad=True)
    value = dk.zeros(1, dtype=REAL, requires_grad=True)
    with dk.record() as forward:
        value.zero_()
        dk.launch(kernel(size), size, [a], [value])
    return a, value, forward


def primal(given: Given) -> Program:
    """The determinant."""
    _, value, forward = _record(given)
    return Program(forward.replay, lambda: float(value.numpy()[0]))


def gradient(given: Given) -> Program:
    """Its gradient by the matrix."""
    a, value, forward = _record(given)
    return Program(forward.adjoint(value).replay, lambda: a.grad.numpy().ravel().tolist())


FUNCTIONS = {"primal": primal, "gradient": gradient}
