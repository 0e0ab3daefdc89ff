"""The cases in PyTorch's operations, compiled by ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from inputs import RATE, SCALE, SOFTENING, TRIPS, Data

Work = tuple[Callable[[], object], Callable[[], dict[str, Any]]]
"""What is timed, and what it computed last."""


def _work(compiled: Callable[..., Any], given: Data, *wanted: str) -> Work:
    others = [torch.tensor(v) for name, v in given.items() if name not in (*wanted, "seed")]
    args = [torch.tensor(given[name]).requires_grad_() for name in wanted]
    seed = torch.tensor(given["seed"])

    held: list[Any] = []

    def work() -> None:
        value = compiled(*args, *others)
        held[:] = value, torch.autograd.grad(value, args, seed.reshape(value.shape))

    def results() -> dict[str, Any]:
        value, found = held
        made = {n: g.numpy() for n, g in zip(wanted, found, strict=True)}
        return {"value": np.atleast_1d(value.detach().numpy()), **made}

    return work, results


def elementwise(given: Data) -> Work:
    return _work(torch.compile(lambda x, y: torch.sin(SCALE * x) + y * torch.exp(-x * x)), given, "x", "y")


def nbody(given: Data) -> Work:
    def acceleration(position: Any, mass: Any) -> Any:
        d = position[None] - position[:, None]
        inverse = torch.rsqrt((d * d).sum(2) + SOFTENING)
        return (d * (mass * inverse**3)[..., None]).sum(1)

    return _work(torch.compile(acceleration), given, "position", "mass")


def mesh(given: Data) -> Work:
    def area(vertex: Any, face: Any) -> Any:
        a, b, c = (vertex[face[:, k].long()] for k in range(3))
        return 0.5 * torch.linalg.cross(b - a, c - a).norm(dim=1).sum()

    return _work(torch.compile(area), given, "vertex")


def recurrence(given: Data) -> Work:
    """A trip is compiled: the whole loop, each trip of which uses its value twice, took more than five minutes."""
    trip = torch.compile(lambda x: RATE * x * (1.0 - x))

    def run(x: Any) -> Any:
        for _ in range(TRIPS):
            x = trip(x)
        return x

    return _work(run, given, "x")
