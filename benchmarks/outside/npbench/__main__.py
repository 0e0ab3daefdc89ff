"""Run the ports of NPBench beside the published versions and write ``results/npbench.json``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..results import Exclusion, Row, collect, write
from . import checkout, excluded, ports_all

PATIENCE = 300


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outside.npbench", description=str(__doc__).strip())
    parser.add_argument("--source", type=Path, metavar="DIR", help=f"a checkout of {checkout.REPOSITORY}")
    parser.add_argument("--quick", action="store_true", help="few repetitions, one processor: a look, not a figure")
    parser.add_argument("--only", metavar="PROGRAM", default="", help="only this program, printed and not written")
    parser.add_argument("--preset", default="S", choices=("S", "M", "L", "paper"), help="the published sizes")
    parser.add_argument("--child", metavar="FILE", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def child(chosen: argparse.Namespace, name: str, processors: int, missing: list[Exclusion]) -> list[Row]:
    """Measure one program in a process of its own, on so many processors."""
    count = str(processors)
    environment = {
        **os.environ, "DIFFKERN_NUM_THREADS": count, "NUMBA_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count,
        "OMP_NUM_THREADS": count, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "NPBENCH_PROCESSORS": count,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "benchmarks.outside.npbench", "--source", str(chosen.source)]
        command += ["--preset", chosen.preset, "--only", name, "--child", str(path)] + ["--quick"] * chosen.quick
        try:
            done = subprocess.run(command, env=environment, timeout=PATIENCE, capture_output=True, text=True, check=False)
        except subprocess.TimeoutExpired:
            missing.append(Exclusion(name, f"on {count} processors: not done within {PATIENCE} s"))
            return []
        if not path.exists():
            missing.append(Exclusion(name, f"on {count} processors: {done.stderr.strip()[-600:]}"))
            return []
        found = json.loads(path.read_text(encoding="utf-8"))
    missing += [Exclusion(name, text) for text in found["missing"]]
    return [Row(**row) for row in found["rows"]]


def inside(chosen: argparse.Namespace) -> None:
    """Measure one program here and write the rows for the parent."""
    processors = int(os.environ["NPBENCH_PROCESSORS"])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-processors:])
    from .measure import measure

    found = measure(chosen.source, chosen.only, chosen.preset, chosen.quick)
    Path(chosen.child).write_text(json.dumps(found), encoding="utf-8")


def show(row: Row) -> None:
    """Print one row."""
    times = ", ".join(f"{tool} {1e3 * seconds:.3f} ms" for tool, seconds in row.seconds.items())
    ratio = f" ratio {row.ratio:.2f}" if row.ratio else ""
    print(f"{row.program:16} {row.part:22} {times}{ratio}  difference {row.difference:.1e} {row.notes}", flush=True)


def main() -> int:
    """Measure what was chosen; print the rows, and write them if all programs were measured."""
    chosen = options()
    if chosen.source is None or not (chosen.source / "bench_info").is_dir():
        print(f"Name a checkout with --source DIR: git clone {checkout.REPOSITORY}", file=sys.stderr)
        return 2
    if chosen.child:
        inside(chosen)
        return 0
    missing: list[Exclusion] = []
    rows: list[Row] = []
    programs: dict[str, Any] = ports_all.PORTS
    for name in [chosen.only] if chosen.only else sorted(programs):
        for processors in sorted({1} if chosen.quick else {1, len(os.sched_getaffinity(0))}):
            found = child(chosen, name, processors, missing)
            rows += found
            for row in found:
                show(row)
    without = [Exclusion(name, reason) for name, reason in excluded.REASONS.items() if name not in programs]
    for each in missing:
        print(f"{each.program}: {each.reason}")
    if not chosen.only:
        command = f"python -m benchmarks.outside.npbench --source DIR --preset {chosen.preset}" + " --quick" * chosen.quick
        source = checkout.revision(chosen.source)
        unique = list(dict.fromkeys([*without, *missing]))
        print(write(collect("npbench", source, command, rows, unique, ("numpy", "numba", "llvmlite", "jax", "scipy"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
