"""Block-sparse matrices, with the names of Warp's ``wp.sparse`` and with derivatives.

A matrix consists of blocks of one shape, numbers or small matrices, in compressed rows. Triplets are sorted and added
up on the device, with the same bits in each run; products, sums, transposed matrices and assembly have derivatives with
respect to values and vectors, of any order.
"""

from __future__ import annotations

from diffkern.sparse.assembly import (
    BsrTripletMap,
    bsr_compress,
    bsr_from_triplets,
    bsr_set_from_mapped_values,
    bsr_set_from_triplets,
    bsr_set_values,
    bsr_set_zero,
    bsr_zeros,
)
from diffkern.sparse.conversions import from_scipy, to_coo, to_csr, to_scipy
from diffkern.sparse.indexing import bsr_block_index, bsr_row_index
from diffkern.sparse.matrix import (
    BSR_STATUS_ROW_CAPACITY_EXCEEDED,
    BSR_STATUS_SUCCESS,
    BsrExpression,
    BsrMatrix,
    bsr_matrix_t,
)
from diffkern.sparse.preconditioners import FSAI, IncompleteCholesky
from diffkern.sparse.products import bsr_mm, bsr_mm_work_arrays, bsr_mv
from diffkern.sparse.structure import (
    bsr_assign,
    bsr_copy,
    bsr_diag,
    bsr_get_diag,
    bsr_identity,
    bsr_set_diag,
    bsr_set_identity,
    bsr_set_transpose,
    bsr_transposed,
)
from diffkern.sparse.sums import bsr_axpy, bsr_axpy_work_arrays, bsr_scale

__all__ = [
    "BSR_STATUS_ROW_CAPACITY_EXCEEDED",
    "BSR_STATUS_SUCCESS",
    "FSAI",
    "BsrExpression",
    "BsrMatrix",
    "BsrTripletMap",
    "IncompleteCholesky",
    "bsr_assign",
    "bsr_axpy",
    "bsr_axpy_work_arrays",
    "bsr_block_index",
    "bsr_compress",
    "bsr_copy",
    "bsr_diag",
    "bsr_from_triplets",
    "bsr_get_diag",
    "bsr_identity",
    "bsr_matrix_t",
    "bsr_mm",
    "bsr_mm_work_arrays",
    "bsr_mv",
    "bsr_row_index",
    "bsr_scale",
    "bsr_set_diag",
    "bsr_set_from_mapped_values",
    "bsr_set_from_triplets",
    "bsr_set_identity",
    "bsr_set_transpose",
    "bsr_set_values",
    "bsr_set_zero",
    "bsr_transposed",
    "bsr_zeros",
    "from_scipy",
    "to_coo",
    "to_csr",
    "to_scipy",
]
