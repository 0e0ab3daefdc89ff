"""Preconditioners: operators near to the inverse of a matrix, which make an iteration shorter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diffkern.errors import MisuseError, described
from diffkern.ir.types import Mat, Scalar, Vec
from diffkern.kernels.kernel import Kernel
from diffkern.optim.lbfgs import components
from diffkern.optim.linear import kernels
from diffkern.optim.linear.operators import LinearOperator, aslinearoperator
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.effects.no_grad import no_grad
from diffkern.runtime.memory.scope import unrecorded
from diffkern.runtime.memory.state import will_replay
from diffkern.runtime.records.launch import launch

__all__ = ["as_it_is_now", "preconditioner"]

BLOCKS = ("block_jacobi", "block_jacobi_direct", "block_jacobi_sequential", "block_jacobi_tile")
FACTORED = ("fsai", "ic0")
TYPES = ("diag", "diag_abs", *BLOCKS, *FACTORED, "id")


def preconditioner(A: Any, ptype: str = "diag") -> LinearOperator | None:
    """Return a preconditioner of a matrix.

    It is a constant for derivatives: the solution of a system does not depend on it.

    Parameters
    ----------
    A : array, LinearOperator or sparse matrix
        The matrix, of which the diagonal has to be known. An operator has none.
    ptype : str, optional
        - ``"diag"``: the inverse of the diagonal (Jacobi), 1 where that is zero;
        - ``"diag_abs"``: the same of absolute values;
        - ``"block_jacobi_direct"``: the inverse of each block of the diagonal, the identity where that is singular;
        - ``"block_jacobi_sequential"`` and ``"block_jacobi_tile"``: the same of symmetric, positive definite blocks,
          the identity for others; they differ in Warp;
        - ``"block_jacobi"``: the first of these;
        - ``"fsai"``: a factorised sparse approximate inverse (:class:`diffkern.sparse.FSAI`), and ``"ic0"``: an
          incomplete Cholesky factor (:class:`diffkern.sparse.IncompleteCholesky`), of symmetric, positive definite
          sparse matrices;
        - ``"id"``: none.

        Blocks are those of a sparse matrix, or of an array of blocks; a matrix of numbers gets ``"diag"`` if it is
        sparse or diagonal.

    Returns
    -------
    LinearOperator or None
        The preconditioner; None for ``"id"``.

    Raises
    ------
    ValueError
        If there is no such preconditioner, or none of such a matrix.
    """
    if ptype == "id":
        return None
    if ptype not in TYPES:
        raise ValueError(f"there is no preconditioner {ptype!r}; there are {', '.join(map(repr, TYPES))}")
    with no_grad():
        if ptype in FACTORED:
            make = getattr(A, "_preconditioner", None)
            if make is None:
                raise ValueError(f"{ptype!r} is a preconditioner of sparse matrices, not of {described(A)}")
            made: LinearOperator = make(ptype)
            return made
        if ptype not in BLOCKS and not _has_blocks(A):
            return aslinearoperator(_inverse_diagonal(A, ptype))
        names = ("offsets", "columns", "values")
        read = [A] if isinstance(A, array) else [getattr(A, name) for name in names if hasattr(A, name)]
        make = _blocks if ptype in BLOCKS else _inverse_diagonal
        return as_it_is_now(read, lambda: aslinearoperator(make(A, ptype)))


def _has_blocks(a: Any) -> bool:
    return isinstance(a._element, Mat) if isinstance(a, array) else getattr(a, "block_shape", (1, 1)) != (1, 1)


def as_it_is_now(read: list[array], make: Callable[[], LinearOperator]) -> LinearOperator:
    """Return a preconditioner that the host makes of a matrix; in a recording, of the matrix as it is now.

    Replays use the same one, which solutions do not depend on.

    Raises
    ------
    LaunchError
        If the recording writes one of the arrays that are read.
    """
    if will_replay():
        for held in read:
            held.numpy()
    with unrecorded():
        return make()


def _inverse_diagonal(a: Any, ptype: str) -> array:
    absolute = ptype == "diag_abs"
    found = _diagonal(a)
    element = found._element
    if isinstance(element, Scalar) and found.ndim == 2:
        inverse = new((min(found.shape),), element, False, found._memory.device)
        _run(kernels.inverse_diagonal, found, inverse, absolute)
        return inverse
    if isinstance(element, (Scalar, Vec)):
        inverse = new(found.shape, element, False, found._memory.device)
        _run(kernels.inverse_components, components(found.contiguous()), components(inverse), absolute)
        return inverse
    blocks = found.numpy()
    if found.ndim == 2:
        blocks = blocks[np.arange(min(found.shape)), np.arange(min(found.shape))]
    values = np.diagonal(blocks, axis1=-2, axis2=-1).astype(np.float64)
    values = np.abs(values) if absolute else values
    inverted = 1.0 / np.where(values == 0.0, 1.0, values)
    made: array = array(inverted.astype(blocks.dtype).reshape(-1), device=found.device)
    return made


def _run(kernel: Kernel, given: array, made: array, absolute: bool) -> None:
    if made.size:
        launch(kernel, made.size, [given, made, int(absolute)])


def _diagonal(a: Any) -> array:
    """Return an array whose elements, or those of its diagonal, are the diagonal of a matrix."""
    if isinstance(a, array) and a.ndim in (1, 2):
        return a
    operator = aslinearoperator(a)
    if operator._diagonal is not None:
        found: array = operator._diagonal()
        return found
    if len(operator._parameters) == 1 and operator._recordable:
        return operator._parameters[0]
    raise MisuseError(
        f"the diagonal of {described(a)} is not known", remedy="pass the matrix itself, or a preconditioner of your own"
    )


def _blocks(a: Any, ptype: str) -> array:
    """Return the inverses of the blocks of a diagonal."""
    rows, columns = getattr(a, "block_shape", (1, 1))
    if isinstance(a, array) and a.ndim == 1 and isinstance(a._element, Mat):
        rows, columns = a._element.shape
    elif not hasattr(a, "block_shape"):
        raise ValueError(f"{ptype!r} is a preconditioner of matrices of blocks, not of {described(a)}")
    if rows != columns:
        raise ValueError(f"{ptype!r} is a preconditioner of square matrix blocks, not of blocks of {rows} x {columns}")
    if not isinstance(a, array) and a.shape[0] != a.shape[1]:
        raise ValueError(f"{ptype!r} is a preconditioner of square matrices, not of one of shape {a.shape}")
    diagonal = _diagonal(a)
    kind = np.dtype(diagonal.numpy().dtype)
    if ptype == "block_jacobi_tile" and kind.itemsize < 4:
        raise ValueError(f"{ptype!r} takes float32 and float64, not {kind}")
    if rows == 1:
        return _inverse_diagonal(a, "diag")
    blocks = diagonal.numpy().astype(np.float64)
    least = rows * float(np.finfo(kind).eps)
    if ptype in ("block_jacobi", "block_jacobi_direct"):
        pivots = np.abs(np.diagonal(np.linalg.qr(blocks).R, axis1=1, axis2=2))
        regular = pivots.min(axis=1) > least * pivots.max(axis=1)
    else:
        turned = blocks.transpose(0, 2, 1)
        largest = np.abs(blocks).max(axis=(1, 2))
        regular = np.abs(blocks - turned).max(axis=(1, 2)) <= 4 * least * largest
        values = np.linalg.eigvalsh(blocks)
        regular &= values[:, 0] > least * values[:, -1]
    regular &= np.isfinite(blocks).all(axis=(1, 2))
    inverse = np.linalg.inv(np.where(regular[:, None, None], blocks, np.eye(rows)))
    made: array = array(inverse.astype(kind), dtype=diagonal.dtype, device=diagonal.device)
    return made
