"""Measure what threads in lanes add to the time of compiling: the corpus of kernels, forward and adjoint.

In: the kernels of ``tests/corpus.py``. Out: a table (and a JSON file) of ratios of processor time, from the Python
function to machine code, in lanes to one by one, as medians of interleaved pairs. The first column of the summary is
of programs that run in lanes unasked, the second of all that can, under ``lanes=True``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from corpus import SAMPLES, Sample
from grad.build import values
from harness import machine, options, print_machine, rounds_of, save_json

from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import KernelOptions, Variant
from diffkern.kernels.kernel import Kernel

PAIRS, QUICK_PAIRS = 5, 1
LIMIT = 1.5
"""The ratio that the median of a set of programs is held against."""


def compilation(sample: Sample, adjoint: bool, lanes: bool | None) -> Compilation:
    """A program of a kernel that nothing has been made of."""
    types = Kernel(sample.function).argument_types(*values(sample.case))
    active = frozenset(range(len(types))) if adjoint else None
    variant = Variant(active=active, options=KernelOptions(lanes=lanes))
    return Compilation(sample.function, types, variant, **sample.options)


def runs_in_lanes(sample: Sample, adjoint: bool, lanes: bool | None) -> bool:
    """Whether threads of the program run in lanes."""
    return "one by one" not in compilation(sample, adjoint, lanes).threads()


def seconds(sample: Sample, adjoint: bool, lanes: bool) -> float:
    """Processor time of compiling a program."""
    made = compilation(sample, adjoint, lanes)
    start = time.process_time()
    made.build("kernel")
    return time.process_time() - start


def measured(sample: Sample, adjoint: bool, pairs: int) -> dict[str, Any]:
    """A row of the table."""
    found = [(seconds(sample, adjoint, False), seconds(sample, adjoint, True)) for _ in range(pairs)]
    alone, together = (median(times) for times in zip(*found, strict=True))
    return {
        "program": f"{sample.name} {'adjoint' if adjoint else 'forward'}",
        "unasked": runs_in_lanes(sample, adjoint, None),
        "alone_s": alone,
        "lanes_s": together,
        "ratio": median(b / a for a, b in found),
    }


def summary(what: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Print median, sum and worst of some programs, and return them."""
    worst = max(rows, key=lambda r: r["ratio"])
    total = sum(r["lanes_s"] for r in rows) / sum(r["alone_s"] for r in rows)
    middle = median(r["ratio"] for r in rows)
    print(
        f"{what}: {len(rows)} programs, ratio {middle:.2f} in the median, {total:.2f} of the sums, "
        f"{worst['ratio']:.2f} at most ({worst['program']}), {sum(r['ratio'] > LIMIT for r in rows)} above {LIMIT}"
    )
    return {"programs": len(rows), "median": middle, "sums": total, "worst": worst["ratio"]}


def main() -> int:
    """Compile the corpus and print the table."""
    chosen = options(str(__doc__).partition("\n")[0]).parse_args()
    facts = machine()
    print_machine(facts)
    samples = [s for s in SAMPLES.values() if chosen.only in s.name]
    programs = [(s, adjoint) for s in samples for adjoint in (False, True) if runs_in_lanes(s, adjoint, True)]
    if not programs:
        print("no program of these can run in lanes")
        return 1
    measured(*programs[0], 1)  # what the first program pays for is in none
    rows = []
    for sample, adjoint in programs:
        rows.append(row := measured(sample, adjoint, rounds_of(chosen, PAIRS, QUICK_PAIRS)))
        mark = "unasked" if row["unasked"] else ""
        print(
            f"{row['program']:<44}{row['alone_s'] * 1e3:>8.0f} ms{row['lanes_s'] * 1e3:>8.0f} ms"
            f"{row['ratio']:>7.2f}  {mark}",
            flush=True,
        )
    found = {"all": summary("lanes=True", rows)}
    if unasked := [r for r in rows if r["unasked"]]:
        found["unasked"] = summary("in lanes unasked", unasked)
    if chosen.json:
        save_json(chosen.json, facts, [], readings=rows, summary=found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
