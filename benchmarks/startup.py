"""Compare how soon the first gradient is there, and what importing costs.

In: nothing but the command line. Out: a table (and a JSON file) with the time from the start of a fresh process to its
first gradient, with an empty cache (cold) and with a filled one (warm), for NVIDIA Warp and diffkern in turn, and the
time that ``import diffkern`` takes over ``import numpy``. Every process has its own cache directory; the user's caches
are neither read nor written.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import (
    Row,
    Target,
    WrongResult,
    exit_status,
    machine,
    options,
    print_machine,
    print_table,
    rounds_of,
    row_of_pairs,
    save_json,
)

CHILD = Path(__file__).with_name("startup_child.py")
CACHE_VARIABLE = {"warp": "WARP_CACHE_PATH", "diffkern": "DIFFKERN_CACHE_DIR"}
IMPORT_LIMIT_S = 0.1


# An installed package has its byte code. A checkout gets it from the first process, unless that must not write it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def environment(cache: Path) -> dict[str, str]:
    """Return the environment of a child whose caches all lie in one directory."""
    return {**ENVIRONMENT, **{variable: str(cache / name) for name, variable in CACHE_VARIABLE.items()}}


def first_gradient(library: str, cache: Path) -> tuple[float, list[float]]:
    """Start a process and return the seconds until its gradient, and the gradient.

    Raises
    ------
    RuntimeError
        If the process ends without a gradient; its error output is part of the message.
    """
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, str(CHILD), library],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(cache),
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        for line in child.stdout:
            if line.startswith("GRADIENT"):
                elapsed = time.perf_counter() - start
                child.communicate()
                return elapsed, [float(word) for word in line.split()[1:]]
        raise RuntimeError(f"{library} gave no gradient:\n{child.stderr.read()[-2000:]}")


def cold(library: str) -> float:
    """Return the time to the first gradient with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        return first_gradient(library, Path(cache))[0]


def same_gradients(first: list[float], second: list[float]) -> None:
    """Raise :class:`WrongResult` unless the two processes computed the same gradient."""
    if any(abs(a - b) > 1e-4 * max(1.0, abs(b)) for a, b in zip(first, second, strict=True)):
        raise WrongResult(f"the gradients differ: {first} and {second}")


def in_pairs(
    name: str, read: Callable[[str], float], target: Target, pairs: int, top: str = "diffkern", bottom: str = "warp"
) -> Row:
    """Read both libraries in turn and return the row of the ratio top / bottom."""
    top_s, bottom_s = [], []
    for _ in range(pairs):
        top_s.append(read(top))
        bottom_s.append(read(bottom))
    return row_of_pairs(name, top, bottom, top_s, bottom_s, target)


def import_time(module: str) -> float:
    """Return the wall time of a process that imports one module and ends."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True, capture_output=True, env=ENVIRONMENT)
    return time.perf_counter() - start


def import_row(pairs: int) -> Row:
    """Return the row of the seconds that importing diffkern takes over importing NumPy, as a share of the limit."""
    import_time("diffkern")
    import_time("numpy")
    over = [import_time("diffkern") - import_time("numpy") for _ in range(pairs)]
    limit = [IMPORT_LIMIT_S] * pairs
    return row_of_pairs("import over numpy", "diffkern", "limit", over, limit, Target(at_most=1.0))


def main() -> int:
    """Run the chosen cases and print the table."""
    arguments = options(str(__doc__).partition("\n")[0]).parse_args()
    pairs = rounds_of(arguments, 9, 3)
    facts = machine()
    print_machine(facts)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name)

        def warm(library: str) -> float:
            return first_gradient(library, cache)[0]

        # The first process of each library fills the warm cache, the byte code and the disk cache; it is not counted.
        peer_gradient = first_gradient("warp", cache)[1]
        if arguments.peer_only:
            for case, read in (("cold start", cold), ("warm start", warm)):
                times = [read("warp") for _ in range(pairs)]
                rows.append(Row(case, "warp", "-", top_s=statistics.median(times), pairs=pairs))
        else:
            same_gradients(first_gradient("diffkern", cache)[1], peer_gradient)
            if arguments.only in "cold start":
                rows.append(in_pairs("cold start", cold, Target(at_most=0.5), pairs))
            if arguments.only in "warm start":
                rows.append(in_pairs("warm start", warm, Target(at_most=0.7), pairs))
            if arguments.only in "import":
                rows.append(import_row(2 * pairs))
    print_table(rows)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
