"""Kernels whose matrix products are a library's, run on the host with a reference of the library, against the CPU.

This proves which factors are multiplied, how they lie and in what types, what the results are added to, and that
barriers stand where the first thread of a block, which multiplies, needs what others wrote, and they what it wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from grad.build import lower
from grad.build import values as case_values
from grad.corpus import CASES as CORPUS
from on_host import HostCuda

import diffkern as dk
from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.compiler.pipeline import lower_kernel
from diffkern.contracts.abi import HEADER_FORMAT
from diffkern.contracts.options import Variant
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, walk
from diffkern.lower.tiles.block import lower_tiles_for_blocks
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import _pack, as_double

M, N, K = 24, 16, 8


class OnHost:
    """A function as emitted for CUDA, all its products being the library's."""

    def __init__(self, fn: Function) -> None:
        self.types = tuple(p.type for p in fn.params)
        lowered = lower_tiles_for_blocks(clone_function(fn), 1 << 18, lambda product: True)
        assert not any(op.name == "buffer_matmul" for op in walk(lowered.body))
        self.code = HostCuda(lowered, grid=2, threads=3, arch="sm_80")

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        header = struct.pack(HEADER_FORMAT, 0, *(*dim, 1, 1, 1)[:4], 0, 0)
        self.code.launch(header + b"".join(_pack(t, a) for t, a in zip(self.types, args, strict=True)))


def plain(dtype: Any, result: Any) -> Callable[..., None]:
    """Blocks of a product, summed over a loop with a trip count known at run time."""

    def kernel(a, b, c, n):
        i, j = dk.tid()
        total = dk.tile_zeros(shape=(M, N), dtype=result)
        for k in range(n):
            x = dk.tile_load(a, shape=(M, K), offset=(i * M, k * K))
            y = dk.tile_load(b, shape=(K, N), offset=(k * K, j * N))
            dk.tile_matmul(x, y, total)
        dk.tile_store(c, total, offset=(i * M, j * N))

    return kernel


def transposed(dtype: Any, result: Any) -> Callable[..., None]:
    """Both factors lie column by column; the result is stored as it is, and multiplied again."""

    def kernel(a, b, c):
        i, j = dk.tid()
        x = dk.tile_load(a, shape=(K, M), offset=(0, i * M))
        y = dk.tile_load(b, shape=(N, K), offset=(j * N, 0))
        z = dk.tile_astype(dk.tile_transpose(x), dtype=dtype) @ dk.tile_transpose(y)
        w = dk.tile_transpose(z) @ (z + z)
        v = z * z
        dk.tile_matmul(z, w, v)
        dk.tile_store(c, dk.tile_astype(v, dtype=result), offset=(i * M, j * N))

    return kernel


def rounded(dtype: Any, result: Any) -> Callable[..., None]:
    """A product that may lose bits, scaled and added."""

    def kernel(a, b, c):
        i, j = dk.tid()
        x = dk.tile_load(a, shape=(M, K), offset=(i * M, 0))
        y = dk.tile_load(b, shape=(K, N), offset=(0, j * N))
        out = dk.tile_load(c, shape=(M, N), offset=(i * M, j * N))
        dk.tile_matmul(x, y, out, alpha=0.5, beta=-2.0, precision="tf32")
        dk.tile_store(c, out, offset=(i * M, j * N))

    return kernel


CASES = [
    (plain, dk.float16, dk.float32),
    (plain, dk.bfloat16, dk.float32),
    (transposed, dk.float16, dk.float16),
    (plain, dk.float32, dk.float64),
    (rounded, dk.float32, dk.float32),
]
BITS = {dk.float64: 1e-12, dk.float32: 2e-5, dk.float16: 3e-3, dk.bfloat16: 2e-2}


def values(make: Any, dtype: Any) -> list[Any]:
    rng = np.random.default_rng(5)
    shapes = [(2 * M, 3 * K), (3 * K, 2 * N)] if make is plain else [(2 * M, K), (K, 2 * N)]
    if make is transposed:
        shapes = [shape[::-1] for shape in shapes]
    factors = [rng.uniform(-1, 1, s) for s in shapes]
    if dtype is dk.bfloat16:  # its bits
        factors = [(x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for x in factors]
    return [*factors, rng.uniform(-1, 1, (2 * M, 2 * N)), *([3] if make is plain else [])]


def on_host(vjp: Vjp) -> Vjp:
    """The same two programs as emitted for CUDA."""

    def adjoint(fn: Function) -> OnHost:
        copy = clone_function(fn)
        finalize_updates(copy, copy.params[len(copy.params) - len(vjp.adjoint.cotangents) :], vjp.adjoint.conflicts)
        return OnHost(copy)

    return vjp.running(OnHost, adjoint)


@pytest.mark.parametrize(("make", "dtype", "result"), CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_results_and_gradients_are_those_of_the_cpu(make: Any, dtype: Any, result: Any) -> None:
    kernel = dk.kernel(make(dtype, result))
    types = [dk.array(dtype=t, ndim=2) for t in (dtype, dtype, result)] + ([int] if make is plain else [])
    vjp = Vjp(
        lower_kernel(kernel.func, kernel.argument_types(*types), Variant(target="sm_90")),
        variant=Variant(target="sm_90"),
    )
    running = on_host(vjp)
    point = vjp.arguments(values(make, dtype))
    weights = vjp.weights(point, np.random.default_rng(3))
    expected, found = (v.gradients((2, 2), point, weights) for v in (vjp, running))
    tolerance = max(BITS[dtype], BITS[result])
    results = []
    for program in (vjp.primal_program, running.primal_program):
        given = vjp.arguments(point)
        program.run((2, 2), given, None)
        results.append(as_double(vjp.types[2], given[2]))
    for computed, exact in [(results[1], results[0]), *((found[i], expected[i]) for i in (0, 1))]:
        size = float(np.max(np.abs(exact)))
        assert size > 0.1
        np.testing.assert_allclose(computed, exact, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("name", ["matrix_power_in_a_loop", "product_with_factors"])
def test_gradients_of_the_corpus(name: str) -> None:
    case = CORPUS[f"tiles.{name}"]
    vjp = Vjp(lower(case), variant=Variant(target="sm_90"), **case.options)
    point = vjp.arguments(case_values(case))
    weights = vjp.weights(point, np.random.default_rng(3))
    expected, found = (v.gradients(case.dim, point, weights) for v in (vjp, on_host(vjp)))
    for i, exact in expected.items():
        np.testing.assert_allclose(found[i], exact, rtol=1e-5, atol=1e-5 * float(np.max(np.abs(exact))))
