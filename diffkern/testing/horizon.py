"""``dk.testing.horizon``: how the gradient of a simulation's loss changes with the number of steps.

For each number of steps the loss is differentiated on a tape, and compared with central differences along the gradient
and along random directions orthogonal to it. A gradient that is right and grows from step to step, as that of a chaotic
system does, is told from one that is wrong, and from a loss that jumps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from diffkern.errors import MisuseError, described
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array
from diffkern.runtime.effects.tape import Tape
from diffkern.runtime.memory.state import is_handled
from diffkern.runtime.memory.stream import drain
from diffkern.runtime.rollouts.checkpoint import checkpoint
from diffkern.runtime.rollouts.rewind import Rewind
from diffkern.testing.horizon_report import Horizon, HorizonReport

__all__ = ["horizon"]

Vector = np.ndarray[Any, np.dtype[np.float64]]
Step = Callable[[int], object]

_SHRINK = 1.0 / 8.0
_TRIES = 6
_AGREE = 1e-5  # relative difference of two steps with which smaller ones are not tried


@brief
def horizon(
    step: Step,
    steps: int,
    *,
    loss: Callable[[], array],
    inputs: Sequence[array],
    horizons: Iterable[int] | None = None,
    directions: int = 4,
    slots: int | None = None,
    seed: int = 0,
) -> HorizonReport:
    """Return norm, growth, cost and correctness of a simulation's gradient for growing numbers of steps.

    Everything that the steps overwrite is put back before each run, and at the end.

    Parameters
    ----------
    step : callable
        Takes the number of the step, from 0, and launches, copies and fills.
    steps : int
        Largest number of steps.
    loss : callable
        Called after the last step; returns the array of one element that is differentiated. It may launch as well.
    inputs : sequence of array
        The arrays of floats to differentiate with respect to, each with ``requires_grad=True``: parameters, or the
        state before the first step.
    horizons : iterable of int, optional
        The numbers of steps to look at; by default the powers of two up to `steps`, and `steps`.
    directions : int, optional
        Number of directions for differences: that of the gradient, and random ones orthogonal to it. With as many as
        there are numbers in `inputs`, the whole gradient is compared. Each takes up to twelve runs.
    slots : int, optional
        Number of states kept, as for :func:`diffkern.checkpoint`; by default a plain tape keeps all.
    seed : int, optional
        Of the random directions.

    Returns
    -------
    HorizonReport
        A row for each number of steps. ``print`` shows a table; ``plot`` draws it.

    Raises
    ------
    LaunchError
        If a step writes to arrays in elements of an array.
    MisuseError
        If no number of steps is positive, an input has no gradient, the loss is not a single number, there is a tape
        already, or the same steps give another loss when they run again.

    Examples
    --------
    >>> import diffkern as dk
    >>> @dk.kernel
    ... def turn(x: dk.array(dtype=dk.float64), rate: dk.array(dtype=dk.float64)):
    ...     i = dk.tid()
    ...     x[i] = rate[0] * x[i] * (dk.float64(1) - x[i])
    >>> x = dk.array([0.3], dtype=dk.float64, requires_grad=True)
    >>> rate = dk.array([3.9], dtype=dk.float64, requires_grad=True)
    >>> report = dk.testing.horizon(
    ...     lambda k: dk.launch(turn, dim=1, inputs=[x, rate]), 16, loss=lambda: x, inputs=[x, rate])
    >>> [row.steps for row in report.rows]
    [1, 2, 4, 8, 16]
    >>> bool(report.rows[-1].norm > 100 * report.rows[0].norm)
    True
    """
    numbers = _horizons(steps, horizons)
    given = _checked(inputs)
    if directions < 1:
        raise MisuseError("dk.testing.horizon compares along one direction at least", remedy="give directions=1")
    if is_handled():
        raise MisuseError(
            "dk.testing.horizon differentiates steps on tapes of its own, and there is a tape already",
            remedy="call it outside of the block of the tape",
        )
    return _HorizonRuns(step, loss, given, directions, slots, seed).run(numbers)


def _horizons(steps: int, horizons: Iterable[int] | None) -> list[int]:
    chosen = [1 << k for k in range(max(steps, 1).bit_length())] + [steps] if horizons is None else [*horizons]
    numbers = sorted({number for number in chosen if number <= steps})
    if not numbers or numbers[0] < 1:
        raise MisuseError(
            f"dk.testing.horizon has no number of steps from 1 to {steps}",
            remedy="let steps be positive, and horizons lie between 1 and steps",
        )
    return numbers


def _checked(inputs: Sequence[array]) -> list[array]:
    given = list(inputs)
    for held in given:
        if not isinstance(held, array) or held.grad is None:
            raise MisuseError(
                f"dk.testing.horizon takes arrays with gradients as inputs, not {held!r}",
                remedy="make them with requires_grad=True",
            )
        if held.numpy().dtype.names is not None or held.numpy().dtype.kind == "c":
            raise MisuseError(
                f"dk.testing.horizon moves inputs of floats, not {described(held)}",
                remedy="pass arrays of floats or vectors, from which a step computes these",
            )
    if not given:
        raise MisuseError("dk.testing.horizon has no inputs", remedy="name the arrays to differentiate by")
    return given


class _HorizonRuns:
    """The runs of one report, all from the same start."""

    def __init__(
        self, step: Step, loss: Callable[[], array], inputs: list[array], directions: int, slots: int | None, seed: int
    ) -> None:
        self._step, self._loss, self._inputs, self._slots = step, loss, inputs, slots
        self._directions = directions
        self._random = np.random.default_rng(seed)
        self._rewind = Rewind()
        self._point = [held.numpy().astype(np.float64) for held in inputs]
        # Directions are relative to the size of each array, so that lengths and stiffnesses are moved alike.
        self._sizes = [float(np.sqrt(np.mean(np.square(x)))) if x.any() else 1.0 for x in self._point]
        self._eps = max(float(np.finfo(held.numpy().dtype).eps) for held in inputs)

    def run(self, numbers: Sequence[int]) -> HorizonReport:
        """Return the report for these numbers of steps."""
        grads = [held.grad for held in self._inputs if held.grad is not None]
        rows: list[Horizon] = []
        try:
            with self._rewind:
                for held in (*self._inputs, *grads):
                    self._rewind.keep(held)
                first = self._forward(numbers[-1])
            self._rewind.restore()
            again = self._forward(numbers[-1])
            # Sums of several threads are rounded differently from run to run; anything more is state that was lost.
            if not _nearly(first, again, self._eps):
                raise MisuseError(
                    f"dk.testing.horizon: {numbers[-1]} steps gave a loss of {first:.9g}, and {again:.9g} from the "
                    "same start",
                    remedy="let steps depend on their number and on arrays that they change by launches, copies and "
                    "fills alone",
                )
            for number in numbers:
                rows.append(self._row(number, rows[-1] if rows else None))
        finally:
            self._rewind.restore()
        return HorizonReport(tuple(rows))

    def _row(self, number: int, before: Horizon | None) -> Horizon:
        if before is None:
            self._gradient(number)  # what is compiled now is not measured
        loss, gradient, memory, forward, backward = self._gradient(number)
        norm = float(np.linalg.norm(np.concatenate([g.reshape(-1) for g in gradient])))
        growth = math.nan
        if before is not None and before.norm > 0:
            growth = (norm / before.norm) ** (1.0 / (number - before.steps))
        cosine, error, doubt = self._compare(number, gradient)
        return Horizon(number, loss, norm, growth, cosine, error, doubt, memory, forward, backward)

    # -- runs --------------------------------------------------------------------------------------------------------

    def _forward(self, number: int) -> float:
        for k in range(number):
            self._step(k)
        return _number(self._loss())

    def _gradient(self, number: int) -> tuple[float, list[Vector], int, float, float]:
        """Return the loss, the gradient, the bytes that the tape kept, and the seconds forward and back."""
        self._rewind.restore()
        for held in self._inputs:
            assert held.grad is not None
            held.grad.zero_()
        drain()
        began = time.perf_counter()
        with Tape() as tape:
            if self._slots is None:
                for k in range(number):
                    self._step(k)
            else:
                checkpoint(self._step, number, self._slots, progress=False)
            loss = self._loss()
        value = _number(loss)
        # Also those of other arrays, which the sweep would begin with and leave changed.
        for owner in tape._owners.values():
            if owner.grad is not None:
                self._rewind.keep(owner.grad)
        tape.zero()
        drain()
        turned = time.perf_counter()
        tape.backward(loss)
        gradient = [held.grad.numpy().astype(np.float64) for held in self._inputs if held.grad is not None]
        ended = time.perf_counter()
        memory = tape.memory()
        tape.zero()
        return value, gradient, memory, turned - began, ended - turned

    def _moved(self, number: int, change: Vector) -> float:
        """Return the loss from another point."""
        self._rewind.restore()
        begin = 0
        for held, x, size in zip(self._inputs, self._point, self._sizes, strict=True):
            part = change[begin : begin + x.size].reshape(x.shape)
            held.assign((x + size * part).astype(held.numpy().dtype))
            begin += x.size
        return self._forward(number)

    # -- differences -------------------------------------------------------------------------------------------------

    def _compare(self, number: int, gradient: Sequence[Vector]) -> tuple[float, float, float]:
        """Return the gradient's cosine to that by differences, their difference, and the doubt about differences.

        All are relative, of the inputs in units of their sizes, within the space of the directions.
        """
        whole = np.concatenate([size * g.reshape(-1) for size, g in zip(self._sizes, gradient, strict=True)])
        length = float(np.linalg.norm(whole))
        if not math.isfinite(length) or not length:
            return math.nan, math.nan, math.nan
        columns = min(self._directions, whole.size)
        spread = self._random.standard_normal((whole.size, columns))
        spread[:, 0] = whole / length
        basis = np.linalg.qr(spread)[0]
        basis[:, 0] = whole / length  # qr may turn it round
        found, doubt = self._differences(number, basis)
        size = float(np.linalg.norm(found))
        if not math.isfinite(size) or not size:
            return math.nan, math.nan, math.nan
        expected = np.zeros(columns)
        expected[0] = length
        return float(found[0]) / size, float(np.linalg.norm(found - expected)) / size, doubt

    def _differences(self, number: int, basis: Vector) -> tuple[Vector, float]:
        """Return the derivatives along directions, of the two steps that agree best, and by how much they do not."""
        # At first the step at which truncation and rounding of central differences meet; smaller ones where the loss
        # bends more, as after many steps of a system whose changes grow.
        h = 4.0 * self._eps ** (1 / 3) * math.sqrt(len(basis))
        found, least = np.full(basis.shape[1], math.nan), math.inf
        last = found
        for _ in range(_TRIES):
            now = np.array([self._central(number, h, direction) for direction in basis.T])
            # Relative to the size: where steps are too large to follow a loss that varies fast, differences are small,
            # and so is the difference between them.
            size = float(np.linalg.norm(now))
            # Steps that rounding swallows agree, too.
            doubt = float(np.linalg.norm(now - last)) / size if size else 1.0
            if doubt < least:
                found, least = now, doubt
            if doubt <= _AGREE:
                break
            last, h = now, h * _SHRINK
        return found, least

    def _central(self, number: int, h: float, direction: Vector) -> float:
        return (self._moved(number, h * direction) - self._moved(number, -h * direction)) / (2 * h)


def _number(loss: array) -> float:
    if not isinstance(loss, array) or loss.size != 1 or loss.numpy().size != 1:
        raise MisuseError(
            f"dk.testing.horizon: the loss is to be an array of one element, not {loss!r}",
            remedy="sum what it is made of in a kernel, and return that array",
        )
    return float(loss.numpy().reshape(-1)[0])


def _nearly(a: float, b: float, eps: float) -> bool:
    return a == b or abs(a - b) <= 1e3 * eps * max(abs(a), abs(b)) or (math.isnan(a) and math.isnan(b))
