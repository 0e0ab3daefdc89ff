"""Kernels that only the GPU benchmarks need, written once for both libraries; see :mod:`kernels`."""
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


def gemm(w: Any, dtype: str, tile: tuple[int, int, int], precision: str) -> Any:
    """Return a matrix product by tiles of one library: one block of threads for each tile of the result.

    `tile` is its rows, its columns, and how much of the inner axis a step takes.
    """
    rows, columns, inner = (w.constant(n) for n in tile)
    element = getattr(w, dtype)

    if precision == "tf32":

        @w.kernel(enable_backward=False)
        def gemm_tf32(
            a: w.array2d(dtype=element), b: w.array2d(dtype=element), c: w.array2d(dtype=w.float32), steps: int
        ):
            i, j = w.tid()
            total = w.tile_zeros(shape=(rows, columns), dtype=w.float32)
            for k in range(steps):
                x = w.tile_load(a, shape=(rows, inner), offset=(i * rows, k * inner), storage="shared")
                y = w.tile_load(b, shape=(inner, columns), offset=(k * inner, j * columns), storage="shared")
                w.tile_matmul(x, y, total, precision="tf32")
            w.tile_store(c, total, offset=(i * rows, j * columns))

        return gemm_tf32

    @w.kernel(enable_backward=False)
    def gemm_default(
        a: w.array2d(dtype=element), b: w.array2d(dtype=element), c: w.array2d(dtype=w.float32), steps: int
    ):
        i, j = w.tid()
        total = w.tile_zeros(shape=(rows, columns), dtype=w.float32)
        for k in range(steps):
            x = w.tile_load(a, shape=(rows, inner), offset=(i * rows, k * inner), storage="shared")
            y = w.tile_load(b, shape=(inner, columns), offset=(k * inner, j * columns), storage="shared")
            w.tile_matmul(x, y, total)
        w.tile_store(c, total, offset=(i * rows, j * columns))

    return gemm_default
