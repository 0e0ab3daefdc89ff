"""``dk.linear_solve``: the solution of a linear system as one operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.errors import MisuseError, described
from diffkern.optim.linear import kernels
from diffkern.optim.linear.conjugate import CG, CR
from diffkern.optim.linear.direct import LIBRARIES, Factors
from diffkern.optim.linear.implicit import NEAR, Solver, check_symmetry, converge, known, norms_of, not_solved, solution
from diffkern.optim.linear.nonsymmetric import GMRES, BiCGSTAB
from diffkern.optim.linear.operands import Operands
from diffkern.optim.linear.operators import FunctionOperator, LinearOperator, aslinearoperator
from diffkern.optim.linear.preconditioners import preconditioner
from diffkern.optim.linear.recorded import on_host
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.create import zeros_like
from diffkern.runtime.records.launch import launch
from diffkern.transforms.implicit import Equation, check_unknown, solved

__all__ = ["krylov", "linear_solve"]

_CLASSES: dict[str, Any] = {"cg": CG, "cr": CR, "bicgstab": BiCGSTAB, "gmres": GMRES}
_SYMMETRIC = ("cg", "cr")


@brief
def linear_solve(
    a: Any,
    b: array,
    *theta: Any,
    method: str | None = None,
    x0: array | None = None,
    tol: float | None = None,
    maxiter: int | None = None,
    M: Any = None,
) -> array:
    """Return the solution x of a linear equation, with derivatives with respect to matrix, parameters and right side.

    Parameters
    ----------
    a : array, sparse matrix, LinearOperator or callable
        A square matrix: an array with two axes, or with three for several systems; a sparse matrix; an operator; or a
        function ``a(x, *theta)`` that is linear in x, launches kernels and returns a new array like x: the product of
        a matrix that is not formed.
    b : array
        The right side: with one axis, or two for several systems; for a function of any shape.
    *theta
        Parameters of the function, as for :func:`root`.
    method : str, optional
        ``"cg"`` or ``"cr"`` for symmetric, positive definite matrices, ``"bicgstab"`` or ``"gmres"`` for any, or
        ``"direct"`` for matrices that are arrays or sparse; of sparse ones ``"superlu"``, which that is, ``"cholmod"``
        or ``"cudss"`` where scikit-sparse or nvmath-python is installed. By default ``"direct"`` for arrays, and
        ``"gmres"`` for others; for functions with a refinement in double precision.
    x0 : array, optional
        Where an iteration begins; zeros by default. No gradient goes to it.
    tol : float, optional
        The norm of the residual, as a part of that of `b`: 1e-5 by default, and 1e-10 in double precision. Of a
        function without a `method` the largest number in the residual, as a part of that in `b` if there is no `x0`.
    maxiter : int, optional
        Most iterations, ten times the number of unknowns by default. Of a function without a `method` how often the
        solution by GMRES is refined, 10 by default.
    M : str, array, sparse matrix or LinearOperator, optional
        A preconditioner for `method`, or what kind :func:`diffkern.optim.linear.preconditioner` shall make of `a`.

    Returns
    -------
    array
        The solution, a new array.

    Raises
    ------
    LaunchError
        If there is no solution to this tolerance: the matrix may be singular, or ill-conditioned. If the matrix is
        found not to be symmetric, or not positive definite, and the method needs that.
    MisuseError
        If the arguments are no such matrix, function and arrays.
    """
    if not isinstance(b, array) or not b._smooth:
        raise MisuseError(
            f"the right side of dk.linear_solve is an array of floats, not {described(b)}",
            remedy="make it with dk.array",
        )
    check_unknown("dk.linear_solve", b)
    if callable(a) and not isinstance(a, LinearOperator) and method is None and M is None:
        equation = Equation(
            lambda x, b, *theta: a(x, *theta) - b,
            "dk.linear_solve",
            tol,
            10 if maxiter is None else maxiter,
            linear=True,
        )
        return solved(equation, b * 0.0 if x0 is None else x0, (b, *theta))
    operator = _operator(a, b, theta)
    if method is None:
        method = "direct" if isinstance(a, array) and M is None else "gmres"
    if x0 is not None and not (isinstance(x0, array) and b._is_like(x0)):
        raise MisuseError(
            f"dk.linear_solve begins with {described(x0)}, and the right side is {described(b)}",
            remedy="pass an array like the right side",
        )
    begin = zeros_like(b, requires_grad=False) if x0 is None else x0
    if method in LIBRARIES:
        direct = _direct(tol, method)
        return solution("dk.linear_solve", direct, operator, b, begin, first=known(direct))
    if method not in _CLASSES:
        raise MisuseError(
            f"dk.linear_solve has no method {method!r}",
            remedy=f"pass one of {', '.join([*_CLASSES, *LIBRARIES])}",
        )
    conditioner = preconditioner(a, M) if isinstance(M, str) else None if M is None else aslinearoperator(M)
    solver = krylov(method, tol, maxiter)

    def first(name: str, A: LinearOperator, b: array, x: array, M: LinearOperator | None) -> None:
        if method in _SYMMETRIC:
            check_symmetry(name, A, b)
        solver(name, A, b, x, M)

    return solution("dk.linear_solve", solver, operator, b, begin, conditioner, known(first), method in _SYMMETRIC)


def _operator(a: Any, b: array, theta: tuple[Any, ...]) -> LinearOperator:
    if callable(a) and not isinstance(a, LinearOperator):
        size = b._data.size
        return FunctionOperator(a, (size, size), b.dtype, b.device, theta)
    if theta:
        raise MisuseError("dk.linear_solve takes parameters for a function alone", remedy="leave them out")
    if isinstance(a, array) and (
        a.ndim not in (1, 2, 3)
        or (a.ndim == 3 and (a.shape != (*b.shape, b.shape[-1]) or a._element != b._element))
        or (a.ndim == 2 and a.shape != (b.size, b.size))
        or (a.ndim < 3 and b.ndim != 1)
        or (a.ndim == 1 and a.size != b.size)
    ):  # fmt: skip
        raise MisuseError(
            f"dk.linear_solve takes a square matrix and a vector of its size, not {described(a)} and {described(b)}",
            remedy="pass arrays of one type of floats of the shapes (n, n) and (n,), or (m, n, n) and (m, n)",
        )
    made = _of_systems(a, b) if isinstance(a, array) and a.ndim == 3 else aslinearoperator(a)
    if made.scalar_type != getattr(b.dtype, "scalar", b.dtype):
        raise MisuseError(
            f"dk.linear_solve takes a square matrix and a vector of one type, not {described(a)} and {described(b)}",
            remedy="convert one with astype()",
        )
    return made


def _of_systems(a: array, b: array, turned: bool = False) -> LinearOperator:
    """Return the operator of several systems of one size."""
    count, size = b.shape
    kernel = kernels.batched_transposed_product if turned else kernels.batched_product

    def product(x: array, a: array) -> array:
        made = zeros_like(x, requires_grad=False)
        if x.size:
            launch(kernel, x.shape, [a, x, made])
        return made

    made = FunctionOperator(
        product, (count * size,) * 2, b.dtype, b.device, [a], lambda a: _of_systems(a, b, not turned),
        array(np.arange(count + 1, dtype=np.int32) * np.int32(size), device=b.device),
    )  # fmt: skip
    made._matrix = lambda: made._parameters[0].numpy().swapaxes(1, 2) if turned else made._parameters[0].numpy()
    return made


# -- solvers -----------------------------------------------------------------------------------------------------------


def _tolerance(b: array, tol: float | None) -> float:
    return (1e-5 if b._data.dtype.itemsize < 8 else 1e-10) if tol is None else tol


def krylov(method: str, tol: float | None, maxiter: int | None) -> Solver:
    """Return a solver by an iteration, which raises unless the residual itself is as small as it shall be."""

    def solve(name: str, A: LinearOperator, b: array, x: array, M: LinearOperator | None) -> None:
        def make(given: Operands, **options: Any) -> Any:
            return _CLASSES[method](given.A, given.b, given.x, M=given.M, **options)

        most = 10 * max(b._data.size, 10) if maxiter is None else maxiter
        converge(make, method, _tolerance(b, tol), most)(name, A, b, x, M)

    return solve


def _direct(tol: float | None, library: str) -> Solver:
    """Return a solver by factors of the matrix, which it keeps for the transposed system."""
    factors = Factors(library)

    def solve(name: str, A: LinearOperator, b: array, x: array, M: LinearOperator | None) -> None:
        if A._matrix is None:
            raise MisuseError(
                f"{name}: a direct solver needs a matrix, not a product", remedy='pass method="gmres", or the matrix'
            )
        factored = A._matrix

        def factor() -> None:
            matrix, side = factored(), b.numpy()
            found = factors.solve(name, matrix, side.reshape(-1) if matrix.ndim == 2 else side[..., None])
            x.assign(np.ascontiguousarray(found, side.dtype).reshape(side.shape))
            offsets = None if A.batch_offsets is None else A.batch_offsets.numpy()
            lengths, norms = norms_of(b, offsets), norms_of(A._times(x) - b, offsets)
            # A norm of NaN is no solution either.
            if not (norms <= NEAR * _tolerance(b, tol) * lengths).all():
                parts = norms / np.where(lengths == 0.0, 1.0, lengths)
                raise not_solved(name, float(np.max(parts)), _tolerance(b, tol), "a direct solution")

        on_host(f"the direct solution of {name}", factor, [b, *A._parameters], [x])

    return solve
