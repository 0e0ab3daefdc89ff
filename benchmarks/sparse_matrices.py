"""Compare operations on sparse matrices with Warp on the CPU and with SciPy, in interleaved runs.

    python benchmarks/sparse_matrices.py [--quick] [--cpu] [products] [assembly] [matrices]

The medians of seven rounds, with ``--cpu`` of the time of all processors, which other programs disturb less. Matrices
have five entries in each row, in float64. What is not installed has no rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness import (
    Row,
    few_options,
    machine,
    measure_beside,
    print_machine,
    print_table,
    rounds_of,
    save_json,
    version_of,
)

import diffkern as dk
from diffkern import sparse as ours

try:
    import warp as wp
    from warp import sparse as theirs
except ImportError:
    wp = theirs = None

Call = Callable[[], Any]
Case = tuple[str, list[Call | None], int]
SIZES = (100, 10_000, 1_000_000)
SIDES = ("diffkern", "warp", "scipy")
KINDS = ("products", "assembly", "matrices")
ROUNDS = 7


def triplets(n: int) -> tuple[Any, Any, Any]:
    """Return rows, columns and values, in no order."""
    rng = np.random.default_rng(n)
    rows, order = np.repeat(np.arange(n, dtype=np.int32), 5), rng.permutation(5 * n)
    return rows[order], rng.integers(0, n, 5 * n, dtype=np.int32), rng.random(5 * n)


def warp_matrix(n: int, held: tuple[Any, Any, Any]) -> Any:
    """Return Warp's matrix of some triplets, or None."""
    if wp is None:
        return None
    rows, columns, values = held
    dtype = wp.float64 if values.ndim == 1 else wp.mat33d
    made = theirs.bsr_from_triplets(n, n, wp.array(rows), wp.array(columns), wp.array(values, dtype=dtype))
    made.nnz_sync()
    return made


def products(n: int, count: int) -> Iterator[Case]:
    """Products with a vector: called, in a record, transposed, and with blocks."""
    held = triplets(n)
    known = sp.coo_matrix((held[2], held[:2]), shape=(n, n)).tocsr()
    a, w = ours.from_scipy(known), warp_matrix(n, held)
    x = np.random.default_rng(1).random(n)
    dx, dy = dk.array(x), dk.zeros(n, dtype=dk.float64)
    wx, wy = (wp.array(x), wp.zeros(n, dtype=wp.float64)) if wp else (None, None)
    with dk.record() as sequence:
        ours.bsr_mv(a, dx, dy)
    mv = w and (lambda: theirs.bsr_mv(w, wx, wy))
    yield f"product with a vector, {n} rows", [lambda: ours.bsr_mv(a, dx, dy), mv, lambda: known @ x], count
    yield f"product with a vector in a record, {n} rows", [sequence.replay, mv, lambda: known @ x], count
    turned = w and (lambda: theirs.bsr_mv(w, wx, wy, transpose=True))
    calls = [lambda: ours.bsr_mv(a, dx, dy, transpose=True), turned, lambda: known.T @ x]
    yield f"product with the transposed matrix, {n} rows", calls, count
    if n > 10_000:
        return
    rows, columns, _ = held
    blocks = np.random.default_rng(2).random((5 * n, 3, 3))
    dtype, vector = dk.types.matrix((3, 3), dk.float64), dk.types.vector(3, dk.float64)
    b = ours.bsr_from_triplets(n, n, dk.array(rows), dk.array(columns), dk.array(blocks, dtype=dtype))
    b.nnz_sync()
    v, flat = warp_matrix(n, (rows, columns, blocks)), ours.to_scipy(b)
    x3 = np.random.default_rng(3).random((n, 3))
    bx, by = dk.array(x3, dtype=vector), dk.zeros(n, dtype=vector)
    vx, vy = (wp.array(x3, dtype=wp.vec3d), wp.zeros(n, dtype=wp.vec3d)) if wp else (None, None)
    calls = [lambda: ours.bsr_mv(b, bx, by), v and (lambda: theirs.bsr_mv(v, vx, vy)), lambda: flat @ x3.ravel()]
    yield f"product with a vector, blocks of 3 x 3, {n} rows", calls, count


def assembly(n: int, count: int) -> Iterator[Case]:
    """Matrices from triplets, and new values in the same pattern."""
    rows, columns, values = held = triplets(n)
    dr, dc, dv = map(dk.array, held)
    a = ours.bsr_zeros(n, n, dk.float64)
    k = ours.bsr_zeros(n, n, dk.float64)
    mapping = ours.bsr_set_from_triplets(k, dr, dc, dv, prune_numerical_zeros=False, build_mapping=True)
    build, put = None, None
    if wp is not None:
        wr, wc, wv = wp.array(rows), wp.array(columns), wp.array(values)
        w, m = theirs.bsr_zeros(n, n, wp.float64), theirs.bsr_zeros(n, n, wp.float64)
        known = theirs.bsr_set_from_triplets(m, wr, wc, wv, prune_numerical_zeros=False, build_mapping=True)
        build = partial(theirs.bsr_set_from_triplets, w, wr, wc, wv)
        put = partial(theirs.bsr_set_from_mapped_values, m, known, wv)
    calls: list[Call | None] = [
        lambda: ours.bsr_set_from_triplets(a, dr, dc, dv), build,
        lambda: sp.coo_matrix((values, (rows, columns)), shape=(n, n)).tocsr(),
    ]  # fmt: skip
    yield f"assembly, {5 * n} triplets", calls, max(count // 10, 1)
    yield f"new values, {5 * n} triplets", [lambda: ours.bsr_set_values(k, mapping, dv), put, None], max(count // 10, 1)


def matrices(n: int, count: int) -> Iterator[Case]:
    """Products, sums and copies of matrices."""
    held = triplets(n)
    known = sp.coo_matrix((held[2], held[:2]), shape=(n, n)).tocsr()
    a, w = ours.from_scipy(known), warp_matrix(n, held)
    work = ours.bsr_mm_work_arrays()
    z = ours.bsr_mm(a, a, work_arrays=work)
    again = None
    if w is not None:
        held_work = theirs.bsr_mm_work_arrays()
        wz = theirs.bsr_mm(w, w, work_arrays=held_work)
        again = partial(theirs.bsr_mm, w, w, wz, work_arrays=held_work, reuse_topology=True)
    count = max(count // 20, 1)
    yield (
        f"product of matrices, {n} rows",
        [lambda: ours.bsr_mm(a, a), w and (lambda: theirs.bsr_mm(w, w)), lambda: known @ known],
        count,
    )
    calls = [lambda: ours.bsr_mm(a, a, z, work_arrays=work, reuse_topology=True), again, None]
    yield f"product of matrices with its pattern, {n} rows", calls, count
    calls = [lambda: ours.bsr_transposed(a), w and (lambda: theirs.bsr_transposed(w)), known.T.tocsr]
    yield f"transposed matrix, {n} rows", calls, count
    yield f"sum, {n} rows", [lambda: a + a, w and (lambda: w + w), lambda: known + known], count
    yield f"copy, {n} rows", [lambda: ours.bsr_copy(a), w and (lambda: theirs.bsr_copy(w)), known.copy], count


def measured(chosen: argparse.Namespace) -> Iterator[Row]:
    """Measure the operations that are asked for."""
    clock = time.process_time if chosen.cpu else time.perf_counter
    rounds = rounds_of(chosen, ROUNDS, ROUNDS)
    for kind in chosen.kinds or KINDS:
        for n in SIZES[:1] if chosen.quick else SIZES:
            for name, calls, count in globals()[kind](n, 300 if n <= 100 else 60 if n <= 10_000 else 3):
                if chosen.only in name:
                    yield from measure_beside(name, dict(zip(SIDES, calls, strict=True)), rounds, clock, count)


def main() -> int:
    """Run the chosen operations and print the table."""
    parser = few_options(str(__doc__))
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all by default")
    parser.add_argument("--cpu", action="store_true", help="the time of all processors")
    chosen = parser.parse_args()
    facts = {**machine(), "scipy": version_of("scipy")}
    print_machine(facts)
    if wp is not None:
        wp.config.quiet = True
    rows = list(measured(chosen))
    print_table(rows)
    if chosen.json:
        save_json(chosen.json, facts, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
