"""The kernels of ``remembered_programs``, by the type of their numbers.

The annotations are evaluated where a kernel is defined (no ``from __future__ import annotations`` here).
"""
# mypy: disable-error-code="valid-type, no-untyped-def, name-defined, misc, untyped-decorator"

from typing import Any

import diffkern as dk

__all__ = ["LIKELY", "make"]

LIKELY = (6, 6, 4, 5, 4, 4, 6, 5, 3, 3, 3, 4, 4, 2)
"""How likely each kernel is."""


def make(F: Any) -> tuple[tuple[Any, str, str], ...]:
    """Return the kernels, each with its inputs and outputs: arrays, losses, indices, counters, numbers."""
    D1, I1 = dk.array(dtype=F), dk.array(dtype=dk.int32)

    @dk.kernel
    def summed(a: D1, s: F, loss: D1):
        i = dk.tid()
        dk.atomic_add(loss, 0, s * a[i] * a[i])

    @dk.kernel
    def summed_plainly(a: D1, b: D1, s: F, loss: D1):
        i = dk.tid()
        loss[0] += s * a[i] * b[i]

    @dk.kernel(deterministic=True)
    def summed_in_order(a: D1, s: F, loss: D1):
        i = dk.tid()
        dk.atomic_add(loss, 0, s * a[i])

    @dk.kernel
    def increased(a: D1, s: F, y: D1):
        i = dk.tid()
        y[i] += s * a[i] * a[i]

    @dk.kernel
    def scaled(s: F, y: D1):
        i = dk.tid()
        y[i] = s * y[i]

    @dk.kernel
    def squared(y: D1):
        i = dk.tid()
        y[i] = y[i] * y[i]

    @dk.kernel
    def product(a: D1, b: D1, s: F, y: D1):
        i = dk.tid()
        y[i] = s * a[i] * b[i]

    @dk.kernel
    def scattered(a: D1, at: I1, s: F, y: D1):
        i = dk.tid()
        dk.atomic_add(y, at[i], s * a[i] * a[i])

    @dk.kernel
    def gathered(a: D1, b: D1, at: I1, y: D1):
        i = dk.tid()
        y[i] = a[at[i]] * b[i]

    @dk.kernel
    def weighted(a: D1, w: D1, y: D1):
        i = dk.tid()
        y[i] = a[i] * w[0]

    @dk.kernel
    def neighbours(a: D1, y: D1):
        i = dk.tid()
        y[i] = a[i] * a[dk.max(i - 1, 0)]

    @dk.kernel
    def largest(a: D1, loss: D1):
        i = dk.tid()
        dk.atomic_max(loss, 0, a[i])

    @dk.kernel
    def both(a: D1, y: D1, loss: D1):
        i = dk.tid()
        y[i] = a[i] + a[i]
        dk.atomic_add(loss, 0, a[i])

    @dk.kernel
    def counted(a: D1, n: I1):
        i = dk.tid()
        if a[i] > F(0):
            dk.atomic_add(n, 0, 1)

    return (
        (summed, "as", "l"), (summed_plainly, "aas", "l"), (summed_in_order, "as", "l"), (increased, "as", "a"),
        (scaled, "s", "a"), (squared, "", "a"), (product, "aas", "a"), (scattered, "ais", "a"), (gathered, "aai", "a"),
        (weighted, "al", "a"), (neighbours, "a", "a"), (largest, "a", "l"), (both, "a", "al"), (counted, "a", "n"),
    )  # fmt: skip
