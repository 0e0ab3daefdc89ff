"""A cloth in large time steps: each solves a linear system, and is differentiated as one operation.

The input is the noisy positions of a few points of a cloth that hangs from two corners and swings in the wind. The
output is its stiffness against stretching, shear and bending, and the wind, found with Gauss and Newton's method, and
a figure. A time step is a step of Newton's method for the implicit equation (Baraff and Witkin, SIGGRAPH 1998), 20
times as long as springs of this stiffness allow an explicit one. Its matrix is assembled on a pattern that stays. The
derivative of the solution is a system more, with the matrix's own derivative; nothing of the iterations is kept.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure

import diffkern as dk
from diffkern import sparse
from diffkern.testing import gradcheck

SIDE, MASS, DRAG, GRAVITY, DT, NOISE = 1.0, 0.2, 0.25, 9.81, 0.02, 0.0002  # m, kg, kg/s, m/s2, s, m
TRUE, GUESS = np.array([900.0, 60.0, 20.0, 2.0, 5.0]), np.array([300.0, 150.0, 50.0, 1.0, 2.0])
Points, Blocks, Numbers = dk.array(dtype=dk.vec3d), dk.array(dtype=dk.mat33d), dk.array(dtype=dk.float64)
Springs, UNIT = dk.array2d(dtype=int), dk.mat33d(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


@dk.kernel
def pull(springs: Springs, rest: Numbers, x: Points, v: Points, theta: Numbers, entries: Blocks, push: Points):
    """What a spring adds to the matrix, four blocks, and to the right side."""
    s = dk.tid()
    a, b, stiffness = springs[s, 0], springs[s, 1], theta[springs[s, 2]]
    off = x[b] - x[a]
    along = dk.normalize(off)
    strain = 1.0 - rest[s] / dk.length(off)
    # Across a spring that is pressed the stiffness would be negative: it is left out, so that there is a solution.
    across = dk.max(strain, dk.float64(0.0)) * (UNIT - dk.outer(along, along))
    block = DT * DT * stiffness * (dk.outer(along, along) + across)
    entries[4 * s], entries[4 * s + 1], entries[4 * s + 2], entries[4 * s + 3] = block, block, -block, -block
    change = DT * stiffness * strain * off + block * (v[b] - v[a])
    push[a] += change
    push[b] -= change


@dk.kernel
def carry(first: int, v: Points, theta: Numbers, entries: Blocks, push: Points):
    """What inertia, gravity and air add for a mass."""
    i = dk.tid()
    mass, drag = MASS / dk.float64(v.size), DRAG / dk.float64(v.size)
    entries[first + i] = (mass + DT * drag) * UNIT
    push[i] += DT * (drag * (dk.vec3d(theta[3], theta[4], 0.0) - v[i]) - dk.vec3d(0.0, 0.0, mass * GRAVITY))


@dk.kernel
def advance(x: Points, v: Points, change: Points, x_after: Points, v_after: Points):
    """The masses after a time step; the last two are held."""
    i = dk.tid()
    w = v[i]
    if i < change.shape[0]:
        w += change[i]
    x_after[i], v_after[i] = x[i] + DT * w, w


@dk.kernel
def look(x: Points, marks: dk.array(dtype=int), first: int, seen: Points):
    k = dk.tid()
    seen[first + k] = x[marks[k]]


def new(count: int, dtype: type = dk.vec3d) -> dk.array:
    return dk.zeros(count, dtype=dtype, requires_grad=True)


class Cloth:
    """Masses, of which those that are held come last, springs between them, and the pattern of the matrix."""

    def __init__(self, n: int, steps: int, every: int) -> None:
        order = np.r_[np.delete(np.arange(n * n), [0, n - 1]), 0, n - 1]
        self.number, self.steps, parts = np.argsort(order).reshape(n, n), steps, []
        for kind, (a, b) in enumerate([(0, 1), (1, 0), (1, 1), (1, -1), (0, 2), (2, 0)]):
            i, j = (k.ravel() for k in np.mgrid[0 : n - a, max(-b, 0) : n - max(b, 0)])
            parts.append(np.stack([self.number[i, j], self.number[i + a, j + b], 0 * i + kind // 2], axis=1))
        springs, place = np.int32(np.concatenate(parts)), order[:, None] // [1, n] % n * [1.0, 1.0] * SIDE / (n - 1)
        self.start = dk.array(np.pad(1.01 * place, ((0, 0), (0, 1))), dtype=dk.vec3d)  # it is stretched a little
        self.rest = dk.array(np.linalg.norm(place[springs[:, 0]] - place[springs[:, 1]], axis=1))
        self.springs, self.masses, self.looks = dk.array(springs, dtype=int), n * n, min(steps, 8)
        self.marks = dk.array(self.number[1::every, 1::every].ravel(), dtype=int)
        ends, each = springs[:, [0, 1, 0, 1, 0, 1, 1, 0]].reshape(-1, 2, 4), np.arange(n * n)
        rows, columns = (dk.array(np.int32(np.r_[ends[:, k].ravel(), each])) for k in (0, 1))
        self.matrix = sparse.bsr_zeros(n * n - 2, n * n - 2, dk.mat33d)
        options = {"prune_numerical_zeros": False, "build_mapping": True}
        self.mapping = sparse.bsr_set_from_triplets(self.matrix, rows, columns, **options)

    def run(self, theta: dk.array) -> list[dk.array]:
        """Where the masses are, at the beginning and after each time step."""
        n, springs, states, v = self.masses, self.springs.shape[0], [self.start], new(self.masses)
        for _ in range(self.steps):
            x, entries, push, after = states[-1], new(4 * springs + n, dk.mat33d), new(n), (new(n), new(n))
            dk.launch(pull, springs, inputs=[self.springs, self.rest, x, v, theta], outputs=[entries, push])
            dk.launch(carry, n, inputs=[4 * springs, v, theta], outputs=[entries, push])
            sparse.bsr_set_values(self.matrix, self.mapping, entries)
            change = dk.linear_solve(self.matrix, push[: n - 2], method="cg", M="diag")
            dk.launch(advance, n, inputs=[x, v, change], outputs=[*after])
            states, v = [*states, after[0]], after[1]
        return states

    def seen(self, theta: dk.array) -> dk.array:
        """Where the marks are, at equal intervals."""
        seen = new(self.looks * self.marks.size)
        for k, x in enumerate(self.run(theta)[:: self.steps // self.looks][1:]):
            dk.launch(look, self.marks.size, inputs=[x, self.marks, k * self.marks.size], outputs=[seen])
        return seen


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns how far the marks are off, in mm, and the largest relative error found."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--size", type=int, default=13, help="masses along each side")
    parser.add_argument("--steps", type=int, default=32, help="time steps, a multiple of 8")
    parser.add_argument("--rounds", type=int, default=6, help="steps of Gauss and Newton's method")
    parser.add_argument("--out", default="drape.png", help="where the figure goes")
    options, few, history = parser.parse_args(arguments), Cloth(3, 2, 1), []
    print(*str(gradcheck(few.seen, inputs=[dk.array(TRUE)], max_elements=16)).splitlines()[:2], sep="\n", flush=True)
    cloth, rng, sizes = Cloth(options.size, options.steps, 4), np.random.default_rng(0), np.log(GUESS)
    seen = cloth.seen(dk.array(TRUE)).numpy() + rng.normal(0.0, NOISE, (cloth.looks * cloth.marks.size, 3))
    for _ in range(options.rounds):
        off = cloth.seen(theta := dk.array(np.exp(sizes))).numpy() - seen
        slopes = dk.jacobian(cloth.seen, theta, mode="forward").reshape(-1, 5) * np.exp(sizes)
        history.append(1e3 * float(np.sqrt((off**2).sum(1).mean())))
        change = np.linalg.lstsq(slopes, off.ravel(), rcond=None)[0]
        sizes -= change / max(1.0, np.abs(change).max())
    states, fig = cloth.run(dk.array(found := np.exp(sizes))), Figure(figsize=(12.0, 3.2), layout="constrained")
    for k, t in enumerate(np.arange(1, 4) * options.steps // 3):
        ax = fig.add_subplot(1, 4, k + 1, projection="3d", box_aspect=(1, 1, 1), elev=12, azim=-55)
        shown = np.moveaxis(states[t].numpy()[cloth.number], -1, 0)
        ax.plot_surface(*shown, cmap="viridis", lw=0.2, edgecolor="k", alpha=0.8)
        ax.set(title=f"{t * DT:.2f} s", xlim=(0, 1), ylim=(0, 1), zlim=(-1, 0))
    plot = fig.add_subplot(1, 4, 4)
    plot.semilogy(history, ".-")
    plot.set(title="mm off", xlabel="rounds")
    fig.savefig(options.out, dpi=110)
    names = ("stretch N/m", "shear N/m", "bend N/m", "wind x m/s", "wind y m/s")
    for name, true, guess, value in zip(names, TRUE, GUESS, found, strict=True):
        print(f"{name:12} {true:6.2f}, guessed {guess:6.2f}, found {value:6.2f}")
    print(f"{3 * cloth.masses} unknowns: {history[0]:.1f} -> {history[-1]:.2f} mm off; figure: {options.out}")
    return history[-1], float(np.abs(found / TRUE - 1.0).max())


if __name__ == "__main__":
    main()
