"""Tiles for blocks of threads: barriers where they are needed, memory that is shared, code for GPUs."""

from __future__ import annotations

import pytest
from conftest import require

import diffkern as dk
from diffkern.errors import CompileError
from diffkern.ir.nodes import Function, walk
from diffkern.ir.verify import verify
from diffkern.passes.tile_blocks import lower_tiles_for_blocks
from diffkern.pipeline import adjoint_ir, forward_ir

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)


def lowered(kernel: dk.Kernel) -> Function:
    fn = lower_tiles_for_blocks(forward_ir(kernel.func, kernel.argument_types(), {}))
    verify(fn)
    return fn


def count(fn: Function, name: str) -> int:
    return sum(op.name == name for op in walk(fn.body))


@dk.kernel
def copy(x: f1, y: f1):
    i = dk.tid()
    dk.tile_store(y, dk.tile_load(x, shape=64, offset=i * 64), offset=i * 64)


@dk.kernel
def product(a: f2, b: f2, c: f2, n: int):
    i, j = dk.tid()
    total = dk.tile_zeros(shape=(16, 16), dtype=float)
    for k in range(n):
        x = dk.tile_load(a, shape=(16, 8), offset=(i * 16, k * 8))
        y = dk.tile_load(b, shape=(8, 16), offset=(k * 8, j * 16))
        dk.tile_matmul(x, y, total)
    dk.tile_store(c, total, offset=(i * 16, j * 16))


def test_one_barrier_between_a_load_and_a_store() -> None:
    assert count(lowered(copy), "barrier") == 1


def test_barriers_of_a_product() -> None:
    fn = lowered(product)
    (loop,) = [op for op in fn.body.ops if op.name == "for" and any(r.name == "barrier" for r in walk(op.regions[0]))]
    # After both loads, and at the end of a trip, before the next one loads into the same memory.
    assert sum(op.name == "barrier" for op in walk(loop.regions[0])) == 2


def test_memory_is_shared_and_small() -> None:
    arrays = [op for op in walk(lowered(product).body) if op.name == "shared_new"]
    assert sorted(op.attrs["shape"][0] for op in arrays) == [128, 128, 256]


def test_tiles_beyond_a_block_are_refused_with_name_and_bytes() -> None:
    @dk.kernel
    def large(x: f2, y: f2):
        table = dk.tile_load(x, shape=(128, 128))
        dk.tile_store(y, dk.tile_transpose(table) @ table)

    with pytest.raises(CompileError, match=r"196608 bytes.*49152.*with 65536 bytes"):
        lowered(large)


def test_returned_old_values_of_atomics_are_refused() -> None:
    @dk.kernel
    def counting(y: f1, n: dk.array(dtype=int)):
        k = dk.atomic_add(n, 0, 1)
        dk.tile_store(y, dk.tile_ones(shape=4), offset=k * 4)

    with pytest.raises(CompileError, match="returns is used"):
        lowered(counting)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_cubins_of_forward_and_adjoint(arch: str) -> None:
    require("cuda.bindings")
    from diffkern.backends.cuda import compile_function

    types = product.argument_types()
    forward = compile_function(forward_ir(product.func, types, {}), "forward", arch=arch)
    assert forward.shared_bytes == 4 * (128 + 128 + 256)
    d = adjoint_ir(product.func, types, frozenset({0, 1, 2}), {"target": arch})
    adjoint = compile_function(d.fn, "adjoint", arch=arch)
    assert len(adjoint.cubin) > 1000


@dk.kernel
def square(x: f2, y: f2):
    t = dk.tile_load(x, shape=(96, 96))
    dk.tile_store(y, dk.tile_transpose(t) + t)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_tiles_beyond_static_memory_are_asked_for_at_the_launch(arch: str) -> None:
    require("cuda.bindings")
    from diffkern.backends.cuda import compile_function

    made = compile_function(forward_ir(square.func, square.argument_types(), {}), "large", arch=arch)
    assert made.dynamic_shared_bytes == 2 * 96 * 96 * 4
    assert made.shared_bytes == 0
    assert ".extern .shared .align 16" in made.ptx
    assert len(made.cubin) > 1000


@pytest.mark.parametrize(("arch", "limit"), [("sm_75", 64), ("sm_86", 99), ("sm_90", 227)])
def test_tiles_beyond_the_architecture_are_refused(arch: str, limit: int) -> None:
    require("cuda.bindings")
    from diffkern.backends.cuda import compile_function

    @dk.kernel
    def huge(x: f2, y: f2):
        table = dk.tile_load(x, shape=(192, 192))
        dk.tile_store(y, dk.tile_transpose(table) + table)

    with pytest.raises(CompileError, match=rf"and a block has {limit << 10}; the largest is \w+ with 147456 bytes"):
        compile_function(forward_ir(huge.func, huge.argument_types(), {}), "huge", arch=arch)
