"""Write ``builtin_vectors.json``: what warp-lang gives for the rows of ``tests/builtin_table.py`` that it has.

``python tests/support/make_vectors.py`` runs it on a CPU; it needs warp-lang. What has no form for float64 there is
evaluated in float32.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import warp as wp

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import builtin_table as table  # noqa: E402
from builtin_rows import SAMPLES, Row  # noqa: E402


def values(rows: list[Row], bits: int, folder: Path) -> dict[str, list[list[float]]]:
    """The results of some rows, by their names."""
    if not rows:
        return {}
    name = f"float{bits}"
    made = table.load(table.source(rows, name, "warp", "wp"), folder / f"calls{bits}_{len(rows)}.py")
    dtype, widths = getattr(wp, name), table.widths(rows)
    x = wp.array(table.numbers(rows).astype(name), dtype=dtype, device="cpu")
    y = wp.zeros((SAMPLES, widths["y"]), dtype=dtype, device="cpu")
    q = wp.zeros((SAMPLES, widths["q"]), dtype=wp.int32, device="cpu")
    w = wp.zeros((SAMPLES, widths["w"]), dtype=wp.float64, device="cpu")
    wp.launch(made.calls, SAMPLES, inputs=[x], outputs=[y, q, w], device="cpu")
    digits = 15 if bits == 64 else 9
    shown = [[float(f"{number:.{digits}g}") for number in line] for line in y.numpy().tolist()]
    found = np.array(shown)
    return {row.id: found[:, at.of_y].tolist() for row, at in zip(rows, table.parts(rows), strict=True)}


def main() -> None:
    wp.config.quiet = True
    wp.config.enable_backward = False
    wide, narrow = {}, {}
    with tempfile.TemporaryDirectory() as name:
        for rows in table.GROUPS.values():
            there = [row for row in rows if not row.own and row.oracle is None]
            wide.update(values([row for row in there if not row.narrow], 64, Path(name)))
            narrow.update(values([row for row in there if row.narrow], 32, Path(name)))
    lines = [
        f' "{key}": {json.dumps({name: found[name] for name in sorted(found)}, separators=(",", ":"))}'
        for key, found in (("float64", wide), ("float32", narrow))
    ]
    (HERE / "builtin_vectors.json").write_text("{\n" + ",\n".join(lines).replace('],"', '],\n  "') + "\n}\n")


if __name__ == "__main__":
    main()
