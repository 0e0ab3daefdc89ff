"""Measure two implementations of the same work in interleaved pairs and print what came out.

In: pairs of :class:`Work` (one per implementation) that were built on the same inputs. Out: :class:`Row` values, a
table, a JSON file. Afterwards every row that carries times stems from works whose results agreed to the stated
tolerance: a difference ends the measurement of that case as an error, never as a fast wrong answer.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Results = dict[str, npt.NDArray[Any]]


class WrongResult(Exception):
    """Two implementations of one case disagree."""


def nothing() -> None:
    """Stand in for a preparation that has nothing to do."""


@dataclass(frozen=True)
class Work:
    """One implementation of a case.

    Attributes
    ----------
    name
        Who does it ("warp", "diffkern", "numpy").
    run
        The timed part.
    prepare
        Brings the arrays back to their state before ``run``; not timed.
    results
        What ``run`` wrote, as NumPy arrays under names that both implementations share.
    calls
        How many times ``run`` is called per reading; a reading is the time of one call.
    """

    name: str
    run: Callable[[], None]
    prepare: Callable[[], None] = nothing
    results: Callable[[], Results] = dict
    calls: int = 1


@dataclass(frozen=True)
class Target:
    """A bound on the median ratio: ``at_least`` for speed-ups, ``at_most`` for cost ratios."""

    at_least: float | None = None
    at_most: float | None = None

    def met(self, ratio: float) -> bool:
        """Tell whether a ratio keeps to the bound."""
        if self.at_least is not None and not ratio >= self.at_least:
            return False
        return self.at_most is None or ratio <= self.at_most

    def __str__(self) -> str:
        parts = [f">= {self.at_least:g}"] if self.at_least is not None else []
        parts += [f"<= {self.at_most:g}"] if self.at_most is not None else []
        return " ".join(parts)


@dataclass
class Row:
    """The outcome of one case; the times are medians in seconds, the ratios come from the single pairs.

    ``only`` is what the script is asked for to measure the row again, where that is not its name; ``unlike`` says how
    the peer's result differs, whose time is then no measure.
    """

    name: str
    top: str
    bottom: str
    top_s: float = float("nan")
    bottom_s: float = float("nan")
    ratio_min: float = float("nan")
    ratio_median: float = float("nan")
    ratio_max: float = float("nan")
    pairs: int = 0
    target: Target = field(default_factory=Target)
    error: str = ""
    only: str = ""
    unlike: str = ""

    @property
    def verdict(self) -> str:
        """One word for the table's last column."""
        if self.error:
            return "FAILED"
        if not str(self.target):
            return ""
        if np.isnan(self.ratio_median):
            return "open"
        return "met" if self.target.met(self.ratio_median) else "missed"


def reading(work: Work, clock: Callable[[], float] = time.perf_counter) -> float:
    """Prepare, run, and return the seconds of one call by a clock."""
    work.prepare()
    run, calls = work.run, range(work.calls)
    start = clock()
    for _ in calls:
        run()
    return (clock() - start) / work.calls


def check_agreement(first: Work, second: Work, rtol: float) -> None:
    """Run both works once and compare every result against the larger of its magnitudes.

    Raises
    ------
    WrongResult
        If a result has another shape, is not finite, or differs by more than ``rtol`` times the largest magnitude.
    """
    for work in (first, second):
        work.prepare()
        work.run()
    got, want = first.results(), second.results()
    if got.keys() != want.keys():
        raise WrongResult(f"{first.name} returns {sorted(got)}, {second.name} returns {sorted(want)}")
    for key, expected in want.items():
        compare(f"{key}: {first.name} against {second.name}", got[key], expected, rtol)


def compare(label: str, got: npt.NDArray[Any], want: npt.NDArray[Any], rtol: float) -> None:
    """Raise :class:`WrongResult` unless two arrays agree to ``rtol`` of their largest magnitude and are finite."""
    a, b = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    if a.shape != b.shape:
        raise WrongResult(f"{label}: shapes {a.shape} and {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise WrongResult(f"{label}: values that are not finite")
    scale = float(np.abs(b).max(initial=0.0))
    worst = float(np.abs(a - b).max(initial=0.0))
    if scale == 0.0:
        raise WrongResult(f"{label}: the expected result is zero everywhere, which proves nothing")
    if worst > rtol * scale:
        raise WrongResult(f"{label}: differ by {worst:.3g} where the largest value is {scale:.3g} (tolerance {rtol:g})")


def measure_pair(name: str, top: Work, bottom: Work, target: Target, pairs: int, warmup: int = 2) -> Row:
    """Time two works alternately and return the row of the ratio top / bottom."""
    top_s, bottom_s = measure_in_turn((top, bottom), pairs, warmup)
    return row_of_pairs(name, top.name, bottom.name, top_s, bottom_s, target)


def measure_in_turn(
    works: Sequence[Work], rounds: int, warmup: int = 2, clock: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    """Time works one after the other, round by round, and return the readings of each.

    Every second round goes backwards: what one leaves in the caches is not always in the way of the same other.
    """
    for _ in range(warmup):
        for work in works:
            reading(work, clock)
    found: list[list[float]] = [[] for _ in works]
    turns = list(zip(works, found, strict=True))
    for k in range(rounds):
        for work, times in turns if k % 2 == 0 else reversed(turns):
            times.append(reading(work, clock))
    return found


def row_of_pairs(
    name: str, top: str, bottom: str, top_s: Sequence[float], bottom_s: Sequence[float], target: Target
) -> Row:
    """Summarise interleaved readings: medians of both sides, and the ratio within each pair."""
    ratios = [a / b for a, b in zip(top_s, bottom_s, strict=True)]
    return Row(
        name=name,
        top=top,
        bottom=bottom,
        top_s=statistics.median(top_s),
        bottom_s=statistics.median(bottom_s),
        ratio_min=min(ratios),
        ratio_median=statistics.median(ratios),
        ratio_max=max(ratios),
        pairs=len(ratios),
        target=target,
    )


def row_of_readings(
    name: str, top: str, bottom: str, top_s: Sequence[float], bottom_s: Sequence[float], only: str = ""
) -> Row:
    """Summarise readings: in pairs where there are as many of both, else by medians and extremes."""
    if len(top_s) == len(bottom_s):
        return replace(row_of_pairs(name, top, bottom, top_s, bottom_s, Target()), only=only)
    middle = statistics.median(top_s), statistics.median(bottom_s)
    ratios = min(top_s) / max(bottom_s), middle[0] / middle[1], max(top_s) / min(bottom_s)
    return Row(name, top, bottom, *middle, *ratios, pairs=min(len(top_s), len(bottom_s)), only=only)


def rows_beside(name: str, own_s: Sequence[float], others: Mapping[str, Sequence[float]], only: str = "") -> list[Row]:
    """Return a row for each other library whose readings there are, or one of diffkern alone where there is none."""
    if not others:
        return [Row(name, "diffkern", "-", top_s=statistics.median(own_s), pairs=len(own_s), only=only)]
    return [row_of_readings(name, peer, "diffkern", read, own_s, only) for peer, read in others.items()]


def measure_beside(
    name: str,
    calls: Mapping[str, Callable[[], object] | None],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    count: int = 1,
    only: str = "",
) -> list[Row]:
    """Time a call of diffkern's and those of other libraries in turn, and return a row for each of the others.

    Parameters
    ----------
    name : str
        The case.
    calls : mapping of str to callable
        By library, diffkern's among them. None: the library has nothing of the kind.
    rounds : int
        How many readings there are of each.
    clock : callable, optional
        Gives the time in seconds.
    count : int, optional
        How many calls a reading has; it is the time of one.
    only : str, optional
        What the script is asked for to measure this again, if not for the name.
    """
    works = [Work(side, call, calls=count) for side, call in calls.items() if call is not None]
    found = dict(zip((work.name for work in works), measure_in_turn(works, rounds, 1, clock), strict=True))
    return rows_beside(name, found.pop("diffkern"), found, only)


def measure_alone(name: str, work: Work, target: Target, pairs: int, warmup: int = 2) -> Row:
    """Time one work without a counterpart; the ratio stays open."""
    for _ in range(warmup):
        reading(work)
    times = [reading(work) for _ in range(pairs)]
    return Row(name=name, top=work.name, bottom="-", top_s=statistics.median(times), pairs=pairs, target=target)


def seconds_text(seconds: float) -> str:
    """Write a time with the unit that suits it."""
    if np.isnan(seconds):
        return "-"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def print_table(rows: Sequence[Row]) -> None:
    """Print the rows in aligned columns, errors below."""
    head = ("case", "top / bottom", "top", "bottom", "ratio median", "[min .. max]", "target", "")
    lines = [head]
    for row in rows:
        known = not np.isnan(row.ratio_median)
        lines.append(
            (
                row.name,
                f"{row.top} / {row.bottom}",
                seconds_text(row.top_s),
                seconds_text(row.bottom_s),
                f"{row.ratio_median:.2f}" if known else "-",
                f"[{row.ratio_min:.2f} .. {row.ratio_max:.2f}]" if known else "",
                str(row.target),
                row.verdict,
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for number, line in enumerate(lines):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
    for row in rows:
        if row.error:
            print(f"\n{row.name}: {row.error}")


def version_of(distribution: str) -> str:
    """Return the installed version of a distribution, or "absent"."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def machine() -> dict[str, str]:
    """Describe what the figures were measured on, as far as it matters to them."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
    packages = {name: version_of(name) for name in ("diffkern", "warp-lang", "numpy", "numba", "llvmlite")}
    return {
        "cpu": model,
        "cores": str(os.cpu_count()),
        "system": platform.system(),
        "python": platform.python_version(),
        "load at start": load,
        **packages,
    }


def print_machine(facts: dict[str, str]) -> None:
    """Print the machine on one line."""
    print(", ".join(f"{key} {value}" for key, value in facts.items()), end="\n\n")


def save_json(path: str, facts: dict[str, str], rows: Sequence[Row], **more: Any) -> None:
    """Write the rows, with the verdicts and the machine, as one JSON object (unknown figures become null)."""
    content = {"machine": facts, "rows": [{**asdict(row), "verdict": row.verdict} for row in rows], **more}
    Path(path).write_text(json.dumps(without_nan(content), indent=2) + "\n", encoding="utf-8")


def without_nan(value: Any) -> Any:
    """Replace the floats that JSON cannot hold by None."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def add_rounds(parser: argparse.ArgumentParser) -> None:
    """Let a script be asked for few readings, or for a number of them."""
    parser.add_argument("--quick", action="store_true", help="few repetitions: a look, not a figure to quote")
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="how many readings, for the script's number")


def rounds_of(asked: argparse.Namespace, usual: int, quick: int) -> int:
    """Return how many readings a script takes: what it is asked for, or one of its own two numbers."""
    rounds: int = asked.rounds
    return rounds or (quick if asked.quick else usual)


def few_options(doc: str) -> argparse.ArgumentParser:
    """Return the argument parser that scripts share, from the docstring, which begins with a description."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    add_rounds(parser)
    parser.add_argument("--only", metavar="NAME", default="", help="only cases whose name contains NAME")
    parser.add_argument("--json", metavar="FILE", default="", help="also write the figures to FILE")
    return parser


def options(description: str) -> argparse.ArgumentParser:
    """Return the argument parser of scripts that time a peer alone if asked, and have targets."""
    parser = few_options(description)
    parser.add_argument("--peer-only", action="store_true", help="time the peer alone, without diffkern")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    return parser


def chosen_cases(doc: str, cases: Collection[str], *, threads: bool = False) -> argparse.Namespace:
    """Return what the command line of a script asks for that is given the names of cases.

    Parameters
    ----------
    doc : str
        The script's docstring, which begins with its description.
    cases : collection of str
        The names that there are.
    threads : bool, optional
        Whether it may be asked for a number of threads.
    """
    names = ", ".join(cases)
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {names}; all by default")
    if threads:
        parser.add_argument("--threads", type=int, default=1, help="1: processor time; more: wall time")
    add_rounds(parser)
    parser.add_argument("--json", metavar="FILE", default="", help="also write the figures to FILE")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.cases if name not in cases]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}; the cases are {names}")
    return chosen


def exit_status(rows: Sequence[Row], strict: bool) -> int:
    """Return 1 if a case failed, or, when strict, missed its target."""
    bad = {"FAILED", "missed"} if strict else {"FAILED"}
    return int(any(row.verdict in bad for row in rows))


def load_peer() -> Any:
    """Import Warp, quiet and on the CPU, or end the script with the command that installs it."""
    try:
        warp: Any = importlib.import_module("warp")
    except ImportError:
        sys.exit("This benchmark runs NVIDIA Warp in the same process. Install it: pip install warp-lang")
    warp.config.log_level = warp.LOG_ERROR
    warp.init()
    warp.set_device("cpu")
    return warp
