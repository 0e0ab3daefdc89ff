"""RSBench: cross sections from poles in windows of energy, broadened by temperature, with gradients by the poles."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from pathlib import Path

import numpy as np

import diffkern as dk

from .application import Application, Program, register
from .neutrons import SMALL, Array, Draws, compositions, concentrations, sample, shares
from .originals import against_differences, lookup_seconds

REAL, COMPLEX = dk.float64, dk.complex128
CHANNELS = dk.types.vector(4, REAL)
"""Total, absorption, fission, elastic."""
POLES, WINDOWS, SCALE = 1000, 100, 152.5
"""Of a nuclide on average; what poles are scaled by, so that few are near an energy."""


@dk.struct
class Pole:
    place: COMPLEX
    total: COMPLEX
    absorption: COMPLEX
    fission: COMPLEX
    momentum: int


@dk.struct
class Window:
    """What the poles outside of a window contribute, and which are inside."""

    total: REAL
    absorption: REAL
    fission: REAL
    start: int
    end: int


@dk.func
def exponential(z: COMPLEX):
    """A fast one, of little accuracy: a power of 4096."""
    x = 1.0 + z.real / 4096.0
    for _ in dk.static(range(12)):
        x *= x
    return dk.complex(x * dk.cos(z.imag), x * dk.sin(z.imag))


@dk.func
def quotient(a: COMPLEX, b: COMPLEX):
    """The textbook's, as in the original: it does not scale, and overflows where squares do."""
    square = b.real * b.real + b.imag * b.imag
    return dk.complex((a.real * b.real + a.imag * b.imag) / square, (a.imag * b.real - a.real * b.imag) / square)


WEIGHTS = dk.constant(
    dk.types.vector(10, REAL)(
        0.2758402, 0.2245740, 0.1594149, 0.09866577, 0.05324414, 0.02505215, 0.01027747, 0.003676164, 0.001146494,
        0.0003117570,
    )
)  # fmt: skip
SQUARES = dk.constant(
    dk.types.vector(10, REAL)(
        9.869604, 39.47842, 88.82644, 157.9137, 246.7401, 355.3058, 483.6106, 631.6547, 799.4380, 986.9604
    )
)  # fmt: skip


@dk.func
def faddeeva_near(z: COMPLEX):
    """Ten terms of Abrarov's approximation of the Faddeeva function."""
    e = exponential(12j * z)
    total = COMPLEX(0.0)
    for n in dk.static(range(10)):
        total += WEIGHTS[n] * quotient((e if n % 2 == 1 else -e) - 1.0, SQUARES[n] - 144.0 * (z * z))
    return quotient(1j * (1.0 - e), 12.0 * z) + 81.24330j * z * total


@dk.func
def faddeeva_far(z: COMPLEX):
    """Three terms of the asymptotic expansion."""
    square = z * z
    near = quotient(COMPLEX(0.5124242247547685), square - 0.27525512860841095)
    return 1j * z * (near + quotient(COMPLEX(0.051765358792987824), square - 2.724744871391589))


@dk.func
def faddeeva(z: COMPLEX):
    found = COMPLEX(0.0)
    if dk.sqrt(z.real * z.real + z.imag * z.imag) < 6.0:
        found = faddeeva_near(z)
    else:
        found = faddeeva_far(z)
    return found


@dk.func
def phases(radius: CHANNELS, energy: REAL):
    """Twice the phase shift of each angular momentum."""
    p = radius * dk.sqrt(energy)
    p[1] += dk.atan(p[1])
    p[2] -= dk.atan(3.0 * p[2] / (3.0 - p[2] * p[2]))
    p[3] -= dk.atan(p[3] * (15.0 - p[3] * p[3]) / (15.0 - 6.0 * p[3] * p[3]))
    return 2.0 * p


@dk.func
def microscopic(window: Window, poles: dk.array2d[Pole], nuclide: int, radius: CHANNELS, energy: REAL):
    phase = phases(radius, energy)
    cosine, sine = CHANNELS(0.0), CHANNELS(0.0)
    for momentum in dk.static(range(4)):
        cosine[momentum], sine[momentum] = dk.cos(phase[momentum]), dk.sin(phase[momentum])
    total, absorption, fission = energy * window.total, energy * window.absorption, energy * window.fission
    for k in range(window.start, window.end):
        pole = poles[nuclide, k]
        w = faddeeva(0.5 * (energy - pole.place))
        factor = dk.complex(cosine[pole.momentum], -sine[pole.momentum])
        total += (pole.total * w * factor).real
        absorption += (pole.absorption * w).real
        fission += (pole.fission * w).real
    return CHANNELS(total, absorption, fission, total - absorption)


@dk.kernel
def broadened(
    share: dk.array[REAL],
    counts: dk.array[int],
    nuclides: dk.array2d[int],
    amounts: dk.array2d[REAL],
    window_counts: dk.array[int],
    radii: dk.array[CHANNELS],
    windows: dk.array2d[Window],
    poles: dk.array2d[Pole],
    sections: dk.array[CHANNELS],
):
    """The cross sections of a material for neutrons of an energy, both drawn at random."""
    i = dk.tid()
    energy, m = sample(share, i)
    found = CHANNELS(0.0)
    for j in range(counts[m]):
        n = nuclides[m, j]
        k = dk.min(int(energy / (1.0 / REAL(window_counts[n]))), window_counts[n] - 1)
        found += amounts[m, j] * microscopic(windows[n, k], poles, n, radii[n], energy)
    sections[i] = found


def spread(draws: Draws, average: int) -> Array:
    """Each nuclide has one, and the others are drawn."""
    drawn = draws.states((average - 1) * SMALL) % np.uint64(SMALL)
    return (1 + np.bincount(drawn.astype(np.int64), minlength=SMALL)).astype(np.int32)


def library(average: int) -> dict[str, Array]:
    """The poles and windows of all nuclides, drawn in the order of the original program."""
    draws = Draws(42)
    made = {"amounts": concentrations(draws)}
    counts = spread(draws, average)
    made["window_counts"] = spread(draws, WINDOWS)
    poles = np.zeros((SMALL, counts.max(), 9))
    for row, count in zip(poles, counts, strict=True):
        states = draws.states(9 * count).reshape(count, 9)
        row[:count, :8] = states[:, :8].astype(np.float64) / 2.0**63
        row[:count, 8] = states[:, 8] % np.uint64(4)
    poles[..., [0, 1, 2, 4, 6]] *= SCALE
    made["poles"] = poles
    windows = np.zeros((SMALL, made["window_counts"].max(), 5))
    for row, count, many in zip(windows, counts, made["window_counts"], strict=True):
        row[:many, :3] = draws.uniform(many, 3)
        inside = count // many + (np.arange(many) < count % many)
        row[:many, 3] = np.cumsum(inside) - inside
        row[:many, 4] = np.cumsum(inside) - 1
    made["windows"] = windows
    made["radii"] = draws.uniform(SMALL, 4)
    return made


class Broadening(Program):
    """Lookups in the small reactor, and the gradient of the sum of all cross sections by the poles."""

    def __init__(self, lookups: int, average: int = POLES) -> None:
        counts, nuclides = compositions()
        made = library(average)
        windows = dk.zeros(made["windows"].shape[:2], dtype=Window)
        for k, name in enumerate(("total", "absorption", "fission", "start", "end")):
            windows.field(name).assign(made["windows"][..., k].astype(np.int32 if k > 2 else np.float64))
        self.poles = dk.zeros(made["poles"].shape[:2], dtype=Pole, requires_grad=True)
        for k, name in enumerate(("place", "total", "absorption", "fission")):
            self.poles.field(name).assign(made["poles"][..., 2 * k] + 1j * made["poles"][..., 2 * k + 1])
        self.poles.field("momentum").assign(made["poles"][..., 8].astype(np.int32))
        self.sections = dk.zeros(lookups, dtype=CHANNELS, requires_grad=True)
        given = [dk.array(a) for a in (shares(), counts, nuclides, made["amounts"], made["window_counts"])]
        given += [dk.array(made["radii"], dtype=CHANNELS), windows]
        self.launch = (broadened, lookups, [*given, self.poles], [self.sections])
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
        return against_differences(self, [self.poles])

    def verification(self) -> int:
        """The sum of the numbers of the greatest channels, as the original program prints it."""
        return int(np.sum(np.argmax(self.sections.numpy(), axis=1) + 1)) % 999983


KNOWN = {100000: 351806}
"""What the original (34b6447) verifies with, by lookups: ``rsbench -m event -s small -t 1 -l 100000``."""


def validate(_source: Path | None) -> tuple[float, str]:
    """Compare the sum of a number of lookups, of which each adds the number of its greatest channel."""
    ((lookups, expected),) = KNOWN.items()
    program = Broadening(lookups)
    program.primal()
    return abs(program.verification() - expected) / expected, f"RSBench's checksum of {lookups} lookups, as data"


def original(source: Path, lookups: int) -> dict[str, float]:
    """Measure the original program with one thread."""
    return lookup_seconds(source / "RSBench" / "openmp-threading", lookups)


CAUSE = (
    "a third of the time both wait for poles and windows in memory, and the loop over poles takes most of the rest; on "
    "a quiet machine the kernel takes 0.94 of gcc's time"
)
register(
    Application(
        "rsbench",
        Broadening,
        (4000, 20000),
        200,
        validate,
        (("Enzyme, abstract of SC21, on GPUs, at most", 10.0),),
        lambda: [broadened],
        original,
        CAUSE,
    )
)
