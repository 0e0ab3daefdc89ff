"""Derivatives of solutions of linear systems: those of what the equation says, whatever the iterations were.

With ``A x = b`` the cotangent of b is the solution of the transposed system, and that of the matrix follows from it:
``A^T lambda = ct_x``, ``ct_b = lambda``, ``ct_A = -lambda x^T``. The derivatives solve systems by the same method, and
have derivatives themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from diffkern.errors import LaunchError
from diffkern.optim.linear.operands import Operands
from diffkern.optim.linear.operators import FunctionOperator, LinearOperator, batches_of, numbers_of_vectors
from diffkern.optim.linear.recorded import on_host
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_copy import clone, copy
from diffkern.runtime.arrays.create import zeros_like
from diffkern.runtime.effects.custom_operation import custom_operation
from diffkern.runtime.effects.no_grad import no_grad
from diffkern.runtime.memory.scope import under
from diffkern.runtime.memory.state import is_handled, will_replay
from diffkern.transforms.higher import jvp, vjp
from diffkern.transforms.implicit import length_of, numbers_of
from diffkern.transforms.kept_solutions import found_again

__all__ = [
    "NEAR",
    "Solver",
    "check_symmetry",
    "converge",
    "known",
    "norm_of",
    "norms_of",
    "not_solved",
    "solution",
    "solve_on_tape",
    "transposed",
]

Make = Callable[..., Any]
_PASSES = 3
"""Times that an iteration begins again where its recurrence has lost the residual."""
NEAR = 10.0
"""The ratio of a residual to the tolerance that its recurrence has reached, at most."""

Solver = Callable[[str, LinearOperator, array, array, "LinearOperator | None"], None]
"""Solves a system in place: its name for messages, matrix, right-hand side, where to begin and what takes
the solution, preconditioner. It raises unless it has done so."""


@dataclass(frozen=True)
class _LinearSystem:
    """A linear system as an operation, and how its derivatives are solved."""

    name: str
    solver: Solver
    A: LinearOperator
    M: LinearOperator | None
    symmetric: bool

    def turned(self, parameters: Sequence[array]) -> _LinearSystem:
        """Return the transposed system."""
        name = self.name if self.name.startswith("the adjoint") else f"the adjoint of {self.name}"
        A, M = self.A._with(parameters), self.M
        # A matrix with parameters is transposed all the same: its entries may vary each by itself.
        if not self.symmetric or A._parameters or A._transposed is not None:
            A = transposed(A)
        if M is not None and not self.symmetric:
            M = transposed(M)
        return replace(self, name=name, A=A, M=M)


def transposed(operator: LinearOperator) -> LinearOperator:
    """Return the transposed operator: its own, or the adjoint of its product."""
    if operator._transposed is not None:
        made = operator._transposed()
        made.batch_offsets, made.max_batch_length = operator.batch_offsets, operator.max_batch_length
        return made

    def product(x: array, *given: array) -> array:
        # The product is linear: its derivative is the same everywhere.
        held = operator._with(given)
        found: array = vjp(held._times, (zeros_like(x, requires_grad=False),), x)[1][0]
        return found

    return FunctionOperator(
        product, operator.shape, operator.dtype, operator.device, operator._parameters,
        lambda *given: operator._with(given), operator.batch_offsets,
    )  # fmt: skip


def solution(
    name: str, solver: Solver, A: LinearOperator, b: array, x0: array, M: LinearOperator | None = None,
    first: Solver | None = None, symmetric: bool = False,
) -> array:  # fmt: skip
    """Return the solution of a linear system, with its derivatives with respect to right-hand side and matrix.

    Parameters
    ----------
    name : str
        The name of the system for messages.
    solver : callable
        Solves the systems of derivatives.
    A : LinearOperator
        The matrix; derivatives with respect to its parameters are those of its product.
    b, x0 : array
        The right-hand side, and where to begin. No gradient goes to the latter.
    M : LinearOperator, optional
        A preconditioner, a constant for derivatives.
    first : callable, optional
        Solves this system, in the place of `solver`.
    symmetric : bool, optional
        Whether the method is for symmetric matrices and preconditioners.
    """
    return _solution(_LinearSystem(name, solver, A, M, symmetric), b, x0, first)


def known(solver: Solver) -> Solver:
    """Return what solves a system unless an earlier call of the function that is differentiated has done so."""

    def solve(name: str, A: LinearOperator, b: array, x: array, M: LinearOperator | None) -> None:
        def own() -> array:
            solver(name, A, b, x, M)
            return x

        given = lambda: np.concatenate([numbers_of(b), numbers_of(x)])  # noqa: E731
        found = found_again(given, lambda held: numbers_of(A._times(held)), own)
        if found is not x:
            copy(x, found)

    return solve


def _solution(system: _LinearSystem, b: array, x0: array, first: Solver | None = None) -> array:
    probe = _ProductProbe(system)

    def forward(b: array, *parameters: array) -> array:
        A = system.A._with(parameters)
        # Of what the product reads all is looked at here, once.
        if is_handled():
            A._times(b)
            probe.take(A, b)
        # An iteration has no derivative, and preconditioners are constants.
        with under(None):
            x = clone(x0, requires_grad=False)
            (first or system.solver)(system.name, A, b, x, system.M)
        return x

    forward.__name__ = system.name

    def backward(args: Any, results: Any, cotangents: Any) -> Any:
        (b, *parameters), (x,), (ct,) = args, results, cotangents
        if not x.size:
            return ct, *(zeros_like(held, requires_grad=False) for held in parameters)
        probe.check(parameters, b)
        turned = system.turned(parameters)
        multiplier = _solution(turned, ct, zeros_like(ct, requires_grad=False))
        if turned.A is system.A:
            _check_multiplier(turned, multiplier, ct)
        if not parameters:
            return (multiplier,)
        found = vjp(lambda *given: system.A._with(given)._times(x), tuple(parameters), multiplier * -1.0)[1]
        return multiplier, *found

    def along(args: Any, results: Any, tangents: Any) -> Any:
        (b, *parameters), (x,), (t_b, *changes) = args, results, tangents
        probe.check(parameters, b)
        side = t_b
        moved = [k for k, change in enumerate(changes) if change is not None]
        if moved:

            def product(*varied: array) -> array:
                held = list(parameters)
                for k, value in zip(moved, varied, strict=True):
                    held[k] = value
                return system.A._with(held)._times(x)

            change = jvp(product, tuple(parameters[k] for k in moved), tuple(changes[k] for k in moved))[1]
            side = change * -1.0 if side is None else side - change
        if side is None:
            return None
        own = replace(system, name=f"the tangent of {system.name}", A=system.A._with(parameters))
        return _solution(own, side, zeros_like(x, requires_grad=False))

    found: array = custom_operation(forward, vjp=backward, jvp=along)(b, *system.A._parameters)
    return found


def _check_multiplier(system: _LinearSystem, multiplier: array, ct: array) -> None:
    """Raise if a solution of ``A lambda = ct`` does not solve the transposed system, as it does for symmetric A."""
    with no_grad():
        own = system.A._times(multiplier)
        try:
            product = transposed(system.A)._times(multiplier)
        except LaunchError:
            # The product is no launches of kernels, and what it says of its symmetry is all that is known.
            check_symmetry(system.name, system.A, ct)
            return

        def compare() -> None:
            side = numbers_of(ct)
            reached, rest = (length_of(numbers_of(found) - side) for found in (own, product))
            if not rest <= 10.0 * reached + float(np.finfo(ct._data.dtype).eps) ** 0.5 * length_of(side):
                raise _not_symmetric(system.name)

        on_host(f"the symmetry of {system.name}", compare, [ct, own, product])


def check_symmetry(name: str, A: LinearOperator, b: array) -> None:
    """Raise if a matrix is found not to be symmetric, by products with two fixed vectors."""
    kind = b._data.dtype
    places = np.arange(1.0, b._data.size + 1)
    probes = [np.sin(places * places), np.cos(3.0 + 7.0 * places * places)]
    vectors = []
    for probe in probes:
        vector = zeros_like(b, requires_grad=False)
        vector.assign(probe.astype(kind).reshape(b._data.shape))
        vectors.append(vector)
    products = [*map(A._times, vectors)]

    def compare() -> None:
        (u, v), (au, av) = (map(numbers_of, held) for held in (vectors, products))
        scale = np.linalg.norm(au) * np.linalg.norm(v) + np.linalg.norm(u) * np.linalg.norm(av)
        if abs(au @ v - u @ av) > 1e3 * np.finfo(kind).eps * scale:
            raise _not_symmetric(name)

    on_host(f"the symmetry of {name}", compare, [*vectors, *products])


def _not_symmetric(name: str) -> LaunchError:
    return LaunchError(
        f"{name}: the matrix is not symmetric, and cg and cr are for those that are", remedy="use gmres or bicgstab"
    )


class _ProductProbe:
    """A product with a fixed vector, by which a derivative tells whether a user's operator is still the same.

    Its function may read numbers that are no parameters; where these change, the derivative would be that of another
    matrix.
    """

    def __init__(self, system: _LinearSystem) -> None:
        self._system = system
        self._known: Any = None

    def take(self, A: LinearOperator, b: array) -> None:
        """Store it; in a recorded sequence numbers are constants, and the product is always what it was."""
        if not A._recordable and not will_replay():
            self._known = self._product(A, b)

    def check(self, parameters: Sequence[array], b: array) -> None:
        """Raise if it is another one."""
        if self._known is None:
            return
        with no_grad():
            found = self._product(self._system.A._with(parameters), b)
        rounding = float(np.finfo(b._data.dtype).eps) ** 0.5
        size = float(np.abs(self._known).max(initial=0.0))
        if not np.allclose(found, self._known, rtol=rounding, atol=rounding * size, equal_nan=True):
            raise LaunchError(
                f"{self._system.name}: the matrix is not what it was when the system was solved: a number or an array "
                "that its product reads has changed since",
                remedy="pass what changes as parameters; a function in a loop keeps a number by def product(x, k=k)",
            )

    def _product(self, A: LinearOperator, b: array) -> Any:
        vector = zeros_like(b, requires_grad=False)
        vector.assign(np.sin(1.0 + np.arange(b._data.size)).astype(b._data.dtype).reshape(b._data.shape))
        return np.asarray(A._times(vector).numpy(), np.float64)


def converge(make: Make, name: str, wanted: float, most: int) -> Callable[..., None]:
    """Return what solves a system in place, or raises unless the residual itself is as small as it shall be.

    Parameters
    ----------
    make : callable
        Returns a solver for operands, with the keyword arguments `tol`, `atol`, `maxiter` and `check_every`.
    name : str
        The name of the method.
    wanted : float
        The norm of the residual, as a part of that of the right side.
    most : int
        Most iterations.
    """

    def solve(system: str, A: LinearOperator, b: array, x: array, M: LinearOperator | None) -> None:
        if will_replay():
            _solve_recorded(make, name, wanted, most, system, Operands(A, b, x, M))
            return
        offsets = None if A.batch_offsets is None else A.batch_offsets.numpy()
        lengths = norms_of(b, offsets)
        scales, begin = _scales(system, lengths), x
        if (scales != 1.0).any():
            b, x = _scaled(b, scales, offsets), _scaled(x, scales, offsets)
        lengths = lengths * scales
        left, worst = most, np.inf
        for _ in range(_PASSES):
            state = make(Operands(A, b, x, M), tol=wanted, atol=0.0, maxiter=left, check_every=4)
            count, _, _ = state()
            if state._met_curvature:
                raise _not_definite(system, name)
            left -= count
            norms = norms_of(A._times(x) - b, offsets)
            if (norms <= NEAR * wanted * lengths).all():
                if x is not begin:
                    copy(begin, _scaled(x, 1.0 / np.where(scales == 0.0, 1.0, scales), offsets))
                return
            worst = float(np.max(norms / np.where(lengths == 0.0, 1.0, lengths)))
            if left <= 0 or not np.isfinite(worst):
                break
        raise not_solved(system, worst, wanted, f"{most - left} iterations of {name}")

    return solve


def _scales(system: str, lengths: Any) -> Any:
    """Return what right sides of these lengths are multiplied by, before their squares are computed."""
    if not np.isfinite(lengths).all():
        raise LaunchError(f"{system}: the right side is not finite", remedy="look where its numbers come from")
    # Squares of what is very small or large are no numbers any more; a power of two scales without rounding. Each
    # system of a batch has a scale of its own, and the solution of one without a right side is zero.
    scales = np.where(lengths == 0.0, 0.0, 1.0)
    extreme = (lengths > 0.0) & ~((lengths > 1e-10) & (lengths < 1e10))
    scales[extreme] = 2.0 ** -np.round(np.log2(lengths[extreme]))
    return scales


def _solve_recorded(make: Make, name: str, wanted: float, most: int, system: str, given: Operands) -> None:
    """Record what :func:`converge` does: iterations that look at their residuals in each replay, and its checks."""
    A, b, x = given.A, given.b, given.x
    offsets = None if A.batch_offsets is None else batches_of(A)
    side, found = zeros_like(b, requires_grad=False), zeros_like(x, requires_grad=False)
    scales = np.ones(1)

    def begin() -> None:
        nonlocal scales
        scales = _scales(system, norms_of(b, offsets))
        side.assign(_scaled(b, scales, offsets))
        found.assign(_scaled(x, scales, offsets))

    on_host(f"the right side of {system}", begin, [b, x], [side, found])
    state = make(replace(given, b=side, x=found), tol=wanted, atol=0.0, maxiter=most, check_every=0)
    state._numbers.zero_()
    for _ in range(_PASSES):
        state()
    rest = zeros_like(b, requires_grad=False)
    A.matvec(found, side, rest, -1.0, 1.0)

    def end() -> None:
        if state._met_curvature:
            raise _not_definite(system, name)
        lengths, norms = norms_of(side, offsets), norms_of(rest, offsets)
        if not (norms <= NEAR * wanted * lengths).all():
            worst = float(np.max(norms / np.where(lengths == 0.0, 1.0, lengths)))
            raise not_solved(system, worst, wanted, f"at most {_PASSES * most} iterations of {name}")
        x.assign(_scaled(found, 1.0 / np.where(scales == 0.0, 1.0, scales), offsets))

    on_host(f"the residual of {system}", end, [found, side, rest, state._numbers], [x])


def _not_definite(system: str, name: str) -> LaunchError:
    return LaunchError(
        f"{system}: the matrix, or the preconditioner, is not positive definite, and {name} is for those that are",
        remedy='pass method="gmres" or method="bicgstab"',
    )


def not_solved(system: str, found: float, wanted: float, by: str) -> LaunchError:
    """Return the error of a system that has not been solved."""
    return LaunchError(
        f"{system} is not solved: the norm of the residual is {found:.3g} of that of the right side, not {wanted:.3g}, "
        f"after {by}",
        remedy="allow a larger tol or maxiter, or pass a preconditioner; the matrix may be singular",
    )


def norm_of(x: array) -> float:
    """Return the Euclidean norm of an array, in double precision."""
    return length_of(numbers_of(x))


def norms_of(x: array, offsets: Any) -> Any:
    """Return the norms of the systems that offsets cut a vector into, of one without offsets."""
    values = numbers_of(x)
    if offsets is None:
        return np.array([length_of(values)])
    return np.array([length_of(values[lo:hi]) for lo, hi in itertools.pairwise(offsets.tolist())])


def _scaled(x: array, scales: Any, offsets: Any) -> array:
    """Return a vector whose systems are multiplied by a number each, in double precision."""
    factors = scales
    if offsets is not None:
        # What belongs to no system stays what it is.
        factors = np.ones(x._data.size)
        factors[offsets[0] : offsets[-1]] = np.repeat(scales, np.diff(offsets))
    made = zeros_like(x, requires_grad=False)
    made.assign((numbers_of(x) * factors).astype(x._data.dtype).reshape(x._data.shape))
    return made


def _store(given: Operands, found: array) -> None:
    """Copy a solution to the unknown, of which what belongs to no system keeps its value and its derivative."""
    offsets = None if given.A.batch_offsets is None else given.A.batch_offsets.numpy()
    if offsets is not None and (offsets[0] > 0 or offsets[-1] < found._data.size):
        kept = clone(given.x)
        begin, end = int(offsets[0]), int(offsets[-1])
        copy(numbers_of_vectors(kept)[begin:end], numbers_of_vectors(found)[begin:end])
        found = kept
    copy(given.x, found)


def solve_on_tape(state: Any, given: Operands) -> Any:
    """Run a solver as one operation with derivatives, which writes the solution.

    What did not converge has no derivative: taking one is an error.
    """
    outcome: list[Any] = []
    own = type(state).__name__.lower()

    def first(name: str, A: LinearOperator, b: array, x: array, M: LinearOperator | None) -> None:
        if will_replay():
            if state._check_every or not state._relative:
                raise LaunchError(
                    f"{own} is recorded within a tape, and looks at residuals on the host",
                    remedy="pass check_every=0 and a relative tolerance tol, or solve without a record",
                )
            again = state._again(Operands(A, b, x, M), callback=state._callback, check_every=0)
            outcome.append(again())
            return
        again = state._again(Operands(A, b, x, M), callback=state._callback, check_every=state._check_every or 1)
        outcome.append((*again(), norm_of(b), (again._squares, again._tolerances)))

    def solver(name: str, A: LinearOperator, b: array, x: array, M: LinearOperator | None) -> None:
        if will_replay():
            # In each replay, before the system of the derivative.
            _, squares, tolerances = outcome[-1]
            on_host(f"the convergence of {own}", lambda: _check_converged(own, squares, tolerances), outcome[-1])
            converge(state._again, own, state._relative, max(2 * state._maxiter, 10 * x._data.size))(name, A, b, x, M)
            return
        count, norm, tolerance, length, _ = outcome[-1]
        if not norm <= tolerance < np.inf:
            raise _did_not_converge(own, norm, tolerance, f"after {count} iterations")
        # An absolute tolerance was meant for the right side, which has another size here.
        wanted = state._relative or min(1e-3, tolerance / max(length, tolerance))
        most = max(2 * state._maxiter, 10 * x._data.size)
        converge(state._again, own, wanted, most)(name, A, b, x, M)

    found = solution(own, solver, given.A, given.b, given.x, given.M, first, state._is_for_symmetric)
    _store(given, found)
    if will_replay():
        return outcome[-1]
    count, norm, tolerance, _, squares = outcome[-1]
    if state._check_every:
        return count, norm, tolerance
    return array(np.array([count], np.int32), device=given.x.device), *squares


def _check_converged(own: str, squares: array, tolerances: array) -> None:
    """Raise unless all systems of a recorded solver have converged in this replay."""
    norms, wanted = np.sqrt(numbers_of(squares)), np.sqrt(numbers_of(tolerances))
    if not (np.isfinite(wanted) & (norms <= wanted)).all():
        worst = int(np.argmax(np.where(norms <= wanted, -1.0, norms)))
        raise _did_not_converge(own, float(norms[worst]), float(wanted[worst]), "in this replay")


def _did_not_converge(own: str, norm: float, tolerance: float, after: str) -> LaunchError:
    return LaunchError(
        f"{own} did not converge: the norm of the residual is {norm:.3g} {after}, not {tolerance:.3g}; what is no "
        "solution has not the derivative of one",
        remedy="allow more iterations or a larger tolerance, or pass a preconditioner; the matrix may be singular",
    )
