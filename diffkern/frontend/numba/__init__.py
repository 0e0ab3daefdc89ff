"""Lowering of numba.cuda's names."""
