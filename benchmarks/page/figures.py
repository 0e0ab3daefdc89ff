"""The figures of one run: rows of each script, what was left out and why, date, commit, machine and versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Row:
    """One case beside one other library.

    Attributes
    ----------
    case
        The work.
    peer
        The other library; "" where nothing is beside it.
    peer_s, own_s
        Seconds: medians of the readings of both. None where they are not known.
    ratio, low, high
        The peer's time over diffkern's: median, smallest and largest of the readings in pairs.
    clock
        "wall", or "processor" for the time of all threads.
    command
        What measures this row again.
    """

    case: str
    peer: str
    peer_s: float | None
    own_s: float | None
    ratio: float | None
    low: float | None
    high: float | None
    clock: str
    command: str


@dataclass(frozen=True)
class LeftOut:
    """A case that has no row, and the reason."""

    case: str
    reason: str


@dataclass(frozen=True)
class Part:
    """What one script gave.

    Attributes
    ----------
    date
        The day on which it ran, in UTC.
    seconds
        How long it ran.
    processor
        Seconds of all processors.
    quick
        Whether it took few readings, which are not to be quoted.
    """

    date: str
    seconds: float
    processor: float
    quick: bool = False
    rows: tuple[Row, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class Figures:
    """What one run gave.

    Attributes
    ----------
    device
        "CPU" or "GPU".
    command
        What runs all of it again.
    commit
        The commit of diffkern that was measured; a plus sign after it stands for changes that are not in it.
    machine
        What it was measured on.
    versions
        The packages that took part.
    parts
        By the name of the script, in the order in which they ran.
    missing
        Scripts that did not run.
    """

    device: str
    command: str
    commit: str
    machine: str
    versions: dict[str, str]
    parts: dict[str, Part] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def rows(self) -> list[Row]:
        """Return all rows: those where diffkern is slower first, the slowest at the top; without a peer at the end."""
        return sorted(self._rows(), key=lambda row: float("inf") if row.ratio is None else row.ratio)

    def _rows(self) -> Iterator[Row]:
        for part in self.parts.values():
            yield from part.rows

    def left_out(self) -> list[LeftOut]:
        """Return what has no row."""
        found = [each for part in self.parts.values() for each in part.left_out]
        return [*found, *(LeftOut(name, "it did not run") for name in self.missing)]

    def with_part(self, name: str, part: Part) -> Figures:
        """Return the figures with those of one script added, or put in the place of older ones."""
        return replace(self, parts={**self.parts, name: part})


def write(figures: Figures, path: Path) -> None:
    """Write figures as JSON, under another name first: an interruption leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_suffix(".part")
    waiting.write_text(json.dumps(asdict(figures), indent=1) + "\n", encoding="utf-8")
    waiting.replace(path)


def read(path: Path) -> Figures:
    """Return the figures that :func:`write` wrote."""
    data = json.loads(path.read_text(encoding="utf-8"))
    parts = {name: _part(given) for name, given in data.pop("parts").items()}
    missing = tuple(data.pop("missing"))
    return Figures(**data, parts=parts, missing=missing)


def _part(given: dict[str, Any]) -> Part:
    rows = tuple(Row(**row) for row in given.pop("rows"))
    left_out = tuple(LeftOut(**each) for each in given.pop("left_out"))
    return Part(**given, rows=rows, left_out=left_out)
