"""Run a benchmark small and compare it with its committed results: ``python -m benchmarks.outside.rerun NAME DIR``.

What counts as a fault: a row that is gone, a result farther from the oracle than before, and a row that was faster than
the others and now takes twice their time. Times of rows that were slower already are printed only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.outside.results import Results, Row, read

_FARTHER, _LEAST = 10.0, 1e-6
_SLOWER = 0.5


def faults(before: Results, now: Results) -> Iterator[str]:
    """Yield what became worse; rows that a small run leaves out by its size are not compared."""
    known = {(row.program, row.part): row for row in before.rows}
    gone = {each.program for each in now.excluded} - {each.program for each in before.excluded}
    yield from (f"{program}: excluded now, measured before" for program in sorted(gone & {p for p, _ in known}))
    for row in now.rows:
        if (old := known.get((row.program, row.part))) is not None:
            yield from (f"{row.program}, {row.part}: {fault}" for fault in _row_faults(old, row))


def _row_faults(old: Row, new: Row) -> Iterator[str]:
    if new.difference is not None and not new.difference <= max(_LEAST, _FARTHER * (old.difference or 0.0)):
        yield f"difference {new.difference:.1e} from {new.oracle}, before {old.difference or 0.0:.1e}"
    if old.ratio is not None and new.ratio is not None and old.ratio >= 1.0 and new.ratio < _SLOWER:
        yield f"the fastest other tool takes {new.ratio:.2g} times the time, before {old.ratio:.2g}"


def main() -> int:
    """Run the benchmark, and print what became worse."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outside.rerun", description=__doc__)
    parser.add_argument("benchmark")
    parser.add_argument("source", type=Path, help="a checkout of the published repository")
    chosen = parser.parse_args()
    before = read(chosen.benchmark)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", f"benchmarks.outside.{chosen.benchmark}", "--quick", "--source", chosen.source]
        done = subprocess.run(command, env={**os.environ, "DIFFKERN_OUTSIDE_RESULTS": folder}, check=False)
        if done.returncode:
            return done.returncode
        now = read(chosen.benchmark, Path(folder))
    found = list(faults(before, now))
    print(f"{len(now.rows)} rows run, {len(before.rows)} committed", *found, sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
