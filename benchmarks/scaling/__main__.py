"""Predict launches on 64 and 128 processors by a model that is checked on one and two.

    python -m benchmarks.scaling                   # 8 minutes
    python -m benchmarks.scaling --quick heat      # a look

The machine is measured, and chunks of each launch; the time of the launch is predicted and measured on one processor
and on two; then come what diffkern decides differently on more processors, with the predicted times of both, tables of
strong and weak scaling, and a simulation of the pool. A reading is the processor time of the thread that works longest,
and the least of many: others use the machine as well. What is said of more than two processors is modelled, unmeasured.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from .launches import planned
from .machine import Curve, Machine, larger, measured
from .study import Check, Known, checks, coarse, decisions, known, of_pool, of_touching, scaling, simulation
from .workloads import NAMES, workloads

LARGER = {8: 1, 16: 1, 32: 2, 64: 4, 128: 8}
GOAL = 0.2
ROUNDS, QUICK_ROUNDS = 12, 4
PATIENCE, QUICK_PATIENCE = 2.0, 0.2


def print_machine(machine: Machine) -> None:
    """Print what was measured of a machine."""
    print(f"\n{machine.name}")
    for name, value in vars(machine).items():
        if isinstance(value, Curve):
            cells = [
                f"{size / 1e6:.3g} MB {1e9 * each:.3g}" for size, each in zip(value.sizes, value.values, strict=True)
            ]
            print(f"  {name:<16} ns: {', '.join(cells)}")
        elif isinstance(value, float):
            print(f"  {name:<16} {value:.4g}")


def print_checks(found: list[Check]) -> None:
    """Print predictions beside readings."""
    print(f"\n{'launch':<28}{'processors':>11}{'ms':>9}{'predicted':>11}{'error':>8}")
    for check in found:
        mark = "" if abs(check.error) <= GOAL else "  beyond the goal"
        print(f"{check.name:<28}{check.processors:>11}{1e3 * check.measured:>9.3f}{1e3 * check.predicted:>11.3f}"
              f"{check.error:>+8.0%}{mark}")  # fmt: skip
    for processors in sorted({check.processors for check in found}):
        errors = [abs(check.error) for check in found if check.processors == processors]
        within = sum(error <= GOAL for error in errors)
        print(f"{processors} processors: {within} of {len(errors)} within {GOAL:.0%}, "
              f"median error {median(errors):.0%}, largest {max(errors):.0%}")  # fmt: skip


def print_scaling(title: str, rows: dict[str, list[float]], machines: list[Machine], *, is_weak: bool) -> None:
    """Print times and what they are worth beside one processor."""
    print(f"\n{title}; beyond two processors modelled, unmeasured")
    print(f"{'launch':<28}{'ms on 1':>9}", *(f"{machine.processors:>7}" for machine in machines[1:]))
    for name, seconds in rows.items():
        first = seconds[0]
        cells = [f"{first / s:>7.0%}" if is_weak else f"{first / s:>7.1f}" for s in seconds[1:]]
        print(f"{name:<28}{1e3 * first:>9.3f}", *cells)


def print_simulations(found: list[Known], machines: list[Machine]) -> dict[str, Any]:
    """Print the simulation beside the model, and variants of the pool and of memory."""
    many = [machine for machine in machines if machine.processors >= 16]
    print("\nThe simulation over the model, of the threads of a launch")
    ratios = {}
    for one in found:
        pairs = [simulation(one, machine) for machine in many]
        ratios[one.launch.name] = [a / b for a, b in pairs]
        print(f"{one.launch.name:<28}", *(f"{a / b:>7.2f}" for a, b in pairs))
    pools: dict[str, Any] = {}
    for work in (2e-4, 2e-3, 2e-2):
        print(f"\nus of a run of 256 chunks that computes {1e3 * work:g} ms in all, by the simulation")
        by_machine = {machine.processors: of_pool(machine, work) for machine in many}
        pools[f"{work:g}"] = by_machine
        for name in next(iter(by_machine.values())):
            print(f"  {name:<26}", *(f"{1e6 * by_machine[machine.processors][name]:>9.1f}" for machine in many))
    moved = 1e9
    print("\nms of a run that moves 1 GB, by the node of its pages, by the simulation")
    touching = {machine.processors: of_touching(machine, moved) for machine in many}
    for name in ("any node", "one node", "own node"):
        print(f"  {name:<26}", *(f"{1e3 * touching[machine.processors][name]:>9.2f}" for machine in many))
    return {"over the model": ratios, "pool": pools, "touching": touching}


def main() -> int:
    """Run the studies and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", metavar="NAME", help="only launches whose name contains one of these")
    parser.add_argument("--quick", action="store_true", help="few repetitions: a look, not a figure to quote")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args()
    rounds, patience = (QUICK_ROUNDS, QUICK_PATIENCE) if options.quick else (ROUNDS, PATIENCE)
    chosen = tuple(name for name in NAMES if not options.only or any(part in name for part in options.only))
    if not chosen:
        parser.error(f"no launch is called so; there are {', '.join(NAMES)}")
    one = measured(1, rounds)
    two = measured(2, rounds, one)
    machines = [one, two, *(larger(one, two, processors, nodes) for processors, nodes in LARGER.items())]
    for machine in (one, two, machines[-2]):
        print_machine(machine)
    found, read, changed, few = [], [], [], []
    strong, weak = {}, {}
    for launch in workloads(1.0, chosen):
        it = known(launch, [machine.processors for machine in machines], rounds)
        found.append(it)
        read.extend(checks(it, machines[:2], rounds, patience))
        changed.extend(decisions(it, machines[-2:]))
        few.extend(coarse(it, machines[-2:]))
        strong[launch.name] = scaling(it, machines)
        weak[launch.name] = scaling(it, machines, is_weak=True)
        print(launch.name, planned(launch, 2), flush=True)
    print_checks(read)
    print("\nDecisions that change, and the ms of both: as on two processors, and as chosen; modelled, unmeasured")
    for d in changed:
        print(f"  {d.name}, {d.processors} processors: {d.usual} ({1e3 * d.usual_seconds:.3f}) > {d.chosen} "
              f"({1e3 * d.chosen_seconds:.3f})")  # fmt: skip
    print("\nFewer chunks than processors, and the ms of both: in more chunks, and as chosen; modelled, unmeasured")
    for d in few:
        print(f"  {d.name}, {d.processors} processors: {d.usual} ({1e3 * d.usual_seconds:.3f}) > {d.chosen} "
              f"({1e3 * d.chosen_seconds:.3f})")  # fmt: skip
    print_scaling("Strong scaling: times as fast as on one processor", strong, machines, is_weak=False)
    print_scaling("Weak scaling: speed beside one, with as many times the threads", weak, machines, is_weak=True)
    simulations = print_simulations(found, machines)
    if options.json:
        content = {
            "machines": [asdict(machine) for machine in machines],
            "checks": [asdict(check) for check in read],
            "decisions": [asdict(decision) for decision in changed],
            "coarse": [asdict(decision) for decision in few],
            "strong": strong,
            "weak": weak,
            "simulation": simulations,
        }
        Path(options.json).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
