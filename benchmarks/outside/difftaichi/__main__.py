"""Run DiffTaichi's simulators as kernels, beside the published programs, and write ``results/difftaichi.json``."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.outside.results import Exclusion, Row, benchmarks, collect, read, write

from . import excluded, horizons, runner, simulators

REPOSITORY = "https://github.com/taichi-dev/difftaichi"
PEER_ITERATIONS = 4


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outside.difftaichi", description=str(__doc__).strip())
    parser.add_argument("--source", type=Path, metavar="DIR", help=f"a checkout of {REPOSITORY}")
    parser.add_argument("--taichi", default="", metavar="PYTHON", help="a Python that has Taichi, to run beside it")
    parser.add_argument("--quick", action="store_true", help="six iterations of each descent")
    parser.add_argument("--only", metavar="SIMULATOR", default="", help="only this one, printed and not written")
    parser.add_argument(
        "--horizon",
        action="store_true",
        help="only gradients by the number of steps, put into the results that are there",
    )
    parser.add_argument("--child", metavar="FILE", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def on_one_processor(command: list[str]) -> str:
    """Run a command on one processor; return the end of what it says on failure."""
    count = {"DIFFKERN_NUM_THREADS": "1"}
    last = max(os.sched_getaffinity(0))
    done = subprocess.run(
        command, env={**os.environ, **count}, capture_output=True, text=True, check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, {last}),
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stderr.strip()[-500:] or f"status {done.returncode}"


def inside(chosen: argparse.Namespace) -> None:
    """Run one simulator here and write what it gives for the parent."""
    cls = simulators.SIMULATIONS[chosen.only]
    _, difference = runner.directional(cls)
    found = runner.descended(cls, PEER_ITERATIONS if chosen.quick else cls.iterations)
    Path(chosen.child).write_text(json.dumps({**found, "difference": difference}), encoding="utf-8")


def lines_of(path: Path) -> int:
    """Count the lines of code of a file, without empty ones and comments."""
    texts = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return sum(1 for text in texts if text and not text.startswith("#"))


def row(chosen: argparse.Namespace, name: str, folder: Path) -> Row | Exclusion:
    """Measure one simulator, beside Taichi if there is one."""
    own, peer = folder / "own.json", folder / "peer.json"
    command = [sys.executable, "-m", "benchmarks.outside.difftaichi", "--source", str(chosen.source), "--only", name]
    failure = on_one_processor([*command, "--child", str(own), *["--quick"] * chosen.quick])
    if failure:
        return Exclusion(name, failure)
    found: dict[str, Any] = json.loads(own.read_text(encoding="utf-8"))
    cls = simulators.SIMULATIONS[name]
    seconds = {"diffkern": statistics.median(found["seconds"][1:])}
    notes: dict[str, float | str] = {
        "loss at first": found["losses"][0], f"loss after {len(found['losses']) - 1} iterations": found["losses"][-1],
        "time to record": found["recording"], "memory": found["memory"],
        "lines of the module": lines_of(Path(inspect.getfile(cls))),
    }  # fmt: skip
    if cls.scale:
        notes["scale"] = cls.scale
    script = Path(str(chosen.source)) / "examples" / f"{PROGRAMS.get(name, name)}.py"
    notes["lines of the published program"] = lines_of(script)
    if chosen.taichi:
        driver = str(Path(__file__).with_name("published.py"))
        arguments = [str(script), str(PEER_ITERATIONS), str(peer), json.dumps(cls.changes), *cls.arguments]
        failure = on_one_processor([chosen.taichi, driver, *arguments])
        if failure or not peer.exists():
            notes["taichi"] = f"does not run: {failure.splitlines()[-1] if failure else 'no result'}"
        else:
            theirs = json.loads(peer.read_text(encoding="utf-8"))
            seconds["taichi"] = statistics.median(theirs["seconds"][1:])
            notes["memory of taichi"] = theirs["memory"]
            notes["loss of taichi at first"] = theirs["losses"][0]
            last = len(theirs["losses"]) - 1
            notes[f"loss after {last} iterations"] = found["losses"][last]
            notes[f"loss of taichi after {last} iterations"] = theirs["losses"][last]
            notes["version of taichi"] = theirs["taichi"]
    return Row(name, "forward and gradient", seconds, found["difference"], "differences in float64", "", notes)


PROGRAMS = {"smoke": "smoke_taichi"}


def main() -> int:
    """Measure what was chosen; print the rows, and write them if all simulators were measured."""
    chosen = options()
    if chosen.source is None or not (chosen.source / "examples").is_dir():
        print(f"Name a checkout with --source DIR: git clone {REPOSITORY}", file=sys.stderr)
        return 2
    chosen.source = chosen.source.resolve()
    for cls in simulators.SIMULATIONS.values():
        cls.source = chosen.source / "examples"
    if chosen.child:
        inside(chosen)
        return 0
    if chosen.horizon:
        write(replace(read("difftaichi"), horizons=tuple(horizons.rows())))
        return 0
    rows: list[Row] = []
    missing = [
        Exclusion(name, reason) for name, reason in excluded.REASONS.items() if name not in simulators.SIMULATIONS
    ]
    if not chosen.taichi:
        missing.append(Exclusion("Taichi", "not run: no Python with it was named by --taichi"))
    for name in [chosen.only] if chosen.only else sorted(simulators.SIMULATIONS):
        with tempfile.TemporaryDirectory() as folder:
            found = row(chosen, name, Path(folder))
        print(json.dumps(asdict(found)), flush=True)
        if isinstance(found, Row):
            rows.append(found)
        else:
            missing.append(found)
        if not chosen.only:
            save(chosen, rows, missing)
    return 0


def save(chosen: argparse.Namespace, rows: list[Row], missing: list[Exclusion]) -> None:
    """Write what has been measured so far."""
    command = "python -m benchmarks.outside.difftaichi --source DIR --taichi PYTHON" + " --quick" * chosen.quick
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=chosen.source, capture_output=True, text=True, check=False
    ).stdout.strip()
    source = f"{REPOSITORY} at {commit or 'an unknown commit'}"
    known = read("difftaichi").horizons if "difftaichi" in benchmarks() else ()
    write(replace(collect("difftaichi", source, command, rows, missing, ("numpy", "llvmlite")), horizons=known))


if __name__ == "__main__":
    sys.exit(main())
