"""Kernels in other frameworks, and their arrays in kernels. Nothing here is imported by ``import diffkern``."""
