"""``dk.optim.argmin``: a minimizer of a function of arrays as one operation, with derivatives.

At a minimizer the gradient of the objective is zero, and the implicit function theorem gives its derivative from that
equation. The matrix is the Hessian, which is symmetric: products with it and conjugate gradients are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffkern.errors import LaunchError, MisuseError, described
from diffkern.optim.lbfgs import LBFGS
from diffkern.optim.linear.implicit import solution
from diffkern.optim.linear.operators import FunctionOperator
from diffkern.optim.linear.solve import krylov
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_copy import clone, copy
from diffkern.runtime.arrays.create import zeros_like
from diffkern.transforms.higher import grad, jvp, value_and_grad
from diffkern.transforms.implicit import Equation, apply_implicitly, check_arguments, numbers_of

__all__ = ["argmin"]

Numbers = np.ndarray[Any, Any]
_DECREASE = 1e-4
"""The part of the predicted decrease that a step has to reach (Nocedal and Wright, Numerical Optimization, 3.4)."""
_PROBES = 40
"""Most products by which a Hessian is searched for a direction of negative curvature."""


class _Objective:
    """An objective at fixed parameters, in NumPy's numbers.

    Parameters
    ----------
    function : callable
        The objective.
    like : array
        An array like the unknown.
    theta : sequence
        The parameters.
    """

    def __init__(self, function: Callable[..., Any], like: array, theta: Sequence[Any]) -> None:
        self._function, self._like, self._theta = function, like, theta

    def place(self, values: Numbers) -> array:
        """Return an array of the unknown's type with some numbers."""
        made = clone(self._like, requires_grad=False)
        made.assign(values.astype(made._data.dtype).reshape(made._data.shape))
        return made

    def value(self, x: Numbers) -> float:
        """Return the objective."""
        found = self._function(self.place(x), *self._theta)
        if not isinstance(found, array) or found.size != 1:
            raise LaunchError(
                f"the objective of dk.optim.argmin returned {described(found)}", remedy="return an array of one element"
            )
        return float(found.numpy().reshape(-1)[0])

    def slope(self, x: Numbers) -> Numbers:
        """Return the gradient."""
        return numbers_of(slope_of(self._function, self.place(x), self._theta))

    def curve(self, x: Numbers) -> Callable[[Numbers], Numbers]:
        """Return the product with the Hessian."""
        held = self.place(x)
        return lambda v: numbers_of(curve_of(self._function, self.place(v), held, self._theta))


def slope_of(function: Callable[..., Any], x: array, theta: Sequence[Any]) -> array:
    """Return the gradient of an objective with respect to its unknown."""
    found: array = grad(lambda x: function(x, *theta))(x)
    return found


def curve_of(function: Callable[..., Any], v: array, x: array, theta: Sequence[Any]) -> array:
    """Return the product of the Hessian of an objective with a vector."""
    found: array = jvp(lambda x: slope_of(function, x, theta), (x,), (v,))[1]
    return found


@brief
def argmin(
    objective: Callable[..., Any],
    x0: array,
    *theta: Any,
    solver: Any = "newton",
    tol: float | None = None,
    maxiter: int = 100,
) -> array:
    """Return a minimizer x of ``objective(x, *theta)``, with derivatives with respect to `theta`.

    The derivative is that of the minimizer, whatever the iterations were: one system with the Hessian, solved by
    conjugate gradients without a matrix. Nothing of the iterations is kept.

    Parameters
    ----------
    objective : callable
        Takes the unknown and `theta`, launches kernels, and returns an array of one element. It is differentiated
        twice.
    x0 : array
        Where to begin. No gradient goes to it.
    *theta
        Parameters; gradients go to arrays of floats among them. An array with a derivative that the objective reads
        has to be one of them.
    solver : str or callable, optional
        ``"newton"``, by conjugate gradients with products of the Hessian; ``"lbfgs"``, which needs gradients alone
        until it is near; or a function of `x0` and `theta` that returns a minimizer.
    tol : float, optional
        The largest component of the gradient at a minimizer, 1e-5 by default, and 1e-10 in double precision.
    maxiter : int, optional
        Most steps.

    Returns
    -------
    array
        The minimizer, a new array.

    Raises
    ------
    LaunchError
        If the gradient does not vanish at what is found, or the Hessian is not positive definite there: a saddle, a
        maximum, or a valley.
    MisuseError
        If `objective` is no function, `x0` no array of floats, or there is no such solver.

    Examples
    --------
    >>> import diffkern as dk
    >>> @dk.kernel
    ... def energy(x: dk.array[float], a: dk.array[float], e: dk.array[float]):
    ...     i = dk.tid()
    ...     dk.atomic_add(e, 0, dk.cosh(x[i] - a[i]) + 0.5 * x[i] * x[i])
    >>> def objective(x, a):
    ...     e = dk.zeros(1)
    ...     dk.launch(energy, dim=x.size, inputs=[x, a], outputs=[e])
    ...     return e
    >>> a = dk.array([0.0, 2.0], dtype=float, requires_grad=True)
    >>> with dk.Tape() as tape:
    ...     x = dk.optim.argmin(objective, dk.zeros(2), a)
    >>> tape.backward(grads={x: dk.ones(2)})
    >>> x.numpy().round(3), a.grad.numpy().round(3)
    (array([0.  , 1.07], dtype=float32), array([0.5  , 0.594], dtype=float32))
    """
    check_arguments("dk.optim.argmin", objective, x0)
    if solver not in ("newton", "lbfgs") and not callable(solver):
        raise MisuseError(f"dk.optim.argmin has no solver {solver!r}", remedy='pass "newton", "lbfgs" or a function')
    equation = Equation(
        lambda x, *theta: slope_of(objective, x, theta), "dk.optim.argmin", tol, maxiter,
        solve_linear=lambda name, side, at: _with_hessian(objective, name, side, at),
    )  # fmt: skip

    def solve(x0: array, *theta: Any) -> array:
        at = _Objective(objective, x0, theta)
        begin = solver(x0, *theta) if callable(solver) else x0
        if not isinstance(begin, array) or not x0._is_like(begin):
            raise LaunchError(
                f"the solver of dk.optim.argmin returned {described(begin)}, and the unknown is {described(x0)}",
                remedy="return an array like the unknown",
            )
        bound = equation.tolerance(x0, 0.0)
        if solver == "lbfgs":
            begin = _by_lbfgs(objective, begin, theta, bound, maxiter)
        x = numbers_of(begin) if callable(solver) else _by_newton(at, numbers_of(begin), bound, maxiter)
        _check_minimum(at, x, bound)
        return at.place(x)

    return apply_implicitly(solve, equation, x0, theta)


def _with_hessian(objective: Callable[..., Any], name: str, side: array, at: Sequence[Any]) -> array:
    """Return the solution of a system with the Hessian at a point, which is symmetric."""

    def operator(*at: Any) -> FunctionOperator:
        def product(v: array, x: array, *theta: Any) -> array:
            return curve_of(objective, v, x, theta)

        size = side._data.size
        return FunctionOperator(product, (size, size), side.dtype, side.device, at, operator)

    begin = zeros_like(side, requires_grad=False)
    return solution(name, krylov("cg", None, None), operator(*at), side, begin, symmetric=True)


def _by_newton(at: _Objective, x: Numbers, bound: float, maxiter: int) -> Numbers:
    """Return a point whose gradient is small, by Newton's method with conjugate gradients and a line search.

    Nocedal and Wright, algorithm 7.1; directions of negative curvature are followed downhill.
    """
    value, slope = at.value(x), at.slope(x)
    for _ in range(maxiter):
        size = float(np.abs(slope).max(initial=0.0))
        if not np.isfinite(size + value):
            raise LaunchError(
                "the objective of dk.optim.argmin, or its gradient, is not finite", remedy="begin elsewhere"
            )
        if size <= bound:
            return x
        x, value, slope = _downhill(at, x, value, slope, _direction(at.curve(x), slope))
    return x


def _direction(product: Callable[[Numbers], Numbers], slope: Numbers) -> Numbers:
    """Return minus the solution of the Newton equation, or as much of it as lies before negative curvature."""
    found, rest = np.zeros_like(slope), -slope
    along, square = rest, float(rest @ rest)
    # Far from a minimizer the equation need not be solved well; near to it the convergence is quadratic this way.
    wanted = square * min(0.25, square**0.5)
    for _ in range(2 * slope.size + 10):
        moved = product(along)
        curvature = float(along @ moved)
        if not curvature > 0.0:
            return found if found.any() else rest
        step = square / curvature
        found, rest = found + step * along, rest - step * moved
        before, square = square, float(rest @ rest)
        if square <= wanted:
            break
        along = rest + square / before * along
    return found


def _downhill(
    at: _Objective, x: Numbers, value: float, slope: Numbers, step: Numbers
) -> tuple[Numbers, float, Numbers]:
    """Return the point behind a step that is halved until it leads downhill, with value and gradient there."""
    along = float(step @ slope)
    precision = float(np.finfo(at._like._data.dtype).eps)
    for k in range(40):
        moved = x + 0.5**k * step
        there = at.value(moved)
        # Near to a minimizer values differ by less than they are rounded, and the gradient tells alone.
        level = abs(there - value) <= 100.0 * precision * max(abs(value), abs(there))
        if there <= value + _DECREASE * 0.5**k * along or level:
            found = at.slope(moved)
            if not level or np.abs(found).max(initial=0.0) < np.abs(slope).max(initial=0.0):
                return moved, there, found
    raise LaunchError(
        f"dk.optim.argmin finds no step downhill: the largest component of the gradient is {np.abs(slope).max():.3g}",
        remedy="allow a larger tol, or begin elsewhere; the objective may have a kink, or a wrong derivative",
    )


def _by_lbfgs(objective: Callable[..., Any], x0: array, theta: Sequence[Any], bound: float, maxiter: int) -> array:
    x = clone(x0.contiguous(), requires_grad=True)
    both = value_and_grad(lambda x: objective(x, *theta))

    def closure() -> Any:
        value, slope = both(clone(x, requires_grad=False))
        copy(x.grad, slope)
        return value

    LBFGS([x], max_iter=maxiter, tolerance_grad=bound, tolerance_change=0.0).step(closure)
    made = zeros_like(x, requires_grad=False)
    copy(made, x)
    return made


def _check_minimum(at: _Objective, x: Numbers, bound: float) -> None:
    """Raise unless the gradient vanishes and no direction of negative curvature is found."""
    size = float(np.abs(at.slope(x)).max(initial=0.0))
    if not size <= bound:
        raise LaunchError(
            f"dk.optim.argmin has found no minimizer: the largest component of the gradient is {size:.3g}, not "
            f"{bound:.3g}",
            remedy="begin nearer to a minimizer, or allow a larger tol or maxiter",
        )
    product = at.curve(x)
    # Conjugate gradients meet a negative eigenvalue before they converge, unless the right side has no part in it.
    rest = np.cos(1.0 + 3.0 * np.arange(x.size) ** 2)
    along, square = rest, float(rest @ rest)
    begun, largest = square, 0.0
    for _ in range(min(x.size, _PROBES)):
        moved = product(along)
        curvature, length = float(along @ moved), float(along @ along)
        largest = max(largest, curvature / length)
        if not curvature > 10.0 * np.finfo(at._like._data.dtype).eps * largest * length:
            raise LaunchError(
                f"dk.optim.argmin has found no minimizer: the curvature along a direction is {curvature / length:.3g}, "
                "so that the Hessian is not positive definite",
                remedy="begin elsewhere, as this is a saddle or a maximum; add a term that makes a minimizer unique",
            )
        step = square / curvature
        rest = rest - step * moved
        before, square = square, float(rest @ rest)
        if square <= 1e-20 * begun:
            return
        along = rest + square / before * along
