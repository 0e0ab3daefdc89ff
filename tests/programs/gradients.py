"""Which kernels of the programs are differentiated, by name of the program.

In: a program as a module, with ``cuda`` of diffkern's, and arrays on the device by name. Each function launches kernels
of the program as its ``main`` does, and writes the array ``out``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["CASES", "Case"]

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """Launches to differentiate.

    Attributes
    ----------
    program
        The file they are from.
    launches
        What makes them: a function of the module and the arrays.
    shapes
        The arrays that derivatives are taken with respect to; contents are drawn at random.
    out
        The shape of the result, which begins with zeros.
    step
        The step of the differences: large for kernels that keep numbers in float32 and are linear.
    tolerance
        Relative tolerance.
    """

    program: str
    launches: Callable[[Any, Arrays], None]
    shapes: Mapping[str, tuple[int, ...]]
    out: tuple[int, ...]
    step: float = 1e-5
    tolerance: float = 1e-6


def vector_add(m: Any, a: Arrays) -> None:
    m.vector_add[2, 8](a["x"], a["y"], a["out"])


def saxpy(m: Any, a: Arrays) -> None:
    m.saxpy_in_place[2, 4](2.5, a["x"], a["out"])
    m.saxpy_in_place[1, 8](-1.5, a["y"], a["out"])


def block_sums(m: Any, a: Arrays) -> None:
    m.block_sums[2, m.THREADS](a["x"], a["out"])


def block_maxima(m: Any, a: Arrays) -> None:
    m.block_maxima[2, m.THREADS](a["x"], a["out"])


def atomic_reduction(m: Any, a: Arrays) -> None:
    m.statistics[2, 8](a["x"], a["out"][0:1], a["out"][1:2], a["out"][2:3])


def matmul(m: Any, a: Arrays) -> None:
    m.matmul[(2, 2), (4, 4)](a["x"], a["y"], a["out"])


def fast_matmul(m: Any, a: Arrays) -> None:
    m.fast_matmul[(2, 2), (m.TPB, m.TPB)](a["x"], a["y"], a["out"])


def stencil_1d(m: Any, a: Arrays) -> None:
    m.smooth[2, m.THREADS](a["x"], a["out"])


def heat_equation(m: Any, a: Arrays) -> None:
    between = m.cuda.device_array_like(a["x"])
    between.requires_grad = True
    m.step[2, 8](a["x"], between, 0.25)
    m.step[2, 8](between, a["out"], 0.25)


def laplace(m: Any, a: Arrays) -> None:
    after = m.cuda.device_array_like(a["x"])
    after.requires_grad = True
    m.jacobi[(1, 2), (m.TX, m.TY)](a["x"], after, a["out"])


def k_means(m: Any, a: Arrays) -> None:
    n = a["x"].shape[0]
    labels = m.cuda.to_device(np.arange(n, dtype=np.int32) % 3)
    m.accumulate[2, 8](a["x"], labels, a["out"], m.cuda.to_device(np.zeros(3, dtype=np.int64)))


def dynamic_shared(m: Any, a: Arrays) -> None:
    m.inclusive_scan[2, 8, 0, 8 * 4](a["x"], a["out"])


def accelerations(m: Any, a: Arrays) -> None:
    m.accelerations[2, m.THREADS](a["x"], a["mass"], a["out"])


def advance(m: Any, a: Arrays) -> None:
    m.advance[2, 8](a["out"], a["x"], a["y"], 0.5)


def black_scholes(m: Any, a: Arrays) -> None:
    m.black_scholes[1, 8](a["out"][0:6], a["out"][6:12], a["x"], a["y"], a["t"], 0.02, 0.3)


def transpose(m: Any, a: Arrays) -> None:
    m.transpose[(2, 2), (m.TILE, m.TILE)](a["x"], a["out"])


def convolution(m: Any, a: Arrays) -> None:
    m.convolve[(2, 2), (4, 4)](a["out"], a["y"], a["x"])


def median(m: Any, a: Arrays) -> None:
    m.median[(2, 2), (4, 4)](a["x"], a["out"])


def dot_product(m: Any, a: Arrays) -> None:
    m.dot[2, m.THREADS](a["x"], a["y"], a["out"])


def reduction(m: Any, a: Arrays) -> None:
    m.add_up(a["x"], res=a["out"])


def polish(m: Any, a: Arrays) -> None:
    a["out"].copy_to_device(a["x"])
    m.polish[2, 8](a["out"])


SINGLE: Any = {"step": 0.25, "tolerance": 2e-5}
"""For linear kernels whose shared memory is float32."""

CASES = {
    "vector_add": Case("vector_add", vector_add, {"x": (13,), "y": (13,)}, (13,)),
    "saxpy": Case("saxpy", saxpy, {"x": (13,), "y": (13,)}, (13,)),
    "block_sums": Case("block_reduction", block_sums, {"x": (150,)}, (2,)),
    "block_maxima": Case("block_reduction", block_maxima, {"x": (100,)}, (2,)),
    "atomic_reduction": Case("atomic_reduction", atomic_reduction, {"x": (13,)}, (3,)),
    "matmul": Case("matmul_shared", matmul, {"x": (5, 7), "y": (7, 6)}, (5, 6)),
    "fast_matmul": Case("matmul_shared", fast_matmul, {"x": (9, 10), "y": (10, 11)}, (9, 11), **SINGLE),
    "stencil_1d": Case("stencil_1d", stencil_1d, {"x": (50,)}, (50,)),
    "heat_equation": Case("heat_equation", heat_equation, {"x": (13,)}, (13,)),
    "laplace": Case("laplace", laplace, {"x": (7, 8)}, (2, 1)),
    "k_means": Case("k_means", k_means, {"x": (13, 2)}, (3, 2)),
    "dynamic_shared": Case("dynamic_shared", dynamic_shared, {"x": (16,)}, (16,), **SINGLE),
    "n_body": Case("n_body", accelerations, {"x": (20, 3), "mass": (20,)}, (20, 3), 1e-3, 2e-4),
    "n_body_advance": Case("n_body", advance, {"x": (13, 3), "y": (13, 3)}, (13, 3)),
    "black_scholes": Case("black_scholes", black_scholes, {"x": (6,), "y": (6,), "t": (6,)}, (12,)),
    "transpose": Case("transpose", transpose, {"x": (9, 11)}, (11, 9), **SINGLE),
    "convolution": Case("convolution", convolution, {"x": (6, 7), "y": (3, 3)}, (6, 7)),
    "median": Case("convolution", median, {"x": (6, 7)}, (6, 7), 1e-3, 1e-3),
    "dot_product": Case("dot_product", dot_product, {"x": (70,), "y": (70,)}, (1,)),
    "reduction": Case("dot_product", reduction, {"x": (300,)}, (1,)),
    "streams": Case("streams", polish, {"x": (13,)}, (13,)),
}
