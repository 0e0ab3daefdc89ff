"""The CUDA target by way of numba-cuda: readable source to LTO code, PTX and cubins. No driver is needed."""

from diffkern.targets.numba_cuda.compiler import target

__all__ = ["target"]
