"""The flood of ``flood.py`` as a PyTorch module, and its rain as a parameter that ``torch.optim`` trains.

The input is the elevation model that ships with matplotlib, and the depth of water that an unknown rain left. The
result is that rain, found by a module whose layers are the kernels of ``flood.py``, called on tensors and
differentiated by autograd; a gradient check; a figure. PyTorch operations and an optimiser surround the kernels.
"""

from __future__ import annotations

import argparse
import time

import flood
import numpy as np
import torch
from matplotlib import cbook

import diffkern as dk


class Flood(torch.nn.Module):
    """Water on the ground after some steps of rain; the rain is given at knots, by its logarithm."""

    def __init__(self, ground: torch.Tensor, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.register_buffer("ground", ground)
        knots = tuple(n // flood.SPACING + 2 for n in ground.shape)
        self.knots = torch.nn.Parameter(torch.full(knots, float(np.log(flood.GUESS))))
        self.spread = dk.torch_function(flood.spread, launch_dims=ground.shape)
        self.flow = dk.torch_function(flood.flow, num_outputs=2)
        self.advance = dk.torch_function(flood.advance)

    def rain(self) -> torch.Tensor:
        return self.spread(self.knots)

    def forward(self, rain: torch.Tensor) -> torch.Tensor:
        h = qx = qy = torch.zeros_like(self.ground)
        for _ in range(self.steps):
            qx, qy = self.flow(self.ground, h, qx, qy)
            h = self.advance(h, qx, qy, rain)
        return h


def mismatch(h: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    return ((h - seen) ** 2 / (seen + flood.SHALLOW)).mean()


def check(model: Flood, seen: torch.Tensor, size: float = 0.01) -> float:
    """Largest error along random directions, in norms of the gradient; float32 depths leave 3 digits or so."""
    (gradient,) = torch.autograd.grad(mismatch(model(model.rain()), seen), model.knots)
    errors = []
    for direction in torch.randn((3, *model.knots.shape), generator=torch.Generator().manual_seed(7)):
        slope, difference = (gradient * direction).sum().item(), 0.0
        for sign in (1.0, -1.0):
            with torch.no_grad():
                rain = model.spread(model.knots + sign * size * direction)
                difference += sign * mismatch(model(rain).double(), seen.double()).item() / (2.0 * size)
        print(f"Gradient check: autograd {slope:+.4e}, central differences {difference:+.4e}")
        errors.append(abs(slope - difference) / gradient.norm().item())
    return max(errors)


def train(model: Flood, seen: torch.Tensor, iterations: int) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.4, betas=(0.7, 0.95))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, iterations)
    losses = []
    for _ in range(iterations):
        optimizer.zero_grad()
        loss = mismatch(model(model.rain()), seen)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Find the rain from the flood it left, with PyTorch.")
    parser.add_argument("--out", default="flood_torch.png", help="figure to write (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a corner of the map and fewer steps: done in seconds")
    options, began = parser.parse_args(argv), time.perf_counter()
    torch.set_num_threads(1)  # the kernels have all cores; what PyTorch does in between is too small to share out
    ground = cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"].astype(np.float32)
    ground, steps = (ground[:96, :112].copy(), 40) if options.quick else (ground, 100)
    model, rain = Flood(torch.from_numpy(ground), steps), flood.true_rain(ground.shape)
    with torch.no_grad():
        seen = model(torch.from_numpy((flood.MM_PER_HOUR * rain).astype(np.float32)))
    print(f"Flood: {ground.shape[0]} x {ground.shape[1]} cells, {steps} steps ({time.perf_counter() - began:.1f} s)")
    error = check(model, seen)
    print(f"Gradient check: largest error {100.0 * error:.2f} % of the norm; {'good' if error < 0.01 else 'BAD'}")
    losses = train(model, seen, iterations=18)
    found = model.rain().detach().numpy() / flood.MM_PER_HOUR
    flood.draw(options.out, ground, seen.numpy(), rain, found, losses)
    print(
        f"Rain: off by {np.abs(flood.GUESS - rain).mean():.1f} mm/h at the start, {np.abs(found - rain).mean():.1f} now"
    )
    print(f"Loss: {losses[0]:.1e} -> {losses[-1]:.1e} in {time.perf_counter() - began:.0f} s; figure: {options.out}")
    return 0 if error < 0.01 and losses[0] >= 50.0 * losses[-1] else 1


if __name__ == "__main__":
    raise SystemExit(main())
