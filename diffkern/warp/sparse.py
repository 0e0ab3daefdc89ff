"""``wp.sparse``: the names of Warp's sparse matrices, which diffkern does not have.

The functions that kernels call on arrays of rows and columns exist: the position of a block, and the row of a block.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from diffkern.warp.absent_modules import named

BSR_STATUS_SUCCESS: Final = 0
BSR_STATUS_ROW_CAPACITY_EXCEEDED: Final = 1

_get = named(
    __name__,
    "BsrMatrix BsrTripletMap bsr_axpy_work_arrays bsr_mm_work_arrays",
    "bsr_assign bsr_axpy bsr_compress bsr_copy bsr_diag bsr_from_triplets bsr_get_diag bsr_identity "
    "bsr_matrix_t bsr_mm bsr_mv bsr_scale bsr_set_diag bsr_set_from_mapped_values bsr_set_from_triplets "
    "bsr_set_identity bsr_set_transpose bsr_set_zero bsr_transposed bsr_zeros",
    "hold rows, columns and values in arrays of their own, and multiply in a kernel",
)


def __getattr__(name: str) -> Any:
    if name in ("bsr_block_index", "bsr_row_index"):
        return getattr(importlib.import_module("diffkern.warp.blocks"), name)
    return _get(name)
