"""Functions of the IR run as numba-cuda kernels in numba's CUDA simulator, beside :mod:`diffkern.testing.programs`.

The simulator is chosen when numba is imported, so the process must have been started with ``NUMBA_ENABLE_CUDASIM=1``.
It runs every thread of a block as a thread of Python, blocks one after the other: it proves what a kernel computes, and
that barriers and shared memory fit together, but no memory ordering. A thread costs milliseconds.
"""

from __future__ import annotations

import importlib
import math
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from diffkern.ir.nodes import Function
from diffkern.ir.types import Array, Mat, Scalar, Type, Vec, scalar_of, value_type
from diffkern.printing.executor import load_source
from diffkern.printing.python import function_name
from diffkern.targets import target_named

__all__ = ["Simulated", "cuda_source", "kernel_argument"]


def cuda_source(fn: Function) -> str:
    """A program as a numba-cuda kernel."""
    return target_named("sm_90").source(fn, ())


class Simulated:
    """A function as a numba-cuda kernel in the simulator.

    Parameters
    ----------
    fn
        The function; it is not changed. The modes of an adjoint's accumulations must be final for a GPU.
    blocks, block_dim
        The grid. It need not cover the launch: threads stride over it.
    """

    def __init__(self, fn: Function, blocks: int = 2, block_dim: int = 3) -> None:
        if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
            raise RuntimeError("the CUDA simulator runs in processes started with NUMBA_ENABLE_CUDASIM=1")
        importlib.import_module(".simulator_lock", __package__)
        self.types = tuple(p.type for p in fn.params)
        self.source = cuda_source(fn)
        self.grid = (blocks, block_dim)
        self._kernel: Any = load_source(self.source, function_name(fn))

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        """Run all threads; arrays among `args` are changed in place."""
        dims = (*map(int, dim), 1, 1, 1)[:4]
        given = [kernel_argument(t, a) for t, a in zip(self.types, args, strict=True)]
        with warnings.catch_warnings():  # NumPy's, of overflow and zero divisors: a GPU says nothing either
            warnings.simplefilter("ignore")
            self._kernel[self.grid](dims, *given)


def kernel_argument(t: Type, value: Any) -> Any:
    """An argument as the generated kernel takes it: components as one last axis, composites by value as tuples."""
    if isinstance(t, Array):
        assert isinstance(value, np.ndarray)
        if not isinstance(t.dtype, (Vec, Mat)):
            return value
        flat = value.view()
        flat.shape = (*value.shape[: t.ndim], t.dtype.size)
        return flat
    assert isinstance(t, (Scalar, Vec, Mat))
    dtype = np.dtype(scalar_of(value_type(t)).name)
    if isinstance(t, Scalar):
        return dtype.type(value)
    parts = np.asarray(value, dtype).reshape(math.prod(t.shape))
    return tuple(parts)
