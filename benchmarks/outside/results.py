"""Results of a published benchmark as data: one JSON file per benchmark, with versions, rows and exclusions."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

FOLDER = Path(os.environ.get("DIFFKERN_OUTSIDE_RESULTS") or Path(__file__).parent / "results")
"""Where results are written and read; the variable names another folder, for runs that are not to be published."""


@dataclass(frozen=True)
class Row:
    """One measured part of one program.

    Attributes
    ----------
    program
        Its name in the benchmark.
    part
        "forward", "gradient" (the gradient with the forward that it needs) or a name of the benchmark's own.
    seconds
        Median time of one call, per tool: "diffkern" and the tools that ran beside it in the same process or in turns.
    difference
        Largest difference of diffkern's result from the oracle's, relative to its largest element; None where the
        benchmark's own harness validates.
    oracle
        What it was compared with: "numpy", "jax", "differences", "gradbench" and so on.
    cause
        Why diffkern is slower than the fastest tool; empty where it is not.
    notes
        Anything else to print: lines of source, memory, a loss after its iterations.
    """

    program: str
    part: str
    seconds: dict[str, float]
    difference: float | None
    oracle: str
    cause: str = ""
    notes: dict[str, float | str] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Time of the fastest other tool over diffkern's: above one where diffkern is faster."""
        others = [seconds for tool, seconds in self.seconds.items() if tool != "diffkern"]
        return min(others) / self.seconds["diffkern"] if others and "diffkern" in self.seconds else None


@dataclass(frozen=True)
class Exclusion:
    """A program that is not measured, or a tool that did not run, with the reason."""

    program: str
    reason: str


@dataclass(frozen=True)
class HorizonRow:
    """The gradient of one program after a number of steps, as :func:`diffkern.testing.horizon` gives it.

    Attributes
    ----------
    program
        Its name in the benchmark.
    steps
        The number of steps.
    norm
        Euclidean norm of the gradient.
    growth
        Factor per step by which it has grown since the row before; None where there is nothing to compare with.
    cosine
        Cosine of the angle to the gradient by differences; None where the gradient is zero.
    """

    program: str
    steps: int
    norm: float
    growth: float | None
    cosine: float | None


@dataclass(frozen=True)
class Results:
    """All rows of a benchmark, measured by one command."""

    benchmark: str
    source: str
    command: str
    date: str
    commit: str
    machine: dict[str, str | int]
    versions: dict[str, str]
    rows: tuple[Row, ...]
    excluded: tuple[Exclusion, ...]
    horizons: tuple[HorizonRow, ...] = ()


def collect(
    benchmark: str,
    source: str,
    command: str,
    rows: Iterable[Row],
    excluded: Iterable[Exclusion],
    packages: Iterable[str] = ("numpy", "numba"),
) -> Results:
    """Return the rows with today's date, the commit, the machine and the versions of the packages that took part."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return Results(
        benchmark,
        source,
        command,
        dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
        commit.stdout.strip(),
        {"system": platform.platform(), "processors": os.cpu_count() or 1, "python": platform.python_version()},
        {name: importlib.metadata.version(name) for name in ("diffkern", *packages)},
        tuple(rows),
        tuple(excluded),
    )


def write(results: Results, folder: Path = FOLDER) -> Path:
    """Write the results as ``<benchmark>.json`` and return its path."""
    path = folder / f"{results.benchmark}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(results), indent=1) + "\n", encoding="utf-8")
    return path


def read(benchmark: str, folder: Path = FOLDER) -> Results:
    """Return the results that :func:`write` wrote."""
    data = json.loads((folder / f"{benchmark}.json").read_text(encoding="utf-8"))
    rows = tuple(Row(**row) for row in data.pop("rows"))
    excluded = tuple(Exclusion(**each) for each in data.pop("excluded"))
    horizons = tuple(HorizonRow(**each) for each in data.pop("horizons", ()))
    return Results(rows=rows, excluded=excluded, horizons=horizons, **data)


def benchmarks(folder: Path = FOLDER) -> list[str]:
    """Return the names of the benchmarks that have results."""
    return sorted(path.stem for path in folder.glob("*.json"))
