"""``wp.optim.linear``: the solvers of :mod:`diffkern.optim.linear`."""

from __future__ import annotations

from diffkern.optim.linear import (
    CG,
    CR,
    GMRES,
    BiCGSTAB,
    LinearOperator,
    LinearSolverState,
    aslinearoperator,
    bicgstab,
    cg,
    cr,
    gmres,
    preconditioner,
)  # fmt: skip
from diffkern.sparse.preconditioners import FSAI

__all__ = [
    "CG", "CR", "FSAI", "GMRES", "BiCGSTAB", "LinearOperator", "LinearSolverState", "aslinearoperator", "bicgstab",
    "cg", "cr", "gmres", "preconditioner",
]  # fmt: skip
