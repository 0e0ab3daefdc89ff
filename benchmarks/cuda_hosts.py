"""Measure what the host does for a launch on a GPU, with a driver that costs nothing; no GPU is needed.

In: nothing but the command line. Out: a table of processor times of one call, the least of many short readings, and a
JSON file if asked for. The driver is ``stub_driver``'s, behind NVIDIA's Python package: each of its functions succeeds
at once and nothing runs, so that what is measured is diffkern's part, and the package's where that is in between. A
GPU's driver takes some microseconds more. Warp does not start without a GPU, so it cannot be compared with here;
``gpu.py`` does that where there is one.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import record_kernels
import stub_driver
from harness import Row, Target, exit_status, machine, options, print_machine, rounds_of, save_json

DEVICE = "cuda:0"
LONG, FEW = 1000, 50
PLAIN, PLAIN_CHAIN, PLAIN_SUM = "plain launch", f"{FEW} plain launches", "plain sum into a loss"
RATIOS = {
    "adjoint launch": (PLAIN, 1.5),
    "tape, launch, backward and zero": (PLAIN, 4.5),
    f"{FEW} launches on a tape": (PLAIN_CHAIN, 1.8),
    "adjoint of a sum": (PLAIN_SUM, 1.5),
    "tape, sum, backward and zero": (PLAIN_SUM, 4.5),
}
"""The plain launches that a case is compared with in alternation, and how often their time it takes at most."""
TARGETS = {
    "record.launch": Target(at_most=1.2e-6),
    "adjoint record.launch": Target(at_most=1.2e-6),
    "graph of 10 launches": Target(at_most=4e-6),
    f"graph of {LONG} launches": Target(at_most=4e-6),
    f"graph of {LONG} launches to {LONG} arrays": Target(at_most=4e-6),
}


def works(dk: Any, count: int) -> dict[str, Callable[[], Any] | Within]:
    """Return what is measured, of a kernel with some arrays and a number."""
    kernel = record_kernels.make(dk)[count]
    ones = np.ones(1, np.float32)

    def made() -> Any:
        return dk.array(ones, dtype=dk.float32, device=DEVICE, requires_grad=True)

    x, y = [made() for _ in range(count - 1)], made()
    inputs, gradients = [*x, 0.5], [*(a.grad for a in x), None]
    goals = [made() for _ in range(FEW)]

    def plain() -> None:
        dk.launch(kernel, dim=1, inputs=inputs, outputs=[y])

    def adjoint() -> None:
        dk.launch(kernel, dim=1, inputs=inputs, outputs=[y], adjoint=True, adj_inputs=gradients, adj_outputs=[y.grad])

    def on_tape() -> None:
        with dk.Tape():
            dk.launch(kernel, dim=1, inputs=inputs, outputs=[y])

    def trained() -> None:
        with dk.Tape() as tape:
            dk.launch(kernel, dim=1, inputs=inputs, outputs=[y])
        tape.backward(y)
        tape.zero()

    total = record_kernels.make_sums(dk)[count]

    def plain_sum() -> None:
        dk.launch(total, dim=1, inputs=inputs, outputs=[y])

    def adjoint_sum() -> None:
        dk.launch(total, dim=1, inputs=inputs, outputs=[y], adjoint=True, adj_inputs=gradients, adj_outputs=[y.grad])

    def trained_sum() -> None:
        with dk.Tape() as tape:
            dk.launch(total, dim=1, inputs=inputs, outputs=[y])
        tape.backward(y)
        tape.zero()

    def chain() -> None:
        for goal in goals:
            dk.launch(kernel, dim=1, inputs=inputs, outputs=[goal])

    def chain_on_tape() -> None:
        with dk.Tape():
            chain()

    for _ in range(3):  # what a program does again and again is known then
        trained()
        trained_sum()
    plain()
    record = dk.launch(kernel, dim=1, inputs=inputs, outputs=[y], record_cmd=True)
    reverse = record.adjoint()
    device, stream = dk.get_device(DEVICE), dk.Stream(DEVICE)

    def changed() -> None:
        record.set_param_at_index(count - 1, 0.5)
        record.launch()

    def each_to_another() -> Callable[[], None]:
        goals = [made() for _ in range(LONG)]
        return lambda: [dk.launch(kernel, dim=1, inputs=inputs, outputs=[goal]) for goal in goals]

    return {
        PLAIN: plain,
        "plain launch, in a ScopedDevice": Within(lambda: dk.ScopedDevice(device), plain),
        "plain launch, in a ScopedStream": Within(lambda: dk.ScopedStream(stream), plain),
        "adjoint launch": adjoint,
        "tape and one launch": on_tape,
        "tape, launch, backward and zero": trained,
        PLAIN_SUM: plain_sum,
        "adjoint of a sum": adjoint_sum,
        "tape, sum, backward and zero": trained_sum,
        PLAIN_CHAIN: chain,
        f"{FEW} launches on a tape": chain_on_tape,
        "record.launch": record.launch,
        "record.launch, in a ScopedDevice": Within(lambda: dk.ScopedDevice(device), record.launch),
        "record.launch, in a ScopedStream": Within(lambda: dk.ScopedStream(stream), record.launch),
        "record.launch(stream)": lambda: record.launch(stream),
        "adjoint record.launch": reverse.launch,
        "record.launch after set_param": changed,
        "set_param_at_index, number": lambda: record.set_param_at_index(count - 1, 0.5),
        "set_param_at_index, array": lambda: record.set_param_at_index(0, x[0]),
        f"sequence of {LONG} launches": recorded(dk, plain, LONG).replay,
        "graph of 10 launches": recorded(dk, plain, 10).capture().launch,
        f"graph of {LONG} launches": recorded(dk, plain, LONG).capture().launch,
        f"graph of {LONG} launches to {LONG} arrays": recorded(dk, each_to_another(), 1).capture().launch,
    }


class Within(NamedTuple):
    """What is called so many times inside a ``with`` block."""

    scope: Callable[[], Any]
    run: Callable[[], Any]


def recorded(dk: Any, run: Callable[[], Any], times: int) -> Any:
    """Return a sequence of what a function does."""
    with dk.record(run=False) as sequence:
        for _ in range(times):
            run()
    return sequence


def repeat(run: Callable[[], Any], calls: int) -> None:
    """Call something so many times."""
    for _ in range(calls):
        run()


def reading(run: Callable[[], Any] | Within, calls: int) -> float:
    """Return the processor time of one call."""
    start = time.thread_time_ns()
    if isinstance(run, Within):
        with run.scope():
            repeat(run.run, calls)
    else:
        repeat(run, calls)
    return (time.thread_time_ns() - start) * 1e-9 / calls


def measure(run: Callable[[], Any] | Within, readings: int) -> float:
    """Return the least processor time of one call."""
    once = reading(run, 3)
    calls = max(3, min(300, int(1e-3 / once)))
    return min(reading(run, calls) for _ in range(readings))


def compared(run: Callable[[], Any], base: Callable[[], Any], readings: int) -> tuple[float, float]:
    """Return the least processor times of one call of each, read in turn."""
    calls = [max(3, min(300, int(1e-3 / reading(each, 3)))) for each in (run, base)]
    both = [(reading(run, calls[0]), reading(base, calls[1])) for _ in range(readings)]
    return min(own for own, _ in both), min(other for _, other in both)


def measured(case: str, run: Any, cases: Mapping[str, Any], label: str, readings: int) -> Row:
    """Return the row of a case."""
    if case not in RATIOS:
        return _row(label, measure(run, readings), TARGETS.get(case, Target()), readings)
    base, most = RATIOS[case]
    own, other = compared(run, cases[base], readings)
    target = Target(at_most=most)
    return Row(label, "diffkern", base, own, other, ratio_median=own / other, pairs=readings, target=target)


def main() -> int:
    """Run the chosen cases and print the table."""
    arguments = options(str(__doc__).partition("\n")[0]).parse_args()
    readings = rounds_of(arguments, 200, 20)
    stub_driver.install()
    dk: Any = importlib.import_module("diffkern")
    facts = {**machine(), "target": dk.get_device(DEVICE).target, "driver": "a stub: nothing runs, no GPU"}
    print_machine(facts)
    rows: list[Row] = []
    for count in (3, 8):
        cases = works(dk, count)
        for case, run in cases.items():
            label = f"{case}, {count} arrays"
            if arguments.only in label:
                rows.append(measured(case, run, cases, label, readings))
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name:{width}}  {row.top_s * 1e6:9.2f} us  {_bound(row)}".rstrip())
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


def _row(name: str, seconds: float, target: Target, readings: int) -> Row:
    """Return a row whose ratio is the time itself, which is what its target bounds."""
    return Row(name, "diffkern", "-", top_s=seconds, ratio_median=seconds, pairs=readings, target=target)


def _bound(row: Row) -> str:
    """Return the words on what bounds a row."""
    if row.target.at_most is None:
        return ""
    if row.bottom_s == row.bottom_s:  # there is one
        return f"{row.ratio_median:5.2f} of {row.bottom} {row.target}  {row.verdict}"
    return f"<= {row.target.at_most * 1e6:g} us  {row.verdict}"


if __name__ == "__main__":
    sys.exit(main())
