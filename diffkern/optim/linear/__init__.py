"""Iterative solvers of linear systems, with Warp's names, and with derivatives of their solutions."""

from __future__ import annotations

from diffkern.optim.linear.conjugate import CG, CR
from diffkern.optim.linear.functions import bicgstab, cg, cr, gmres
from diffkern.optim.linear.nonsymmetric import GMRES, BiCGSTAB
from diffkern.optim.linear.operators import LinearOperator, aslinearoperator
from diffkern.optim.linear.preconditioners import preconditioner
from diffkern.optim.linear.state import LinearSolverState

__all__ = [
    "CG", "CR", "GMRES", "BiCGSTAB", "LinearOperator", "LinearSolverState", "aslinearoperator", "bicgstab", "cg", "cr",
    "gmres", "preconditioner",
]  # fmt: skip
