"""Numba-CUDA programs on diffkern: ``from diffkern import cuda`` in place of ``from numba import cuda``."""

from __future__ import annotations

from diffkern.cuda.host import *  # noqa: F403 - its __all__ is part of this module's
