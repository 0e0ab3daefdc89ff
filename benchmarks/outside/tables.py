"""The results of benchmarks as tables of the documentation: slower rows first, then the others, then exclusions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.outside.results import Exclusion, HorizonRow, Results, Row

PUBLISHED = "published "
"""Begins the names of notes with what others published: they have a column of their own, outside the ranking."""
_HERE = Path(__file__).parent


def page(results: Sequence[Results]) -> str:
    """Return the sections of all benchmarks, each with its introduction, its tables and its exclusions."""
    return "\n".join(section(each) for each in results)


def section(results: Results) -> str:
    """Return the section of one benchmark."""
    title, introduction = _about(results.benchmark)
    slower = sorted((row for row in results.rows if is_slower(row)), key=lambda row: row.ratio or 0.0)
    others = [row for row in results.rows if not is_slower(row)]
    lines = [title, "-" * len(title), "", *introduction, "", _run(results), "", _counts(results, len(slower)), ""]
    if slower:
        lines += ["Slower than the fastest of the other tools:", "", *_rows(slower, cause=True), ""]
    if others:
        lines += ["All other rows:" if slower else "All rows:", "", *_rows(others, cause=False), ""]
    if results.horizons:
        lines += [*_horizons(results.horizons), ""]
    if results.excluded:
        lines += ["Left out:", "", *_excluded(results.excluded), ""]
    return "\n".join(lines)


def is_slower(row: Row) -> bool:
    """Return whether another tool was faster."""
    return row.ratio is not None and row.ratio < 1.0


def _about(benchmark: str) -> tuple[str, list[str]]:
    """Return the title and the introduction: first line and rest of the docstring of the benchmark's package."""
    source = (_HERE / benchmark / "__init__.py").read_text(encoding="utf-8")
    title, *rest = (ast.get_docstring(ast.parse(source)) or benchmark).splitlines()
    return title.strip().rstrip("."), rest


def _run(results: Results) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    machine = f"{results.machine['processors']} processors, Python {results.machine['python']}"
    return f"``{results.command}`` on {results.date}, commit {results.commit}, {machine}; {versions}."


def _counts(results: Results, slower: int) -> str:
    ratios = [row.ratio for row in results.rows if row.ratio is not None]
    if not ratios:
        return f"{len(results.rows)} rows, none with another tool beside it."
    alone = len(results.rows) - len(ratios)
    told = f" ({alone} rows have no other tool beside them)" if alone else ""
    return (
        f"{len(ratios)} rows beside other tools{told}; diffkern is slower in {slower}, {slower / len(ratios):.0%}. "
        f"Time of the fastest other tool over diffkern's: median {median(ratios):.3g}, "
        f"from {min(ratios):.2g} to {max(ratios):.3g}."
    )


def _rows(rows: Sequence[Row], *, cause: bool) -> list[str]:
    tools = sorted({tool for row in rows for tool in row.seconds} - {"diffkern"}, key=str.lower)
    published = any(name.startswith(PUBLISHED) for row in rows for name in row.notes)
    notes = any(not name.startswith(PUBLISHED) for row in rows for name in row.notes)
    heads = ["program", "part", "diffkern", *tools, "times", "difference"]
    heads += ["published"] * published + ["notes"] * notes + ["cause"] * cause
    cells = []
    for row in rows:
        own = [row.program, row.part, *(milliseconds(row.seconds.get(tool)) for tool in ("diffkern", *tools))]
        own += ["" if row.ratio is None else f"{row.ratio:.3g}", _difference(row)]
        own += [_notes(row, published=True)] * published + [_notes(row, published=False)] * notes + [row.cause] * cause
        cells.append(own)
    wide = {"program": 24, "part": 12, "cause": 40, "notes": 24, "published": 16}
    return ["Milliseconds of one call.", "", *list_table(heads, cells, [wide.get(head, 10) for head in heads])]


def milliseconds(seconds: float | None) -> str:
    """Return a time as three digits, in milliseconds; nothing for a tool that has no time."""
    return "" if seconds is None else f"{1e3 * seconds:.3g}"


def _difference(row: Row) -> str:
    return row.oracle if row.difference is None else f"{row.difference:.0e} ({row.oracle})"


def _notes(row: Row, *, published: bool) -> str:
    """Return the notes of one kind; numbers that were published are seconds, like all times."""
    told = []
    for name, value in row.notes.items():
        if name.startswith(PUBLISHED) == published:
            shown = milliseconds(value) if published and isinstance(value, float) else _shown(value)
            told.append(f"{name.removeprefix(PUBLISHED)} {shown}")
    return "; ".join(told)


def _shown(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _horizons(rows: Iterable[HorizonRow]) -> list[str]:
    """Return the table of gradients by the number of steps."""
    told = (
        "The gradient by the number of steps (:func:`diffkern.testing.horizon`): its norm, the factor per step by "
        "which that has grown since the row before, and the cosine of its angle to differences in float64."
    )
    cells = ((row.program, str(row.steps), f"{row.norm:.3g}", _four(row.growth), _four(row.cosine)) for row in rows)
    return [told, "", *list_table(("program", "steps", "norm", "growth", "cosine"), cells, (30, 15, 20, 15, 20))]


def _four(number: float | None) -> str:
    return "" if number is None else f"{number:.4f}"


def _excluded(excluded: Iterable[Exclusion]) -> list[str]:
    return list_table(("what", "reason"), ((each.program, each.reason) for each in excluded), (35, 65))


def list_table(heads: Iterable[str], rows: Iterable[Iterable[str]], widths: Iterable[int]) -> list[str]:
    """Return the lines of a table of the documentation."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", ""]
    for row in (heads, *rows):
        lines += [f"   {'*' if k == 0 else ' '} - {cell}".rstrip() for k, cell in enumerate(row)]
    return lines
