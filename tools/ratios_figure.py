"""Draw ``docs/ratios.svg``: how many times diffkern's time other libraries take on CPUs.

``docs/ratios.csv`` names the cases, and ``benchmarks/results/cpu.json`` has the figures, as the table of the page on
performance. The last group has the cases in which diffkern is slowest.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.page import figures as held  # noqa: E402  (the path is set before)
from benchmarks.page.figures import Row  # noqa: E402
from benchmarks.page.render import number  # noqa: E402

DOCS = ROOT / "docs"
COLOURS = {
    "Warp": "#4c8c2b",
    "JAX": "#7b4fb5",
    "PyTorch": "#d9532c",
    "Dr.Jit": "#1f77b4",
    "SciPy": "#c9a227",
    "NumPy": "#17a2a2",
}
OTHER = "#777777"
MOST, SLOWEST = 1000.0, 10


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return the points of the figure: the named cases that have been measured, and the slowest of all."""
    measured = {(row.case, row.peer): row for row in rows if row.ratio is not None}
    with (DOCS / "ratios.csv").open(newline="", encoding="utf-8") as file:
        named = [(one["group"], one["label"], one["case"], one["library"]) for one in csv.DictReader(file)]
    points = [
        (group, label, library, measured[case, library].ratio)
        for group, label, case, library in named
        if (case, library) in measured
    ]
    slower = [row for row in measured.values() if row.ratio is not None and row.ratio < 1.0]
    slower.sort(key=lambda row: row.ratio or 0.0)
    told = f"the slowest {SLOWEST} of {len(slower)} cases" if len(slower) > SLOWEST else "all cases"
    group = f"{told} in which diffkern is slower"
    points += [(group, row.case, row.peer, row.ratio) for row in slower[:SLOWEST]]
    names = "group", "label", "library", "shown"
    return [dict(zip(names, (*one[:3], number(one[3] or 0.0)), strict=True)) for one in points]


def draw(rows: list[dict[str, str]], path: Path) -> None:
    """Draw one line for each case, with a point for each library."""
    import matplotlib as mpl  # which the table of points does not need
    from matplotlib import pyplot as plt

    mpl.use("agg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "diffkern", "font.family": "sans-serif"})
    places: dict[tuple[str, str], float] = {}
    heads: dict[str, float] = {}
    height = 0.0
    for row in rows:
        if row["group"] not in heads:
            heads[row["group"]] = height = height - 1.2
        if (row["group"], row["label"]) not in places:
            places[row["group"], row["label"]] = height = height - 1.0
    figure, axes = plt.subplots(figsize=(8.6, 0.235 * -height + 0.9), layout="constrained")
    axes.set_xscale("log")
    least = min(0.25, *(0.6 * float(row["shown"]) for row in rows))
    axes.set_xlim(least, MOST)
    axes.set_ylim(height - 0.8, 0.0)
    axes.axvspan(least, 1.0, color="#f7e3df", zorder=0)
    axes.axvline(1.0, color="black", linewidth=1.0)
    for place in places.values():
        axes.axhline(place, color="#dddddd", linewidth=0.7, zorder=0.5)
    for group, place in heads.items():
        axes.text(1.1, place, group, weight="bold", size=9, va="center")
    for row in rows:
        value, place = float(row["shown"]), places[row["group"], row["label"]]
        axes.plot(value, place, "o", color=COLOURS.get(row["library"], OTHER), markersize=6)
        side = -1 if row["library"] == "Dr.Jit" else 1  # its points are the left ones of close pairs
        at = {"xytext": (5 * side, 3), "textcoords": "offset points", "ha": "right" if side < 0 else "left"}
        axes.annotate(row["shown"], (value, place), size=7, color="#444444", **at)
    for library in dict.fromkeys(row["library"] for row in rows):
        axes.plot([], [], "o", color=COLOURS.get(library, OTHER), label=library)
    axes.set_yticks(list(places.values()), [label for _, label in places], size=9)
    ticks = [tick for tick in (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100) if tick > least]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.tick_params(axis="y", length=0)
    axes.text(least * 1.07, -0.65, "diffkern slower", size=8, color="#a03020", va="center")
    axes.set_xlabel("time of the other library / time of diffkern, on CPUs")
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=7, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    draw(table(held.read(held.RESULTS / "cpu.json").rows()), DOCS / "ratios.svg")
