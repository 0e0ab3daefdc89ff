"""Compare what a launch costs with NVIDIA Warp on the CPU: alone, backwards, on a tape, recorded and replayed.

In: nothing but the command line. Out: a table of medians, in microseconds for each launch, and their ratios, and a JSON
file if asked for. The work is a chain of 200 launches of 1 and of 64 threads, each on what the one before has written,
so that the times are those of launching. Results and gradients of both libraries are compared before anything is timed,
and the readings alternate. Without Warp diffkern is timed alone.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import record_kernels
from harness import (
    Results,
    Row,
    Target,
    Work,
    check_agreement,
    exit_status,
    load_peer,
    machine,
    measure_alone,
    measure_pair,
    nothing,
    options,
    print_machine,
    print_table,
    rounds_of,
    save_json,
)

LINKS = 200
SIZES = (1, 64)
PAIRS, QUICK_PAIRS = 51, 11
NOT_SLOWER = Target(at_least=1.0)


class Chain:
    """Launches of a kernel, each on what the one before has written, in one library."""

    def __init__(self, library: Any, name: str, size: int) -> None:
        self.library, self.name, self.size = library, name, size
        self.kernel = record_kernels.make(library)[3]
        rng = np.random.default_rng(size)
        self.states = [self._array(rng.uniform(0.5, 1.5, size)), *(self._array(np.zeros(size)) for _ in range(LINKS))]
        self.factor = self._array(rng.uniform(1.99, 2.01, size))
        self.seed = self._array(np.ones(size))
        self.tape: Any = None

    def _array(self, values: Any) -> Any:
        return self.library.array(values.astype(np.float32), dtype=self.library.float32, requires_grad=True)

    def launch(self, k: int, **how: Any) -> Any:
        """Launch a link, or record it."""
        inputs = [self.states[k], self.factor, 0.5]
        return self.library.launch(self.kernel, dim=self.size, inputs=inputs, outputs=[self.states[k + 1]], **how)

    def launch_adjoint(self, k: int, **how: Any) -> Any:
        """Launch the adjoint of a link, or record it."""
        given = {"adj_inputs": [self.states[k].grad, self.factor.grad, None], "adj_outputs": [self.states[k + 1].grad]}
        return self.launch(k, adjoint=True, **given, **how)

    def forward(self) -> None:
        """Launch all links."""
        for k in range(LINKS):
            self.launch(k)

    def adjoint(self) -> None:
        """Launch the adjoints of all links, the last one first."""
        for k in reversed(range(LINKS)):
            self.launch_adjoint(k)

    def record(self) -> None:
        """Launch all links on a new tape."""
        with self.library.Tape() as self.tape:
            self.forward()

    def backward(self) -> None:
        """Go back over the tape."""
        self.tape.backward(grads={self.states[-1]: self.seed})

    def step(self) -> None:
        """Do all that a step of training does on a tape."""
        self.record()
        self.backward()
        self.tape.zero()

    def steps(self) -> None:
        """Do the same for each link on a tape of its own."""
        for k in range(LINKS):
            with self.library.Tape() as tape:
                self.launch(k)
            tape.backward(grads={self.states[k + 1]: self.seed})
            tape.zero()

    def clear(self) -> None:
        """Forget the tape, and set gradients to what the adjoints begin with."""
        self.tape = None
        for array in (*self.states, self.factor):
            array.grad.zero_()
        self.states[-1].grad.fill_(1.0)

    def taped(self) -> None:
        """Have a tape to go back over."""
        self.clear()
        self.record()

    def outputs(self) -> Results:
        """What the links have written."""
        return {f"state {k}": self.states[k].numpy().copy() for k in (1, LINKS // 2, LINKS)}

    def gradients(self) -> Results:
        """What their adjoints have."""
        return {"gradient": self.states[0].grad.numpy().copy(), "of the factor": self.factor.grad.numpy().copy()}


def records_of(chain: Chain, adjoint: bool = False) -> Callable[[], None]:
    """Return what launches the records of all links."""
    if adjoint:
        launches = [chain.launch_adjoint(k, record_cmd=True).launch for k in reversed(range(LINKS))]
    else:
        launches = [chain.launch(k, record_cmd=True).launch for k in range(LINKS)]

    def replay() -> None:
        for launch in launches:
            launch()

    return replay


def replay_of(chain: Chain, run: Callable[[], None]) -> Callable[[], None]:
    """Return what replays all that a function does: a sequence, or Warp's graph."""
    library = chain.library
    if chain.name == "warp":
        with library.ScopedCapture(device="cpu") as capture:
            run()
        graph = capture.graph
        return lambda: library.capture_launch(graph)
    with library.record() as sequence:
        run()
    replay: Callable[[], None] = sequence.replay
    return replay


def works(library: Any, name: str, size: int) -> dict[str, Work]:
    """Return the cases of a library for launches of `size` threads."""
    chain = Chain(library, name, size)

    def work(
        run: Callable[[], None], prepare: Callable[[], None] = nothing, results: Callable[[], Results] = chain.outputs
    ) -> Work:
        return Work(name, run, prepare, results)

    chain.forward()
    chain.clear()
    both = records_of(chain), records_of(chain, adjoint=True)
    return {
        "launch": work(chain.forward),
        "adjoint launch": work(chain.adjoint, chain.clear, chain.gradients),
        "launch on a tape": work(chain.record, chain.clear),
        "backward": work(chain.backward, chain.taped, chain.gradients),
        "tape, backward and zero": work(chain.step, chain.clear),
        "a tape for each launch, backward and zero": work(chain.steps, chain.clear),
        "record.launch": work(both[0]),
        "adjoint record.launch": work(both[1], chain.clear, chain.gradients),
        "sequence": work(replay_of(chain, chain.forward)),
        "sequence of adjoints": work(replay_of(chain, chain.adjoint), chain.clear, chain.gradients),
    }


def per_launch(row: Row) -> Row:
    """Bring the times of a chain down to those of one launch."""
    row.top_s /= LINKS
    row.bottom_s /= LINKS
    return row


def measured(peer: Any, arguments: argparse.Namespace) -> list[Row]:
    """Return the rows of all cases that are asked for."""
    pairs = rounds_of(arguments, PAIRS, QUICK_PAIRS)
    diffkern: Any = importlib.import_module("diffkern")
    rows: list[Row] = []
    for size in SIZES:
        own = {} if arguments.peer_only else works(diffkern, "diffkern", size)
        other = {} if peer is None else works(peer, "warp", size)
        for case in own or other:
            label = f"{case}, {size} thread{'s' if size > 1 else ''}"
            if arguments.only not in label:
                continue
            if own and other:
                check_agreement(own[case], other[case], 1e-5)
                row = measure_pair(label, other[case], own[case], NOT_SLOWER, pairs)
            else:
                row = measure_alone(label, (own or other)[case], Target(), pairs)
            rows.append(per_launch(row))
    return rows


def is_installed(name: str) -> bool:
    """Tell whether a module can be imported."""
    return importlib.util.find_spec(name) is not None


def main() -> int:
    """Run the chosen cases and print the table."""
    arguments = options(str(__doc__).partition("\n")[0]).parse_args()
    facts = machine()
    print_machine(facts)
    rows = measured(load_peer() if is_installed("warp") or arguments.peer_only else None, arguments)
    print_table(rows)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
