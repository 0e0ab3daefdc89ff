"""One fit on several processes, with ``jax.distributed``: each has a share of the measurements.

Balls are thrown at many angles; the measurements are where they land (simulated). The output is the drag and the wind,
the same in every process, found by gradient descent; the gradients of the shares are summed by ``psum``. The gradient
is compared with that of one process that has all measurements.

On this machine, two processes:   python examples/cluster_jax.py
On a cluster, in each process:    python examples/cluster_jax.py --coordinator HOST:PORT --processes N --process K
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys

import numpy as np

import diffkern as dk

PARSER = argparse.ArgumentParser(description="Fit drag and wind on several processes with JAX.")
PARSER.add_argument("--coordinator", help="address of process 0; without it the processes are started on this machine")
PARSER.add_argument("--processes", type=int, default=2, help="how many (default: %(default)s)")
PARSER.add_argument("--process", type=int, default=0, help="which of them this is")
PARSER.add_argument("--steps", type=int, default=800, help="steps of the descent (default: %(default)s)")
THROWS = 1024  # of each process
TRUTH = np.float32([2.0, -3.0])


@dk.kernel
def throws(angle: dk.array[float], air: dk.array[float], landed: dk.array[float]):
    """Where the ball of each thread lands; `air` is drag and wind."""
    i = dk.tid()
    drag, wind = 0.01 * air[0], dk.vec2(air[1], 0.0)
    place = dk.vec2(0.0, 0.0)
    velocity = 25.0 * dk.vec2(dk.cos(angle[i]), dk.sin(angle[i]))
    while place.y >= 0.0:
        blow = velocity - wind
        velocity += 0.01 * (dk.vec2(0.0, -9.81) - drag * dk.length(blow) * blow)
        place += 0.01 * velocity
    landed[i] = place.x - place.y * velocity.x / velocity.y


def run(options: argparse.Namespace) -> bool:
    """Take part in the fit as one process; return whether it was found, with the right gradient."""
    import jax
    import jax.numpy as jnp
    import optax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    jax.distributed.initialize(options.coordinator, options.processes, options.process)
    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    land = dk.jax_kernel(throws)
    mesh = Mesh(np.array(jax.devices()), ("share",))
    count = THROWS * mesh.size
    everything = np.linspace(0.3, 1.3, count, dtype=np.float32)
    # Each process makes the pieces of its own devices.
    angle = jax.make_array_from_callback((count,), NamedSharding(mesh, P("share")), lambda where: everything[where])

    def misfit(air, angle):
        """The sum over a share, and over all shares."""
        (landed,) = land(angle, air)
        (seen,) = land(angle, TRUTH)
        return jax.lax.psum(((landed - seen) ** 2).sum(), "share") / count

    loss = shard_map(misfit, mesh=mesh, in_specs=(P(), P("share")), out_specs=P())
    start = jnp.float32([0.5, 0.0])
    optimiser = optax.adam(0.3)

    @jax.jit
    def update(air, state, angle):
        gradient = jax.grad(loss)(air, angle)
        change, state = optimiser.update(gradient, state)
        return optax.apply_updates(air, change), state

    def alone(air):
        """The same by one process."""
        return ((land(everything, air)[0] - land(everything, TRUTH)[0]) ** 2).mean()

    together, single = jax.jit(jax.grad(loss))(start, angle), jax.grad(alone)(start)
    right = np.allclose(together, single, rtol=1e-3)
    air, state = start, optimiser.init(start)
    for _ in range(options.steps):
        air, state = update(air, state, angle)
    print(
        f"process {options.process} of {options.processes}, {count // options.processes} of {count} throws: gradient "
        f"{'right' if right else 'wrong'}, drag {air[0]:.2f}, wind {air[1]:.2f}",
        flush=True,
    )
    return right and np.allclose(air, TRUTH, atol=0.05)


def main() -> int:
    options = PARSER.parse_args()
    if options.coordinator:
        return 0 if run(options) else 1
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, __file__, "--coordinator", address, "--processes", str(options.processes)]
    command += ["--steps", str(options.steps)]
    started = [subprocess.Popen([*command, "--process", str(k)]) for k in range(options.processes)]
    return max(process.wait() for process in started)


if __name__ == "__main__":
    raise SystemExit(main())
