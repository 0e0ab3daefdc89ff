"""Run Warp's benchmarks on the CPU under both libraries: ``python -m benchmarks.outside.warp_asv --source DIR``."""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.outside.results import Exclusion, Row, collect, write
from benchmarks.outside.warp_asv import child

SOURCE = "https://github.com/NVIDIA/warp"
LIBRARIES = ("diffkern", "warp")
SHOWN = {"diffkern": "diffkern", "warp": "Warp"}
TURN = 0.1
"""Seconds of calls between a setup and the end of a turn."""
LEFT_OUT = {
    "native_library_footprint": "measures the size of Warp's own library",
    "benchmarks_utils": "has no benchmark",
}
SLOW_TO_PREPARE = ("atomics", "deterministic", "examples", "fem", "sparse")
"""Made for the memory of a GPU, or with many kernels to compile: they come last."""
CAUSES: dict[str, str] = {
    "api.array": "an array of a few microseconds: more is looked at in Python when it is made and freed",
    "api.launch.KernelLaunchParameters.struct_full": "a kernel that writes nothing on a named device takes the general "
    "path, which packs its arguments once more",
    "api.python_builtins": "built-ins called from Python run their twin in Python and NumPy; Warp calls native code",
    "api.struct": "fields are checked and converted in Python when they are assigned; Warp leaves that to ctypes",
}
"""Why Warp is faster, by the beginning of the program's name."""


@dataclass(frozen=True)
class Body:
    """A benchmark's method with one choice of parameters, by its place among them."""

    module: str
    owner: str
    method: str
    params: int = 0

    @property
    def name(self) -> str:
        """How the tables name it."""
        return f"{self.module}.{self.owner}.{self.method.removeprefix('time_')}" + f" {self.params}" * (self.params > 0)


class Side:
    """A process with one of the libraries."""

    def __init__(self, library: str, folder: Path) -> None:
        self.library, self.folder = library, folder
        self.process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        """Return the answer to a request; after the limit the process is ended, and the next request starts another."""
        if self.process is None or self.process.poll() is not None:
            env = {**os.environ, "DIFFKERN_NUM_THREADS": "1"}
            command = [sys.executable, "-m", "benchmarks.outside.warp_asv.child", self.library, str(self.folder)]
            self.process = subprocess.Popen(
                command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        timer = threading.Timer(limit, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if line:
            return json.loads(line)
        self.process.wait()
        return {"error": f"not ready after {limit:.0f} s" if self.process.returncode == -9 else "the process died"}

    def end(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()


def bodies(folder: Path) -> Iterator[tuple[str, str, list[str], int]]:
    """Yield module, class, methods and parameters of all benchmarks, as their text has them."""
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(folder).with_suffix("").parts)
        if path.name == "__init__.py" or module in LEFT_OUT:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                methods = [n.name for n in node.body if isinstance(n, ast.FunctionDef) and n.name.startswith("time_")]
                if methods:
                    yield module, node.name, methods, _count(node)


def _count(node: ast.ClassDef) -> int:
    """Return how many choices of parameters a class has; 1 where its text does not say so."""
    for each in node.body:
        if isinstance(each, ast.Assign) and getattr(each.targets[0], "id", "") == "params":
            try:
                holder = type("Benchmark", (), {"params": ast.literal_eval(each.value)})
                return max(1, len(child.combinations(holder)))
            except ValueError:
                return 1
    return 1


def measure(body: Body, sides: list[Side], turns: int, limit: float) -> Row | Exclusion:
    """Time a case under both libraries in turns."""
    request = {"module": body.module, "class": body.owner, "method": body.method, "params": body.params}
    first = {}
    for side in sorted(sides, key=lambda side: side.library != "warp"):  # what Warp cannot do is of no interest
        answer = side.ask(request, limit)
        if "error" in answer:
            return Exclusion(body.name, f"{SHOWN[side.library]}: {answer['error']}")
        first[side.library] = answer["seconds"]
    best = dict(first)
    for _ in range(turns):
        for side in sides:
            calls = max(1, min(1000, math.ceil(TURN / max(best[side.library], 1e-7))))
            answer = side.ask({"calls": calls}, limit)
            if "error" in answer:
                return Exclusion(body.name, f"{SHOWN[side.library]}: {answer['error']}")
            best[side.library] = min(best[side.library], answer["seconds"])
    cause = next((why for name, why in CAUSES.items() if body.name.startswith(name)), "")
    slower = best["diffkern"] > best["warp"]
    seconds = {SHOWN[name]: best[name] for name in best}
    return Row(body.name, "forward", seconds, None, "not compared", cause if slower else "")


def _measure_class(
    given: tuple[str, str, list[str], int],
    sides: list[Side],
    turns: int,
    limit: float,
    rows: list[Row],
    excluded: list[Exclusion],
) -> None:
    """Measure the methods of a benchmark with all their parameters, until one of these does not run."""
    module, owner, methods, count = given
    for method in methods:
        for params in range(count):
            body = Body(module, owner, method, params)
            found = measure(body, sides, turns, limit)
            shown = f"{found.ratio:.2f}" if isinstance(found, Row) else found.reason[:110]
            print(f"{body.name:70}{shown}", flush=True)
            if isinstance(found, Exclusion):  # which holds for the other parameters too
                excluded.append(found)
                break
            rows.append(found)


def main() -> int:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outside.warp_asv", description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help=f"a checkout of {SOURCE}")
    parser.add_argument("--quick", action="store_true", help="one turn, and what is ready in 20 seconds")
    parser.add_argument("--only", metavar="PROGRAM", default="", help="benchmarks of modules whose names begin so")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds until a case has to be ready")
    chosen = parser.parse_args()
    folder = chosen.source.resolve() / "asv" / "benchmarks"
    sides = [Side(library, folder) for library in LIBRARIES]
    rows: list[Row] = []
    excluded = [Exclusion(name, why) for name, why in LEFT_OUT.items()]
    limit, turns = (20.0, 1) if chosen.quick else (chosen.limit, 3)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    left = [each for each in bodies(folder) if each[0].startswith(chosen.only)]
    left.sort(key=lambda each: each[0].partition(".")[0] in SLOW_TO_PREPARE)
    try:
        while left:
            _measure_class(left[0], sides, turns, limit, rows, excluded)
            left.pop(0)
    except KeyboardInterrupt:  # what was measured so far counts
        excluded += [Exclusion(f"{module}.{owner}", "not reached in this run") for module, owner, _, _ in left]
    for side in sides:
        side.end()
    command = "python -m benchmarks.outside.warp_asv --source warp"
    write(collect("warp_asv", SOURCE, command, rows, excluded, ("numpy", "numba", "warp-lang")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
