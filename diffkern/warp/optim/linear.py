"""``wp.optim.linear``: the names of Warp's solvers of linear systems, which diffkern does not have."""

from __future__ import annotations

from diffkern.warp.absent_modules import named

__getattr__ = named(
    __name__,
    "BiCGSTAB CG CR FSAI GMRES LinearOperator LinearSolverState",
    "aslinearoperator bicgstab cg cr gmres preconditioner",
    "write the iteration as kernels, or solve small systems with tile_cholesky and tile_cholesky_solve",
)
