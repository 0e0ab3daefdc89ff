"""Gravity between all pairs of bodies, a tile of bodies against a tile of bodies at a time.

The bodies are a random cluster. The output is a gradient check of the forces, the energy error over a number of
leapfrog steps, and a figure of the final positions. Each block moves a tile of bodies; it reads the others tile by
tile, and bodies beyond the end of the array have no mass, so that the last tile needs no special code.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib import figure
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

TILE = dk.constant(64)
SOFTENING = 0.05
Points, Vector = dk.array1d(dtype=dk.vec3), dk.array1d(dtype=float)


@dk.func
def pull(other: dk.vec3, mass: float, here: dk.vec3):
    """The acceleration that a body gives to another one."""
    d = other - here
    r2 = dk.dot(d, d) + SOFTENING * SOFTENING
    return d * (mass / (r2 * dk.sqrt(r2)))


@dk.kernel
def accelerate(position: Points, mass: Vector, acceleration: Points):
    i = dk.tid()
    mine = dk.tile_load(position, shape=TILE, offset=i * TILE)
    total = dk.tile_zeros(shape=TILE, dtype=dk.vec3)
    for k in range((position.shape[0] + TILE - 1) // TILE):
        others = dk.tile_load(position, shape=TILE, offset=k * TILE, storage="shared")
        masses = dk.tile_load(mass, shape=TILE, offset=k * TILE, storage="shared")
        for b in range(TILE):
            total += dk.tile_map(pull, others[b], masses[b], mine)
    dk.tile_store(acceleration, total, offset=i * TILE)


@dk.kernel
def kick(velocity: Points, acceleration: Points, dt: float):
    i = dk.tid()
    velocity[i] = velocity[i] + acceleration[i] * dt


@dk.kernel
def drift(position: Points, velocity: Points, dt: float):
    i = dk.tid()
    position[i] = position[i] + velocity[i] * dt


def energy(x: np.ndarray, v: np.ndarray, m: np.ndarray) -> float:
    """Kinetic and potential energy, in double precision."""
    x, v, m = (a.astype(np.float64) for a in (x, v, m))
    r = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1) + SOFTENING**2)
    potential = -0.5 * (m[:, None] * m[None] / r).sum() + 0.5 * (m * m / SOFTENING).sum()
    return float(0.5 * (m * (v**2).sum(-1)).sum() + potential)


def main(arguments: list[str] | None = None) -> float:
    """Simulate and draw; returns the relative change of the energy."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--bodies", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--dt", type=float, default=0.005)
    parser.add_argument("--out", default="cluster.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    rng, n, began = np.random.default_rng(0), options.bodies, time.perf_counter()
    start = rng.normal(size=(n, 3)).astype(np.float32)
    spin = np.cross([0.0, 0.0, 0.4], start).astype(np.float32)
    x, v = dk.array(start, dtype=dk.vec3), dk.array(spin, dtype=dk.vec3)
    m, a = dk.full(n, 1.0 / n, dtype=float), dk.zeros(n, dtype=dk.vec3)
    few = [dk.array(rng.normal(size=(70, 3)), dtype=dk.vec3), dk.full(70, 1.0 / 70, dtype=float)]
    print(gradcheck(accelerate, 2, few, [dk.zeros(70, dtype=dk.vec3)], max_elements=20, block_dim=64), flush=True)
    before = energy(x.numpy(), v.numpy(), m.numpy())
    blocks = -(-n // int(TILE))
    dk.launch_tiled(accelerate, dim=[blocks], inputs=[x, m], outputs=[a], block_dim=64)
    for _ in trange(options.steps, desc="steps"):
        dk.launch(kick, dim=n, inputs=[v, a, 0.5 * options.dt])
        dk.launch(drift, dim=n, inputs=[x, v, options.dt])
        dk.launch_tiled(accelerate, dim=[blocks], inputs=[x, m], outputs=[a], block_dim=64)
        dk.launch(kick, dim=n, inputs=[v, a, 0.5 * options.dt])
    change = abs(energy(x.numpy(), v.numpy(), m.numpy()) / before - 1.0)
    fig = figure.Figure(figsize=(8.0, 4.0), layout="constrained")
    for axes, points, title in zip(fig.subplots(1, 2), (start, x.numpy()), ("at the start", "at the end"), strict=True):
        axes.plot(points[:, 0], points[:, 1], ".", ms=2)
        axes.set(title=title, aspect="equal", xlim=(-4, 4), ylim=(-4, 4))
    fig.savefig(options.out, dpi=150)
    seconds = time.perf_counter() - began
    print(f"{n} bodies, {options.steps} steps in {seconds:.1f} s; figure: {options.out}")
    print(f"the energy changed by {change:.1e}")
    return change


if __name__ == "__main__":
    main()
