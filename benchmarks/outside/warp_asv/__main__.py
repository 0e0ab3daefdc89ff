"""Run Warp's benchmarks on the CPU under both libraries: ``python -m benchmarks.outside.warp_asv --source DIR``."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.outside.results import Exclusion, Row, collect, write

SOURCE = "https://github.com/NVIDIA/warp"
LIBRARIES = ("diffkern", "warp")
SHOWN = {"diffkern": "diffkern", "warp": "Warp"}
TURN = 0.1
"""Seconds of calls between a setup and the end of a turn."""
LEFT_OUT = {
    "native_library_footprint": "measures the size of Warp's own library",
    "benchmarks_utils": "has no benchmark",
}
FEM = "is made with warp.fem, of which diffkern.warp has names only: no integrands, no spaces, no example meshes"
OUT_OF_REACH = dict.fromkeys(("fem.integrate", "sparse.matrix_matrix", "sparse.matrix_vector"), FEM)
TRACKED = "reads the times of kernels from events of CUDA, which there are on a GPU only"
SLOW_TO_PREPARE = ("atomics", "tile.tile_nbody")
"""Made for the memory or the speed of a GPU: they come last."""
CAUSES: dict[str, str] = {
    "api.python_builtins": "built-ins called from Python run their twin in Python and NumPy; Warp calls native code",
    "deterministic.AtomicAdd": "a tie: all threads add to one number, and either program waits for the store of each "
    "addition before the next, 3.3 ns in both",
    "tile.load_store_register.LoadStoreRegister.cuda 7": "runs of 96 bytes are copied within 256 MiB: 0.83 and 0.92 of "
    "Warp's speed in two runs, the first on a busy machine; the other eight copies are faster than Warp's",
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

    def __init__(self, library: str, folder: Path, cache: Path) -> None:
        self.library, self.folder, self.cache = library, folder, cache
        self.process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        """Return the answer to a request; after the limit the process is ended, and the next request starts another."""
        if self.process is None or self.process.poll() is not None:
            env = {**os.environ, "DIFFKERN_NUM_THREADS": "1"}
            # Some benchmarks clear the cache of compiled programs, which is not to be the user's.
            env |= {name: str(self.cache / name) for name in ("WARP_CACHE_PATH", "DIFFKERN_CACHE_DIR")}
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


def bodies(folder: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield module, class and methods of all benchmarks, as their text has them."""
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(folder).with_suffix("").parts)
        if path.name == "__init__.py" or module in LEFT_OUT:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                methods = [n.name for n in node.body if isinstance(n, ast.FunctionDef) and n.name.startswith("time_")]
                if methods:
                    yield module, node.name, methods
                elif any(isinstance(n, ast.FunctionDef) and n.name.startswith("track_") for n in node.body):
                    yield module, node.name, []


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
    given: tuple[str, str, list[str]],
    sides: list[Side],
    turns: int,
    limit: float,
    rows: list[Row],
    excluded: list[Exclusion],
) -> None:
    """Measure the methods of a benchmark with all their parameters."""
    module, owner, methods = given
    name = f"{module}.{owner}"
    if why := OUT_OF_REACH.get(module) or ("" if methods else TRACKED):
        excluded.append(Exclusion(name, why))
        return
    of_warp = next(side for side in sides if side.library == "warp")
    found = of_warp.ask({"module": module, "class": owner}, limit)
    if "error" in found:
        excluded.append(Exclusion(name, f"Warp: {found['error']}"))
        return
    for method in methods:
        reasons: set[str] = set()
        for params in range(found["count"]):
            body = Body(module, owner, method, params)
            measured = measure(body, sides, turns, limit)
            shown = f"{measured.ratio:.2f}" if isinstance(measured, Row) else measured.reason[:110]
            print(f"{body.name:70}{shown}", flush=True)
            if isinstance(measured, Row):
                rows.append(measured)
                continue
            if measured.reason not in reasons:  # one line for all parameters to which it applies
                excluded.append(measured)
            reasons.add(measured.reason)
            if "not ready" in measured.reason:  # nor with the others
                break


def main() -> int:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outside.warp_asv", description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help=f"a checkout of {SOURCE}")
    parser.add_argument("--quick", action="store_true", help="one turn, and what is ready in 20 seconds")
    parser.add_argument("--only", metavar="PROGRAM", default=[""], nargs="+", help="modules whose names begin so")
    parser.add_argument("--cache", type=Path, help="keep compiled programs there, in the place of a temporary folder")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds until a case has to be ready")
    chosen = parser.parse_args()
    folder = chosen.source.resolve() / "asv" / "benchmarks"
    caches = tempfile.TemporaryDirectory()
    sides = [Side(library, folder, chosen.cache or Path(caches.name)) for library in LIBRARIES]
    rows: list[Row] = []
    excluded = [Exclusion(name, why) for name, why in LEFT_OUT.items()]
    limit, turns = (20.0, 1) if chosen.quick else (chosen.limit, 3)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    left = [each for each in bodies(folder) if each[0].startswith(tuple(chosen.only))]
    left.sort(key=lambda each: each[0] in SLOW_TO_PREPARE)
    try:
        while left:
            _measure_class(left[0], sides, turns, limit, rows, excluded)
            left.pop(0)
    except KeyboardInterrupt:  # what was measured so far counts
        excluded += [Exclusion(f"{module}.{owner}", "not reached in this run") for module, owner, _ in left]
    for side in sides:
        side.end()
    caches.cleanup()
    command = "python -m benchmarks.outside.warp_asv --source warp"
    packages = ["numpy", "numba", "warp-lang", *(["usd-core"] if importlib.util.find_spec("pxr") else [])]
    write(collect("warp_asv", SOURCE, command, rows, excluded, packages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
