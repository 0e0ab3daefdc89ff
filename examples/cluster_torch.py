"""One fit on several processes, with ``torch.distributed``: each has a share of the measurements.

Balls are thrown at many angles; the measurements are where they land (simulated). The output is the drag and the wind,
the same in every process, found by gradient descent; ``DistributedDataParallel`` averages the gradients of the shares.
The gradient is compared with that of one process that has all measurements.

On this machine, two processes:   torchrun --nproc-per-node 2 examples/cluster_torch.py
On a cluster, on each host:       torchrun --nnodes N --rdzv-backend c10d --rdzv-endpoint HOST:PORT \
                                      examples/cluster_torch.py
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.distributed as dist

import diffkern as dk

PARSER = argparse.ArgumentParser(description="Fit drag and wind on several processes with PyTorch.")
PARSER.add_argument("--steps", type=int, default=800, help="steps of the descent (default: %(default)s)")
THROWS = 1024  # of each process
TRUTH = (2.0, -3.0)


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


land = dk.torch_function(throws)


class Throws(torch.nn.Module):
    """Places where balls land in an air whose drag and wind are to be found."""

    def __init__(self) -> None:
        super().__init__()
        self.air = torch.nn.Parameter(torch.tensor([0.5, 0.0]))

    def forward(self, angle: torch.Tensor) -> torch.Tensor:
        return land(angle, self.air)


def main() -> int:
    options = PARSER.parse_args()
    dist.init_process_group("gloo")
    process, processes = dist.get_rank(), dist.get_world_size()
    everything = torch.linspace(0.3, 1.3, THROWS * processes)
    seen = land(everything, torch.tensor(TRUTH))
    mine = slice(process, None, processes)
    model = torch.nn.parallel.DistributedDataParallel(Throws())

    alone = Throws()
    (alone(everything) - seen).square().mean().backward()
    (model(everything[mine]) - seen[mine]).square().mean().backward()
    air = model.module.air
    right = torch.allclose(air.grad, alone.air.grad, rtol=1e-3)

    optimiser = torch.optim.Adam(model.parameters(), lr=0.3)
    for _ in range(options.steps):
        optimiser.zero_grad()
        loss = (model(everything[mine]) - seen[mine]).square().mean()
        loss.backward()
        optimiser.step()
    drag, wind = air.tolist()
    print(
        f"process {process} of {processes}, {THROWS} of {THROWS * processes} throws: gradient "
        f"{'right' if right else 'wrong'}, drag {drag:.2f}, wind {wind:.2f}",
        flush=True,
    )
    dist.destroy_process_group()
    return 0 if right and np.allclose([drag, wind], TRUTH, atol=0.05) else 1


if __name__ == "__main__":
    raise SystemExit(main())
