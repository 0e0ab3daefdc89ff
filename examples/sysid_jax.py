"""System identification in JAX: find the rain from gauges in the rivers, with optax, through diffkern's flood kernels.

The input is the terrain and the kernels of ``flood.py``. A rain that the fit does not know falls for a while, and
gauges in the valleys record the depth of water at every step. The output is the rain, found from these records alone
with Adam on the gradient through the whole simulation: a ``lax.scan`` over two kernels, jitted, with
``jax.checkpoint`` so that only the depths and flows of each step are kept; a gradient check; a figure.

Run it with ``pip install "diffkern[jax,plot]" optax``.
"""

from __future__ import annotations

import argparse
import time

import flood
import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib import cbook, figure

import diffkern as dk

flow = dk.jax_kernel(flood.flow, num_outputs=2)
advance = dk.jax_kernel(flood.advance)
spread = dk.jax_kernel(flood.spread)


def simulate(ground: jax.Array, rain: jax.Array, gauges: jax.Array, steps: int) -> tuple[jax.Array, jax.Array]:
    """Depth at the gauges after every step, and everywhere at the end."""

    @jax.checkpoint
    def step(state, _):
        h, qx, qy = state
        qx, qy = flow(ground, h, qx, qy)
        (h,) = advance(h, qx, qy, rain)
        return (h, qx, qy), h[gauges[:, 0], gauges[:, 1]]

    dry = jnp.zeros_like(ground)
    (h, _, _), records = jax.lax.scan(step, (dry, dry, dry), None, length=steps)
    return records, h


def rain_of(knots: jax.Array, cells: tuple[int, ...]) -> jax.Array:
    return spread(knots, launch_dims=cells)[0]


def check(loss, knots: jax.Array, size: float = 0.01) -> float:
    """Largest error of the gradient along random directions, in norms of the gradient."""
    gradient, errors = jax.grad(loss)(knots), []
    for direction in np.random.default_rng(3).standard_normal((3, *knots.shape)).astype(np.float32):
        slope = float((gradient * direction).sum())
        difference = float(loss(knots + size * direction) - loss(knots - size * direction)) / (2 * size)
        print(f"Gradient check: adjoint {slope:+.4e}, central differences {difference:+.4e}")
        errors.append(abs(slope - difference) / float(jnp.linalg.norm(gradient)))
    return max(errors)


def draw(ground, true, found, gauges, records, guess, losses) -> figure.Figure:
    page = figure.Figure(figsize=(13, 7.5), layout="constrained")
    (a, b), (c, d) = page.subplots(2, 2)
    for ax, title, rain in ((a, "True rain (mm/h)", true), (b, "Rain found from gauges", found)):
        ax.imshow(ground, cmap="gray", alpha=0.6)
        page.colorbar(ax.imshow(rain, cmap="turbo", alpha=0.6, vmin=0, vmax=true.max()), ax=ax, shrink=0.8)
        ax.plot(gauges[:, 1], gauges[:, 0], "w.", markersize=3)
        ax.set(title=title)
    deepest = np.argsort(-records[-1])[:5]
    c.plot(1000 * records[:, deepest], "k", linewidth=2)
    c.plot(1000 * guess[:, deepest], "r--")
    c.set(title="Five gauges: recorded (black), simulated with the rain found (red)", xlabel="step", ylabel="mm")
    d.semilogy(losses)
    d.set(title="Loss", xlabel="iteration")
    return page


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Find the rain from river gauges, in JAX.")
    parser.add_argument("--out", default="sysid_jax.png", help="figure to write (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a smaller corner of the map: done in seconds")
    options, began = parser.parse_args(argv), time.perf_counter()
    ground = cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"].astype(np.float32)
    rows, columns, steps, iterations = (60, 72, 40, 40) if options.quick else (144, 168, 80, 80)
    ground = jnp.asarray(ground[:rows, :columns])
    true = flood.true_rain(ground.shape).astype(np.float32)
    places = np.random.default_rng(0).integers(2, np.array(ground.shape) - 2, (ground.size // 40, 2))
    gauges = jnp.asarray(places, jnp.int32)

    run = jax.jit(lambda rain: simulate(ground, rain, gauges, steps))
    records, _ = run(flood.MM_PER_HOUR * true)
    shape = tuple(n // flood.SPACING + 2 for n in ground.shape)
    knots = jnp.full(shape, np.log(flood.GUESS), jnp.float32)

    @jax.jit
    def loss(knots: jax.Array) -> jax.Array:
        simulated, _ = simulate(ground, rain_of(knots, ground.shape), gauges, steps)
        return ((simulated - records) ** 2 / (records + flood.SHALLOW)).mean()

    error = check(loss, knots)
    print(f"Gradient check: largest error {100 * error:.2f} % of the norm; {'good' if error < 0.01 else 'BAD'}")

    optimiser = optax.adam(optax.cosine_decay_schedule(0.15, iterations))

    @jax.jit
    def update(knots, state):
        value, gradient = jax.value_and_grad(loss)(knots)
        change, state = optimiser.update(gradient, state)
        return optax.apply_updates(knots, change), state, value

    state, losses = optimiser.init(knots), []
    for _ in range(iterations):
        knots, state, value = update(knots, state)
        losses.append(float(value))
    found = np.asarray(rain_of(knots, ground.shape)) / flood.MM_PER_HOUR
    simulated, _ = run(flood.MM_PER_HOUR * found)
    page = draw(np.asarray(ground), true, found, places, np.asarray(records), np.asarray(simulated), losses)
    page.savefig(options.out, dpi=110)
    before, now = np.abs(flood.GUESS - true).mean(), np.abs(found - true).mean()
    print(f"Rain: off by {before:.1f} mm/h at the start, {now:.1f} now")
    print(f"Loss: {losses[0]:.1e} -> {losses[-1]:.1e} in {time.perf_counter() - began:.0f} s; figure: {options.out}")
    return 0 if error < 0.01 and losses[0] > 20 * losses[-1] else 1


if __name__ == "__main__":
    raise SystemExit(main())
