"""The rows of :func:`diffkern.testing.horizon`, as a table and as a figure."""

from __future__ import annotations

import math
from typing import Any

from diffkern.process.dataclass import dataclass

__all__ = ["Horizon", "HorizonReport"]


@dataclass(frozen=True, slots=True)
class Horizon:
    """The gradient of the loss after a number of steps.

    Attributes
    ----------
    steps
        The number of steps.
    loss
        The loss after them.
    norm
        Euclidean norm of the gradient with respect to all inputs.
    growth
        Factor per step by which the norm has grown since the row before; NaN in the first row.
    cosine
        Cosine of the angle between the gradient and that by central differences, with inputs in units of their sizes:
        1 where they agree. NaN where the gradient is zero or not finite.
    error
        Relative difference of the two.
    disagreement
        Relative difference between central differences of different steps. Where it is not small, differences say
        nothing about the gradient.
    memory
        Bytes that the tape kept for the gradient.
    forward, backward
        Seconds of the steps on the tape, and of the gradient.
    """

    steps: int
    loss: float
    norm: float
    growth: float
    cosine: float
    error: float
    disagreement: float
    memory: int
    forward: float
    backward: float


@dataclass(frozen=True, slots=True)
class HorizonReport:
    """The rows for growing numbers of steps.

    Attributes
    ----------
    rows
        One for each number of steps, in their order.
    """

    rows: tuple[Horizon, ...]

    def trusted(self, cosine: float = 0.99) -> int:
        """Return the largest number of steps up to which each gradient has at least this cosine to differences.

        Parameters
        ----------
        cosine : float, optional
            The least cosine.

        Returns
        -------
        int
            The number of steps; 0 if the first row is below it already.
        """
        last = 0
        for row in self.rows:
            if not row.cosine >= cosine:
                break
            last = row.steps
        return last

    def __str__(self) -> str:
        head = f"{'steps':>7} {'loss':>12} {'norm':>10} {'growth':>8} {'cosine':>8} {'error':>8} {'disagr.':>8}"
        lines = [f"{head} {'memory':>9} {'forward':>10} {'backward':>10}"]
        for row in self.rows:
            derivative = f"{row.norm:10.3e} {_short(row.growth)} {_short(row.cosine)}"
            checks = f"{row.error:8.1e} {row.disagreement:8.1e}"
            cost = f"{_bytes(row.memory):>9} {row.forward * 1e3:7.2f} ms {row.backward * 1e3:7.2f} ms"
            lines.append(f"{row.steps:7d} {row.loss:12.5g} {derivative} {checks} {cost}")
        return "\n".join(lines)

    def plot(self, path: str | None = None) -> Any:
        """Draw norm, cosine, memory and time over the number of steps.

        Parameters
        ----------
        path : str, optional
            File to write the figure to.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Raises
        ------
        ImportError
            If there is no matplotlib.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError("HorizonReport.plot draws with matplotlib: pip install diffkern[plot]") from None
        figure = Figure(figsize=(9, 6), layout="constrained")
        (norms, cosines), (bytes_, seconds) = figure.subplots(2, 2, sharex=True)
        steps = [row.steps for row in self.rows]
        norms.loglog(steps, [row.norm for row in self.rows], "o-")
        norms.set_ylabel("norm of the gradient")
        cosines.errorbar(
            steps,
            [row.cosine for row in self.rows],
            [min(row.disagreement, 1.0) if math.isfinite(row.disagreement) else 1.0 for row in self.rows],
            fmt="o-",
            capsize=3,
        )
        cosines.set_ylabel("cosine to differences\n(bars: their disagreement)")
        cosines.set_ylim(-1.1, 1.1)
        bytes_.loglog(steps, [max(row.memory, 1) for row in self.rows], "o-")
        bytes_.set_ylabel("bytes kept")
        seconds.loglog(steps, [row.forward for row in self.rows], "o-", label="forward")
        seconds.loglog(steps, [row.backward for row in self.rows], "s-", label="backward")
        seconds.set_ylabel("seconds")
        seconds.legend()
        for axes in (bytes_, seconds):
            axes.set_xlabel("steps")
        if path is not None:
            figure.savefig(path)
        return figure


def _short(number: float) -> str:
    return f"{number:8.4f}" if abs(number) < 1e3 or math.isnan(number) else f"{number:8.1e}"


def _bytes(number: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"
