"""Train a sharded model with a kernel of diffkern's on a mesh of devices: eight on one machine, or those of many hosts.

A rod of many cells conducts heat; its conductivity varies from place to place and is unknown. The rod is cut into as
many pieces as there are devices. Every device runs the kernel on its own piece; neighbours exchange the cells at the
edges (``ppermute``), and the loss is summed over all (``psum``). The output is the conductivity, found from the final
temperatures by gradient descent through all steps; a gradient check; the same result as on one device.

On one machine:      python examples/sharded_jax.py
On several hosts:    on each, python examples/sharded_jax.py --coordinator HOST:PORT --processes N --process K
"""

from __future__ import annotations

import argparse
import os

PARSER = argparse.ArgumentParser(description="Train on a mesh of devices.")
PARSER.add_argument("--devices", type=int, default=8, help="devices of this host (default: %(default)s)")
PARSER.add_argument("--coordinator", default="", help="address of process 0; several hosts")
PARSER.add_argument("--processes", type=int, default=1, help="how many hosts")
PARSER.add_argument("--process", type=int, default=0, help="which of them this is")
PARSER.add_argument("--iterations", type=int, default=200)
OPTIONS = PARSER.parse_args() if __name__ == "__main__" else PARSER.parse_args([])
# Before JAX starts: it counts its devices once.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={OPTIONS.devices}"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import diffkern as dk  # noqa: E402

shard_map = getattr(jax, "shard_map", None)
if shard_map is None:
    from jax.experimental.shard_map import shard_map

STEPS = 100
Cells = dk.array(dtype=float)


@dk.kernel
def conduct(t: Cells, k: Cells, new: Cells):
    """A step of the heat equation in the cells of one piece; `t` and `k` have a cell more at each end."""
    i = dk.tid()
    left = (k[i] + k[i + 1]) * (t[i] - t[i + 1])
    right = (k[i + 1] + k[i + 2]) * (t[i + 2] - t[i + 1])
    new[i] = t[i + 1] + 0.5 * (left + right)


step = dk.jax_kernel(conduct, launch_dims=lambda t, k: t.shape[0] - 2)


def with_edges(x: jax.Array, devices: int) -> jax.Array:
    """A piece with the neighbours' cells at its ends; the rod is a ring."""
    ring = [(d, (d + 1) % devices) for d in range(devices)]
    before = jax.lax.ppermute(x[-1:], "rod", ring)
    after = jax.lax.ppermute(x[:1], "rod", [(b, a) for a, b in ring])
    return jnp.concatenate([before, x, after])


def run_piece(t: jax.Array, k: jax.Array, devices: int) -> jax.Array:
    """Temperatures of a piece after all steps."""
    k = with_edges(k, devices)
    return jax.lax.scan(lambda t, _: (step(with_edges(t, devices), k)[0], None), t, None, length=STEPS)[0]


def make_loss(mesh: Mesh):
    """The loss over the logits of the conductivity, sharded like the rod."""
    devices = mesh.size

    def piece(logits: jax.Array, start: jax.Array, seen: jax.Array) -> jax.Array:
        end = run_piece(start, 0.4 * jax.nn.sigmoid(logits), devices)
        return jax.lax.psum(((end - seen) ** 2).sum(), "rod")

    return shard_map(piece, mesh=mesh, in_specs=(P("rod"), P("rod"), P("rod")), out_specs=P())


def main() -> int:
    if OPTIONS.processes > 1:
        jax.distributed.initialize(OPTIONS.coordinator, OPTIONS.processes, OPTIONS.process)
    devices = jax.device_count()
    mesh = Mesh(np.array(jax.devices()), ("rod",))
    place = NamedSharding(mesh, P("rod"))
    cells = 400 * devices
    x = np.arange(cells, dtype=np.float32)

    def sharded(values: np.ndarray) -> jax.Array:
        # Each host makes the pieces of its own devices.
        return jax.make_array_from_callback(values.shape, place, lambda index: values[index])

    true = (0.2 + 0.1 * np.sin(2 * np.pi * x / 150)).astype(np.float32)
    start = sharded(np.sin(2 * np.pi * x / 40).astype(np.float32))
    forward = shard_map(
        lambda t, k: run_piece(t, k, devices), mesh=mesh, in_specs=(P("rod"), P("rod")), out_specs=P("rod")
    )
    seen = jax.jit(forward)(start, sharded(true))
    loss = jax.jit(make_loss(mesh))
    logits = sharded(np.zeros(cells, np.float32))

    gradient = jax.jit(jax.grad(loss))
    direction = sharded(np.cos(x).astype(np.float32))
    slope = float(jnp.vdot(gradient(logits, start, seen), direction))
    size = 0.02
    difference = float(loss(logits + size * direction, start, seen) - loss(logits - size * direction, start, seen))
    difference /= 2 * size
    error = abs(slope - difference) / abs(difference)
    print(f"{devices} devices, {cells} cells. Gradient check: adjoint {slope:+.4e}, differences {difference:+.4e}")

    optimiser = optax.adam(0.1)

    @jax.jit
    def update(logits, state):
        value, g = jax.value_and_grad(loss)(logits, start, seen)
        change, state = optimiser.update(g, state)
        return optax.apply_updates(logits, change), state, value

    state = optimiser.init(logits)
    first = last = float(loss(logits, start, seen))
    for _ in range(OPTIONS.iterations):
        logits, state, value = update(logits, state)
        last = float(value)
    off = float(jnp.abs(0.4 * jax.nn.sigmoid(logits) - sharded(true)).mean())
    print(f"Loss: {first:.2e} at the start, {last:.2e} at the end; conductivity off by {off:.4f} of 0.1 to 0.3")
    return 0 if error < 0.02 and last < 0.02 * first else 1


if __name__ == "__main__":
    raise SystemExit(main())
