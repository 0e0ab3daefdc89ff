"""``wp.fem.linalg``: the names of the functions of small matrices of Warp's finite elements."""

from __future__ import annotations

from diffkern.warp.absent_modules import named

__getattr__ = named(
    __name__,
    "",
    "array_axpy generalized_inner generalized_outer householder_make_hessenberg householder_qr_decomposition "
    "inverse_qr skew_part solve_triangular spherical_part symmetric_eigenvalues_qr symmetric_part "
    "tridiagonal_symmetric_eigenvalues_qr",
    "take wp.qr3, wp.eig3, wp.svd3 and wp.inverse, or write a func",
)
