"""LBM: a lattice Boltzmann method with 19 directions (D3Q19), the cavity with two moving lids of SPEC and Parboil."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import diffkern as dk

from .application import Application, Program, register
from .differences import along

OMEGA = 1.95
"""The relaxation of the collisions."""
OBSTACLE, MOVED = 1, 2
LID = (0.005, 0.002, 0.0)
"""The velocity of the fluid beside the lids."""

DIRECTIONS = (
    (0, 0, 0),
    (0, 1, 0), (0, -1, 0), (1, 0, 0), (-1, 0, 0), (0, 0, 1), (0, 0, -1),
    (1, 1, 0), (-1, 1, 0), (1, -1, 0), (-1, -1, 0),
    (0, 1, 1), (0, 1, -1), (0, -1, 1), (0, -1, -1),
    (1, 0, 1), (1, 0, -1), (-1, 0, 1), (-1, 0, -1),
)  # fmt: skip
"""Steps along x, y, z, in the order of the original."""
OPPOSITE = tuple(DIRECTIONS.index((-x, -y, -z)) for x, y, z in DIRECTIONS)
WEIGHTS = tuple((1.0 / 3.0, 1.0 / 18.0, 1.0 / 36.0)[abs(x) + abs(y) + abs(z)] for x, y, z in DIRECTIONS)


@dk.kernel
def stream_collide(source, flags, target):
    """Let the populations of a cell collide, or turn back at an obstacle, and send them to the neighbours.

    There is a margin of one cell on all sides, which threads do not visit.
    """
    i, j, k = dk.tid()
    z, y, x = i + 1, j + 1, k + 1
    flag = flags[z, y, x]
    if flag == OBSTACLE:
        for q, (dx, dy, dz) in enumerate(DIRECTIONS):
            target[q, z + dz, y + dy, x + dx] = source[OPPOSITE[q], z, y, x]
    else:
        density = source[0, z, y, x]
        ux, uy, uz = 0.0 * density, 0.0 * density, 0.0 * density
        for q, (dx, dy, dz) in enumerate(DIRECTIONS[1:]):
            f = source[q + 1, z, y, x]
            density += f
            ux += float(dx) * f
            uy += float(dy) * f
            uz += float(dz) * f
        ux, uy, uz = ux / density, uy / density, uz / density
        if flag == MOVED:
            ux, uy, uz = LID
        square = 1.5 * (ux * ux + uy * uy + uz * uz) - 1.0
        for q, (dx, dy, dz) in enumerate(DIRECTIONS):
            speed = float(dx) * ux + float(dy) * uy + float(dz) * uz
            balance = WEIGHTS[q] * density * (speed * (4.5 * speed + 3.0) - square)
            target[q, z + dz, y + dy, x + dx] = (1.0 - OMEGA) * source[q, z, y, x] + OMEGA * balance


def cavity(nx: int, ny: int, nz: int) -> np.ndarray[Any, Any]:
    """Return the flags of the cells, with the margin: walls on all sides, and lids below and above."""
    flags = np.zeros((nz + 2, ny + 2, nx + 2), dtype=np.int32)
    inner = np.s_[1 : nz + 1, 1 : ny + 1, 1 : nx + 1]
    cells = np.full((nz, ny, nx), OBSTACLE, dtype=np.int32)
    cells[1:-1, 1:-1, 1:-1] = 0
    for plane in (1, -2):
        cells[plane, 2:-2, 2:-2] = MOVED
    flags[inner] = cells
    return flags


class Cavity(Program):
    """A cavity of cells, at rest at first.

    Parameters
    ----------
    shape : tuple of int
        Cells along x, y and z.
    steps : int
        An even number of time steps.
    dtype : type, optional
        float32 as in the original by default.
    """

    def __init__(self, shape: tuple[int, int, int], steps: int, dtype: Any = dk.float32) -> None:
        flags = cavity(*shape)
        self.steps, self.dim = steps, tuple(n - 2 for n in flags.shape)
        self.fluid = flags[1:-1, 1:-1, 1:-1] != OBSTACLE
        self.flags = dk.array(flags)
        real = np.float64 if dtype is dk.float64 else np.float32
        rest = np.zeros((len(DIRECTIONS), *flags.shape), dtype=real)
        rest[:, 1:-1, 1:-1, 1:-1] = np.array(WEIGHTS, dtype=real)[:, None, None, None]
        self.start = dk.array(rest, requires_grad=True)
        self.grids = [dk.zeros(rest.shape, dtype=dtype, requires_grad=True) for _ in range(2)]
        weights = np.zeros_like(rest)
        weights[:, 1:-1, 1:-1, 1:-1] = self.fluid * np.random.default_rng(1).normal(size=(*rest.shape[:1], *self.dim))
        self.seed = dk.array(weights)
        with dk.record(run=False) as self.forward:
            self.run()
        self.both = self.forward.adjoint(grads={self.grids[0]: self.seed})

    def run(self) -> None:
        """Launch all steps."""
        dk.copy(self.grids[0], self.start)
        for step in range(self.steps):
            self.step(step)

    def step(self, number: int) -> None:
        """Launch one step, from one grid to the other."""
        source, target = self.grids[number % 2], self.grids[1 - number % 2]
        dk.launch(stream_collide, dim=self.dim, inputs=[source, self.flags], outputs=[target])

    def primal(self) -> None:
        self.forward.replay()

    def gradient(self) -> None:
        self.both.replay()

    def value(self) -> float:
        """Return the sum of the last populations with the weights that the gradient is of."""
        self.forward.replay()
        return float((self.grids[0].numpy() * self.seed.numpy()).sum())

    def tangent(self, direction: Any) -> float:
        """Return the derivative of that sum along a direction of the first populations, by forward mode."""
        with dk.Tangents({self.start: dk.array(direction["start"])}) as tangents:
            self.run()
        return float((tangents[self.grids[0]].numpy() * self.seed.numpy()).sum())

    def check(self) -> float:
        return along(self, {"start": self.start})


ORIGINAL = {(3, 2, 12, 12): 0.056022443056591729, (5, 2, 12, 12): 0.055620667895577326}
"""Populations, by direction and cell along z, y, x, of 24 x 24 x 30 cells after 20 steps.

They come from the functions of lbm.cu and lbm_kernel.cu in double precision, with loops over blocks and threads in
place of the launch and other sizes in layout_config.h, compiled with g++ -O2.
"""


def validate(_source: Path | None) -> tuple[float, str]:
    """Compare populations with those of the original."""
    program = Cavity((24, 24, 30), 20, dk.float64)
    program.primal()
    found = program.grids[0].numpy()[:, 1:-1, 1:-1, 1:-1]
    worst = max(abs(found[place] - expected) / expected for place, expected in ORIGINAL.items())
    return float(worst), "populations of the original"


def kernels() -> list[Any]:
    """Return the kernel, for single precision."""
    return [(stream_collide, dk.array4d(dtype=dk.float32), dk.array3d(dtype=dk.int32), dk.array4d(dtype=dk.float32))]


def build(size: int) -> Cavity:
    """Return the cavity of that many cells along x and y, and a quarter more along z, with ten steps."""
    if size == CHECKED:
        return Cavity((12, 10, 8), 6, dk.float64)
    made = Cavity((size, size, size + size // 4), 10)
    made.notes = {"cells": f"{size} x {size} x {size + size // 4}", "steps": 10.0}
    return made


CHECKED = 12
register(
    Application(
        "lbm",
        build,
        (30, 60, 90),
        CHECKED,
        validate,
        (("Enzyme, abstract of SC21, on GPUs, at most", 10.0),),
        kernels,
    )
)
