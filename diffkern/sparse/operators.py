"""Sparse matrices as linear operators, for solvers of linear systems."""

from __future__ import annotations

from typing import Any

from diffkern.process.late import LINEAR_OPERATOR
from diffkern.runtime.arrays.array import array
from diffkern.sparse.conversions import to_scipy
from diffkern.sparse.matrix import BsrMatrix, bsr_matrix_t
from diffkern.sparse.products import product
from diffkern.sparse.structure import bsr_get_diag, bsr_transposed

__all__ = ["operator_of"]


def operator_of(matrix: BsrMatrix, is_transposed: bool = False) -> Any:
    """Return the operator of a matrix, or of its transposed, which has no memory of its own.

    Its products read the values that the matrix has then; derivatives are taken with respect to these.
    """

    def matvec(x: array, y: array, z: array, alpha: Any, beta: Any) -> None:
        product(matrix, x, y, z, alpha, beta, is_transposed)

    def rebuild(values: array) -> Any:
        made: Any = bsr_matrix_t(matrix.dtype)()
        vars(made).update(vars(matrix), values=values)
        return operator_of(made, is_transposed)

    def with_entries() -> Any:
        entries = to_scipy(matrix, "csr")
        return entries.T.tocsr() if is_transposed else entries

    rows, columns = matrix.shape
    return LINEAR_OPERATOR(
        (columns, rows) if is_transposed else (rows, columns),
        matrix.scalar_type if is_transposed else matrix.dtype,
        matrix.device,
        matvec,
        parameters=(matrix.values,),
        rebuild=rebuild,
        transposed=lambda: operator_of(matrix, not is_transposed),
        matrix=with_entries,
        diagonal=lambda: bsr_get_diag(bsr_transposed(matrix) if is_transposed else matrix),
        recordable=True,
    )
