"""A soft body learns to move: the material point method, and the gradient of where the body is in the end.

The input is a soft body on the ground with four legs, each with two muscles. The output is the weights of the sine
waves that contract the muscles, found with Adam so that the body moves to the right, and a figure. The simulation is
MLS-MPM (Hu et al., ACM Trans. Graphics 37, 2018), the task is that of DiffTaichi (Hu et al., ICLR 2020). A time step is
two launches; the tape holds all states.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

CELLS, DT, WAVES, OMEGA = 48, 1.5e-3, 4, 25.0
DX, SOFT, STRENGTH, FLOOR = 1.0 / CELLS, 12.0, 5.0, 3
UNIT, ALONG = dk.mat22(1.0, 0.0, 0.0, 1.0), dk.mat22(0.0, 0.0, 0.0, 1.0)
Table, Vectors, Muscles = dk.array2d(dtype=float), dk.array2d(dtype=dk.vec2), dk.array(dtype=int)


@dk.struct
class Particle:
    x: dk.vec2
    v: dk.vec2
    c: dk.mat22  # how the velocity changes from place to place
    f: dk.mat22  # how the matter is deformed


Particles = dk.array(dtype=Particle)


@dk.func
def near(x: dk.vec2, a: int, b: int):
    """One of the nine cells around a particle, how far off it is, and its share (quadratic B-splines)."""
    i, j = int(x[0] / DX - 0.5), int(x[1] / DX - 0.5)
    u, w = dk.abs(float(i + a) - x[0] / DX), dk.abs(float(j + b) - x[1] / DX)
    one = dk.where(a == 1, 0.75 - u * u, 0.5 * (1.5 - u) ** 2.0)
    two = dk.where(b == 1, 0.75 - w * w, 0.5 * (1.5 - w) ** 2.0)
    return i + a, j + b, dk.vec2(float(i + a), float(j + b)) * DX - x, one * two


@dk.kernel
def to_grid(now: Particles, muscle: Muscles, weights: Table, time: float, volume: float, after: Particles,
            mass: Table, momentum: Vectors):  # fmt: skip
    """Deform a particle, and give its mass, its momentum and its stress to the cells around it."""
    p = dk.tid()
    deformed = (UNIT + DT * now[p].c) * now[p].f
    after[p].f, m, pull = deformed, muscle[p], 0.0
    if m >= 0:
        wave = weights[m, 0]
        for k in range(1, WAVES + 1):
            wave += weights[m, k] * dk.sin(OMEGA * time + 6.2831853 * float(k) / float(WAVES))
        pull = STRENGTH * dk.tanh(wave)
    # The stress of neo-Hookean matter, and that of muscles along their legs.
    stress = deformed * (SOFT * UNIT + pull * ALONG) * dk.transpose(deformed)
    stress += SOFT * (dk.log(dk.determinant(deformed)) - 1.0) * UNIT
    affine = volume * (now[p].c - 4.0 * DT / (DX * DX) * stress)
    for k in range(9):
        i, j, off, share = near(now[p].x, k // 3, k % 3)
        mass[i, j] += share * volume
        momentum[i, j] += share * (volume * now[p].v + affine * off)


@dk.func
def velocity(mass: Table, momentum: Vectors, i: int, j: int):
    """Momentum to velocity; gravity; the floor holds what touches it."""
    v = momentum[i, j] / dk.max(mass[i, j], 1.0e-12) - dk.vec2(0.0, 2.0 * DT)
    return v if j >= FLOOR else dk.vec2(0.0, dk.max(v[1], 0.0))


@dk.kernel
def from_grid(now: Particles, mass: Table, momentum: Vectors, after: Particles):
    """What the cells around a particle move like, it moves like."""
    p = dk.tid()
    v, c = dk.vec2(0.0, 0.0), dk.mat22(0.0, 0.0, 0.0, 0.0)
    for k in range(9):
        i, j, off, share = near(now[p].x, k // 3, k % 3)
        g = share * velocity(mass, momentum, i, j)
        v += g
        c += 4.0 / (DX * DX) * dk.outer(g, off)
    after[p].v, after[p].c, after[p].x = v, c, now[p].x + DT * v


class Body:
    def __init__(self, across: int, steps: int) -> None:
        d, self.steps = 0.3 / across, steps
        i, j = np.meshgrid(np.arange(across), np.arange(across * 2 // 3), indexing="ij")
        part, low = i * 14 // across, j < across // 3  # a trunk; below it, of each four parts two are a leg
        kept = ~low | (part % 4 < 2)
        self.muscle = dk.array(np.where(low, part // 4 * 2 + part % 4, -1)[kept], dtype=int)
        self.count, self.volume = int(kept.sum()), d * d
        began = np.zeros(self.count, Particle.numpy_dtype())
        began["x"], began["f"] = np.stack([i[kept] * d + 0.1, j[kept] * d + FLOOR * DX + 0.5 * d], axis=1), np.eye(2)
        self.began = dk.array(began, dtype=Particle)

    def run(self, weights: dk.array) -> list[dk.array]:
        """The particles after each time step."""
        states, n = [self.began], self.count
        for t in range(self.steps):
            now, after = states[-1], dk.zeros(n, dtype=Particle, requires_grad=True)
            grid = [dk.zeros((CELLS, CELLS), dtype=t, requires_grad=True) for t in (float, dk.vec2)]
            dk.launch(to_grid, n, inputs=[now, self.muscle, weights, t * DT, self.volume], outputs=[after, *grid])
            dk.launch(from_grid, n, inputs=[now, *grid], outputs=[after])
            states.append(after)
        return states


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Learn and draw; returns how far the body goes at first and in the end."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--across", type=int, default=30, help="particles along the body")
    parser.add_argument("--steps", type=int, default=600, help="time steps")
    parser.add_argument("--rounds", type=int, default=30, help="steps of Adam")
    parser.add_argument("--out", default="soft_body.png", help="where the figure goes")
    options, rng = parser.parse_args(arguments), np.random.default_rng(3)
    body, few = Body(options.across, options.steps), np.zeros(5, Particle.numpy_dtype())
    few["x"], few["v"], few["f"] = rng.uniform(0.3, 0.4, (5, 2)), rng.normal(size=(5, 2)), [[1.0, 0.1], [-0.2, 1.1]]
    given = [dk.array(few, dtype=Particle), np.int32([0, 1, 2, -1, 3]), np.float32(rng.normal(size=(8, 5))), 0.1, 0.2]
    results = [dk.zeros(5, dtype=Particle), dk.zeros((24, 24)), dk.zeros((24, 24), dtype=dk.vec2)]
    print(gradcheck(to_grid, 5, given, results), flush=True)
    weights = dk.array(np.float32(0.02 * rng.normal(size=(8, WAVES + 1))), requires_grad=True)
    optimizer, history, towards = dk.optim.Adam([weights], lr=0.1), [], np.zeros(body.count, Particle.numpy_dtype())
    towards["x"][:, 0] = -1.0 / body.count  # the gradient of the middle of the body, with a minus
    *axes, plot = (fig := Figure(figsize=(12.0, 2.6), layout="constrained")).subplots(1, 3)
    for k in trange(options.rounds, desc="rounds"):
        with dk.Tape() as tape:
            places = body.run(weights)
        tape.backward(grads={places[-1]: dk.array(towards, dtype=Particle)})
        history.append(float((places[-1].numpy()["x"] - places[0].numpy()["x"])[:, 0].mean()))
        if k in (0, options.rounds - 1):
            for shade, x in zip((0.3, 0.65, 1.0), places[:: options.steps // 2], strict=True):
                axes[k > 0].scatter(*x.numpy()["x"].T, s=2, c=body.muscle.numpy(), cmap="tab10", alpha=shade)
            axes[k > 0].set(title=f"round {k}", xlim=(0.05, 0.75), ylim=(0.05, 0.4), aspect="equal", yticks=[])
        optimizer.step([weights.grad])
        tape.zero()
    plot.plot(history)
    plot.set(xlabel="rounds", title="how far the body goes")
    fig.savefig(options.out, dpi=110)
    print(f"{body.count} particles: goes {history[0]:+.3f} at first, {history[-1]:+.3f} in the end; {options.out}")
    return history[0], history[-1]


if __name__ == "__main__":
    main()
