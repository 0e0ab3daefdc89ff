"""The figure of all rows: how many times diffkern's time the fastest other tool takes, one curve per benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.outside.results import Results, Row

COLOURS = {"forward": "#1f77b4", "gradient": "#d9532c"}
_OTHER = "#4c8c2b"
_HEIGHT = 0.075
"""Inches of a row."""


def draw(results: Sequence[Results], path: Path) -> None:
    """Draw a point for each row, slowest first, with one panel per benchmark on a common logarithmic axis."""
    mpl.use("agg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "diffkern", "font.family": "sans-serif"})
    panels = {each.benchmark: _ranked(each.rows) for each in results}
    panels = {name: rows for name, rows in panels.items() if rows}
    heights = [0.5 + _HEIGHT * len(rows) for rows in panels.values()]
    figure, axes = plt.subplots(
        len(panels), 1, sharex=True, squeeze=False, figsize=(8.6, sum(heights) + 0.9), layout="constrained",
        gridspec_kw={"height_ratios": heights},
    )  # fmt: skip
    for axis, (name, rows) in zip(axes[:, 0], panels.items(), strict=True):
        _panel(axis, name, rows)
    axes[-1, 0].set_xlabel("time of the fastest other tool / time of diffkern")
    for part, colour in {**COLOURS, "other parts": _OTHER}.items():
        axes[0, 0].plot([], [], "o", color=colour, markersize=4, label=part)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _ranked(rows: Sequence[Row]) -> list[tuple[float, Row]]:
    return sorted(((row.ratio, row) for row in rows if row.ratio), key=lambda pair: (-pair[0], pair[1].program))


def _panel(axis: plt.Axes, name: str, rows: list[tuple[float, Row]]) -> None:
    axis.set_xscale("log")
    axis.axvspan(1e-9, 1.0, color="#f7e3df", zorder=0)
    axis.axvline(1.0, color="black", linewidth=1.0)
    for height, (ratio, row) in enumerate(rows):
        axis.plot([1.0, ratio], [height, height], color="#dddddd", linewidth=0.7, zorder=0.5)
        axis.plot(ratio, height, "o", color=COLOURS.get(row.part, _OTHER), markersize=3)
    least = min(0.5, *(ratio for ratio, _ in rows))
    axis.set_xlim(0.8 * least, 1.3 * max(2.0, rows[0][0]))
    axis.set_ylim(-1.5, len(rows) + 0.5)
    axis.set_yticks([])
    axis.set_title(f"{name}, {len(rows)} rows", loc="left", size=9, weight="bold")
    axis.spines[["top", "right", "left"]].set_visible(False)
