"""Measure tiles on the CPU: a network's forward and adjoint against Warp's tiles, matrix products against NumPy.

In: nothing but the command line. Out: a table (and a JSON file). Both networks are the same kernel, written once for
each module, on the same numbers; NumPy's product runs on one thread, as the kernel with its single block does.
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from harness import (
    Row,
    Target,
    Work,
    check_agreement,
    exit_status,
    load_peer,
    machine,
    measure_pair,
    options,
    print_machine,
    print_table,
    save_json,
)

import diffkern as dk

BATCH, INPUTS, HIDDEN, OUTPUTS = 32, 64, 64, 32
FASTER, CLOSE = Target(at_least=5.0), Target(at_least=1.0 / 3.0)


def network(m: Any) -> Any:
    """The kernel of a block of digits through two layers, for a module with Warp's names."""
    rows, inputs, hidden, outputs = (m.constant(n) for n in (BATCH, INPUTS, HIDDEN, OUTPUTS))

    @m.func
    def relu(x: float):
        return m.max(x, 0.0)

    @m.kernel
    def squares(
        x: m.array2d(dtype=float), wanted: m.array2d(dtype=float), w1: m.array2d(dtype=float),
        w2: m.array2d(dtype=float), loss: m.array(dtype=float),
    ):  # fmt: skip
        i, _j = m.tid()
        a = m.tile_load(x, shape=(rows, inputs), offset=(i * rows, 0))
        first = m.tile_load(w1, shape=(inputs, hidden))
        second = m.tile_load(w2, shape=(hidden, outputs))
        h = m.tile_map(relu, m.tile_matmul(a, first))
        e = m.tile_matmul(h, second) - m.tile_load(wanted, shape=(rows, outputs), offset=(i * rows, 0))
        m.tile_atomic_add(loss, m.tile_sum(m.tile_map(m.mul, e, e)))

    return squares


class Network:
    """One module's network with its arrays."""

    def __init__(self, name: str, m: Any, blocks: int) -> None:
        self.name, self.m, self.blocks, self.kernel = name, m, blocks, network(m)
        rng = np.random.default_rng(0)
        shapes = ((blocks * BATCH, INPUTS), (blocks * BATCH, OUTPUTS), (INPUTS, HIDDEN), (HIDDEN, OUTPUTS))
        values = [(0.3 * rng.standard_normal(shape)).astype(np.float32) for shape in shapes]
        self.arrays = [m.array(v, dtype=float, requires_grad=k > 1) for k, v in enumerate(values)]
        self.loss = m.zeros(1, dtype=float, requires_grad=True)

    def launch(self) -> None:
        inputs = [*self.arrays, self.loss]
        self.m.launch_tiled(self.kernel, dim=[self.blocks, 1], inputs=inputs, block_dim=64)

    def differentiate(self) -> None:
        tape = self.m.Tape()
        with tape:
            self.launch()
        tape.backward(self.loss)

    def clear(self) -> None:
        self.loss.zero_()
        for weight in self.arrays[2:]:
            weight.grad.zero_()

    def value(self) -> dict[str, Any]:
        return {"loss": self.loss.numpy()}

    def gradients(self) -> dict[str, Any]:
        gradients = {f"gradient of w{k + 1}": w.grad.numpy() for k, w in enumerate(self.arrays[2:])}
        return {**self.value(), **gradients}

    def work(self, differentiated: bool) -> Work:
        if differentiated:
            return Work(self.name, self.differentiate, self.clear, self.gradients)
        return Work(self.name, self.launch, self.clear, self.value)


def product(size: int, repeats: int) -> tuple[Work, Work]:
    """Repeated products of two square tiles, added up; NumPy's and a kernel's."""
    n = dk.constant(size)

    @dk.kernel(enable_backward=False)
    def products(a: dk.array2d(dtype=float), b: dk.array2d(dtype=float), c: dk.array2d(dtype=float), count: int):
        x = dk.tile_load(a, shape=(n, n))
        y = dk.tile_load(b, shape=(n, n))
        total = dk.tile_zeros(shape=(n, n), dtype=float)
        for _k in range(count):
            dk.tile_matmul(x, y, total)
        dk.tile_store(c, total)

    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    own, theirs, part = np.zeros_like(a), np.zeros_like(a), np.zeros_like(a)

    def with_numpy() -> None:
        theirs.fill(0.0)
        for _ in range(repeats):
            np.matmul(a, b, out=part)
            np.add(theirs, part, out=theirs)

    top = Work("numpy", with_numpy, results=lambda: {"c": theirs})
    return top, Work("diffkern", lambda: products[1](a, b, own, repeats), results=lambda: {"c": own})


def compared(name: str, top: Work, bottom: Work, target: Target, pairs: int) -> Row:
    """Check that both compute the same, then time them in turn."""
    check_agreement(top, bottom, 1e-3)
    return measure_pair(name, top, bottom, target, pairs)


def main() -> int:
    """Run the chosen cases and print the table."""
    arguments = options(str(__doc__).partition("\n")[0]).parse_args()
    pairs = 5 if arguments.quick else 25
    facts = machine()
    print_machine(facts)
    rows: list[Row] = []
    blocks = 1024  # a launch of a few milliseconds: shorter ones measure the scheduler of a busy machine
    if arguments.only in "network forward adjoint":
        peer, own = Network("warp", load_peer(), blocks), Network("diffkern", dk, blocks)
        for name, differentiated in (("network forward", False), ("network forward+adjoint", True)):
            rows.append(compared(name, peer.work(differentiated), own.work(differentiated), FASTER, pairs))
    for size in (16, 32, 64, 128):
        name = f"product {size}x{size}x{size}"
        if arguments.only in name:
            rows.append(compared(name, *product(size, max(1, 50_000_000 // size**3)), CLOSE, pairs))
    print_table(rows)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
