"""The table of a device as a part of the documentation: rows where diffkern is slower come first."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from statistics import median

from .figures import Figures, Row

HEADS = ("case", "beside", "its time", "diffkern", "ratio", "range", "clock", "command")
WIDTHS = (26, 8, 8, 8, 7, 11, 8, 24)
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def text(figures: Figures) -> str:
    """Return when and on what it was measured, the table, and what it leaves out."""
    rows = figures.rows()
    lines = [_when(figures), "", _counts(rows), ""]
    lines += [*_table(HEADS, map(_cells, rows), WIDTHS), ""]
    if figures.left_out():
        left_out = ((each.case, each.reason) for each in figures.left_out())
        lines += ["Not in the table:", "", *_table(("case", "reason"), left_out, (40, 60)), ""]
    return "\n".join(lines)


def _when(figures: Figures) -> str:
    dates = sorted({part.date for part in figures.parts.values()})
    when = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "no day"
    versions = ", ".join(f"{name} {version}" for name, version in figures.versions.items())
    told = f"Measured on {when} by ``{figures.command}`` on commit {figures.commit}: {figures.machine}; {versions}."
    quick = [name for name, part in figures.parts.items() if part.quick]
    if not quick:
        return told
    which = "All" if len(quick) == len(figures.parts) else "Those of " + ", ".join(quick)
    return f"{told}\n\n**{which} with few readings** (``--quick``): a look, not figures to quote."


def _counts(rows: list[Row]) -> str:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    if not ratios:
        return "No row has another library beside it."
    slower = sum(ratio < 1.0 for ratio in ratios)
    return (
        f"{len(ratios)} rows have another library beside diffkern, which is slower in {slower} of them. The median of "
        f"the ratios is {number(median(ratios))}."
    )


def _cells(row: Row) -> list[str]:
    span = "" if row.low is None or row.high is None else f"{number(row.low)} to {number(row.high)}"
    ratio = "" if row.ratio is None else number(row.ratio)
    times = seconds(row.peer_s), seconds(row.own_s)
    return [row.case, row.peer or "nothing", *times, ratio, span, row.clock, f"``{row.command}``"]


def number(value: float) -> str:
    """Return a ratio with two digits, three from 100 on; a ratio below 1 never becomes 1."""
    if value < 1.0:
        return f"{int(value * 100) / 100:.2f}" if value >= 0.1 else f"{value:.2g}"
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def seconds(value: float | None) -> str:
    """Return a time with three digits and the unit that suits it; nothing for one that is not known."""
    if value is None:
        return ""
    scale, unit = next(((scale, unit) for scale, unit in UNITS if abs(value) >= scale), UNITS[-1])
    shown = value / scale
    return f"{shown:.0f} {unit}" if abs(shown) >= 99.95 else f"{shown:.3g} {unit}"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]], widths: Iterable[int]) -> list[str]:
    """Return the lines of a table, one for each row."""
    held = io.StringIO()
    csv.writer(held, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    head = [".. csv-table::", f"   :header: {', '.join(heads)}", f"   :widths: {', '.join(map(str, widths))}", ""]
    return [*head, *(f"   {line}" for line in held.getvalue().splitlines())]
