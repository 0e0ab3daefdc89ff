"""The figure of ``docs/roofline.rst`` and its table, from ``diffkern bench --json``.

    diffkern bench --json > bench.json
    python benchmarks/roofline.py bench.json docs/roofline.png

Prints the rows of the table as reStructuredText. Needs the extra ``plot``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def rows(found: dict[str, Any]) -> str:
    """Return the lines of the table."""
    lines = []
    for row in found["workloads"]:
        cells = [row["workload"], row["direction"], f"{row['seconds'] * 1e3:.2f}"]
        if row["bytes"] is None:
            cells += ["", "", "", "", ""]
        else:
            rates = row["bytes"] / row["seconds"] / 1e9, row["flops"] / row["seconds"] / 1e9
            cells += [f"{row['bytes'] / 1e6:.1f}", f"{row['flops'] / 1e6:.0f}", *(f"{rate:.1f}" for rate in rates)]
            cells.append(f"{row['fraction']:.0%} of {row['limit']}")
        lines.append("   * - " + "\n     - ".join(cells))
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines())


def draw(found: dict[str, Any], path: Path) -> None:
    """Write the figure: operations in a second over operations for each byte."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    ceilings = found["ceilings"]
    figure, axes = plt.subplots(figsize=(7, 4.2))
    x = np.geomspace(0.1, 1e4, 200)
    roof = np.minimum(ceilings["bandwidth"] * x, ceilings["flops"]) / 1e9
    axes.loglog(x, roof, color="black", label="ceilings, measured")
    for direction, marker in (("forward", "o"), ("adjoint", "s")):
        shown = [row for row in found["workloads"] if row["direction"] == direction and row["bytes"]]
        places = [(row["flops"] / row["bytes"], row["flops"] / row["seconds"] / 1e9) for row in shown]
        axes.loglog(*zip(*places, strict=True), marker, label=direction)
        for row, place in zip(shown, places, strict=True):
            axes.annotate(row["workload"], place, textcoords="offset points", xytext=(5, -10), fontsize=8)
    axes.set_xlabel("operations for each byte")
    axes.set_ylabel("GFLOP/s")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    measured = json.loads(Path(sys.argv[1]).read_text())
    print(rows(measured))
    if len(sys.argv) > 2:
        draw(measured, Path(sys.argv[2]))
