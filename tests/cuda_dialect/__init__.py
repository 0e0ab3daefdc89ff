"""Kernels in the spelling of numba.cuda."""
