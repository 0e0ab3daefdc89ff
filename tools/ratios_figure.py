"""Draw ``docs/ratios.svg`` from ``docs/ratios.csv``: how many times diffkern's time other libraries take.

Every number of the table stands on the page that it names, as ``shown`` in the row ``row``; a test compares them.
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

DOCS = Path(__file__).resolve().parents[1] / "docs"
COLOURS = {"Warp": "#4c8c2b", "JAX": "#7b4fb5", "PyTorch": "#d9532c", "Dr.Jit": "#1f77b4"}
LEAST, MOST = 0.25, 1000.0


def table() -> list[dict[str, str]]:
    """Return the rows of the data file."""
    with (DOCS / "ratios.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def draw(rows: list[dict[str, str]], path: Path) -> None:
    """Draw one line for each case, with a point for each library."""
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
    axes.set_xlim(LEAST, MOST)
    axes.set_ylim(height - 0.8, 0.0)
    axes.axvspan(LEAST, 1.0, color="#f7e3df", zorder=0)
    axes.axvline(1.0, color="black", linewidth=1.0)
    for place in places.values():
        axes.axhline(place, color="#dddddd", linewidth=0.7, zorder=0.5)
    for group, place in heads.items():
        axes.text(1.1, place, group, weight="bold", size=9, va="center")
    for row in rows:
        value, place = float(row["shown"]), places[row["group"], row["label"]]
        axes.plot(value, place, "o", color=COLOURS[row["library"]], markersize=6)
        side = -1 if row["library"] == "Dr.Jit" else 1  # its points are the left ones of close pairs
        at = {"xytext": (5 * side, 3), "textcoords": "offset points", "ha": "right" if side < 0 else "left"}
        axes.annotate(row["shown"], (value, place), size=7, color="#444444", **at)
    for library, colour in COLOURS.items():
        axes.plot([], [], "o", color=colour, label=library)
    axes.set_yticks(list(places.values()), [label for _, label in places], size=9)
    ticks = [0.3, 1, 3, 10, 30, 100]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.tick_params(axis="y", length=0)
    axes.text(LEAST * 1.07, -0.65, "diffkern slower", size=8, color="#a03020", va="center")
    axes.set_xlabel("time of the other library / time of diffkern, on CPUs")
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=len(COLOURS), frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    mpl.use("agg")
    draw(table(), DOCS / "ratios.svg")
