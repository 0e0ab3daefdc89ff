"""Tiles for blocks of threads: barriers where they are needed, memory that is shared, code for GPUs."""

from __future__ import annotations

import pytest
from conftest import require

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.errors import CompileError
from diffkern.ir.nodes import Function, walk
from diffkern.ir.verify import verify
from diffkern.lower.tiles.block import lower_tiles_for_blocks

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)


def lowered(kernel: dk.Kernel) -> Function:
    fn = lower_tiles_for_blocks(Compilation(kernel.func, kernel.argument_types()).forward)
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


@dk.kernel
def turned(x: f2, y: f2):
    dk.tile_store(y, dk.tile_transpose(dk.tile_load(x, shape=(16, 16))))


def test_no_barrier_where_threads_read_what_they_wrote() -> None:
    assert count(lowered(copy), "barrier") == 0


def test_one_barrier_where_threads_read_what_others_wrote() -> None:
    assert count(lowered(turned), "barrier") == 1


def test_threads_wait_between_arrays_that_may_overlap() -> None:
    fn = Compilation(copy.func, copy.argument_types()).forward
    assert count(lower_tiles_for_blocks(fn, may_alias=True), "barrier") == 1


def test_groups_of_neighbours_are_read_and_written_as_vectors() -> None:
    fn = lowered(turned)
    accesses = [op for op in walk(fn.body) if op.name in ("load", "store") and "aligned" in op.attrs]
    outside = [(op.name, op.attrs["aligned"]) for op in accesses if op.operands[0] in fn.params]
    assert outside == [(name, bytes_) for name in ("load", "store") for bytes_ in (16, 4, 8, 4)]
    assert {op.attrs["aligned"] for op in accesses if op.operands[0] not in fn.params} == {16, 4, 8}


def test_barriers_of_a_product() -> None:
    fn = lowered(product)
    (loop,) = [op for op in fn.body.ops if op.name == "for" and any(r.name == "barrier" for r in walk(op.regions[0]))]
    # After both loads, and at the end of a trip, before the next one loads into the same memory.
    assert sum(op.name == "barrier" for op in walk(loop.regions[0])) == 2


def test_a_tile_that_a_loop_carries_is_seen_by_all_threads_without_a_trip() -> None:
    @dk.kernel
    def turned(x: f2, y: f2, n: int):
        t = dk.tile_load(x, shape=(16, 16))
        u = dk.tile_zeros(shape=(16, 16), dtype=float)
        for _ in range(n):
            u += t
        dk.tile_store(y, dk.tile_transpose(u) + t)

    fn = lowered(turned)
    ops = [op for op in fn.body.ops if op.name in ("if", "for", "barrier")]
    loop = next(k for k, op in enumerate(ops) if op.name == "for" and op.operands[1] in fn.params)
    # The zeros are written here, and are read after it by other threads.
    assert [op.name for op in ops[loop - 2 : loop]] == ["for", "barrier"]


def test_memory_is_shared_and_small() -> None:
    arrays = [op for op in walk(lowered(product).body) if op.name == "shared_new"]
    assert sorted(op.attrs["shape"][0] for op in arrays) == [128, 128, 256]


def with_library(fn: Function) -> Function:
    out = lower_tiles_for_blocks(fn, library=lambda product: product.a != "float64")
    verify(out)
    return out


def products(fn: Function) -> list[tuple[str, str, str, bool]]:
    """Of each product of the library the layouts, types and whether it adds."""
    found = [op.attrs for op in walk(fn.body) if op.name == "buffer_product"]
    layouts = ["".join("t" if p[f"columns_{x}"] else "n" for x in "ab") for p in found]
    return [(layout, p["a"], p["c"], p["add"]) for layout, p in zip(layouts, found, strict=True)]


def test_a_product_of_the_library_reads_both_tiles_where_they_are_loaded() -> None:
    fn = with_library(Compilation(product.func, product.argument_types()).forward)
    assert products(fn) == [("nn", "float32", "float32", True)]
    assert sorted(op.attrs["shape"][0] for op in walk(fn.body) if op.name == "shared_new") == [128, 128, 256]
    (loop,) = [op for op in fn.body.ops if op.name == "for" and any(r.name == "barrier" for r in walk(op.regions[0]))]
    names = [op.name for op in loop.regions[0].ops if op.name in ("barrier", "buffer_product", "if")]
    assert names == ["barrier", "buffer_product", "barrier"]


def test_products_of_an_adjoint_are_transposed_where_they_lie() -> None:
    d = Compilation(
        product.func, product.argument_types(), Variant(active=frozenset({0, 1, 2}), target="sm_90")
    ).adjoint
    fn = with_library(d.fn)
    assert products(fn) == [("nt", "float32", "float32", False), ("tn", "float32", "float32", False)]
    # The gradient of one factor takes the place of the other factor, when that has been multiplied.
    assert sum(op.attrs["shape"][0] for op in walk(fn.body) if op.name == "shared_new") == 256 + 3 * 128


def test_layouts_and_types_of_products_of_the_library() -> None:
    @dk.kernel
    def several(x: f2, h: dk.array(dtype=dk.float16, ndim=2), y: f2):
        t = dk.tile_load(x, shape=(16, 16))
        s = dk.tile_load(h, shape=(16, 16))
        y2 = dk.tile_transpose(t) @ t
        dk.tile_matmul(s, dk.tile_transpose(s), y2)
        dk.tile_matmul(t, t, y2, precision="tf32")
        dk.tile_store(y, y2 + dk.tile_astype(s @ s, dtype=float))

    fn = with_library(Compilation(several.func, several.argument_types()).forward)
    assert products(fn) == [
        ("tn", "float32", "float32", False),
        ("nt", "float16", "float32", True),
        ("nn", "tf32", "float32", True),
        ("nn", "float16", "float32", False),
    ]
    assert count(fn, "buffer_matmul") == 0


def test_products_that_the_library_has_not_are_loops() -> None:
    @dk.kernel
    def double(x: dk.array(dtype=dk.float64, ndim=2), y: dk.array(dtype=dk.float64, ndim=2)):
        t = dk.tile_load(x, shape=(16, 16))
        dk.tile_store(y, t @ t)

    assert products(with_library(Compilation(double.func, double.argument_types()).forward)) == []


def test_a_result_does_not_take_the_place_of_a_factor() -> None:
    @dk.kernel
    def squares(x: f2, y: f2):
        t = dk.tile_load(x, shape=(16, 16))
        dk.tile_matmul(dk.tile_transpose(t), dk.tile_ones(shape=(16, 16), dtype=float), t)
        dk.tile_store(y, t)

    fn = with_library(Compilation(squares.func, squares.argument_types()).forward)
    (op,) = [op for op in walk(fn.body) if op.name == "buffer_product"]
    assert op.operands[0] not in op.operands[1:]


@dk.kernel
def summed(x: f1, y: f1):
    dk.tile_store(y, dk.tile_sum(dk.tile_load(x, shape=1024)))


@dk.kernel
def scanned(x: f1, y: f1):
    dk.tile_store(y, dk.tile_scan_inclusive(dk.tile_load(x, shape=1024)))


@dk.kernel
def factored(a: f2, f: f2):
    dk.tile_store(f, dk.tile_cholesky(dk.tile_load(a, shape=(16, 16))))


@dk.kernel
def solved(a: f2, y: f2):
    right = dk.tile_load(y, shape=(16, 8))
    dk.tile_store(y, dk.tile_lower_solve(dk.tile_load(a, shape=(16, 16)), right))


def barriers(fn: Function) -> tuple[int, int]:
    """How many stand in no loop, and in loops."""
    every = count(fn, "barrier")
    outside = sum(op.name == "barrier" for op in fn.body.ops)
    return outside, every - outside


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (summed, (1, 0)),  # before the sums of the warps are read
        (scanned, (3, 0)),  # of the tile, of the threads' sums, of the result
        (factored, (1, 2)),  # a column is put aside, and then used
        (solved, (1, 1)),  # an unknown is taken out of the rows that are left
    ],
    ids=lambda value: value.key if isinstance(value, dk.Kernel) else "",
)
def test_barriers_of_what_a_block_does_together(kernel: dk.Kernel, expected: tuple[int, int]) -> None:
    assert barriers(lowered(kernel)) == expected


@pytest.mark.parametrize(("kernel", "shuffles"), [(summed, True), (scanned, True), (factored, False)])
def test_what_a_block_does_together_stays_in_registers(kernel: dk.Kernel, shuffles: bool) -> None:
    require("cuda.bindings", "nvidia")
    from compiling import compile_function

    from diffkern.targets.cuda.cubin import resources

    types = kernel.argument_types()
    d = Compilation(kernel.func, types, Variant(active=frozenset({0, 1}), target="sm_90")).adjoint
    for fn in (Compilation(kernel.func, types).forward, d.fn):
        made = compile_function(fn, "together", "sm_90", may_alias=False)
        assert resources(made.code)["together"].stack_bytes == 0
        if fn is not d.fn or kernel is scanned:
            assert ("shfl.sync.up" in made.assembly()) == shuffles


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
    from compiling import compile_function

    types = product.argument_types()
    forward = compile_function(Compilation(product.func, types).forward, "forward", arch)
    assert forward.gpu is not None
    assert forward.gpu.shared_bytes == 4 * (128 + 128 + 256)
    d = Compilation(product.func, types, Variant(active=frozenset({0, 1, 2}), target=arch)).adjoint
    adjoint = compile_function(d.fn, "adjoint", arch)
    assert len(adjoint.code) > 1000


@dk.kernel
def square(x: f2, y: f2):
    t = dk.tile_load(x, shape=(112, 112))
    dk.tile_store(y, dk.tile_transpose(t) + t)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_tiles_beyond_static_memory_are_asked_for_at_the_launch(arch: str) -> None:
    require("cuda.bindings")
    from compiling import compile_function

    made = compile_function(Compilation(square.func, square.argument_types()).forward, "large", arch)
    assert made.gpu is not None
    assert made.gpu.dynamic_shared_bytes == made.gpu.shared_bytes == 112 * 112 * 4
    assert ".extern .shared .align 16" in made.assembly()
    assert len(made.code) > 1000


@pytest.mark.parametrize(("arch", "limit"), [("sm_75", 64), ("sm_86", 99), ("sm_90", 227)])
def test_tiles_beyond_the_architecture_are_refused(arch: str, limit: int) -> None:
    require("cuda.bindings")
    from compiling import compile_function

    @dk.kernel
    def huge(x: f2, y: f2):
        table = dk.tile_load(x, shape=(256, 256))
        dk.tile_store(y, dk.tile_transpose(table) + table)

    with pytest.raises(CompileError, match=rf"and a block has {limit << 10}; the largest is \w+ with 262144 bytes"):
        compile_function(Compilation(huge.func, huge.argument_types()).forward, "huge", arch)
