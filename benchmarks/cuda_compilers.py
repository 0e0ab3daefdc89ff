"""Both compilers for CUDA on the corpus of kernels: instructions, registers, local memory, processor seconds.

In: the kernels of ``tests/corpus.py``, forward and adjoint. Out: a line for each program and the means, or with
``--table`` the rows of the documentation's table. Each is compiled for arrays that do not overlap; the time is that of
everything from the Python function to the cubin. No GPU is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from corpus import SAMPLES
from sass.compilers import Pair, compare, mean

SHOWN = ("device.sine", "device.option_price", "composites.spring_energy", "composites.n_body", "memory.heat_2d",
         "memory.matmul_loop", "loops.horner", "loops.newton_sqrt")  # fmt: skip


def both(pair: Pair, what: str) -> tuple[Any, Any]:
    """What the two programs take of something."""
    made = pair.llvm, pair.numba
    if what in ("size", "seconds"):
        return getattr(made[0], what), getattr(made[1], what)
    return getattr(made[0].resources, what), getattr(made[1].resources, what)


def line(pair: Pair) -> str:
    """A program's line."""
    numbers = "".join("{:7}/{:<7}".format(*both(pair, what)) for what in ("size", "registers", "stack_bytes"))
    return f"{pair.name:44}{numbers}{pair.ratio:6.2f}   {{:.2f}}/{{:.2f}} s".format(*both(pair, "seconds"))


def row(name: str, pairs: Sequence[Pair]) -> str:
    """A row of the documentation's table: sums, or the numbers of one program."""
    cells = [name, *("{} / {}".format(*(sum(x) for x in zip(*(both(p, w) for p in pairs), strict=True)))
                     for w in ("size", "registers", "stack_bytes"))]  # fmt: skip
    seconds = [sum(x) / len(pairs) for x in zip(*(both(p, "seconds") for p in pairs), strict=True)]
    cells.append("{:.2f} / {:.2f}".format(*seconds))
    return "\n".join(f"   {'* ' if k == 0 else '  '}- {cell}" for k, cell in enumerate(cells))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--arch", default="sm_90", help="the architecture, sm_90 by default")
    parser.add_argument("--only", nargs="*", default=[], help="names of kernels")
    parser.add_argument("--table", action="store_true", help="print rows of the documentation's table")
    options = parser.parse_args()
    chosen = [s for s in SAMPLES.values() if not options.only or s.name in options.only]
    compare(chosen[:1], "adjoint", [options.arch])  # what the first program pays for is in none
    found = [pair for d in ("forward", "adjoint") for pair in compare(chosen, d, [options.arch])]
    if options.table:
        for name in SHOWN:
            for pair in (p for p in found if p.sample.name == name):
                print(row(pair.name, [pair]))
        print(row(f"all {len(found)}", found))
    else:
        for pair in sorted(found, key=lambda p: p.ratio):
            print(line(pair))
    for direction in ("forward", "adjoint"):
        pairs = [p for p in found if p.direction == direction]
        print(f"{direction}: {mean(pairs):.2f} in the geometric mean, {max(p.ratio for p in pairs):.2f} at most")


if __name__ == "__main__":
    main()
