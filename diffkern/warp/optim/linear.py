"""``wp.optim.linear``: the solvers of :mod:`diffkern.optim.linear`."""

from __future__ import annotations

from typing import Any

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
from diffkern.warp.opaque import named

__all__ = [
    "CG", "CR", "GMRES", "BiCGSTAB", "LinearOperator", "LinearSolverState", "aslinearoperator", "bicgstab", "cg", "cr",
    "gmres", "preconditioner",
]  # fmt: skip

_absent = named(__name__, "FSAI", "", "precondition with preconditioner(A, 'block_jacobi_direct')")


def __getattr__(name: str) -> Any:
    return _absent(name)
