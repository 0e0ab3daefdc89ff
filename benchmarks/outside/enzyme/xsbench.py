"""XSBench: macroscopic cross sections of neutrons, looked up by energy and interpolated; gradients by the table."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from pathlib import Path

import numpy as np

import diffkern as dk

from .application import Application, Program, register
from .neutrons import SMALL, Array, Draws, compositions, concentrations, sample, shares
from .originals import against_differences, lookup_seconds

REAL = dk.float64
CHANNELS = dk.types.vector(5, REAL)
"""Total, elastic, absorption, fission, and fission times the neutrons that it frees."""
CHECKED = 200
"""So many lookups are compared with differences, which need grids that are coarser than the published ones."""


@dk.struct
class Point:
    """A point of a nuclide's grid."""

    energy: REAL
    sections: CHANNELS


@dk.func
def lower_end(grid: dk.array[REAL], energy: REAL):
    """The interval of a sorted grid that holds an energy."""
    low, high = 0, len(grid) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if grid[middle] > energy:
            high = middle
        else:
            low = middle
    return low


@dk.func
def microscopic(low: Point, high: Point, energy: REAL):
    f = (high.energy - energy) / (high.energy - low.energy)
    return high.sections - f * (high.sections - low.sections)


@dk.kernel
def lookup(
    share: dk.array[REAL],
    counts: dk.array[int],
    nuclides: dk.array2d[int],
    amounts: dk.array2d[REAL],
    energies: dk.array[REAL],
    index: dk.array2d[int],
    grid: dk.array2d[Point],
    sections: dk.array[CHANNELS],
):
    """The cross sections of a material for neutrons of an energy, both drawn at random."""
    i = dk.tid()
    energy, m = sample(share, i)
    k = lower_end(energies, energy)
    total = CHANNELS(0.0)
    for j in range(counts[m]):
        n = nuclides[m, j]
        low = index[k, n]
        total += amounts[m, j] * microscopic(grid[n, low], grid[n, low + 1], energy)
    sections[i] = total


def tables(points: int) -> tuple[Array, Array, Array]:
    """Grids of the nuclides, each sorted by energy; the union of all energies; where each of these is in each grid."""
    drawn = Draws(42).uniform(SMALL, points, 6)
    order = np.argsort(drawn[..., 0], axis=1)
    grid = np.take_along_axis(drawn, order[..., None], axis=1)
    energies = np.sort(grid[..., 0].ravel())
    index = np.empty((len(energies), SMALL), np.int32)
    for n in range(SMALL):
        index[:, n] = np.clip(np.searchsorted(grid[n, :, 0], energies, "right") - 1, 0, points - 2)
    return grid, energies, index


class Lookups(Program):
    """Lookups in the small reactor, and the gradient of the sum of all cross sections by the grids."""

    def __init__(self, lookups: int, points: int = 11303) -> None:
        counts, nuclides = compositions()
        amounts = concentrations(Draws(1070 * 1070))
        grid, energies, index = tables(points)
        self.grid = dk.zeros((SMALL, points), dtype=Point, requires_grad=True)
        self.grid.field("energy").assign(grid[..., 0])
        self.grid.field("sections").assign(grid[..., 1:])
        self.sections = dk.zeros(lookups, dtype=CHANNELS, requires_grad=True)
        given = [dk.array(a) for a in (shares(), counts, nuclides, amounts, energies, index)]
        self.launch = (lookup, lookups, [*given, self.grid], [self.sections])
        with dk.record() as self._primal:
            dk.launch(*self.launch)
        with dk.record(run=False) as sequence:  # its adjoint sets gradients to zero first
            dk.launch(*self.launch)
        self._gradient = sequence.adjoint(grads={self.sections: dk.full(lookups, 1.0, dtype=CHANNELS)})

    def primal(self) -> None:
        self._primal.replay()

    def gradient(self) -> None:
        self._gradient.replay()

    def check(self) -> float:
        return against_differences(self, [self.grid])

    def verification(self) -> int:
        """The sum of the numbers of the greatest channels, as the original program prints it."""
        return int(np.sum(np.argmax(self.sections.numpy(), axis=1) + 1)) % 999983


KNOWN = {100000: 299541}
"""What the original (ba08e52) verifies with, by lookups: ``XSBench -m event -s small -t 1 -l 100000``."""


def validate(_source: Path | None) -> tuple[float, str]:
    """Compare the sum of a number of lookups, of which each adds the number of its greatest channel."""
    ((lookups, expected),) = KNOWN.items()
    program = Lookups(lookups)
    program.primal()
    return abs(program.verification() - expected) / expected, f"XSBench's checksum of {lookups} lookups, as data"


def original(source: Path, lookups: int) -> dict[str, float]:
    """Measure the original program with one thread."""
    return lookup_seconds(source / "XSBench" / "openmp-threading", lookups)


CAUSE = (
    "both programs wait for the tables in memory; kernels write the cross sections, which the original keeps to itself"
)
register(
    Application(
        "xsbench",
        lambda lookups: Lookups(lookups, 11303 if lookups > CHECKED else 40),
        (20000, 100000),
        CHECKED,
        validate,
        (("Enzyme, abstract of SC21, on GPUs, at most", 10.0),),
        lambda: [lookup],
        original,
        CAUSE,
    )
)
