"""Write ``docs/generated/gpu_runs.inc``: what has run on which GPU, when, and at which commit; and what has not.

Its rows stand in ``docs/gpu_runs.csv``, what has not run in ``docs/gpu_not_run.txt``; nowhere else is it said. After a
run on a GPU (``tools/gpu_day`` prints the facts) add a row, take out the line, and run ``python tools/gpu_runs.py``.
With ``--check`` the tool fails if the file is stale.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

__all__ = ["CLAIM", "table"]

DOCS = Path(__file__).resolve().parents[1] / "docs"
TABLE = DOCS / "generated" / "gpu_runs.inc"
CLAIM = re.compile(
    r"\b(?:not|never|nothing|none)\b(?:\W+\w+){0,6}?\W+(?:run|ran|executed|tried|measured)\W+on\W+(?:an?\W+|any\W+|several\W+)?"
    r"(?:NVIDIA\W+)?(?:GPUs?|one|device)\b|\b(?:passes|ran|has\W+run|have\W+run)\b(?:\W+\w+){0,4}?\W+on\W+(?:an?|one)\W+"
    r"(?:GPU|H100|H200)\b",
    re.IGNORECASE,
)
"""A sentence that says that something has run on a GPU, or has not."""


def table() -> str:
    """Return the table as reStructuredText."""
    with (DOCS / "gpu_runs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 46 18 12 10 24", ""]
    for cells in (("what", "device", "date", "recorded in commit", "result"), *(tuple(row.values()) for row in rows)):
        lines += [f"   {'* -' if k == 0 else '  -'} {cell}" for k, cell in enumerate(cells)]
    missing = (DOCS / "gpu_not_run.txt").read_text(encoding="utf-8").splitlines()
    lines += ["", "Not yet on a GPU:", "", *(f"* {line}" for line in missing)]
    return "\n".join(lines) + "\n"


def main() -> int:
    text = table()
    if "--check" in sys.argv[1:]:
        return int(TABLE.read_text(encoding="utf-8") != text)
    TABLE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
