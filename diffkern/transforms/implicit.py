"""Solutions of equations, with derivatives by the implicit function theorem.

An equation is given by its residual, a function of arrays that launches kernels. How the solution was found does not
matter for its derivative, of which nothing is kept but the solution: that is the solution of a linear equation, whose
matrix is the residual's Jacobian, and is never formed. It is solved by the same function, so that derivatives of any
order follow in both modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffkern.errors import LaunchError, MisuseError, described
from diffkern.ir.structs import Struct
from diffkern.ir.types import FLOAT32, FLOAT64, is_complex, scalar_of
from diffkern.process.dataclass import dataclass
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_copy import clone
from diffkern.runtime.arrays.create import zeros_like
from diffkern.runtime.effects.custom_operation import custom_operation
from diffkern.runtime.effects.no_grad import no_grad
from diffkern.runtime.memory.state import is_handled
from diffkern.transforms.gmres import Numbers, gmres
from diffkern.transforms.higher import jvp, vjp
from diffkern.transforms.kept_solutions import found_again

__all__ = [
    "Equation",
    "apply_implicitly",
    "check_arguments",
    "fixed_point",
    "length_of",
    "not_solved",
    "numbers_of",
    "root",
    "solved",
]

Function = Callable[..., Any]


@dataclass(frozen=True)
class Equation:
    """A residual that is to be zero, and how near to zero counts.

    Attributes
    ----------
    residual
        The function of the unknown and the parameters.
    name
        The name of the equation for messages.
    tol
        The largest number in the residual of a solution; None for that of the type.
    linear
        Whether the residual is linear in the unknown; then `tol` is a part of the residual at zero.
    solve_linear
        Solves the linear equations of derivatives, whose matrix is symmetric: takes a name for messages, the right
        side, and the solution and the parameters at which the Jacobian is taken. By default they are solved by GMRES.
    of_derivative
        True if it belongs to a derivative, and so differs from direction to direction.
    """

    residual: Function
    name: str
    tol: float | None
    maxiter: int
    linear: bool = False
    solve_linear: Callable[[str, array, Sequence[Any]], array] | None = None
    of_derivative: bool = False

    def tolerance(self, x: array, first: float) -> float:
        """Return the largest number in the residual of a solution, given that at the beginning."""
        single = x._data.dtype.itemsize < 8
        tol = (1e-5 if single else 1e-10) if self.tol is None else self.tol
        return tol * first if self.linear else tol


class _ResidualProbe:
    """The numbers of a residual near a solution, by which a derivative tells whether it is still the same function.

    A residual may read numbers and arrays that are no parameters; where these change, its derivative would be that of
    another equation.
    """

    def __init__(self, equation: Equation) -> None:
        self._equation = equation
        self._known: Numbers | None = None

    def take(self, x: array, theta: Sequence[Any]) -> None:
        """Store them."""
        self._known = self._numbers(x, theta)

    def check(self, x: array, theta: Sequence[Any]) -> None:
        """Raise if they are others."""
        known = self._known
        if known is None:
            return
        with no_grad():
            found = self._numbers(x, theta)
        # Sums of many threads may be rounded otherwise each time.
        rounding = float(np.finfo(x._data.dtype).eps) ** 0.5
        size = float(np.abs(known, where=np.isfinite(known), out=np.zeros_like(known)).max(initial=0.0))
        if not np.allclose(found, known, rtol=rounding, atol=rounding * size, equal_nan=True):
            raise LaunchError(
                f"{self._equation.name}: the residual is not what it was when it was solved: a number or an array "
                "that it reads has changed since",
                remedy="pass what changes as parameters behind the unknown; a function in a loop keeps a number by "
                "def residual(x, *theta, k=k)",
            )

    def _numbers(self, x: array, theta: Sequence[Any]) -> Numbers:
        # Not at the solution, where the residual is zero whatever its factors are.
        near = numbers_of(x)
        near = near + (0.1 + 0.1 * np.abs(near)) * np.sin(1.0 + np.arange(near.size))
        moved = clone(x)
        moved.assign(near.astype(x._data.dtype).reshape(x._data.shape))
        return _residual(self._equation, moved, theta, may_overflow=True)


def apply_implicitly(solve: Function, equation: Equation, x0: array, theta: Sequence[Any]) -> array:
    """Return the solution that a function finds, with the derivatives of the solution of an equation."""
    probe = _ResidualProbe(equation)

    def forward(x0: array, *theta: Any) -> array:
        if equation.of_derivative:
            found: array = solve(x0, *theta)
        else:
            found = found_again(
                lambda: numbers_of(x0), lambda x: _residual(equation, x, theta), lambda: solve(x0, *theta)
            )
        if is_handled():
            probe.take(found, theta)
        return found

    forward.__name__ = equation.name

    def backward(args: Any, results: Any, cotangents: Any) -> Any:
        (_, *theta), (x,), (ct,) = args, results, cotangents
        probe.check(x, theta)
        given, smooth, merged = _parted(theta)
        # With r(x, θ) = 0: (∂r/∂x)ᵀ λ = ct, and the cotangent of θ is -(∂r/∂θ)ᵀ λ.
        name = f"the adjoint of {equation.name}"
        adjoint = Equation(
            lambda multiplier, x, ct, *theta: vjp(lambda x: equation.residual(x, *theta), (x,), multiplier)[1][0] - ct,
            name, None, equation.maxiter, linear=True, of_derivative=True,
        )  # fmt: skip
        if equation.solve_linear is not None:
            multiplier = equation.solve_linear(name, ct, (x, *theta))
        else:
            multiplier = solved(adjoint, ct * 0.0, (x, ct, *theta))
        if not given:
            return (None,) * len(args)
        _, found = vjp(lambda *given: equation.residual(x, *merged(given)), given, multiplier * -1.0)
        return None, *(found[smooth.index(k)] if k in smooth else None for k in range(len(theta)))

    def along(args: Any, results: Any, tangents: Any) -> Any:
        (_, *theta), (x,), (_, *changes) = args, results, tangents
        probe.check(x, theta)
        moved = [k for k, change in enumerate(changes) if change is not None]
        if not moved:
            return None
        # (∂r/∂x) dx = -(∂r/∂θ) dθ.
        count = len(theta)

        def residual(change: array, x: array, *rest: Any) -> array:
            theta, own = rest[:count], rest[count:]
            primals = (x, *(theta[k] for k in moved))

            def of(x: array, *varied: Any) -> Any:
                held = list(theta)
                for k, value in zip(moved, varied, strict=True):
                    held[k] = value
                return equation.residual(x, *held)

            found: array = jvp(of, primals, (change, *own))[1]
            return found

        name = f"the tangent of {equation.name}"
        if equation.solve_linear is not None:
            nothing = zeros_like(x, requires_grad=False)
            side = residual(nothing, x, *theta, *(changes[k] for k in moved))
            return equation.solve_linear(name, side * -1.0, (x, *theta))
        forward = Equation(residual, name, None, equation.maxiter, linear=True, of_derivative=True)
        return solved(forward, x * 0.0, (x, *theta, *(changes[k] for k in moved)))

    found: array = custom_operation(forward, vjp=backward, jvp=along)(x0, *theta)
    return found


def _parted(theta: Sequence[Any]) -> tuple[tuple[array, ...], list[int], Callable[[Sequence[array]], list[Any]]]:
    """Return the arrays of floats among parameters, their places, and a function that puts others in their place."""
    smooth = [k for k, held in enumerate(theta) if isinstance(held, array) and held._smooth]

    def merged(given: Sequence[array]) -> list[Any]:
        held = list(theta)
        for k, value in zip(smooth, given, strict=True):
            held[k] = value
        return held

    return tuple(theta[k] for k in smooth), smooth, merged


def solved(equation: Equation, x0: array, theta: Sequence[Any]) -> array:
    """Return the solution of an equation by Newton's method, with its derivatives."""
    return apply_implicitly(lambda x0, *theta: _newton(equation, x0, theta), equation, x0, theta)


def _newton(equation: Equation, x0: array, theta: Sequence[Any]) -> array:
    """Return the solution by Newton's method, whose linear equations are solved without their matrices."""
    x = clone(x0)
    value = _residual(equation, x, theta)
    bound = equation.tolerance(x, float(np.abs(value).max(initial=0.0)))
    for _ in range(equation.maxiter):
        if np.abs(value).max(initial=0.0) <= bound:
            return x

        def product(direction: Numbers, x: array = x) -> Numbers:
            way = direction.astype(x._data.dtype).reshape(x._data.shape)
            return numbers_of(jvp(lambda x: equation.residual(x, *theta), (x,), (way,))[1])

        # Newton's steps need not be exact but for linear equations, which are solved in one.
        part = 0.1 * bound / length_of(value) if equation.linear else 1e-3
        step = gmres(product, -value, part)
        x, value = _shorter(equation, x, theta, value, step)
    if np.abs(value).max(initial=0.0) <= bound:
        return x
    raise not_solved(equation, float(np.abs(value).max()), bound, f"{equation.maxiter} steps of Newton's method")


def _shorter(
    equation: Equation, x: array, theta: Sequence[Any], value: Numbers, step: Numbers
) -> tuple[array, Numbers]:
    """Return the unknown behind a step, which is halved until the residual becomes smaller, and the residual there."""
    size = length_of(value)
    for _ in range(12):
        moved = clone(x)
        moved.assign((numbers_of(x) + step).astype(x._data.dtype).reshape(x._data.shape))
        found = _residual(equation, moved, theta, may_overflow=True)
        if length_of(found) < size:
            return moved, found
        step = step / 2
    raise not_solved(equation, float(np.abs(value).max()), None, "a step of Newton's method that makes it smaller")


def _residual(equation: Equation, x: array, theta: Sequence[Any], may_overflow: bool = False) -> Numbers:
    version = x._memory.now
    found = equation.residual(x, *theta)
    if x._memory.now != version:
        raise LaunchError(
            f"the function of {equation.name} writes to the unknown, {described(x)}",
            remedy="write to an array that it makes, and return that",
        )
    if not isinstance(found, array) or not x._is_like(found):
        raise LaunchError(
            f"the residual of {equation.name} is {described(found)}, and the unknown {described(x)}",
            remedy="return an array like the unknown",
        )
    value = numbers_of(found)
    if not may_overflow and not np.isfinite(value).all():
        raise LaunchError(
            f"the residual of {equation.name} is not finite", remedy="begin where the equation can be evaluated"
        )
    return value


def length_of(value: Numbers) -> float:
    """Return the length of a vector, whose squares may be too small or too large for a number."""
    largest = float(np.abs(value).max(initial=0.0))
    return largest * float(np.linalg.norm(value / largest)) if 0.0 < largest < np.inf else largest


def numbers_of(held: array) -> Numbers:
    return np.asarray(held.numpy(), np.float64).reshape(-1)


def not_solved(equation: Equation, size: float, bound: float | None, after: str) -> LaunchError:
    wanted = "" if bound is None else f", not {bound:.3g},"
    return LaunchError(
        f"{equation.name} is not solved: the largest number in its residual is {size:.3g}{wanted} behind {after}",
        remedy="begin nearer to a solution, or allow a larger tol or maxiter; the residual's Jacobian may be singular",
    )


def check_arguments(name: str, function: Any, x0: Any) -> None:
    """Raise unless the arguments are a function and an array that solvers take for an unknown."""
    if not callable(function):
        raise MisuseError(
            f"{name} takes a function of arrays, not {function!r}", remedy="pass one that launches kernels"
        )
    if not isinstance(x0, array) or not x0._smooth:
        raise MisuseError(f"{name} begins with an array of floats, not {described(x0)}", remedy="make it with dk.array")
    check_unknown(name, x0)


def check_unknown(name: str, x0: array) -> None:
    """Raise for an array of elements that no solver takes."""
    is_plain = not isinstance(x0._element, Struct) and scalar_of(x0._element) in (FLOAT32, FLOAT64)
    if not is_plain or is_complex(x0._element):
        raise MisuseError(
            f"{name} solves for arrays of float32 and float64, and of vectors and matrices of these, not for "
            f"{described(x0)}",
            remedy="convert it with astype(); a complex unknown is two real ones",
        )


@brief
def root(
    residual: Function, x0: array, *theta: Any, tol: float | None = None, maxiter: int = 50, solver: Any = None
) -> array:
    """Return a solution x of ``residual(x, *theta) = 0``, with derivatives with respect to `theta`.

    It is found by Newton's method, whose steps are solved without a matrix, by products with the residual's Jacobian in
    forward mode, and are shortened where they would increase the residual. The derivative is that of the solution,
    whatever the iterations were; nothing of these is kept.

    Parameters
    ----------
    residual : callable
        Takes the unknown and `theta`, launches kernels, and returns a new array like the unknown.
    x0 : array
        Where to begin. No gradient goes to it.
    *theta
        Parameters; gradients go to arrays of floats among them. An array with a derivative that the residual reads has
        to be one of them.
    tol : float, optional
        The largest number in the residual of a solution, 1e-5 by default, and 1e-10 in double precision.
    maxiter : int, optional
        Most steps of Newton's method.
    solver : callable, optional
        A function of `x0` and `theta` that returns a solution, in the place of Newton's method.

    Returns
    -------
    array
        The solution, a new array.

    Raises
    ------
    LaunchError
        If no solution is found, or the linear equation of the derivative has none.
    MisuseError
        If `residual` is no function, or `x0` no array of floats.

    Examples
    --------
    >>> import diffkern as dk
    >>> @dk.kernel
    ... def cubic(x: dk.array[float], a: dk.array[float], r: dk.array[float]):
    ...     i = dk.tid()
    ...     r[i] = x[i] * x[i] * x[i] + x[i] - a[i]
    >>> def residual(x, a):
    ...     r = dk.zeros_like(x)
    ...     dk.launch(cubic, dim=x.size, inputs=[x, a], outputs=[r])
    ...     return r
    >>> a = dk.array([2.0, 10.0], dtype=float, requires_grad=True)
    >>> with dk.Tape() as tape:
    ...     x = dk.root(residual, dk.ones(2), a)
    >>> tape.backward(grads={x: dk.ones(2)})
    >>> x.numpy().round(4), a.grad.numpy().round(4)
    (array([1., 2.], dtype=float32), array([0.25  , 0.0769], dtype=float32))
    """
    check_arguments("dk.root", residual, x0)
    equation = Equation(residual, "dk.root", tol, maxiter)
    if solver is None:
        return solved(equation, x0, theta)

    def solve(x0: array, *theta: Any) -> array:
        x = clone(solver(x0, *theta))
        size, bound = float(np.abs(_residual(equation, x, theta)).max(initial=0.0)), equation.tolerance(x, 0.0)
        if not size <= bound:
            raise not_solved(equation, size, bound, "the given solver")
        return x

    return apply_implicitly(solve, equation, x0, theta)


@brief
def fixed_point(step: Function, x0: array, *theta: Any, tol: float | None = None, maxiter: int = 1000) -> array:
    """Return x with ``x = step(x, *theta)``, with derivatives with respect to `theta`.

    It is found by doing the step again and again. The derivative is that of the fixed point, by the implicit function
    theorem; nothing of the iterations is kept.

    Parameters
    ----------
    step : callable
        Takes the unknown and `theta`, launches kernels, and returns a new array like the unknown.
    x0 : array
        Where to begin. No gradient goes to it.
    *theta
        Parameters, as for :func:`root`.
    tol : float, optional
        The largest change by the last step, 1e-5 by default, and 1e-10 in double precision.
    maxiter : int, optional
        Most steps.

    Returns
    -------
    array
        The fixed point, a new array.

    Raises
    ------
    LaunchError
        If the steps do not come to rest, or the linear equation of the derivative has no solution.
    MisuseError
        If `step` is no function, or `x0` no array of floats.
    """
    check_arguments("dk.fixed_point", step, x0)
    equation = Equation(lambda x, *theta: step(x, *theta) - x, "dk.fixed_point", tol, maxiter)

    def iterate(x0: array, *theta: Any) -> array:
        x, size, bound = clone(x0), np.inf, equation.tolerance(x0, 0.0)
        for _ in range(maxiter):
            version = x._memory.now
            moved = step(x, *theta)
            if x._memory.now != version:
                raise LaunchError(
                    f"the step of dk.fixed_point writes to the unknown, {described(x)}",
                    remedy="write to an array that it makes, and return that",
                )
            if not isinstance(moved, array) or not x._is_like(moved):
                raise LaunchError(
                    f"the step of dk.fixed_point returned {described(moved)}, and the unknown is {described(x)}",
                    remedy="return a new array like the unknown",
                )
            size = float(np.abs(numbers_of(moved) - numbers_of(x)).max(initial=0.0))
            x = clone(moved)  # a step may return the same array each time
            if size <= bound:
                return x
        raise LaunchError(
            f"dk.fixed_point does not come to rest: step {maxiter} changes the unknown by {size:.3g}, not {bound:.3g}",
            remedy="begin nearer to the fixed point, allow a larger tol or maxiter, or solve with dk.root",
        )

    return apply_implicitly(iterate, equation, x0, theta)
