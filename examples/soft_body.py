"""A soft body learns to move: the material point method, and the gradient of where the body is in the end.

In: a body of soft matter on the ground, with four legs of which each has two muscles. Out: the weights of the sine
waves that contract the muscles, found by Adam so that the body goes to the right, and a figure. The simulation is
MLS-MPM (Hu et al., ACM Trans. Graphics 37, 2018), the task that of DiffTaichi (Hu et al., ICLR 2020). A time step is
three launches; the tape holds the states of all.
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
Table, Vectors = dk.array2d(dtype=float), dk.array2d(dtype=dk.vec2)


@dk.struct
class Particle:
    x: dk.vec2
    v: dk.vec2
    c: dk.mat22  # how the velocity changes from place to place
    f: dk.mat22  # how the matter is deformed


Particles = dk.array(dtype=Particle)


@dk.func
def near(u: float, k: int):
    """The quadratic B-spline's weight of the first, second or third node around `u`, counted from the first."""
    return dk.where(k == 0, 0.5 * (1.5 - u) ** 2.0, dk.where(k == 1, 0.75 - (u - 1.0) ** 2.0, 0.5 * (u - 0.5) ** 2.0))


@dk.kernel
def to_grid(
    now: Particles, muscle: dk.array(dtype=int), weights: Table, time: float, volume: float,
    after: Particles, mass: Table, momentum: Vectors,
):  # fmt: skip
    """Deform a particle, and give its mass, its momentum and its stress to the cells around it."""
    p = dk.tid()
    deformed = (UNIT + DT * now[p].c) * now[p].f
    after[p].f = deformed
    pull = 0.0
    m = muscle[p]
    if m >= 0:
        wave = weights[m, 0]
        for k in range(1, WAVES + 1):
            wave += weights[m, k] * dk.sin(OMEGA * time + 6.2831853 * float(k) / float(WAVES))
        pull = STRENGTH * dk.tanh(wave)
    # The stress of neo-Hookean matter, and that of muscles along their legs.
    elastic = SOFT * (deformed * dk.transpose(deformed)) + SOFT * (dk.log(dk.determinant(deformed)) - 1.0) * UNIT
    stress = elastic + pull * deformed * ALONG * dk.transpose(deformed)
    affine = volume * (now[p].c - 4.0 * DT / (DX * DX) * stress)
    at = now[p].x / DX
    i, j = int(at[0] - 0.5), int(at[1] - 0.5)
    u, w = at[0] - float(i), at[1] - float(j)
    for a in range(3):
        for b in range(3):
            share = near(u, a) * near(w, b)
            off = dk.vec2(float(a) - u, float(b) - w) * DX
            mass[i + a, j + b] += share * volume
            momentum[i + a, j + b] += share * (volume * now[p].v + affine * off)


@dk.kernel
def on_grid(mass: Table, momentum: Vectors, velocity: Vectors):
    """Momentum to velocity; gravity; the floor holds what touches it."""
    i, j = dk.tid()
    v = dk.vec2(0.0, 0.0)
    if mass[i, j] > 0.0:
        v = momentum[i, j] / mass[i, j] - dk.vec2(0.0, 2.0 * DT)
        if j < FLOOR:
            v = dk.vec2(0.0, dk.max(v[1], 0.0))
    velocity[i, j] = v


@dk.kernel
def from_grid(now: Particles, velocity: Vectors, after: Particles):
    p = dk.tid()
    at = now[p].x / DX
    i, j = int(at[0] - 0.5), int(at[1] - 0.5)
    u, w = at[0] - float(i), at[1] - float(j)
    v, c = dk.vec2(0.0, 0.0), dk.mat22(0.0, 0.0, 0.0, 0.0)
    for a in range(3):
        for b in range(3):
            share = near(u, a) * near(w, b)
            g = velocity[i + a, j + b]
            v += share * g
            c += 4.0 * share / DX * dk.outer(g, dk.vec2(float(a) - u, float(b) - w))
    after[p].v, after[p].c, after[p].x = v, c, now[p].x + DT * v


@dk.kernel
def middle(now: Particles, place: dk.array(dtype=float)):
    place[0] += now[dk.tid()].x[0] / float(now.shape[0])


class Body:
    """Particles of a trunk on four legs."""

    def __init__(self, across: int, steps: int) -> None:
        d, self.steps = 0.3 / across, steps
        i, j = np.meshgrid(np.arange(across), np.arange(across * 2 // 3), indexing="ij")
        part, low = i * 14 // across, j < across // 3  # of each four parts below two are a leg
        kept = ~low | (part % 4 < 2)
        start = np.stack([i[kept] * d + 0.1, j[kept] * d + FLOOR * DX + 0.5 * d], axis=1)
        self.muscle = dk.array(np.where(low, part // 4 * 2 + part % 4, -1)[kept], dtype=int)
        self.count, self.volume = len(start), d * d
        began = np.zeros(self.count, Particle.numpy_dtype())
        began["x"], began["f"] = start, np.eye(2)
        self.began = dk.array(began, dtype=Particle)

    def run(self, weights: dk.array) -> list[dk.array]:
        """The particles after each time step."""
        states, n = [self.began], self.count
        for t in range(self.steps):
            now, after = states[-1], dk.zeros(n, dtype=Particle, requires_grad=True)
            mass = dk.zeros((CELLS, CELLS), requires_grad=True)
            momentum, velocity = (dk.zeros((CELLS, CELLS), dtype=dk.vec2, requires_grad=True) for _ in range(2))
            inputs = [now, self.muscle, weights, t * DT, self.volume]
            dk.launch(to_grid, n, inputs=inputs, outputs=[after, mass, momentum])
            dk.launch(on_grid, mass.shape, inputs=[mass, momentum], outputs=[velocity])
            dk.launch(from_grid, n, inputs=[now, velocity], outputs=[after])
            states.append(after)
        return states


def draw(path: str, body: Body, walks: list[tuple[str, list[dk.array]]], history: list[float]) -> None:
    fig = Figure(figsize=(12.0, 2.6), layout="constrained")
    *axes, plot = fig.subplots(1, 3)
    for ax, (title, places) in zip(axes, walks, strict=True):
        for k in range(3):
            x = places[k * (len(places) - 1) // 2].numpy()["x"]
            ax.scatter(x[:, 0], x[:, 1], s=2, c=body.muscle.numpy(), cmap="tab10", alpha=0.3 + 0.35 * k)
        ax.set(title=title, xlim=(0.05, 0.75), ylim=(0.05, 0.4), aspect="equal", yticks=[])
    plot.plot(history)
    plot.set(xlabel="rounds", ylabel="way", title="how far the body goes")
    fig.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Learn and draw; returns how far the body goes at first and in the end."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--across", type=int, default=30, help="particles along the body")
    parser.add_argument("--steps", type=int, default=600, help="time steps")
    parser.add_argument("--rounds", type=int, default=30, help="steps of Adam")
    parser.add_argument("--out", default="soft_body.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    body = Body(options.across, options.steps)
    rng = np.random.default_rng(3)
    few = np.zeros(5, Particle.numpy_dtype())
    few["x"], few["v"], few["c"] = rng.uniform(0.3, 0.4, (5, 2)), rng.normal(size=(5, 2)), rng.normal(size=(5, 2, 2))
    few["f"] = np.eye(2) + 0.1 * rng.normal(size=(5, 2, 2))
    given = [dk.array(few, dtype=Particle), np.int32([0, 1, 2, -1, 3]), np.float32(rng.normal(size=(8, 5))), 0.1, 0.2]
    results = [dk.zeros(5, dtype=Particle), dk.zeros((24, 24)), dk.zeros((24, 24), dtype=dk.vec2)]
    print(gradcheck(to_grid, 5, given, results), flush=True)
    weights = dk.array(np.float32(0.02 * rng.normal(size=(8, WAVES + 1))), requires_grad=True)
    optimizer, history, place = dk.optim.Adam([weights], lr=0.1), [], dk.zeros(1, requires_grad=True)
    start, walks = float(body.began.numpy()["x"][:, 0].mean()), []
    for k in trange(options.rounds, desc="rounds"):
        place.zero_()
        with dk.Tape() as tape:
            places = body.run(weights)
            dk.launch(middle, body.count, inputs=[places[-1]], outputs=[place])
        tape.backward(grads={place: dk.array([-1.0], dtype=float)})
        history.append(float(place) - start)
        if k in (0, options.rounds - 1):
            walks.append((f"round {k}", places))
        optimizer.step([weights.grad])
        tape.zero()
    draw(options.out, body, walks, history)
    print(
        f"{body.count} particles, {options.steps} steps: goes {history[0]:+.3f} at first, {history[-1]:+.3f} in the end"
    )
    print(f"figure: {options.out}")
    return history[0], history[-1]


if __name__ == "__main__":
    main()
