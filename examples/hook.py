"""The stiffest hook of a given area: linear elasticity on triangles, differentiated by their nodes.

The input is the inner outline of a hook, held at its top, a weight that hangs in it, and how much material there is.
The output is the outer outline with which the weight sinks least, and a figure. The finite elements are those of
`beam.py`. Widths follow the criterion of optimality: more of the area changes the work of the weight as much in each
place. In a slender hook the width would go with the root of the bending moment, which the figure shows beside it.
"""

from __future__ import annotations

import argparse

import beam
import numpy as np
from matplotlib.figure import Figure

import diffkern as dk
from diffkern.testing import gradcheck

TIP, TOP, WIDTH, LEAST = np.radians(320.0), np.radians(90.0), 0.5, 0.15  # the inner outline is a circle of radius 1
Numbers, Points, Corners = dk.array(dtype=dk.float64), dk.array(dtype=dk.vec2d), dk.array2d(dtype=int)


@dk.kernel
def place(widths: Numbers, across: int, points: Points):
    """Nodes from the tip to the top, and in each section from the inner outline to the outer, a quadratic spline."""
    k, last = dk.tid(), points.shape[0] // (across + 1) - 1
    part = dk.float64(k // (across + 1)) / dk.float64(last)
    i = dk.min(int(part * dk.float64(widths.shape[0] - 2)), widths.shape[0] - 3)
    t = part * dk.float64(widths.shape[0] - 2) - dk.float64(i)
    a, b, c = 0.5 * (1.0 - t) ** 2.0, 0.5 + t - t * t, 0.5 * t * t
    width = a * widths[i] + b * widths[i + 1] + c * widths[i + 2]
    turn, out = TIP + part * (TOP - TIP), 1.0 + width * dk.float64(k % (across + 1)) / dk.float64(across)
    points[k] = out * dk.vec2d(dk.cos(turn), dk.sin(turn))


@dk.kernel
def measure(points: Points, triangles: Corners, area: Numbers):
    t = dk.tid()
    a, b = beam.slope(points, triangles, t, 0), beam.slope(points, triangles, t, 1)
    area[0] += 0.5 * (a[0] * b[1] - a[1] * b[0])


class Hook(beam.Strip):
    """A strip around a circle, in which a weight hangs."""

    def __init__(self, along: int, across: int) -> None:
        super().__init__(along, across)
        turn, load = np.linspace(TIP, TOP, along + 1)[:-1] - 1.5 * np.pi, np.zeros((along, across + 1, 2))
        load[:, 0, 1] = -np.maximum(np.cos(2.0 * turn), 0.0) * (np.abs(turn) < 1.0)
        self.load = dk.array(load.reshape(-1, 2) / -load.sum(), dtype=dk.vec2d)
        self.held = dk.zeros(self.nodes, dtype=dk.vec2d)

    def points(self, widths: dk.array) -> dk.array:
        points = dk.zeros(self.nodes, dtype=dk.vec2d, requires_grad=True)
        dk.launch(place, self.nodes, inputs=[widths, self.across], outputs=[points])
        return points

    def sinks(self, widths: dk.array) -> dk.array:
        """How far the weight sinks."""
        moved = self.bend(self.points(widths), self.lame, self.load, self.held)
        return dk.map(dk.dot, self.load, moved).sum()

    def area(self, widths: dk.array) -> dk.array:
        area = dk.zeros(1, dtype=dk.float64, requires_grad=True)
        dk.launch(measure, len(self.lame), inputs=[self.points(widths), self.triangles], outputs=[area])
        return area


def update(widths: np.ndarray, slopes: np.ndarray, costs: np.ndarray, spare: float) -> np.ndarray:
    """Widths by the criterion of optimality: the factor that makes the area right is found by bisection."""
    low, high = 1.0e-9, 1.0e9
    while high > low * (1.0 + 1.0e-12):
        factor = np.sqrt(low * high)
        # By the width, the inverse of a bending stiffness falls with the third power, and its slope with the fourth.
        found = np.maximum(widths * (np.maximum(-slopes, 0.0) / (factor * costs)) ** 0.25, LEAST)
        low, high = (factor, high) if costs @ (found - widths) > spare else (low, factor)
    return found


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns how far the weight sinks at first and in the end."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--along", type=int, default=120, help="elements along the hook")
    parser.add_argument("--across", type=int, default=10, help="elements across")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--out", default="hook.png", help="where the figure goes")
    options, few = parser.parse_args(arguments), Hook(8, 2)
    some = dk.array(np.random.default_rng(0).uniform(0.6, 0.9, 5))
    print(*str(gradcheck(few.sinks, inputs=[some])).splitlines()[:2], sep="\n", flush=True)
    hook, widths, history, shown = Hook(options.along, options.across), dk.full(14, WIDTH, dtype=dk.float64), [], []
    area, sinks, grows = float(hook.area(widths)), dk.value_and_grad(hook.sinks), dk.value_and_grad(hook.area)
    for k in range(options.rounds + 1):
        (value, slopes), (size, costs) = sinks(widths), grows(widths)
        history.append(float(value))
        if k in (0, options.rounds):
            points = hook.points(widths)
            moved = hook.bend(points, hook.lame, hook.load, hook.held)
            shown.append((points.numpy(), np.pad(np.linalg.norm(moved.numpy(), axis=1), (0, hook.across + 1))))
        widths = dk.array(update(widths.numpy(), slopes.numpy(), costs.numpy(), area - float(size)))
    fig = Figure(figsize=(11.5, 3.2), layout="constrained")
    *axes, plot = fig.subplots(1, 3)
    for ax, (points, moved), sink in zip(axes, shown, (history[0], history[-1]), strict=True):
        drawn = ax.tripcolor(*points.T, hook.triangles.numpy(), moved, shading="gouraud", vmax=shown[0][1].max())
        ax.set(title=f"the weight sinks by {sink:.1f}", aspect="equal")
    fig.colorbar(drawn, ax=axes, label="displacement")
    sections, turn = points.reshape(-1, options.across + 1, 2), np.linspace(TIP, TOP, options.along + 1)
    width, moment = np.linalg.norm(sections[:, -1] - sections[:, 0], axis=1), np.cos(turn) * (turn < 1.5 * np.pi)
    plot.plot(np.degrees(turn), width, label="width found")
    plot.plot(np.degrees(turn), np.sqrt(np.abs(moment)) * width.max(), "k:", lw=0.7, label="root of the moment")
    plot.set(xlabel="degrees", title=f"widths, for an area of {area:.2f}")
    plot.legend()
    fig.savefig(options.out, dpi=110)
    print(f"{2 * hook.unknowns} unknowns: with an area of {area:.3f} -> {float(size):.3f} the weight sinks", end=" ")
    print(f"by {history[0]:.1f} -> {history[-1]:.1f}; figure: {options.out}")
    return history[0], history[-1]


if __name__ == "__main__":
    main()
