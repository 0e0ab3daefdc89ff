"""Measure the artifact cache: what a process pays that finds all its kernels compiled, and compiling on all cores.

In: nothing but the command line. Out: a table (and a JSON file). A file of kernels is written to a temporary directory
and compiled into a cache of its own; the user's cache is neither read nor written. Each reading of a warm start is a
process of its own, which also says what it imported.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import (
    Target,
    exit_status,
    machine,
    options,
    print_machine,
    print_table,
    rounds_of,
    row_of_pairs,
    save_json,
)

CHILD = Path(__file__).with_name("cache_child.py")
KERNELS = 200
LOAD_LIMIT_S = 5e-3
ALL_LIMIT_S = 0.5
SET_UP_LIMIT_S = 0.15
KERNEL = """
@dk.kernel
def kernel_{k}(x: dk.array(dtype=float), y: dk.array(dtype=float), a: float):
    i = dk.tid()
    s = {k}.5
    for j in range(4):
        s += dk.sin(a * x[i] + float(j))
    if s > 0.5:
        s = s * s
    y[i] = s
"""
COMPILE = "import sys, diffkern as dk; import many_kernels; many_kernels.compile_all(int(sys.argv[1]))"


def write_kernels(directory: Path, count: int) -> None:
    """Write the module of kernels."""
    every = "".join(KERNEL.format(k=k) for k in range(count))
    names = ", ".join(f"kernel_{k}" for k in range(count))
    all_of_them = f"KERNELS = [{names}]\n"
    all_of_them += "def compile_all(processes):\n    dk.compile(*KERNELS, adjoint=False, processes=processes)\n"
    (directory / "many_kernels.py").write_text(f"import diffkern as dk\n{every}\n\n{all_of_them}")


def run(directory: Path, cache: Path, *command: str) -> str:
    """Run a Python process beside the kernels and return what it prints."""
    packages = os.pathsep.join([str(directory), str(CHILD.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "DIFFKERN_CACHE_DIR": str(cache), "PYTHONPATH": packages}
    # Byte code as pip would have left it, also from a checkout: the first process writes it, the measured ones find it.
    environment["PYTHONPYCACHEPREFIX"] = str(directory / "bytecode")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def compile_time(directory: Path, cache: Path, processes: int) -> float:
    """Return the time of a process that compiles all kernels with an empty cache."""
    start = time.perf_counter()
    run(directory, cache, "-c", COMPILE, str(processes))
    return time.perf_counter() - start


def main() -> int:
    """Run the chosen cases and print the table."""
    arguments = options(str(__doc__).partition("\n")[0]).parse_args()
    readings = rounds_of(arguments, 15, 5)
    count = 20 if arguments.quick else KERNELS
    facts = machine()
    print_machine(facts)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_kernels(directory, count)
        many = compile_time(directory, directory / "many", processors)
        if arguments.only in "compile in parallel":
            one = compile_time(directory, directory / "one", 1)
            target = Target(at_most=1.0 if processors > 1 else 1.2)
            rows.append(
                row_of_pairs(f"compile {count} kernels", f"{processors} processes", "1 process", [many], [one], target)
            )
        run(directory, directory / "many", str(CHILD))
        found = [json.loads(run(directory, directory / "many", str(CHILD))) for _ in range(readings)]
    heavy = sorted({module for reading in found for module in reading["heavy"]})
    if heavy:
        print(f"a process that only loads imported {', '.join(heavy)}")
        return 1
    limits = {
        "load a kernel": ([statistics.median(r["loads"]) for r in found], LOAD_LIMIT_S),
        f"load {count} kernels": ([sum(r["loads"]) for r in found], ALL_LIMIT_S * count / KERNELS),
        "set-up over numpy": ([r["set_up"] for r in found], SET_UP_LIMIT_S),
    }
    for case, (times, limit) in limits.items():
        if arguments.only in case:
            rows.append(row_of_pairs(case, "diffkern", "limit", times, [limit] * readings, Target(at_most=1.0)))
    print_table(rows)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
