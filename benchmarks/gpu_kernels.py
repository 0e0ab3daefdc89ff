"""Kernels that only the GPU benchmark needs, written once for both libraries; see :mod:`kernels`."""
# mypy: disable-error-code="valid-type, no-untyped-def, name-defined, misc, untyped-decorator"

from types import SimpleNamespace
from typing import Any


def make(w: Any) -> SimpleNamespace:
    """Return the kernels of one library."""

    @w.kernel
    def laplacian(x: w.array(dtype=w.vec3), edge: w.array2d(dtype=int), force: w.array(dtype=w.vec3)):
        e = w.tid()
        a = edge[e, 0]
        b = edge[e, 1]
        d = x[b] - x[a]
        w.atomic_add(force, a, d)
        w.atomic_sub(force, b, d)

    return SimpleNamespace(laplacian=laplacian)
