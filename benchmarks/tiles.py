"""Measure tiles on the CPU: operations and a network beside Warp's tiles, matrix products beside NumPy's,
attention beside PyTorch's.

In: nothing but the command line. Out: a table (and a JSON file) of processor time on one thread. Kernels are written
once for both modules and get the same numbers. Each operation is measured in a kernel as it is, in the same one with
``lanes=False``, and in Warp, in turn, forward and with the adjoint on a tape. ``--size`` sets the rows and columns of
their tiles, and ``--unpacked`` writes ``i, _ = tid()`` in them for ``i = tid()``. So few elements as in blocks of 8 x 8
measure launches; small tiles take as many more blocks.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("DIFFKERN_NUM_THREADS", "1")

import numpy as np
from harness import (
    Row,
    Target,
    Work,
    WrongResult,
    check_agreement,
    exit_status,
    load_peer,
    machine,
    measure_in_turn,
    options,
    print_machine,
    print_table,
    rounds_of,
    row_of_pairs,
    save_json,
)
from tile_kernels import Case, attention, cases

import diffkern as dk

BATCH, INPUTS, HIDDEN, OUTPUTS = 32, 64, 64, 32
FASTER, CLOSE, AT_LEAST = Target(at_least=5.0), Target(at_least=1.0 / 3.0), Target(at_least=1.0)
BLOCKS = 256
"""Of tiles of 32 x 32; of others the number that makes arrays as large, from 4 on."""
HEADS = 64


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


def attention_rows(pairs: int) -> list[Row]:
    """Rows of attention in tiles beside PyTorch's kernel; none without PyTorch."""
    try:
        import torch
    except ImportError:
        return []
    torch.set_num_threads(1)
    kernel, n = attention(dk, 64), 64
    rng = np.random.default_rng(2)
    values = [rng.standard_normal((HEADS, n, n)).astype(np.float32) for _ in range(4)]
    own: Any = [dk.array(v, dtype=float, requires_grad=True) for v in values[:3]]
    out, seed = dk.zeros((HEADS, n, n), dtype=float, requires_grad=True), dk.array(values[3], dtype=float)
    theirs: Any = [torch.tensor(v[None], requires_grad=True) for v in values[:3]]
    result, cotangent = [torch.empty(0)], torch.tensor(values[3][None])

    def launch() -> None:
        dk.launch_tiled(kernel, dim=[HEADS], inputs=[*own, out, n**-0.5], block_dim=64)

    def differentiate() -> None:
        tape = dk.Tape()
        with tape:
            launch()
        tape.backward(grads={out: seed})

    def clear() -> None:
        for a in (*own, out):
            a.grad.zero_()

    def forget() -> None:
        for x in theirs:
            x.grad = None

    def attend() -> None:
        result[0] = torch.nn.functional.scaled_dot_product_attention(*theirs)

    def attend_and_back() -> None:
        attend()
        result[0].backward(cotangent)

    def found(differentiated: bool) -> dict[str, Any]:
        gradients = {f"gradient {k}": a.grad.numpy() for k, a in enumerate(own) if differentiated}
        return {"output": out.numpy(), **gradients}

    def expected(differentiated: bool) -> dict[str, Any]:
        gradients = {f"gradient {k}": x.grad.numpy()[0] for k, x in enumerate(theirs) if differentiated}
        return {"output": result[0].detach().numpy()[0], **gradients}

    rows = []
    ways = ("attention 64x64 forward", attend, launch), ("attention 64x64 and adjoint", attend_and_back, differentiate)
    for differentiated, (name, top, bottom) in enumerate(ways):
        there = Work("torch", top, forget, partial(expected, bool(differentiated)))
        here = Work("diffkern", bottom, clear, partial(found, bool(differentiated)))
        rows.append(replace(compared(name, there, here, AT_LEAST, pairs), only="attention"))
    return rows


class Operation:
    """One module's kernel of an operation, with its arrays."""

    def __init__(self, name: str, case: Case, m: Any, kernel: Any) -> None:
        self.name, self.case, self.m, self.kernel = name, case, m, case.make(m, kernel)
        rng = np.random.default_rng(0)
        shapes = ((case.shape, case.given), *case.more)
        self.blocks = BLOCKS if case.shape[-1] == 1 else max(4, BLOCKS * 32 * 32 // int(np.prod(case.shape)))
        self.arrays = [self.array(make(rng, (self.blocks, *shape)), case.adjoint) for shape, make in shapes]
        zero = np.zeros((self.blocks, *case.out), dtype=int if case.integer else float)
        self.out = self.array(zero, case.adjoint)
        self.seed = self.array(np.random.default_rng(1).normal(size=zero.shape), False) if case.adjoint else None

    def array(self, values: Any, differentiable: bool) -> Any:
        if values.dtype.kind in "iu":
            return self.m.array(values.astype(np.int32), dtype=int)
        dtype = self.m.vec2 if self.case.complex else float
        return self.m.array(values.astype(np.float32), dtype=dtype, requires_grad=differentiable)

    def launch(self) -> None:
        self.m.launch_tiled(self.kernel, dim=[self.blocks], inputs=self.arrays, outputs=[self.out], block_dim=64)

    def differentiate(self) -> None:
        tape = self.m.Tape()
        with tape:
            self.launch()
        tape.backward(grads={self.out: self.seed})

    def clear(self) -> None:
        self.out.zero_()
        for a in (*self.arrays, self.out):
            if a.requires_grad:
                a.grad.zero_()

    def value(self) -> dict[str, Any]:
        return {} if self.case.random else {"output": self.out.numpy()}

    def gradient(self) -> dict[str, Any]:
        return {"gradient": self.arrays[0].grad.numpy()}

    def work(self, differentiated: bool) -> Work:
        if differentiated:
            return Work(self.name, self.differentiate, self.clear, self.gradient)
        return Work(self.name, self.launch, self.clear, self.value, calls=3)


def operations(peer: Any, chosen: Sequence[Case], only: str, pairs: int) -> tuple[list[Row], list[Row]]:
    """Rows of Warp's and of ``lanes=False``'s time over ours, for each operation, forward and with the adjoint."""
    beside_peer, beside_alone = [], []
    for case in (case for case in chosen if only in f"operation {case.name}"):
        warp = Operation("warp", case, peer, partial(peer.kernel, module="unique"))
        own, alone = (Operation(name, case, dk, dk.kernel(lanes=lanes)) for name, lanes in WAYS)
        for differentiated in (False, True)[: 1 + case.adjoint]:
            works = [one.work(differentiated) for one in (own, warp, alone)]
            name = f"{case.name}{' and adjoint' * differentiated}"
            check_agreement(works[2], works[0], 0.0)
            error = disagreement(works[1], works[0])
            times = measure_in_turn(works, pairs, clock=time.process_time)
            row = row_of_pairs(name, "warp", "diffkern", times[1], times[0], AT_LEAST)
            row.only = f"operation {case.name}"
            beside_peer.append(replace(row, target=Target(), name=f"{name} ({error})", unlike=error) if error else row)
            beside_alone.append(row_of_pairs(name, "lanes=False", "diffkern", times[2], times[0], Target()))
    return beside_peer, beside_alone


WAYS = (("diffkern", None), ("lanes=False", False))


def disagreement(theirs: Work, own: Work) -> str:
    """What is to be said of a result of Warp's that is not ours: some of its gradients are zero."""
    try:
        check_agreement(theirs, own, 3e-3)
    except WrongResult:
        zero = not any(np.any(a) for a in theirs.results().values())
        return "zero in Warp" if zero else "another result in Warp"
    return ""


def compared(name: str, top: Work, bottom: Work, target: Target, pairs: int) -> Row:
    """Check that both compute the same, then time them in turn."""
    check_agreement(top, bottom, 1e-3)
    times = measure_in_turn((top, bottom), pairs, clock=time.process_time)
    return row_of_pairs(name, top.name, bottom.name, *times, target)


def without_lanes(rows: Sequence[Row]) -> str:
    """How far the times with ``lanes=False`` are from those without."""
    ratios = sorted(row.ratio_median for row in rows)
    middle = ratios[len(ratios) // 2]
    return f"the same with lanes=False: {middle:.2f} in the median, {ratios[0]:.2f} to {ratios[-1]:.2f}"


def main() -> int:
    """Run the chosen cases and print the table."""
    parser = options(str(__doc__).partition("\n")[0])
    parser.add_argument("--size", type=int, default=32, help="rows and columns of the tiles of operations")
    parser.add_argument("--unpacked", action="store_true", help="operations with i, _ = tid()")
    arguments = parser.parse_args()
    pairs = rounds_of(arguments, 25, 5)
    facts = machine()
    print_machine(facts)
    rows: list[Row] = []
    peer = load_peer()
    blocks = 1024  # a launch of a few milliseconds: shorter ones measure the scheduler of a busy machine
    if arguments.only in "network forward adjoint":
        networks = Network("warp", peer, blocks), Network("diffkern", dk, blocks)
        for name, differentiated in (("network forward", False), ("network forward+adjoint", True)):
            row = compared(name, *(one.work(differentiated) for one in networks), FASTER, pairs)
            rows.append(replace(row, only="network"))
    for size in (16, 32, 64, 128):
        name = f"product {size}x{size}x{size}"
        if arguments.only in name:
            rows.append(compared(name, *product(size, max(1, 50_000_000 // size**3)), CLOSE, pairs))
    if arguments.only in "attention 64x64 forward adjoint":
        rows += attention_rows(pairs)
    beside_peer, beside_alone = operations(peer, cases(arguments.size, arguments.unpacked), arguments.only, pairs)
    rows += beside_peer
    print_table(rows)
    if beside_alone:
        print(f"\n{without_lanes(beside_alone)}")
    rows += beside_alone
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
