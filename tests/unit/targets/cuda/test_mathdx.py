"""libmathdx itself: its code is inlined into kernels, and multiplies on tensor cores where they know the type.

A product takes some 20 seconds of processor time, so one is made in continuous integration, which is that of a kernel
and that of the adjoint of a factor; eight more with ``--full`` (each type on one architecture, each architecture with
one type), and all others. Each is called by a kernel of tiles that the whole compiler makes.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product as combinations
from typing import Any

import pytest
from conftest import require

import diffkern as dk
from diffkern.cache.environment import distribution_versions
from diffkern.compiler.products import Products, generated, obtain
from diffkern.targets.cuda import disassembler, mathdx, sass
from diffkern.targets.cuda.cubin import code_sections, resources
from diffkern.targets.cuda.mathdx import ITEMSIZE, Product

require("cuda.bindings.nvjitlink", "nvidia")

HALF = Product(16, 16, 16, "float16", "float16", "float32", threads=32, arch="sm_90")
OF_A, OF_B = replace(HALF, columns_b=True), replace(HALF, columns_a=True)
CASES = [
    HALF,
    OF_A,
    OF_B,
    replace(HALF, arch="sm_80"),
    replace(HALF, arch="sm_100"),
    replace(HALF, a="bfloat16", b="bfloat16"),
    replace(HALF, a="tf32", b="tf32"),
    replace(HALF, a="float32", b="float32"),
    replace(HALF, a="float64", b="float64", c="float64"),
]
TENSOR_CORES = ("float16", "bfloat16", "tf32", "float64")
TYPES = {"float16": "float32", "bfloat16": "float32", "tf32": "float32", "float32": "float32", "float64": "float64"}
MATRIX = [
    Product(32, 16, 48, a, a, c, columns_a, columns_b, threads=64, arch=arch)
    for (a, c), arch, columns_a, columns_b in combinations(
        TYPES.items(), ("sm_80", "sm_90", "sm_100"), (False, True), (False, True)
    )
]


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest) -> Products:
    required = os.environ.get("DIFFKERN_REQUIRE_ALL") == "1"
    if not required:
        if not request.config.getoption("--full"):
            pytest.skip("minutes of processor time; add --full")
        skip_without_library()
    # Only those of the cases that run: each takes some 20 seconds.
    chosen = [item.callspec.params.get("product") for item in request.session.items if hasattr(item, "callspec")]
    usual = (HALF, OF_A, OF_B) if request.config.getoption("--full") else (OF_A,)
    return obtain([product for product in CASES if product in usual or product in chosen])


def skip_without_library() -> None:
    if not mathdx.available():
        pytest.skip("libmathdx is not installed")
    ((_, nvrtc),) = distribution_versions(("nvidia_cuda_nvrtc",))
    if nvrtc != "none" and "DIFFKERN_NVRTC" not in os.environ and tuple(map(int, nvrtc.split(".")[:2])) >= (13, 5):
        pytest.skip(f"libmathdx 0.4 does not compile with NVRTC {nvrtc}")


def test_a_refusal_names_the_product() -> None:
    skip_without_library()
    with pytest.raises(mathdx.CompileError, match="libmathdx refuses the matrix product 16x16x16 float16"):
        mathdx._needed().call("cublasdxCreateDescriptor", None, what=f"the matrix product {HALF}")
    assert mathdx.version().count(".") == 2


@pytest.fixture(scope="module")
def matrix() -> Products:
    skip_without_library()
    return obtain(MATRIX)


def kernel_of(product: Product) -> tuple[Any, ...]:
    """A kernel that multiplies two arrays by a product, with its types: halves give a tile of halves."""
    m, n, k = product.m, product.n, product.k
    shape_a, shape_b = (k, m) if product.columns_a else (m, k), (n, k) if product.columns_b else (k, n)

    @dk.func
    def left(a):
        return dk.tile_load(a, shape=shape_a)

    @dk.func
    def left_transposed(a):
        return dk.tile_transpose(dk.tile_load(a, shape=shape_a))

    @dk.func
    def right(b):
        return dk.tile_load(b, shape=shape_b)

    @dk.func
    def right_transposed(b):
        return dk.tile_transpose(dk.tile_load(b, shape=shape_b))

    @dk.func
    def times(x, y):
        return dk.tile_matmul(x, y)

    @dk.func
    def times_tf32(x, y):
        return dk.tile_matmul(x, y, precision="tf32")

    first = left_transposed if product.columns_a else left
    second = right_transposed if product.columns_b else right

    multiplied = times_tf32 if product.a == "tf32" else times

    @dk.kernel
    def gemm(a, b, c):
        dk.tile_store(c, multiplied(first(a), second(b)))

    array = dk.array(dtype=getattr(dk, "float32" if product.a == "tf32" else product.a), ndim=2)
    return gemm, array, array, array


def compiled(product: Product, **options: Any) -> dk.Compiled:
    item = kernel_of(product)
    return dk.compile(item, target=product.arch, block_dim=product.threads, enable_mathdx_gemm=True, **options)


def check_kernel(found: dk.Compiled, *products: Product) -> sass.MachineCode:
    """All products are inlined, and use tensor cores where they know the type."""
    assert len(found.cubin) < 100_000  # without thousands of unused constants: they are two megabytes
    assert found.manifest.resources.products == tuple(product.symbol for product in products)
    assert (found.manifest.block_dim, found.manifest.block_dim_fixed) == (products[0].threads, True)
    assert list(code_sections(found.cubin)) == [found.symbol]
    assert not any(product.symbol.encode() in found.cubin for product in products)
    (functions,) = disassembler.codes([found.cubin])
    code = sass.join(found.symbol, functions)
    # What calls has something that returns; the assembler also spells jumps to the end as calls.
    assert not [i for i in code.instructions if i.opcode.startswith("RET")]
    assert bool(code.count("tensor")) == (products[0].a in TENSOR_CORES)
    # Compute capability 10 multiplies and adds pairs of float32 in one instruction.
    pairs = products[0].arch == "sm_100"
    assert products[0].a != "float32" or ("FFMA2" if pairs else "FFMA") in code.mnemonics
    return code


def check_forward(product: Product) -> None:
    found = compiled(product)
    code = check_kernel(found, product)
    assert found.manifest.resources.stack_bytes == 0
    # A half's sum is float32, and is rounded to a tile of its own.
    rounded = -(-product.m * product.n * 2 // 16) * 16 if ITEMSIZE[product.a] == 2 else 0
    static = resources(found.cubin)[found.symbol].shared_bytes
    assert static == found.manifest.resources.shared_bytes == product.shared_bytes + rounded
    # After the loads, after the product, and before the block's next round.
    assert sum(i.opcode.startswith("BAR.SYNC") for i in code.instructions) == 3


@pytest.mark.parametrize(
    "product",
    [pytest.param(p, marks=[] if p is OF_A else pytest.mark.full) for p in CASES if p is not OF_B],
    ids=str,
)
def test_a_kernel_of_tiles_calls_it(made: Products, product: Product) -> None:
    assert made.code[product].startswith(b"\xedCN\x7f")  # LTO code
    check_forward(product)


@pytest.mark.parametrize(
    ("active", "products"),
    [
        pytest.param(["a", "c"], [OF_A], id="a"),
        pytest.param(["b", "c"], [OF_B], id="b", marks=pytest.mark.full),
        pytest.param(["a", "b", "c"], [OF_A, OF_B], id="both", marks=pytest.mark.full),
    ],
)
def test_an_adjoint_has_the_products_of_active_factors(
    made: Products, active: list[str], products: list[Product]
) -> None:
    found = compiled(HALF, adjoint=True, active=active)
    check_kernel(found, *products)


def test_what_is_known_is_not_made_again(made: Products) -> None:
    before = generated()
    found = compiled(OF_A), compiled(HALF, adjoint=True, active=["a", "c"])
    assert generated() == before
    assert [len(c.manifest.resources.products) for c in found] == [1, 1]


@pytest.mark.full
def test_what_nobody_wants_is_neither_made_nor_linked(made: Products) -> None:
    """Counted: products made, symbols linked, bytes of the cubins."""
    before = generated()
    forward, of_a, both = (
        compiled(HALF),
        compiled(HALF, adjoint=True, active=["a", "c"]),
        compiled(HALF, adjoint=True, active=["a", "b", "c"]),
    )
    assert generated() == before  # all are known
    assert [len(c.manifest.resources.products) for c in (forward, of_a, both)] == [1, 1, 2]
    assert len(of_a.cubin) < len(both.cubin)
    assert len(forward.cubin) <= 0.5 * (len(forward.cubin) + len(both.cubin))


def test_tiles_beyond_static_memory_beside_a_product(made: Products) -> None:
    """48 KiB are variables; more is asked for at the launch, with linked code too. Here the product is added."""

    @dk.kernel
    def both(a, b, c, table):
        large = dk.tile_load(table, shape=(128, 128))
        total = dk.tile_zeros(shape=(16, 16), dtype=float)
        other = dk.tile_transpose(dk.tile_load(b, shape=(16, 16)))
        dk.tile_matmul(dk.tile_load(a, shape=(16, 16)), other, total)
        dk.tile_store(c, total)
        dk.tile_store(table, dk.tile_transpose(large))

    halves, floats = dk.array2d(dtype=dk.float16), dk.array2d(dtype=float)
    item = (both, halves, halves, floats, floats)
    found = dk.compile(item, target="sm_90", block_dim=32, enable_mathdx_gemm=True)
    check_kernel(found, OF_A)
    peak = 128 * 128 * 4 + OF_A.shared_bytes
    assert found.manifest.resources.shared_bytes == found.manifest.resources.dynamic_shared_bytes == peak
    assert resources(found.cubin)[found.symbol].shared_bytes == 0


@pytest.mark.full
@pytest.mark.parametrize("product", MATRIX, ids=str)
def test_kernels_of_every_type_layout_and_architecture(matrix: Products, product: Product) -> None:
    check_forward(product)
