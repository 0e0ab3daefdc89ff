"""Compare the cost of launches with NVIDIA Warp's on the CPU: plain, recorded, changed, in sequences, and backward.

In: nothing but the command line. Out: a table of ratios (and a JSON file). Kernels have 3 and 8 array parameters and
are launched with one thread, so that the times are those of launching. Both libraries run in one process, their results
are compared before anything is timed, and the readings alternate. The peer of a sequence is Warp's graph on the CPU.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import record_kernels
from harness import (
    Row,
    Target,
    Work,
    check_agreement,
    exit_status,
    load_peer,
    machine,
    measure_pair,
    nothing,
    options,
    print_machine,
    print_table,
    rounds_of,
    save_json,
)

LAUNCHES = 2000
SEQUENCE = 1000

TARGETS = {
    "plain launch": Target(at_least=4.0),
    "record.launch": Target(at_least=8.0),
    "adjoint record.launch": Target(at_least=8.0),
    "record.launch after set_param": Target(at_least=8.0),
    "adjoint record.launch after set_param": Target(at_least=8.0),
    "set_param_at_index, array": Target(at_least=2.0),
    "set_param_at_index, number": Target(at_least=2.0),
    "Tape.backward": Target(at_least=5.0),
    f"sequence of {SEQUENCE}, each launch": Target(at_least=1.0),
}


def works(w: Any, name: str, count: int) -> dict[str, Work]:
    """Return the cases of one library for a kernel with `count` arrays and a number."""
    kernel = record_kernels.make(w)[count]
    x = [w.array(np.full(1, 1.0 + k, dtype=np.float32), dtype=w.float32, requires_grad=True) for k in range(count - 1)]
    y = w.zeros(1, dtype=w.float32, requires_grad=True)
    seed = w.array(np.ones(1, dtype=np.float32), dtype=w.float32)
    inputs = [*x, 0.5]

    def plain() -> None:
        w.launch(kernel, dim=1, inputs=inputs, outputs=[y])

    plain()
    record = w.launch(kernel, dim=1, inputs=inputs, outputs=[y], record_cmd=True)
    reverse = w.launch(
        kernel, dim=1, inputs=inputs, outputs=[y], adj_inputs=[*(a.grad for a in x), None], adj_outputs=[y.grad],
        adjoint=True, record_cmd=True,
    )  # fmt: skip
    reverse.launch()
    with w.Tape() as tape:
        w.launch(kernel, dim=1, inputs=inputs, outputs=[y])

    def changed() -> None:
        record.set_param_at_index(count - 1, 0.5)
        record.launch()

    def changed_reverse() -> None:
        reverse.set_param_at_index(count - 1, 0.5)
        reverse.launch()

    def ready() -> None:
        for a in x:
            a.grad.zero_()
        y.grad.fill_(1.0)

    def gradients() -> dict[str, Any]:
        return {f"gradient {k}": a.grad.numpy().copy() for k, a in enumerate(x)}

    def output() -> dict[str, Any]:
        return {"output": y.numpy().copy()}

    def work(run: Callable[[], Any], calls: int = LAUNCHES) -> Work:
        return Work(name, run, nothing, output, calls)

    return {
        "plain launch": work(plain),
        "record.launch": work(record.launch),
        "adjoint record.launch": Work(name, reverse.launch, ready, gradients, LAUNCHES),
        "record.launch after set_param": work(changed),
        "adjoint record.launch after set_param": Work(name, changed_reverse, ready, gradients, LAUNCHES),
        "set_param_at_index, array": work(lambda: record.set_param_at_index(0, x[0])),
        "set_param_at_index, number": work(lambda: record.set_param_at_index(count - 1, 0.5)),
        "Tape.backward": Work(name, lambda: tape.backward(grads={y: seed}), ready, gradients, LAUNCHES),
        f"sequence of {SEQUENCE}, each launch": work(replay_of(w, name, plain), calls=20),
    }


def replay_of(w: Any, name: str, plain: Callable[[], None]) -> Callable[[], None]:
    """Return what replays many launches."""
    if name == "warp":
        with w.ScopedCapture(device="cpu") as capture:
            for _ in range(SEQUENCE):
                plain()
        graph = capture.graph
        return lambda: w.capture_launch(graph)
    with w.record() as sequence:
        for _ in range(SEQUENCE):
            plain()
    replay: Callable[[], None] = sequence.replay
    return replay


def per_launch(row: Row) -> Row:
    """Bring the times of a sequence down to those of one launch."""
    row.top_s /= SEQUENCE
    row.bottom_s /= SEQUENCE
    return row


def main() -> int:
    """Run the chosen cases and print the table."""
    arguments = options(str(__doc__).partition("\n")[0]).parse_args()
    pairs = rounds_of(arguments, 21, 5)
    facts = machine()
    print_machine(facts)
    warp = load_peer()
    diffkern: Any = importlib.import_module("diffkern")
    rows: list[Row] = []
    for count in (3, 8):
        peer, own = works(warp, "warp", count), works(diffkern, "diffkern", count)
        for case, target in TARGETS.items():
            label = f"{case}, {count} arrays"
            if arguments.only not in label:
                continue
            check_agreement(own[case], peer[case], 1e-6)
            row = measure_pair(label, peer[case], own[case], target, pairs)
            rows.append(per_launch(row) if "sequence" in case else row)
    print_table(rows)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
