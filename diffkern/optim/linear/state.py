"""The common parts of the iterative solvers: operands and their checks, work arrays, the loop, and its end.

A vector of the iteration is seen in two ways: as an array like the right-hand side, for products, and as the array of
its components, for everything else. Numbers of an iteration, such as step lengths, stay on the device. A system of a
batch that has converged is frozen: the steps of later iterations have the length 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from diffkern.errors import MisuseError, described
from diffkern.ir.types import FLOAT16, FLOAT32, FLOAT64
from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS
from diffkern.optim.lbfgs import components
from diffkern.optim.linear import kernels
from diffkern.optim.linear.implicit import solve_on_tape
from diffkern.optim.linear.operands import Operands, operands
from diffkern.optim.linear.operators import LinearOperator, batches_of
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_copy import clone, copy
from diffkern.runtime.arrays.convert import component_shape
from diffkern.runtime.arrays.create import zeros, zeros_like
from diffkern.runtime.memory.memory import overlaps
from diffkern.runtime.memory.state import check_not_replayed, is_handled, will_replay
from diffkern.runtime.records.graph import Graph, capture_while
from diffkern.runtime.records.launch import launch
from diffkern.runtime.records.sequence import record

__all__ = ["LinearSolverState", "Step", "WorkVector"]

Step = Callable[[], Any]
"""A part of an iteration, with its arguments packed."""
_CHUNK = 4096
"""Components of a chunk: a partial sum of as many rounds little, and a thread with as many is worth its start."""
_COLUMNS = 6


def default_tolerance(scalar: Any) -> float:
    """Return the tolerance of a scalar type if none is given."""
    return {FLOAT64: 1e-12, FLOAT32: 1e-6}.get(scalar, 1e-3)


class LinearSolverState:
    """A solver with its work arrays. Calling it runs it, with other operands of the same kind if some are given.

    Parameters
    ----------
    A : array, LinearOperator or sparse matrix
        The matrix.
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
        every `check_every` iterations. With `check_every` of 0 a kernel, launched with one thread after each cycle: its
        arguments are arrays of the number of iterations, the squared norms, and the squared tolerances.
    check_every : int, optional
        How many iterations run between two looks at the residual. With 0 the number of iterations and the norms stay on
        the device, and the solver may be recorded and captured.
    use_cuda_graph : bool, optional
        For programs written for Warp; it has no effect.
    """

    _preconditioner_is_fixed = False
    _is_for_symmetric = False

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
    ) -> None:
        if type(self) is LinearSolverState:
            raise MisuseError("this is no solver by itself", remedy="make one of CG, CR, BiCGSTAB and GMRES")
        given = operands(A, b, x, M)
        # A copy of a right side with strides is made in each run, not here once for all.
        self._own = replace(given, b=b)
        if check_every < 0:
            raise MisuseError(f"check_every is {check_every}", remedy="pass a number of iterations, 0 for no checks")
        default = default_tolerance(given.scalar)
        if tol is None and atol is None:
            tol = atol = default
        self._relative = float(tol if tol is not None else atol)  # type: ignore[arg-type]
        self._absolute = float(atol if atol is not None else self._relative)
        self._least = default**3
        self._maxiter = max(1, math.ceil(maxiter)) if maxiter else max(given.A.shape[0], 1)
        self._callback, self._check_every = callback, int(check_every)
        self._choices: dict[str, Any] = {"tol": tol, "atol": atol, "maxiter": maxiter}
        self._size = b.size * math.prod(component_shape(b._element))
        self._place = b._memory.device
        self._work = FLOAT32 if given.scalar == FLOAT16 else given.scalar
        self._cut(given.A)
        self._squares = self._numbers_of(self._systems)
        self._tolerances = self._numbers_of(self._systems)
        self._numbers = self._numbers_of(self._systems, _COLUMNS)
        self._cur_iter_and_condition = zeros(2, dtype=SCALARS["int32"], device=self._place)
        self._packs = True
        self._steps: tuple[Operands, list[Step], list[Step]] | None = None
        self._loop: tuple[list[Step], Graph] | None = None
        self._allocate()

    # -- what a method consists of -----------------------------------------------------------------------------------

    def _allocate(self) -> None:
        """Make the work arrays of the method."""
        raise NotImplementedError

    def _begin(self, given: Operands) -> list[Step]:
        """Return the steps before the first iteration, which leave the squared norms of the residuals."""
        raise NotImplementedError

    def _cycle(self, given: Operands) -> list[Step]:
        """Return the steps of an iteration, or of as many as belong together."""
        raise NotImplementedError

    @property
    def _cycle_size(self) -> int:
        """The number of iterations of a cycle."""
        return 1

    # -- parts of methods --------------------------------------------------------------------------------------------

    def _vector(self) -> WorkVector:
        return WorkVector(zeros_like(self._own.b, requires_grad=False))

    def _numbers_of(self, *shape: int) -> array:
        return zeros(shape, dtype=SCALARS[self._work.name], device=self._place)

    def _cut(self, A: LinearOperator) -> None:
        """Cut vectors into chunks, none of which crosses from one system into another."""
        offsets = np.array([0, self._size]) if A.batch_offsets is None else batches_of(A)
        if (np.diff(offsets) < 0).any() or offsets[0] < 0 or offsets[-1] > self._size:
            raise MisuseError(
                f"batch_offsets are not rising numbers from 0 to the {self._size} unknowns",
                remedy="pass where each system begins, then where the last one ends",
            )
        bounds = [
            (lo, min(lo + _CHUNK, end), system)
            for system, (begin, end) in enumerate(itertools.pairwise(offsets.tolist()))
            for lo in range(begin, end, _CHUNK)
        ]
        table = np.array(bounds, np.uint32).reshape(-1, 3)
        self._systems, self._chunks = len(offsets) - 1, len(bounds)
        counts = np.bincount(table[:, 2].astype(int), minlength=self._systems)
        # Indices that cannot be negative need no wrapping.
        self._first, self._lo, self._hi, self._system = (
            array(np.ascontiguousarray(column, np.uint32), device=self._place)
            for column in (np.concatenate([[0], np.cumsum(counts)]), *table.T)
        )

    def _of_chunks(self, kernel: Kernel, *args: Any) -> Step:
        return self._packed(kernel, self._chunks, [self._lo, self._hi, *args])

    def _of_systems(self, kernel: Kernel, *args: Any) -> Step:
        return self._packed(kernel, self._systems, [*args])

    def _packed(self, kernel: Kernel, dim: int, args: list[Any]) -> Step:
        given = [arg.flat if isinstance(arg, WorkVector) else arg for arg in args]
        if not self._packs:
            return partial(launch, kernel, dim, given)
        step: Step = launch(kernel, dim, given, record_cmd=True).launch
        return step

    def _product(
        self,
        operator: LinearOperator,
        x: WorkVector,
        z: WorkVector,
        y: WorkVector | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> Step:
        """Return the step ``z = alpha * A @ x + beta * y``."""
        run = partial(operator.matvec, x.whole, (z if y is None else y).whole, z.whole, alpha, beta)
        # What a user's function does besides launches would be lost in a record.
        if not self._packs or not operator._recordable or will_replay():
            return run
        with record(run=False) as sequence:
            run()
        step: Step = sequence.replay
        return step

    def _residual(self, given: Operands, r: WorkVector) -> Step:
        return self._product(given.A, WorkVector(given.x), r, WorkVector(given.b), -1.0, 1.0)

    def _tolerance(self, given: Operands, parts: array) -> list[Step]:
        """Return the steps that compute the tolerance of each system."""
        b = WorkVector(given.b)
        # Not the squares of the user's numbers: those of small ones vanish in single precision.
        squares = [np.dtype(self._squares._data.dtype).type(max(v, 0.0) ** 2) for v in (
            self._relative, self._absolute, self._least)]  # fmt: skip
        return [
            self._of_chunks(kernels.inner, b, b, parts, 0),
            self._of_systems(kernels.tolerance, self._first, parts, 0, *squares, self._tolerances),
        ]

    def _again(self, given: Operands, **changed: Any) -> LinearSolverState:
        """Return a solver with the same choices for another system."""
        return type(self)(given.A, given.b, given.x, M=given.M, **{**self._choices, **changed})

    @property
    def _met_curvature(self) -> bool:
        """True if a product ``p . A p`` was not positive, as it is for positive definite matrices."""
        return bool((self._numbers.numpy()[:, kernels.CURVATURE] != 0.0).any())

    # -- running -----------------------------------------------------------------------------------------------------

    def __call__(self, A: Any = None, b: array | None = None, x: array | None = None, M: Any = None) -> Any:
        """Run the solver, with other operands in the place of those that it was made with.

        Parameters
        ----------
        A, b, x, M : optional
            Operands of the same shapes, types, devices and batches.

        Returns
        -------
        tuple
            The number of iterations, the norm of the residual, and the tolerance, of the system of a batch that is
            furthest from it; with `check_every` of 0 arrays: the number of iterations, and for each system the squares
            of norm and tolerance.

        Raises
        ------
        ValueError
            If an operand is of another kind.
        """
        own = self._own
        given = operands(
            own.A if A is None else A, own.b if b is None else b, own.x if x is None else x, own.M if M is None else M
        )
        self._check_compatible(given)
        return solve_on_tape(self, given) if is_handled() else self._run(given)

    def _check_compatible(self, given: Operands) -> None:
        own = self._own
        for name in ("b", "x"):
            had, has = getattr(own, name), getattr(given, name)
            if had.shape != has.shape or had._element != has._element or had._memory.device is not has._memory.device:
                raise ValueError(f"the solver was made for {name} like {described(had)}, not {described(has)}")
        if own.A.shape != given.A.shape or own.A.scalar_type != given.A.scalar_type:
            raise ValueError(f"the solver was made for {own.A!r} of {own.A.dtype!r}, not for {given.A!r}")
        if given.A is not own.A:
            if given.A.batch_offsets is not own.A.batch_offsets:
                raise ValueError("the solver was made for other batch_offsets")
            if given.A.max_batch_length != own.A.max_batch_length:
                raise ValueError("the solver was made for another max_batch_length")
        if self._preconditioner_is_fixed and (own.M is None) != (given.M is None):
            raise ValueError(f"the solver was made {'without' if own.M is None else 'with'} a preconditioner")

    def _run(self, given: Operands) -> Any:
        if not given.x.is_contiguous or _is_read(given):
            moved = replace(given, x=clone(given.x))
            found = self._run(moved)
            copy(given.x, moved.x)
            return found
        begin, cycle = self._steps_of(given)
        if self._check_every == 0:
            return self._run_on_device(begin, cycle)
        check_not_replayed(
            "a solver that looks at residuals on the host is recorded: each replay would make as many iterations",
            "pass check_every=0, with which the residuals are looked at in each replay",
        )
        return self._run_on_host(begin, cycle)

    def _steps_of(self, given: Operands) -> tuple[list[Step], list[Step]]:
        kept = self._steps
        same = kept is not None and all(getattr(kept[0], name) is getattr(given, name) for name in ("A", "b", "x", "M"))
        if kept is None or not same or will_replay():
            # What runs once is not worth being packed.
            self._packs = False
            begin = self._begin(given)
            self._packs = True
            self._steps = kept = (given, begin, self._cycle(given))
        return kept[1], kept[2]

    def _run_on_host(self, begin: list[Step], cycle: list[Step]) -> tuple[int, float, float]:
        size = self._cycle_size
        cycles, every = -(-self._maxiter // size), self._check_every
        self._numbers.zero_()
        for step in begin:
            step()
        done = 0
        while True:
            norm, tolerance = self._norms()
            if self._callback is not None:
                self._callback(done * size, norm, tolerance)
            if norm <= tolerance or done >= cycles:
                return done * size, norm, tolerance
            # The next look is behind the cycle that reaches the next multiple of `check_every`.
            until = min(-(-(done * size // every + 1) * every // size), cycles)
            for _ in range(until - done):
                for step in cycle:
                    step()
            done = until

    def _norms(self) -> tuple[float, float]:
        """Return the norm of the residual and the tolerance of the system that is furthest from it."""
        squares, tolerances = self._squares.numpy(), self._tolerances.numpy()
        if self._systems == 0:
            return 0.0, 0.0
        # NaN is the furthest of all.
        with np.errstate(invalid="ignore", over="ignore"):
            worst = int(np.argmax(squares / tolerances)) if self._systems > 1 else 0
        return math.sqrt(squares[worst]), math.sqrt(tolerances[worst])

    def _run_on_device(self, begin: list[Step], cycle: list[Step]) -> tuple[array, array, array]:
        """Run without a look of the host; in a record, as steps of it."""
        progress, size = self._cur_iter_and_condition, self._cycle_size
        results = progress[:1], self._squares, self._tolerances
        most = -(-self._maxiter // size) * size
        count = self._packed(
            kernels.count_cycle, 1, [self._squares, self._tolerances, progress, size, np.int32(most)]
        )  # fmt: skip
        start = self._packed(kernels.count_cycle, 1, [self._squares, self._tolerances, progress, 0, np.int32(most)])
        look = _nothing if self._callback is None else partial(launch, self._callback, 1, [*results])
        progress.zero_()
        for step in (*begin, start, look):
            step()

        def body() -> None:
            for step in (*cycle, count, look):
                step()

        loop: Any = body
        if self._may_keep():
            kept = self._loop
            if kept is None or kept[0] is not cycle:
                with record(run=False) as sequence:
                    body()
                self._loop = kept = (cycle, Graph(sequence))
            loop = kept[1]
        capture_while(progress[1:], loop)
        return results

    def _may_keep(self) -> bool:
        """Return whether the record of an iteration serves the next call too: a user's function may do more."""
        steps_of = self._steps
        if steps_of is None or will_replay():
            return False
        return all(operator is None or operator._recordable for operator in (steps_of[0].A, steps_of[0].M))


@dataclass(frozen=True)
class WorkVector:
    """A vector in both of its forms: like the right-hand side, and as its components."""

    whole: array

    @cached_property
    def flat(self) -> array:
        """The components."""
        return components(self.whole)


def _is_read(given: Operands) -> bool:
    """Return whether the unknown shares memory with what an iteration reads."""
    read = [given.b, *given.A._parameters, *(given.M._parameters if given.M is not None else ())]
    return any(overlaps(given.x._data, held._data) for held in read)


def _nothing() -> None:
    pass
