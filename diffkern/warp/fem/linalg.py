"""``wp.fem.linalg``: the names of the functions of small matrices of Warp's finite elements.

Eigenvalues of symmetric matrices of any size are there; of the others, the names.
"""

from __future__ import annotations

from typing import Final

from diffkern.warp.fem import eigenvalues
from diffkern.warp.opaque import named

symmetric_eigenvalues_qr: Final = eigenvalues.symmetric_eigenvalues_qr

__getattr__ = named(
    __name__,
    "",
    "array_axpy generalized_inner generalized_outer householder_make_hessenberg householder_qr_decomposition "
    "inverse_qr skew_part solve_triangular spherical_part symmetric_part "
    "tridiagonal_symmetric_eigenvalues_qr",
    "take wp.qr3, wp.eig3, wp.svd3 and wp.inverse, or write a func",
)
