"""Conjugate gradients and conjugate residuals, for symmetric matrices.

Saad, Iterative Methods for Sparse Linear Systems, 2nd edition (2003), algorithms 6.18, 9.1 and 6.20.
"""

from __future__ import annotations

import operator
from typing import Any

from diffkern.optim.linear import kernels
from diffkern.optim.linear.operands import Operands
from diffkern.optim.linear.state import LinearSolverState, Step, WorkVector
from diffkern.runtime.arrays.array import array

__all__ = ["CG", "CR"]


class _Conjugate(LinearSolverState):
    """The part that both methods have in common: they may be restarted."""

    _is_for_symmetric = True

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
        *,
        restart: int | None = None,
    ) -> None:
        if isinstance(restart, bool) or not (restart is None or hasattr(restart, "__index__")):
            raise TypeError(f"restart is a number of iterations, not {restart!r}")
        if restart is not None and restart <= 0:
            raise ValueError(f"restart is a positive number of iterations, not {restart}")
        self._restart = None if restart is None else operator.index(restart)
        super().__init__(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph)
        self._choices |= {"restart": restart}

    @property
    def _cycle_size(self) -> int:
        return self._restart or 1

    def _start(self, given: Operands) -> list[Step]:
        """Return the steps that compute the residual and the first direction."""
        raise NotImplementedError

    def _iteration(self, given: Operands) -> list[Step]:
        raise NotImplementedError

    def _begin(self, given: Operands) -> list[Step]:
        return [*self._tolerance(given, self._parts), *self._start(given)]

    def _cycle(self, given: Operands) -> list[Step]:
        steps = self._iteration(given)
        # A cycle ends with the residual itself, so that the norm is not that of a recurrence.
        return steps if self._restart is None else [*steps * self._restart, *self._start(given)]

    _parts: array


class CG(_Conjugate):
    """The solver by conjugate gradients, with its work arrays; see :func:`cg`."""

    def _allocate(self) -> None:
        self._r, self._p, self._q = self._vector(), self._vector(), self._vector()
        self._z = self._r
        self._parts = self._numbers_of(2, self._chunks)

    def _preconditioned(self, given: Operands) -> list[Step]:
        if given.M is None:
            self._z = self._r
            return []
        if self._z is self._r:
            self._z = self._vector()
        return [self._product(given.M, self._r, self._z)]

    def _start(self, given: Operands) -> list[Step]:
        return [
            self._residual(given, self._r),
            *self._preconditioned(given),
            self._of_chunks(kernels.start_direction, self._r, self._z, self._p, self._parts),
            self._of_systems(kernels.start_numbers, self._first, self._parts, self._squares, self._numbers),
        ]

    def _iteration(self, given: Operands) -> list[Step]:
        parts, first, system = self._parts, self._first, self._system
        p, q, r, x = self._p, self._q, self._r, WorkVector(given.x)
        preconditioned = self._preconditioned(given)
        if preconditioned:
            preconditioned.append(self._of_chunks(kernels.inner, r, self._z, parts, 1))
        return [
            self._product(given.A, p, q),
            self._of_chunks(kernels.inner, p, q, parts, 0),
            self._of_systems(kernels.cg_step, first, parts, self._squares, self._tolerances, self._numbers),
            self._of_chunks(kernels.move, system, self._numbers, p, q, x, r, parts),
            *preconditioned,
            self._of_systems(
                kernels.next_direction, first, parts, int(bool(preconditioned)), self._squares, self._numbers
            ),
            self._of_chunks(kernels.turn, system, self._numbers, self._z, p),
        ]


class CR(_Conjugate):
    """The solver by conjugate residuals, with its work arrays; see :func:`cr`."""

    def _allocate(self) -> None:
        self._r, self._p, self._q, self._az = (self._vector() for _ in range(4))
        self._z = self._y = self._r
        self._parts = self._numbers_of(2, self._chunks)

    def _start(self, given: Operands) -> list[Step]:
        if given.M is None:
            self._z, self._y, preconditioned = self._r, self._q, []
        else:
            if self._z is self._r:
                self._z, self._y = self._vector(), self._vector()
            preconditioned = [self._product(given.M, self._r, self._z)]
        return [
            self._residual(given, self._r),
            *preconditioned,
            self._of_chunks(kernels.start_direction, self._r, self._z, self._p, self._parts),
            self._product(given.A, self._p, self._q),
            self._product(given.A, self._p, self._az),
            self._of_chunks(kernels.inner, self._z, self._az, self._parts, 1),
            self._of_systems(kernels.start_numbers, self._first, self._parts, self._squares, self._numbers),
        ]

    def _iteration(self, given: Operands) -> list[Step]:
        parts, first, system, numbers = self._parts, self._first, self._system, self._numbers
        p, q, r, z, y, x = self._p, self._q, self._r, self._z, self._y, WorkVector(given.x)
        with_m = given.M is not None
        return [
            *([self._product(given.M, q, y)] if given.M is not None else []),
            self._of_chunks(kernels.inner, q, y, parts, 0),
            self._of_systems(kernels.cr_step, first, parts, self._squares, self._tolerances, numbers),
            self._of_chunks(kernels.move, system, numbers, p, q, x, r, parts),
            *([self._of_chunks(kernels.subtract, system, numbers, y, z)] if with_m else []),
            self._product(given.A, z, self._az),
            self._of_chunks(kernels.inner, z, self._az, parts, 1),
            self._of_systems(kernels.next_direction, first, parts, 1, self._squares, numbers),
            self._of_chunks(kernels.turn_both, system, numbers, z, self._az, p, q),
        ]
