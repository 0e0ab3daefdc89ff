"""The kernels with 3 and 8 arrays whose launches are compared, written once for both libraries.

In: a module with Warp's kernel language. Out: its kernels by the number of arrays. The annotations are evaluated where
a kernel is defined (no ``from __future__ import annotations`` here): they name the library through the parameter.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, name-defined, misc, untyped-decorator"

from typing import Any


def make(w: Any) -> dict[int, Any]:
    """Return the kernels of one library."""

    @w.kernel
    def arrays_3(a: w.array(dtype=float), b: w.array(dtype=float), s: float, y: w.array(dtype=float)):
        i = w.tid()
        y[i] = s * a[i] * b[i]

    @w.kernel
    def arrays_8(
        a: w.array(dtype=float), b: w.array(dtype=float), c: w.array(dtype=float), d: w.array(dtype=float),
        e: w.array(dtype=float), f: w.array(dtype=float), g: w.array(dtype=float), s: float, y: w.array(dtype=float),
    ):  # fmt: skip
        i = w.tid()
        y[i] = s * (a[i] * b[i] + c[i] * d[i] + e[i] * f[i] + g[i])

    return {3: arrays_3, 8: arrays_8}


def make_sums(w: Any) -> dict[int, Any]:
    """Return the kernels of one library that sum the same into a loss."""

    @w.kernel
    def sum_3(a: w.array(dtype=float), b: w.array(dtype=float), s: float, loss: w.array(dtype=float)):
        i = w.tid()
        w.atomic_add(loss, 0, s * a[i] * b[i])

    @w.kernel
    def sum_8(
        a: w.array(dtype=float), b: w.array(dtype=float), c: w.array(dtype=float), d: w.array(dtype=float),
        e: w.array(dtype=float), f: w.array(dtype=float), g: w.array(dtype=float), s: float, loss: w.array(dtype=float),
    ):  # fmt: skip
        i = w.tid()
        w.atomic_add(loss, 0, s * (a[i] * b[i] + c[i] * d[i] + e[i] * f[i] + g[i]))

    return {3: sum_3, 8: sum_8}
