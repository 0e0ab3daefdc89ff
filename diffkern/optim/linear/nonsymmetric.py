"""BiCGSTAB and GMRES, for any regular matrix.

Van der Vorst, "Bi-CGSTAB", SIAM J. Sci. Stat. Comput. 13 (1992); Saad and Schultz, "GMRES", SIAM J. Sci. Stat.
Comput. 7 (1986), with each vector of the basis orthogonalized twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.errors import MisuseError
from diffkern.optim.linear import kernels
from diffkern.optim.linear.operands import Operands
from diffkern.optim.linear.state import LinearSolverState, Step, WorkVector
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.create import zeros

__all__ = ["GMRES", "BiCGSTAB"]


class BiCGSTAB(LinearSolverState):
    """The solver by stabilized biconjugate gradients, with its work arrays; see :func:`bicgstab`."""

    _preconditioner_is_fixed = True

    def __init__(
        self,
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
    ) -> None:
        self._left = is_left_preconditioner
        super().__init__(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph)
        self._choices |= {"is_left_preconditioner": is_left_preconditioner}

    def _allocate(self) -> None:
        self._r, self._r0, self._p, self._v, self._t = (self._vector() for _ in range(5))
        with_m = self._own.M is not None
        self._y, self._z = (self._vector(), self._vector()) if with_m else (self._p, self._r)
        self._mt = self._vector() if with_m and self._left else self._t
        self._parts = self._numbers_of(2, self._chunks)

    def _begin(self, given: Operands) -> list[Step]:
        return [
            *self._tolerance(given, self._parts),
            self._residual(given, self._r),
            self._of_chunks(kernels.start_direction, self._r, self._r, self._p, self._parts),
            self._of_chunks(kernels.start_direction, self._r, self._r, self._r0, self._parts),
            self._of_systems(kernels.start_numbers, self._first, self._parts, self._squares, self._numbers),
        ]

    def _cycle(self, given: Operands) -> list[Step]:
        parts, first, system, numbers = self._parts, self._first, self._system, self._numbers
        p, v, t, r, y, z = self._p, self._v, self._t, self._r, self._y, self._z

        def preconditioned(of: WorkVector, made: WorkVector) -> list[Step]:
            return [] if given.M is None else [self._product(given.M, of, made)]

        left = self._left and given.M is not None
        return [
            *preconditioned(p, y),
            self._product(given.A, y, v),
            self._of_chunks(kernels.inner, self._r0, v, parts, 0),
            self._of_systems(kernels.bicgstab_step, first, parts, self._squares, self._tolerances, numbers),
            self._of_chunks(kernels.bicgstab_half, system, numbers, v, r, parts),
            self._of_systems(kernels.bicgstab_middle, first, parts, self._squares, self._tolerances, numbers),
            *preconditioned(r, z),
            self._product(given.A, z, t),
            *(preconditioned(t, self._mt) if left else []),
            self._of_chunks(kernels.two_inner, self._mt, z if left else r, parts),
            self._of_systems(kernels.stabilize, first, parts, numbers),
            self._of_chunks(
                kernels.bicgstab_move, system, numbers, y, z, t, self._r0, WorkVector(given.x), r, parts
            ),
            self._of_systems(kernels.bicgstab_next, first, parts, self._squares, numbers),
            self._of_chunks(kernels.bicgstab_turn, system, numbers, r, v, p),
        ]  # fmt: skip


class GMRES(LinearSolverState):
    """The solver by the restarted GMRES method, with its work arrays; see :func:`gmres`."""

    def __init__(
        self,
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
    ) -> None:
        if restart < 1:
            raise MisuseError(f"restart is {restart}", remedy="pass the number of vectors of the basis")
        self._restart, self._left = int(restart), is_left_preconditioner
        super().__init__(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph)
        self._choices |= {"is_left_preconditioner": is_left_preconditioner, "restart": restart}

    @property
    def _cycle_size(self) -> int:
        return min(self._restart, self._maxiter)

    def _allocate(self) -> None:
        size, systems = self._cycle_size, self._systems
        self._r, self._v, self._w, self._u = (self._vector() for _ in range(4))
        kind = self._r.flat
        self._basis = zeros((size + 1, self._size), dtype=kind.dtype, device=self._place)
        self._parts = self._numbers_of(size + 2, self._chunks)
        self._hessenberg = self._numbers_of(systems, size + 1, size)
        self._along, self._goal = self._numbers_of(systems, size), self._numbers_of(systems, size + 1)
        self._cosines, self._sines = self._numbers_of(systems, size), self._numbers_of(systems, size)
        self._column = array(np.zeros(1, np.uint32), device=self._place)
        scalar = np.dtype(self._squares._data.dtype).type
        self._eps = scalar(np.finfo(kind._data.dtype).eps)

    def _begin(self, given: Operands) -> list[Step]:
        return [*self._tolerance(given, self._parts), *self._end_of_cycle(given)]

    def _end_of_cycle(self, given: Operands) -> list[Step]:
        return [
            self._residual(given, self._r),
            self._of_chunks(kernels.inner, self._r, self._r, self._parts, 0),
            self._of_systems(kernels.residual_square, self._first, self._parts, self._squares),
        ]

    def _cycle(self, given: Operands) -> list[Step]:
        size, first, system = self._cycle_size, self._first, self._system
        r, v, w, u, parts, numbers, column = (
            self._r, self._v, self._w, self._u, self._parts, self._numbers, self._column)  # fmt: skip
        left, right = (given.M, None) if self._left else (None, given.M)
        start = r if left is None else w
        solved = u if right is None else w
        return [
            *([self._product(left, r, w), self._of_chunks(kernels.inner, w, w, parts, 0)] if left is not None else
              [self._of_chunks(kernels.inner, r, r, parts, 0)]),
            self._of_systems(kernels.gmres_start, first, parts, 0, self._goal, numbers, column),
            self._of_chunks(kernels.gmres_first, system, numbers, start, v, self._basis),
            *self._column_steps(given, left, right) * size,
            self._of_systems(kernels.back_substitute, self._hessenberg, self._goal, self._along, size),
            self._of_chunks(kernels.combine, system, self._along, self._basis, u, size),
            *([self._product(right, u, w)] if right is not None else []),
            self._of_chunks(kernels.add, solved, WorkVector(given.x)),
            *self._end_of_cycle(given),
        ]  # fmt: skip

    def _column_steps(self, given: Operands, left: Any, right: Any) -> list[Step]:
        first, system, column, parts = self._first, self._system, self._column, self._parts
        v, w, u, last = self._v, self._w, self._u, self._cycle_size + 1
        products = [self._product(given.A, v, w)]
        if left is not None:
            products = [self._product(given.A, v, u), self._product(left, u, w)]
        elif right is not None:
            products = [self._product(right, v, u), self._product(given.A, u, w)]
        steps = products
        for again in (0, 1):
            steps += [
                self._of_chunks(kernels.project, column, self._basis, w, parts),
                self._of_systems(
                    kernels.gmres_coefficients, first, parts, column, self._along, self._hessenberg, again
                ),
                self._of_chunks(kernels.orthogonalize, system, column, self._along, self._basis, w, parts, last),
            ]
        return [
            *steps,
            self._of_systems(
                kernels.rotate, first, parts, last, column, self._hessenberg, self._cosines, self._sines, self._goal,
                self._numbers, self._eps,
            ),
            self._of_chunks(kernels.gmres_next, system, column, self._numbers, w, v, self._basis),
            self._packed(kernels.next_column, 1, [column]),
        ]  # fmt: skip
