"""The iterative solvers as functions."""

from __future__ import annotations

from typing import Any

from diffkern.optim.linear.conjugate import CG, CR
from diffkern.optim.linear.nonsymmetric import GMRES, BiCGSTAB
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array

__all__ = ["bicgstab", "cg", "cr", "gmres"]


@brief
def cg(
    A: Any,
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Any = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    run: bool = True,
    *,
    restart: int | None = None,
) -> Any:
    """Solve a symmetric, positive definite system by conjugate gradients.

    Parameters
    ----------
    A : array, LinearOperator or sparse matrix
        The matrix, symmetric and positive definite. An operator may consist of several systems, which are
        iterated together until the last of them has converged.
    b : array
        The right-hand side.
    x : array
        Where to begin; takes the solution.
    tol : float, optional
        The norm of the residual that suffices, as a part of that of `b`; that of `atol` by default. Without both it is
        1e-6, and 1e-12 in double precision.
    atol : float, optional
        The norm that suffices in any case; `tol` by default.
    maxiter : float, optional
        Most iterations; 0 for the number of rows.
    M : array, LinearOperator or sparse matrix, optional
        A preconditioner, near to the inverse of `A`.
    callback : callable or Kernel, optional
        Called with the number of iterations, the norm of the residual and the tolerance before the first iteration and
        every `check_every` iterations. With `check_every` of 0 a kernel, launched with one thread after each cycle on
        arrays of these, the norms squared.
    check_every : int, optional
        How many iterations run between two looks at the residual; their number is rounded up to it. With 0 the results
        stay on the device, and the solver may be recorded and captured.
    use_cuda_graph : bool, optional
        For programs written for Warp; it has no effect.
    run : bool, optional
        With False the solver is returned, to be called any number of times.
    restart : int, optional
        Iterations after which the residual is recomputed and the directions begin again. Residuals are looked at there
        alone.

    Returns
    -------
    tuple or CG
        The number of iterations, the norm of the residual as the iteration has updated it, and the tolerance, of the
        system that is furthest from it; with `check_every` of 0 arrays: the number of iterations, and for each system
        the squares of norm and tolerance.

    Notes
    -----
    On a tape, and wherever else derivatives are taken, the solution is that of the equation: its gradient goes to `b`
    and to the entries of `A`, by a system with the transposed matrix that is solved in the same way, and not to what
    `x` held. A derivative of a solution that has not converged is an error.
    """
    state = CG(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, restart=restart)
    return state() if run else state


@brief
def cr(
    A: Any,
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Any = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    run: bool = True,
    *,
    restart: int | None = None,
) -> Any:
    """Solve a symmetric system by conjugate residuals, of which each has a smaller norm than the one before.

    Parameters
    ----------
    A : array, LinearOperator or sparse matrix
        The matrix, symmetric and positive definite. An operator may consist of several systems, which are
        iterated together until the last of them has converged.
    b : array
        The right-hand side.
    x : array
        Where to begin; takes the solution.
    tol : float, optional
        The norm of the residual that suffices, as a part of that of `b`; that of `atol` by default. Without both it is
        1e-6, and 1e-12 in double precision.
    atol : float, optional
        The norm that suffices in any case; `tol` by default.
    maxiter : float, optional
        Most iterations; 0 for the number of rows.
    M : array, LinearOperator or sparse matrix, optional
        A preconditioner, near to the inverse of `A`.
    callback : callable or Kernel, optional
        Called with the number of iterations, the norm of the residual and the tolerance before the first iteration and
        every `check_every` iterations. With `check_every` of 0 a kernel, launched with one thread after each cycle on
        arrays of these, the norms squared.
    check_every : int, optional
        How many iterations run between two looks at the residual; their number is rounded up to it. With 0 the results
        stay on the device, and the solver may be recorded and captured.
    use_cuda_graph : bool, optional
        For programs written for Warp; it has no effect.
    run : bool, optional
        With False the solver is returned, to be called any number of times.
    restart : int, optional
        Iterations after which the residual is recomputed and the directions begin again. Residuals are looked at there
        alone.

    Returns
    -------
    tuple or CR
        The number of iterations, the norm of the residual as the iteration has updated it, and the tolerance, of the
        system that is furthest from it; with `check_every` of 0 arrays: the number of iterations, and for each system
        the squares of norm and tolerance.

    Notes
    -----
    On a tape, and wherever else derivatives are taken, the solution is that of the equation: its gradient goes to `b`
    and to the entries of `A`, by a system with the transposed matrix that is solved in the same way, and not to what
    `x` held. A derivative of a solution that has not converged is an error.
    """
    state = CR(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, restart=restart)
    return state() if run else state


@brief
def bicgstab(
    A: Any,
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Any = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    is_left_preconditioner: bool = False,
    run: bool = True,
) -> Any:
    """Solve a linear system by stabilized biconjugate gradients.

    Parameters
    ----------
    A : array, LinearOperator or sparse matrix
        The matrix, square. An operator may consist of several systems, which are
        iterated together until the last of them has converged.
    b : array
        The right-hand side.
    x : array
        Where to begin; takes the solution.
    tol : float, optional
        The norm of the residual that suffices, as a part of that of `b`; that of `atol` by default. Without both it is
        1e-6, and 1e-12 in double precision.
    atol : float, optional
        The norm that suffices in any case; `tol` by default.
    maxiter : float, optional
        Most iterations; 0 for the number of rows.
    M : array, LinearOperator or sparse matrix, optional
        A preconditioner, near to the inverse of `A`.
    callback : callable or Kernel, optional
        Called with the number of iterations, the norm of the residual and the tolerance before the first iteration and
        every `check_every` iterations. With `check_every` of 0 a kernel, launched with one thread after each cycle on
        arrays of these, the norms squared.
    check_every : int, optional
        How many iterations run between two looks at the residual; their number is rounded up to it. With 0 the results
        stay on the device, and the solver may be recorded and captured.
    use_cuda_graph : bool, optional
        For programs written for Warp; it has no effect.
    is_left_preconditioner : bool, optional
        Whether `M` is applied to residuals, rather than to directions.
    run : bool, optional
        With False the solver is returned, to be called any number of times.

    Returns
    -------
    tuple or BiCGSTAB
        The number of iterations, the norm of the residual as the iteration has updated it, and the tolerance, of the
        system that is furthest from it; with `check_every` of 0 arrays: the number of iterations, and for each system
        the squares of norm and tolerance.

    Notes
    -----
    On a tape, and wherever else derivatives are taken, the solution is that of the equation: its gradient goes to `b`
    and to the entries of `A`, by a system with the transposed matrix that is solved in the same way, and not to what
    `x` held. A derivative of a solution that has not converged is an error.
    """
    state = BiCGSTAB(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, is_left_preconditioner)
    return state() if run else state


@brief
def gmres(
    A: Any,
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    restart: int = 31,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Any = None,
    check_every: int = 31,
    use_cuda_graph: bool = True,
    is_left_preconditioner: bool = False,
    run: bool = True,
) -> Any:
    """Solve a linear system by the restarted GMRES method.

    Parameters
    ----------
    A : array, LinearOperator or sparse matrix
        The matrix, square. An operator may consist of several systems, which are
        iterated together until the last of them has converged.
    b : array
        The right-hand side.
    x : array
        Where to begin; takes the solution.
    tol : float, optional
        The norm of the residual that suffices, as a part of that of `b`; that of `atol` by default. Without both it is
        1e-6, and 1e-12 in double precision.
    atol : float, optional
        The norm that suffices in any case; `tol` by default.
    restart : int, optional
        Iterations of a cycle, and vectors of its basis.
    maxiter : float, optional
        Most iterations; 0 for the number of rows. Cycles are whole.
    M : array, LinearOperator or sparse matrix, optional
        A preconditioner, near to the inverse of `A`.
    callback : callable or Kernel, optional
        Called with the number of iterations, the norm of the residual and the tolerance before the first iteration and
        every `check_every` iterations. With `check_every` of 0 a kernel, launched with one thread after each cycle on
        arrays of these, the norms squared.
    check_every : int, optional
        How many iterations run between two looks at the residual; their number is rounded up to it. With 0 the results
        stay on the device, and the solver may be recorded and captured.
    use_cuda_graph : bool, optional
        For programs written for Warp; it has no effect.
    is_left_preconditioner : bool, optional
        Whether `M` is applied to residuals, rather than to directions.
    run : bool, optional
        With False the solver is returned, to be called any number of times.

    Returns
    -------
    tuple or GMRES
        The number of iterations, the norm of the residual, and the tolerance, of the system that is furthest from it;
        with `check_every` of 0 arrays: the number of iterations, and for each system the squares of norm and tolerance.

    Notes
    -----
    On a tape, and wherever else derivatives are taken, the solution is that of the equation: its gradient goes to `b`
    and to the entries of `A`, by a system with the transposed matrix that is solved in the same way, and not to what
    `x` held. A derivative of a solution that has not converged is an error.
    """
    state = GMRES(
        A, b, x, tol, atol, restart, maxiter, M, callback, check_every, use_cuda_graph, is_left_preconditioner
    )
    return state() if run else state
