"""LULESH: shock hydrodynamics on hexahedra, the Sedov blast."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import functools
import resource
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import diffkern as dk

from . import lulesh_kernels as kernels
from .application import Application, Program, register
from .differences import along

EDGE, ENERGY = 1.125, 3.948746e7
"""Length of the cube, and the energy of the blast that is right for 45 elements along an edge."""


def mesh(n):
    """Return positions of nodes, corners of elements, elements beside them, and directions that nodes may move in.

    At the three planes through the origin, which are planes of symmetry, an element is beside itself; at the other
    sides there is none, which is -1.
    """
    line = EDGE * np.arange(n + 1) / n
    z, y, x = np.meshgrid(line, line, line, indexing="ij")
    number = np.arange((n + 1) ** 3, dtype=np.int32).reshape(n + 1, n + 1, n + 1)
    low, high = slice(0, n), slice(1, n + 1)
    bottom = [number[low, low, low], number[low, low, high], number[low, high, high], number[low, high, low]]
    corners = np.stack([*bottom, *(each + (n + 1) ** 2 for each in bottom)], axis=-1)
    own = np.arange(n**3, dtype=np.int32).reshape(n, n, n)
    beside = np.full((n, n, n, 6), -1, dtype=np.int32)
    for k in range(3):
        # Axis 0 of the arrays is z, so direction k is axis 2 - k.
        numbers, sides = np.moveaxis(own, 2 - k, 0), np.moveaxis(beside, 2 - k, 0)
        sides[0, ..., 2 * k] = numbers[0]
        sides[1:, ..., 2 * k] = numbers[:-1]
        sides[:-1, ..., 2 * k + 1] = numbers[1:]
    positions = np.stack([x, y, z], axis=-1).reshape(-1, 3)
    return positions, corners.reshape(-1, 8), beside.reshape(-1, 6), (positions > 0.0).astype(np.float64)


class Blast(Program):
    """The Sedov blast on ``n`` elements along each edge, for a number of cycles.

    Its gradient is that of the final energy at the origin, with respect to initial positions and energies.
    """

    def __init__(self, n: int, cycles: int = 0, weights: np.ndarray[Any, Any] | None = None) -> None:
        positions, corners, beside, free = mesh(n)
        nodes, elements = len(positions), len(corners)
        self.start_x = dk.array(positions, dtype=dk.vec3d, requires_grad=True)
        energy = np.zeros(elements)
        energy[0] = ENERGY * (n / 45.0) ** 3
        self.start_energy = dk.array(energy, requires_grad=True)
        volume0 = np.full(elements, (EDGE / n) ** 3)
        mass = np.zeros(nodes)
        np.add.at(mass, corners.reshape(-1), np.repeat(volume0 / 8.0, 8))
        self.first_dt = 0.5 * np.cbrt(volume0[0]) / np.sqrt(2.0 * energy[0])
        self.corners, self.beside = dk.array(corners), dk.array(beside)
        self.free = dk.array(free, dtype=dk.vec3d)
        self.volume0, self.mass, self.node_mass = dk.array(volume0), dk.array(volume0), dk.array(mass)
        self.x, self.v, self.force = (dk.zeros(nodes, dtype=dk.vec3d, requires_grad=True) for _ in range(3))
        self.changes, self.spacing = (dk.zeros(elements, dtype=dk.vec3d, requires_grad=True) for _ in range(2))
        (
            self.energy, self.p, self.q, self.sound, self.volume, self.new_volume, self.change, self.size, self.rate,
        ) = (dk.zeros(elements, dtype=dk.float64, requires_grad=True) for _ in range(9))  # fmt: skip
        self.first_clock = dk.array([self.first_dt, 0.0], dtype=dk.float64)
        self.clock = dk.zeros(2, dtype=dk.float64, requires_grad=True)
        self.limits = dk.zeros(2, dtype=dk.float64, requires_grad=True)
        origin = np.eye(1, elements)[0]
        self.seed = dk.array(origin if weights is None else weights)
        self.cycles = cycles
        self.notes = {"cycles": float(cycles), "elements": float(elements)}

    @functools.cached_property
    def forward(self):
        """All cycles, recorded."""
        with dk.record(run=False) as sequence:
            self.cycle_all()
        return sequence

    @functools.cached_property
    def both(self):
        """All cycles and their adjoint."""
        return self.forward.adjoint(grads={self.energy: self.seed})

    def cycle_all(self):
        """Launch all cycles."""
        self.begin()
        for cycle in range(self.cycles):
            self.step(cycle)

    def primal(self) -> None:
        self.forward.replay()

    def gradient(self) -> None:
        self.both.replay()

    def checkpointed(self, slots: int) -> None:
        """Do the same on a tape that keeps so many states."""
        self.start_x.grad.zero_()
        self.start_energy.grad.zero_()
        with dk.Tape() as tape:
            self.begin()
            dk.checkpoint(self.step, self.cycles, slots)
        tape.backward(grads={self.energy: self.seed})

    def value(self) -> float:
        """Return the number that the gradient is of."""
        self.forward.replay()
        return float(self.energy.numpy() @ self.seed.numpy())

    def tangent(self, direction) -> float:
        """Return its derivative along a direction of the inputs, by forward mode."""
        seeds = {
            self.start_x: dk.array(direction["x"], dtype=dk.vec3d),
            self.start_energy: dk.array(direction["energy"]),
        }
        with dk.Tangents(seeds) as tangents:
            self.cycle_all()
        return float(tangents[self.energy].numpy() @ self.seed.numpy())

    def check(self) -> float:
        return along(self, {"x": self.start_x, "energy": self.start_energy})

    def begin(self):
        """Set the initial state."""
        dk.copy(self.x, self.start_x)
        dk.copy(self.energy, self.start_energy)
        dk.copy(self.clock, self.first_clock)
        for array in (self.v, self.p, self.q, self.sound):
            array.zero_()
        self.volume.fill_(1.0)
        self.limits.fill_(kernels.NEVER)

    def step(self, cycle):
        """Run one cycle."""
        elements, nodes = self.energy.shape[0], self.x.shape[0]
        dk.launch(kernels.next_time, dim=1, inputs=[self.clock, self.limits, cycle])
        self.force.zero_()
        element = [self.p, self.q, self.sound, self.volume, self.volume0, self.mass]
        dk.launch(kernels.element_forces, dim=elements, inputs=[self.x, self.v, self.corners, *element, self.force])
        moved = [self.x, self.v, self.force, self.node_mass, self.free, self.clock]
        dk.launch(kernels.move_nodes, dim=nodes, inputs=moved)
        measured = [self.new_volume, self.change, self.size, self.rate, self.changes, self.spacing]
        given = [self.x, self.v, self.corners, self.volume, self.volume0, self.clock]
        dk.launch(kernels.kinematics, dim=elements, inputs=given, outputs=measured)
        state = [self.volume0, self.mass, self.energy, self.p, self.q, self.volume, self.sound, self.limits]
        dk.launch(kernels.material, dim=elements, inputs=[self.beside, *measured, *state])

    def run(self, most=10**9):
        """Run until the end of time, or so many cycles; return their number."""
        self.begin()
        cycle = 0
        while cycle < most and self.clock.numpy()[1] < kernels.STOP_TIME:
            self.step(cycle)
            cycle += 1
        return cycle


ORIGINAL = {
    # Elements along an edge: cycles until the end of time, and the final energy at the origin; by
    # "./lulesh -s 5" of LULESH-CPP (g++ -O3 -DUSE_MPI=0 -DOMP_MERGE=0 -DFORWARD=1), which prints 17 digits with
    # setprecision(17) in VerifyAndWriteFinalOutput.
    5: (72, 7.85366510214584468e03),
    10: (231, 2.72053116847034689e04),
}


def validate(_source: Path | None) -> tuple[float, str]:
    """Run until the end of time, and compare the final energy at the origin with the original's."""
    worst = 0.0
    for n, (cycles, expected) in ORIGINAL.items():
        blast = Blast(n)
        ran = blast.run()
        if ran != cycles:
            return float("inf"), f"{cycles} cycles of the original, not {ran}"
        worst = max(worst, abs(float(blast.energy.numpy()[0]) - expected) / expected)
    return worst, "final energy of the original"


@functools.cache
def _compiled(source: Path) -> Path | None:
    """Compile the original with g++; None where there is none, or no compiler."""
    folder = next(
        (f for f in (source / "LULESH-CPP", source / "Enzyme-MPI", source) if (f / "lulesh.cc").is_file()), None
    )
    if folder is None:
        return None
    made = Path(tempfile.mkdtemp(prefix="lulesh-"), "lulesh")
    files = [f"lulesh{part}.cc" for part in ("", "-viz", "-util", "-init")]
    options = ["-O3", "-march=native", "-DUSE_MPI=0", "-DOMP_MERGE=0", "-DFORWARD=1", "-I."]
    try:
        done = subprocess.run(["g++", *options, *files, "-o", str(made)], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return made if done.returncode == 0 else None


def original(source: Path, n: int) -> dict[str, float]:
    """Return the processor time of the original in C++, without its artificial imbalance of regions."""
    program = _compiled(source)
    if program is None:
        return {}
    seconds: dict[int, list[float]] = {cycles: [] for cycles in (0, CYCLES[n])}
    # The system counts in ticks of some milliseconds, of which short runs have few: means over many are right.
    for _ in range(100 if n == min(CYCLES) else 5):
        for cycles, found in seconds.items():
            begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            command = [str(program), "-q", "-s", str(n), "-r", "1", "-c", "0", "-i", str(cycles)]
            subprocess.run(command, capture_output=True, check=True)
            found.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin)
    # What no cycle takes is the time to make the mesh.
    return {"C++ (g++)": statistics.fmean(seconds[CYCLES[n]]) - statistics.fmean(seconds[0])}


def listed() -> list[Any]:
    """Return the kernels of a cycle."""
    return [kernels.element_forces, kernels.move_nodes, kernels.kinematics, kernels.material, kernels.next_time]


CHECKED = 3
CYCLES = {5: 72, 10: 231, 20: 40, 30: 20}


def build(n: int) -> Blast:
    """Return a blast; a small one has other elements' energies in what its gradient is of."""
    if n == CHECKED:
        return Blast(n, 20, np.arange(1.0, n**3 + 1.0))
    return Blast(n, CYCLES[n])


# The numbers of SC22 are those of plots.ipynb in enzyme-sc22, measured on a Xeon Platinum 8375C.
register(
    Application(
        "lulesh",
        build,
        (5, 10, 20, 30),
        CHECKED,
        validate,
        (
            ("Enzyme C++, SC22, one MPI process", 340.0 / 65.0),
            ("Enzyme C++, SC22, one OpenMP thread", 910.0 / 73.0),
            ("Enzyme RAJA, SC22, one MPI process", 504.15 / 88.92),
            ("CoDiPack C++, SC22, one MPI process", 672.19 / 69.81),
            ("Enzyme CUDA, abstract of SC21, at most", 10.0),
        ),
        listed,
        original,
    )
)
