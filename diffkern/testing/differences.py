"""Central differences in float64 that know when they cannot be trusted.

:class:`Differences` takes a primal program, a point and a projection of its results, and gives an :class:`Estimate` per
direction. Two step sizes are compared: where the central differences disagree, or the one-sided ones do not converge as
the step shrinks, smaller steps are tried, and in the end the point is called a kink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from diffkern.process.dataclass import dataclass
from diffkern.testing.programs import GridProgram

__all__ = ["Differences", "Estimate"]

_SHRINK = (1.0, 1.0 / 8.0, 1.0 / 64.0)
_AGREE = 1e-4  # relative disagreement of two steps that extrapolation still removes
_FLOOR = 1e-2  # derivatives smaller than this are compared absolutely

Direction = Mapping[int, np.ndarray[Any, Any]]
"""By parameter, the change of the argument per unit of step."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A directional derivative of the projected results.

    Attributes
    ----------
    value
        The derivative, extrapolated from two steps.
    error
        The possible error, by truncation and rounding.
    kink
        Whether the point is too near a kink or jump for differences to tell.
    left, right
        The one-sided differences of the smallest step.
    """

    value: float
    error: float
    kink: bool
    left: float
    right: float


class Differences:
    """Differences of one primal at one point.

    Parameters
    ----------
    program
        The primal in float64.
    dim
        The launch's dimensions.
    args
        The point; it is not changed.
    weights
        By parameter, the projection: the differences are of the sum of ``weights * argument after the run``.
    eps
        The largest step, relative to the size of the numbers that it changes.
    rounding
        The relative error of the program's results.
    """

    def __init__(
        self,
        program: GridProgram,
        dim: Sequence[int],
        args: Sequence[Any],
        weights: Direction,
        eps: float,
        rounding: float = 4e-16,
    ) -> None:
        self._program = program
        self._dim = tuple(dim)
        self._args = list(args)
        self._weights = weights
        self._eps = eps
        self._rounding = rounding
        self._base = self._outputs({}, 0.0)
        # The rounding error of a projection is relative to its summands, which may cancel in the sum.
        self._size = sum(float(np.sum(np.abs(w * self._base[i]), initial=0.0)) for i, w in weights.items())

    def not_finite(self) -> tuple[int, tuple[int, ...], float] | None:
        """Return the first result at the point itself that is infinite or not a number: parameter, index and value."""
        for i, values in self._base.items():
            bad = np.argwhere(~np.isfinite(values))
            if len(bad):
                index = tuple(int(k) for k in bad[0])
                return i, index, float(values[index])
        return None

    def _outputs(self, direction: Direction, step: float) -> dict[int, np.ndarray[Any, Any]]:
        args = [a.copy() if isinstance(a, np.ndarray) else a for a in self._args]
        for i, change in direction.items():
            moved = args[i] + step * change
            args[i] = moved if isinstance(args[i], np.ndarray) else np.float64(moved)
        self._program.run(self._dim, args)
        return {i: args[i] for i in self._weights}

    def _change(self, direction: Direction, step: float) -> float:
        after = self._outputs(direction, step)
        with np.errstate(all="ignore"):
            # Differences of the results before their sum: unchanged elements cancel exactly.
            return float(sum(np.sum(w * (after[i] - self._base[i])) for i, w in self._weights.items()))

    def along(
        self, direction: Direction, scale: float = 1.0, agrees: Callable[[Estimate], bool] | None = None
    ) -> Estimate:
        """Return the derivative along a direction.

        Parameters
        ----------
        direction
            The change of the arguments.
        scale
            The size of the numbers that it changes.
        agrees
            Whether an estimate is the one expected. If not, smaller steps are tried: a slight kink within a step looks
            smooth, and the smallest step decides.
        """
        estimate = Estimate(float("nan"), float("inf"), True, float("nan"), float("nan"))
        for shrink in _SHRINK:
            estimate = self._with_step(direction, self._eps * shrink * max(1.0, scale))
            if not estimate.kink and (agrees is None or agrees(estimate)):
                break
        return estimate

    def _with_step(self, direction: Direction, h: float) -> Estimate:
        up, down = self._change(direction, h), self._change(direction, -h)
        half_up, half_down = self._change(direction, h / 2), self._change(direction, -h / 2)
        wide, narrow = (up - down) / (2 * h), (half_up - half_down) / h
        # f(x+h) - 2 f(x) + f(x-h) over h, which is of order h for a smooth function: the change is relative to the
        # point.
        bend, half_bend = (up + down) / h, 2 * (half_up + half_down) / h
        size = max(abs(narrow), abs(wide), _FLOOR)
        noise = self._rounding * self._size / h
        apart = abs(wide - narrow)
        kink = not np.isfinite(apart) or apart > _AGREE * size + 8 * noise
        # One-sided differences come together in proportion to the step; at a kink they stay apart.
        kink = kink or (abs(half_bend) > 0.75 * abs(bend) and abs(half_bend) > 1e-5 * size + 16 * noise)
        # Richardson extrapolation: the error of a central difference is of order h².
        return Estimate(
            narrow + (narrow - wide) / 3, 0.1 * apart + 4 * noise, bool(kink), -2 * half_down / h, 2 * half_up / h
        )
