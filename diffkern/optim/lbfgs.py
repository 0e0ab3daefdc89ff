"""L-BFGS: quasi-Newton steps from the last few gradients, with a line search for the strong Wolfe conditions.

It takes arrays of parameters and a function that computes a loss and their gradients, and moves the parameters towards
a smaller loss. The vectors stay on the device of the arrays; the line search itself is scalar arithmetic in Python
(Nocedal and Wright, Numerical Optimization, algorithms 7.4, 3.5 and 3.6).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from diffkern.errors import described
from diffkern.ir.types import scalar_of
from diffkern.kernels.kernel import Kernel
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.runtime.arrays.array import _make, array
from diffkern.runtime.arrays.array_copy import clone
from diffkern.runtime.records.launch import launch
from diffkern.utils.sums import array_inner

__all__ = ["LBFGS", "components"]

tid: Any = INTRINSICS["tid"]
# Optimizer steps are never recorded or differentiated.
_kernel = functools.partial(Kernel, enable_backward=False)
# The values that Nocedal and Wright recommend for quasi-Newton methods.
_DECREASE, _CURVATURE = 1e-4, 0.9
"""Constants of the Wolfe conditions."""
_MOST = 25
"""Most values of the loss in one line search, and most steps of its second part."""

Vector: TypeAlias = "list[array]"
"""The components of all parameters, or as many numbers."""
Tried: TypeAlias = "tuple[float, float, float]"
"""A step, the loss there, and its derivative along the step."""


@_kernel
def _combine(out, a, x, y):  # type: ignore[no-untyped-def]
    i = tid()
    out[i] = out.dtype(a) * x[i] + y[i]


@_kernel
def _scaled(out, a, x):  # type: ignore[no-untyped-def]
    i = tid()
    out[i] = out.dtype(a) * x[i]


def components(a: array) -> array:
    """Return a contiguous array as that of its components along one axis."""
    return _make(a._data.reshape(-1), scalar_of(a._element), a._memory, a._writable)  # type: ignore[arg-type]


class LBFGS:
    """L-BFGS with a line search for the strong Wolfe conditions.

    Parameters
    ----------
    params : sequence of array
        The parameters: contiguous arrays of floating-point numbers, vectors or matrices, with gradients.
    lr : float, optional
        The first step that a line search tries; that of the very first iteration is shorter where the gradient is long.
    max_iter : int, optional
        Iterations of one call of :meth:`step`.
    history_size : int, optional
        The number of earlier steps that are kept.
    tolerance_grad : float, optional
        Ends where no component of the gradient is larger.
    tolerance_change : float, optional
        Ends where the loss, or all parameters, change by less.
    """

    def __init__(
        self,
        params: Sequence[array],
        lr: float = 1.0,
        max_iter: int = 20,
        history_size: int = 10,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
    ) -> None:
        for p in params:
            if not isinstance(p, array) or not p._smooth or not p.is_contiguous or p.grad is None:
                raise TypeError(
                    f"LBFGS changes contiguous arrays of floating-point elements with gradients, not {described(p)}"
                )
        self.params = list(params)
        self.lr, self.max_iter, self.history_size = lr, max_iter, history_size
        self.tolerance_grad, self.tolerance_change = tolerance_grad, tolerance_change
        self.reset_internal_state()

    def reset_internal_state(self) -> None:
        """Forget all earlier steps."""
        self._steps: list[Vector] = []
        self._changes: list[Vector] = []
        self.evaluations = 0

    def step(self, closure: Callable[[], Any]) -> float:
        """Change the parameters, in several iterations.

        Parameters
        ----------
        closure : callable
            Computes the loss and adds to the gradients of the parameters, which are zero before it is called, as by a
            tape. Returns the loss, a number or an array of one element.

        Returns
        -------
        float
            The loss at the parameters that were found.

        Raises
        ------
        ValueError
            If the loss or its gradient is not finite where the iterations begin.
        """
        # A start that is not finite would make every comparison of the line search false.
        loss, gradient = self._evaluate(closure), self._gradient()
        if not math.isfinite(loss + _dot(gradient, gradient)):
            raise ValueError(f"the loss {loss} or its gradient is not finite where LBFGS begins")
        for _ in range(self.max_iter):
            if _largest(gradient) <= self.tolerance_grad:
                break
            direction = self._direction(gradient)
            slope = _dot(direction, gradient)
            if not slope < 0.0:  # what is remembered does not fit any more
                self._steps, self._changes = [], []
                direction = [_times(-1.0, g) for g in gradient]
                slope = _dot(direction, gradient)
            # Without a Hessian the direction has the scale of the gradient: the first step is at most one long.
            first = self.lr if self._steps else self.lr * min(1.0, 1.0 / math.sqrt(-slope))
            before = loss
            loss, moved, gradient = self._search(closure, loss, gradient, direction, slope, first)
            if moved <= self.tolerance_change or abs(before - loss) <= self.tolerance_change:
                break
        return loss

    def _search(
        self, closure: Callable[[], Any], loss: float, gradient: Vector, direction: Vector, slope: float, first: float
    ) -> tuple[float, float, Vector]:
        """Move along a direction; returns the loss, the largest change of a parameter, and the gradient."""
        # Trials always begin here, so that rounding does not accumulate over them.
        begin = [clone(components(p)) for p in self.params]
        last = [0.0]

        def try_(t: float) -> Tried:
            for p, x, d in zip(self.params, begin, direction, strict=True):
                launch(_combine, x.size, [components(p), np.float64(t), d, x], record_tape=False)
            found, last[0] = self._evaluate(closure), t
            return t, found, _dot(direction, self._gradient())

        chosen = _line_search(try_, loss, slope, first)
        # The step that is chosen need not be the last one tried: parameters and gradients must be those of the chosen
        # one.
        if chosen[0] != last[0]:
            chosen = try_(chosen[0])
        after = self._gradient()
        step = [_times(chosen[0], d) for d in direction]
        change = [_plus(-1.0, g, a) for g, a in zip(gradient, after, strict=True)]
        # The curvature condition s.y > 0 keeps the approximation positive definite; a pair that violates it is left
        # out.
        if _dot(step, change) > 1e-10 * _dot(change, change):
            self._steps, self._changes = ([*kept, new][-self.history_size :] for kept, new in self._pairs(step, change))
        return chosen[1], _largest(step), after

    def _pairs(self, step: Vector, change: Vector) -> list[tuple[list[Vector], Vector]]:
        return [(self._steps, step), (self._changes, change)]

    def _evaluate(self, closure: Callable[[], Any]) -> float:
        for p in self.params:
            assert p.grad is not None
            # The closure adds to the gradients.
            p.grad.zero_()
        loss = closure()
        self.evaluations += 1
        return float(loss.numpy().reshape(())) if isinstance(loss, array) else float(loss)

    def _gradient(self) -> Vector:
        """A copy of the gradients."""
        # A copy, as the next evaluation overwrites the gradients.
        return [clone(components(p.grad.contiguous())) for p in self.params if p.grad is not None]

    def _direction(self, gradient: Vector) -> Vector:
        """The gradient times the approximation of the inverse Hessian, by two loops over what is remembered."""
        q = [_times(-1.0, g) for g in gradient]
        parts: list[float] = []
        remembered = list(zip(self._steps, self._changes, strict=True))
        # The first loop of algorithm 7.4, from the newest pair to the oldest.
        for s, y in reversed(remembered):
            parts.append(_dot(s, q) / _dot(s, y))
            q = [_plus(-parts[-1], a, b) for a, b in zip(y, q, strict=True)]
        if remembered:
            s, y = remembered[-1]
            # The initial inverse Hessian is a multiple of the identity with the curvature of the last step (equation
            # 7.20).
            scale = _dot(s, y) / _dot(y, y)
            q = [_times(scale, a) for a in q]
        # The second loop goes back from the oldest pair to the newest.
        for (s, y), part in zip(remembered, reversed(parts), strict=True):
            factor = part - _dot(y, q) / _dot(s, y)
            q = [_plus(factor, a, b) for a, b in zip(s, q, strict=True)]
        return q


# -- the line search ---------------------------------------------------------------------------------------------------


def _line_search(try_: Callable[[float], Tried], loss: float, slope: float, first: float) -> Tried:
    """A step that fulfils the strong Wolfe conditions; the best one found if there is none in time."""
    before: Tried = (0.0, loss, slope)
    t = first
    for k in range(_MOST):
        now = try_(t)
        # Algorithm 3.5: the loss has begun to rise, so a good step is between the last two.
        if not _is_lower(now, loss, slope) or (k and now[1] >= before[1]):
            return _zoom(try_, loss, slope, before, now)
        if abs(now[2]) <= -_CURVATURE * slope:
            return now
        # The minimum along the line was passed.
        if now[2] >= 0.0:
            return _zoom(try_, loss, slope, now, before)
        before, t = now, 2.0 * t
    return before


def _zoom(try_: Callable[[float], Tried], loss: float, slope: float, low: Tried, high: Tried) -> Tried:
    """A step between two, of which `low` has the smaller loss."""
    for _ in range(_MOST):
        t = _between(low, high)
        # The interval is as small as floats can tell.
        if t in (low[0], high[0]):
            break
        now = try_(t)
        if not _is_lower(now, loss, slope) or now[1] >= low[1]:
            high = now
            continue
        if abs(now[2]) <= -_CURVATURE * slope:
            return now
        # Algorithm 3.6: `high` stays where the slope at `low` points to.
        if now[2] * (high[0] - low[0]) >= 0.0:
            high = low
        low = now
    return low


def _is_lower(tried: Tried, loss: float, slope: float) -> bool:
    """Return whether a trial satisfies the sufficient decrease condition; a loss that is not finite does not."""
    return bool(math.isfinite(tried[1] + tried[2]) and tried[1] <= loss + _DECREASE * tried[0] * slope)


def _between(low: Tried, high: Tried) -> float:
    """The minimum of the cubic through two losses and derivatives, not too near to either; else the middle."""
    (a, fa, ga), (b, fb, gb) = low, high
    width = b - a
    if math.isfinite(fb + gb):
        # Equation 3.59 of Nocedal and Wright.
        mean = ga + gb - 3.0 * (fa - fb) / (a - b)
        square = mean * mean - ga * gb
        if square >= 0.0:
            root = math.copysign(math.sqrt(square), width)
            below = gb - ga + 2.0 * root
            t = b - width * (gb + root - mean) / below if below else math.nan
            # A trial too near to an end would shrink the interval by little.
            if 0.1 <= (t - a) / width <= 0.9:
                return t
    return a + 0.5 * width


# -- vectors -----------------------------------------------------------------------------------------------------------


def _plus(factor: float, x: array, y: array) -> array:
    """A multiple of a vector plus another one."""
    # New arrays: the remembered vectors must stay as they are.
    out = clone(y)
    launch(_combine, x.size, [out, np.float64(factor), x, y], record_tape=False)
    return out


def _times(factor: float, x: array) -> array:
    """A multiple of a vector."""
    out = clone(x)
    launch(_scaled, x.size, [out, np.float64(factor), x], record_tape=False)
    return out


def _dot(x: Vector, y: Vector) -> float:
    return sum(float(array_inner(a, b)) for a, b in zip(x, y, strict=True))


def _largest(x: Vector) -> float:
    """The largest absolute value of a component."""
    return max((float(np.abs(a.numpy()).max()) for a in x if a.size), default=0.0)
