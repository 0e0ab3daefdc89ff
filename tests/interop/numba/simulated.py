"""Runs in numba's CUDA simulator, as a process of its own: prints what it gives for each case, as JSON."""

from __future__ import annotations

import json
from typing import Any

import numba_funcs as funcs
import numpy as np
from numba import cuda
from numba_funcs import CASES

import diffkern as dk


def gradients(func: Any, points: Any) -> list[Any]:
    """The value and the derivatives at each point, by a thread each."""
    count = len(points[0])
    # The cotangent is of the func's own width.
    columns = [np.array(column) for column in zip(*points, strict=True)]
    value, partials = np.zeros(len(points)), np.zeros((len(points), count))

    @cuda.jit
    def kernel(columns, value, partials):
        i = cuda.grid(1)
        if i < value.size:
            point = [column[i] for column in columns]
            value[i], found = func.vjp(*point, 1.0)
            for k, part in enumerate(found if isinstance(found, tuple) else (found,)):
                partials[i, k] = part

    kernel[2, 2](columns, value, partials)
    return [value.tolist(), partials.tolist()]


def diffused() -> list[Any]:
    x = np.cos(np.arange(6, dtype=np.float32))
    y, ct_x, ct_y, ct_rate = np.zeros_like(x), np.zeros_like(x), np.arange(6, dtype=np.float32), np.zeros(1, np.float32)

    @cuda.jit
    def kernel(x, y, rate, ct_x, ct_y, ct_rate):
        i = cuda.grid(1)
        if i < x.size:
            funcs.diffuse.thread(i, x, y, rate)
            funcs.diffuse.thread_adjoint(i, x, y, rate, ct_x, ct_y, ct_rate)

    kernel[2, 4](x, y, np.float32(0.3), ct_x, ct_y, ct_rate)
    return [y.tolist(), ct_x.tolist(), ct_rate.tolist()]


def refused() -> str:
    @cuda.jit
    def kernel(x):
        funcs.product.grad(x[0])

    try:
        kernel[1, 1](np.zeros(1))
    except dk.KernelError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    found: dict[str, Any] = {name: gradients(case.func, case.points) for name, case in CASES.items()}
    print(json.dumps({**found, "diffuse": diffused(), "refused": refused()}))
