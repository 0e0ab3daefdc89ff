"""Numba-CUDA programs on diffkern: ``from diffkern import cuda`` in place of ``from numba import cuda``.

Kernels, launches and host calls in the spelling of ``numba.cuda`` use diffkern's kernels, arrays and streams, which run
on a GPU, or on the CPU where there is none, and can be differentiated.
"""

from __future__ import annotations

from typing import Any

from diffkern.cuda import host
from diffkern.cuda.host import *  # noqa: F403 - its __all__ is part of this module's
from diffkern.cuda.jit import CudaKernel, Launcher, jit
from diffkern.cuda.names import INSTEAD, absence
from diffkern.cuda.types import TYPES
from diffkern.lang.numba_cuda import LANGUAGE

__all__ = [*host.__all__, *LANGUAGE, *TYPES, "CudaKernel", "Launcher", "jit"]  # noqa: PLE0604 - names, all of them

globals().update({**LANGUAGE, **TYPES})

__instead__ = INSTEAD
"""The replacement for each missing name; errors in kernels quote it too."""


def __getattr__(name: str) -> Any:
    raise AttributeError(absence(name))
