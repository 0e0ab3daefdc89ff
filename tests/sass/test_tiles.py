"""Kernels of tiles as machine code: a block's memory is the peak of its tiles, and barriers are where they must be.

What is in the cubin is compared with what the lowering planned, and that with numbers worked out by hand.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest
from conftest import require

import diffkern as dk
from diffkern.analysis.blocks import shared_bytes
from diffkern.compiler.compilation import Compilation
from diffkern.compiler.program import Program as CompiledProgram
from diffkern.contracts.options import Variant
from diffkern.ir.nodes import Function, walk
from diffkern.lower.tiles.block import lower_tiles_for_blocks
from diffkern.targets.cuda import disassembler, sass
from diffkern.targets.cuda.cubin import resources

require("cuda.bindings.nvjitlink", "nvidia")

ARCH = "sm_90"
STATIC = 48 << 10
SUM = 32 * 4  # a float32 for each warp of a block
f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)


@dk.kernel
def copy(x: f1, y: f1):
    i = dk.tid()
    dk.tile_store(y, dk.tile_load(x, shape=1024, offset=i * 1024), offset=i * 1024)


@dk.kernel
def scaled(x: f1, s: float, y: f1):
    i = dk.tid()
    dk.tile_store(y, dk.tile_load(x, shape=256, offset=i * 256) * s, offset=i * 256)


@dk.kernel
def chain(x: f2, y: f2):
    i = dk.tid()
    t = dk.tile_load(x, shape=(32, 32), offset=(i * 32, 0))
    a = dk.tile_transpose(t) + t
    b = dk.tile_transpose(a) * a
    c = dk.tile_transpose(b) - b
    dk.tile_store(y, dk.tile_transpose(c) + c, offset=(i * 32, 0))


@dk.kernel
def power(x: f2, y: f2, n: int):
    t = dk.tile_load(x, shape=(16, 16))
    p = dk.tile_ones(shape=(16, 16), dtype=float)
    for _ in range(n):
        p = dk.tile_transpose(p) * t
    dk.tile_store(y, p)


@dk.kernel
def large(x: f2, y: f2):
    t = dk.tile_load(x, shape=(112, 112))
    dk.tile_store(y, dk.tile_transpose(t) + t)


KERNELS = (copy, scaled, chain, power, large)
CASES = [(kernel, direction) for kernel in KERNELS for direction in ("forward", "adjoint")]


@dataclass(frozen=True)
class Compiled:
    """A program, and the function it was made of, lowered."""

    program: CompiledProgram
    lowered: Function
    code: sass.MachineCode

    @property
    def planned(self) -> int:
        return shared_bytes(self.lowered)

    @property
    def barriers(self) -> int:
        return sum(op.name == "barrier" for op in walk(self.lowered.body))


@functools.cache
def compiled(kernel: dk.Kernel, direction: str) -> Compiled:
    types = kernel.argument_types()
    active = None if direction == "forward" else frozenset(range(len(types)))
    compilation = Compilation(kernel.func, types, Variant(target=ARCH, active=active, may_alias=False))
    program, fn = compilation.build("kernel"), compilation.fn
    (code,) = disassembler.codes([program.object_code])
    return Compiled(program, lower_tiles_for_blocks(fn, 227 << 10), sass.join("kernel", code))


@pytest.mark.parametrize(("kernel", "direction"), CASES, ids=[f"{k.key} {d}" for k, d in CASES])
def test_shared_memory_is_what_was_planned(kernel: dk.Kernel, direction: str) -> None:
    made = compiled(kernel, direction)
    manifest = made.program.manifest
    sums = SUM * manifest.sites
    dynamic = made.planned if made.planned > STATIC else 0
    assert manifest.resources.shared_bytes == made.planned + sums
    assert manifest.resources.dynamic_shared_bytes == dynamic
    assert resources(made.program.object_code)["kernel"].shared_bytes == made.planned + sums - dynamic


TILE = 32 * 32 * 4


@pytest.mark.parametrize(
    ("kernel", "peak"),
    [
        (copy, 1024 * 4),
        (scaled, 256 * 4),  # what is loaded; what is stored is computed on the way
        (chain, 2 * TILE),  # of five tiles no more than two are needed at a time
        (power, 3 * 16 * 16 * 4),  # the factor, the product before and after a trip
        (large, 112 * 112 * 4),
    ],
    ids=lambda value: value.key if isinstance(value, dk.Kernel) else "",
)
def test_a_block_has_the_peak_of_its_tiles_not_their_sum(kernel: dk.Kernel, peak: int) -> None:
    assert compiled(kernel, "forward").planned == peak


@pytest.mark.parametrize(("kernel", "direction"), CASES, ids=[f"{k.key} {d}" for k, d in CASES])
def test_barriers_are_those_of_the_lowering(kernel: dk.Kernel, direction: str) -> None:
    """One more stands before a block's next round, and one where its sums are added up."""
    made = compiled(kernel, direction)
    wanted = made.barriers + 1 + bool(made.program.manifest.sites)
    assert sum(i.opcode.startswith("BAR.SYNC") for i in made.code.instructions) == wanted


@pytest.mark.parametrize(("kernel", "direction"), CASES, ids=[f"{k.key} {d}" for k, d in CASES])
def test_groups_of_elements_are_vectors(kernel: dk.Kernel, direction: str) -> None:
    accesses = {i.opcode.partition(".")[0] for i in compiled(kernel, direction).code.instructions if "128" in i.opcode}
    assert {"LDG", "STG", "LDS", "STS"} <= accesses


@pytest.mark.parametrize("kernel", [copy, scaled], ids=lambda k: k.key)
def test_threads_that_read_their_own_elements_do_not_wait(kernel: dk.Kernel) -> None:
    assert compiled(kernel, "forward").barriers == 0


@pytest.mark.parametrize(("kernel", "direction"), CASES, ids=[f"{k.key} {d}" for k, d in CASES])
def test_no_calls_no_wide_floats_and_nothing_spilled(kernel: dk.Kernel, direction: str) -> None:
    made = compiled(kernel, direction)
    # A call would be a division of 64 bits, as of the numbers of trips, where a sweep goes back over a loop.
    assert made.code.count("call") == 0
    assert made.code.count("float64") == 0
    assert made.program.manifest.resources.spill_bytes == 0
    assert made.code.count("shared")
