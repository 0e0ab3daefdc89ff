"""Kernels of tiles and of blocks: on a processor a block is one thread, and blocks never share a vector register."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from grad.build import values
from grad.corpus import CASES
from support.lanes import VARIABLE

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.ir.nodes import walk
from diffkern.ir.ops.table import all_ops
from diffkern.ir.types import Tile
from diffkern.kernels.kernel import Kernel
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.targets.cpu import object_code
from diffkern.targets.cpu.kernel import emit_kernel
from diffkern.targets.cpu.lanes.choice import chosen
from diffkern.targets.target import Settings

SINGLE = {"tiles.from_threads"}
"""Cases of tiles that have one element for each thread."""
TILES = [name for name in CASES if name.startswith("tiles.") and name not in SINGLE]
EACH = [
    "tiles.position_of_the_greatest", "tiles.running_extrema", "tiles.cholesky_upper", "tiles.sorted_by_keys",
    "tiles.shared_weights", "tiles.changed_through_views", "tiles.slices_by_indices", "tiles.fourier_transforms",
]  # fmt: skip
"""Cases that have, with their adjoints, every operation on tiles."""
WHY = "threads do not run in lanes: each is a block that works on tiles"
CHOSEN = (True,) if os.environ.get(VARIABLE) == "off" else (None, True)
"""The options with which there is a choice: ``--lanes off`` takes away that of programs that say nothing."""


def _programs(name):
    """The forward and the adjoint of a case."""
    case = CASES[name]
    types = Kernel(case.function).argument_types(*values(case))
    forward = Compilation(case.function, types)
    yield forward
    yield Compilation(case.function, types, Variant(active=frozenset(range(len(types)))), lowered=forward.primal)


def _has_tiles(compilation):
    """Whether a program has tiles of a block with several elements."""
    types = (v.type for op in walk(compilation.fn.body) for v in (*op.operands, *op.results))
    return any(isinstance(t, Tile) and not t.own and t.size > 1 for t in types)


@pytest.mark.parametrize("name", TILES)
def test_blocks_that_work_on_tiles_run_one_by_one(name):
    isa = object_code.machine("native").isa
    forward, adjoint = _programs(name)
    assert _has_tiles(forward)
    for compilation in filter(_has_tiles, (forward, adjoint)):
        fn = compilation.lowered()
        for lanes in CHOSEN:
            assert str(chosen(fn, Settings(lanes=lanes), isa)) == WHY


def test_programs_of_tiles_are_those_without_lanes():
    """So what they compute is equal to the last bit, whatever the operation."""
    isa, seen = object_code.machine("native").isa, set()
    for compilation in (program for name in EACH for program in _programs(name)):
        seen.update(op.name for op in walk(compilation.fn.body))
        fn = compilation.lowered()
        default, alone = (emit_kernel(fn, "k", isa, Settings(lanes=lanes)) for lanes in (None, False))
        assert default.text == alone.text
    assert {row.name for row in all_ops().values() if row.family == "tile"} - seen == set()


def softmax(x: dk.array2d(dtype=float), y: dk.array2d(dtype=float)):
    i, _thread = dk.tid()
    row = dk.tile_load(x[i], shape=70)
    e = dk.tile_map(dk.exp, row - dk.tile_max(row)[0])
    dk.tile_store(y[i], e / dk.tile_sum(e)[0])


def test_a_launch_of_blocks_and_its_report():
    x = np.random.default_rng(3).normal(size=(40, 70)).astype(np.float32)
    found = []
    for lanes in (None, False):
        kernel = dk.kernel(softmax, lanes=lanes)
        a, y = dk.array(x, requires_grad=True), dk.zeros((40, 70), dtype=float, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch_tiled(kernel, dim=40, inputs=[a], outputs=[y], block_dim=64)
        tape.backward(grads={y: dk.array(np.cos(x))})
        found.append((y.numpy(), a.grad.numpy()))
        if lanes in CHOSEN:
            assert kernel.report(a, y).startswith(f"{WHY}\n")
            assert kernel.report(a, y, adjoint=True).startswith(f"{WHY}\n")
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found[0][0], e / e.sum(axis=1, keepdims=True), rtol=1e-5)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def own_numbers(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
    i = dk.tid()
    total = dk.untile(dk.tile(x[i]))
    for _k in range(n):
        total = 0.5 * total + dk.sin(total)
    y[i] = total


def own_array(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
    i = dk.tid()
    kept = dk.zeros(4, dtype=float)
    for k in range(n):
        kept[k % 4] = kept[(k + 1) % 4] + dk.sin(x[i])
    y[i] = kept[0]


@pytest.mark.parametrize("function", [own_numbers, own_array])
def test_what_each_thread_has_of_its_own_is_no_tile_of_a_block(function):
    """Tiles of one element for each thread, and a thread's arrays."""
    types = Kernel(function).argument_types(dk.zeros(3, dtype=float), 5, dk.zeros(3, dtype=float))
    fn = Compilation(function, types).lowered()
    assert not fn.tiled
    assert chosen(fn, Settings(lanes=True), object_code.machine("native").isa).lanes > 1


def summed_by_blocks(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    shared = dk.shared_array(shape=8, dtype=float)
    t = dk.thread_index()
    shared[t] = x[dk.tid()]
    dk.syncthreads()
    if t == 0:
        for k in range(8):
            dk.atomic_add(y, 0, shared[k])


def test_blocks_of_threads_run_one_by_one():
    types = Kernel(summed_by_blocks).argument_types(dk.zeros(3, dtype=float), dk.zeros(3, dtype=float))
    fn = Compilation(summed_by_blocks, types).lowered()
    found = chosen(fn, Settings(lanes=True), object_code.machine("native").isa)
    assert str(found) == "threads do not run in lanes: each is a whole block of threads"


def test_the_benchmark_has_every_function_of_tiles():
    """Those in place are measured by their operators, and a slice by its index; queries search, and are no lanes."""
    text = (Path(__file__).parents[3] / "benchmarks/tile_kernels.py").read_text(encoding="utf-8")
    others = {"tile_add_inplace", "tile_sub_inplace", "tile_slice_indexed", "tile_empty"}
    names = {name for name in INTRINSICS if name.startswith("tile") or name == "untile"}
    names -= {name for name in names if "query" in name}
    assert names - set(re.findall(r"\bm\.(\w+)\(", text)) == others
    assert all(part in text for part in ("s += t", "s -= t", "t[at, :]"))
