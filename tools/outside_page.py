"""Write ``docs/generated/outside.inc`` and ``docs/outside.svg`` from ``benchmarks/outside/results``.

With ``--check`` nothing is written and the exit status says whether the tables are up to date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.outside import results, tables  # noqa: E402  (the path is set before)

TABLES = ROOT / "docs" / "generated" / "outside.inc"
FIGURE = ROOT / "docs" / "outside.svg"


def known() -> list[results.Results]:
    """Return the results of all benchmarks."""
    return [results.read(name) for name in results.benchmarks()]


def text() -> str:
    """Return the tables that the results make."""
    return tables.page(known())


def main() -> int:
    """Write both files, or check the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 when the tables are out of date"
    )
    options = parser.parse_args()
    new = text()
    if TABLES.is_file() and TABLES.read_text(encoding="utf-8") == new and FIGURE.is_file():
        return 0
    print(f"{'out of date' if options.check else 'written'}: {TABLES.relative_to(ROOT)}")
    if options.check:
        return 1
    TABLES.write_text(new, encoding="utf-8")
    from benchmarks.outside import figure  # needs Matplotlib, which a check does not

    figure.draw(known(), FIGURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
