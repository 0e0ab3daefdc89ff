"""libmathdx itself: its code is inlined into kernels, and multiplies on tensor cores where they know the type.

A product takes some 20 seconds of processor time, so nine are made (each type on one architecture, each architecture
with one type, and what an adjoint needs) in continuous integration and with ``--full``; all others with ``--full``.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from itertools import product as combinations

import pytest
from conftest import require
from product_kernel import NAME, kernel_text

from diffkern.backends.cuda import mathdx, toolchain
from diffkern.backends.cuda.cubin import resources
from diffkern.backends.cuda.disassembler import disassemble
from diffkern.backends.cuda.mathdx import Product
from diffkern.cache.environment import distribution_versions
from diffkern.products import Products, obtain

require("cuda.bindings.nvjitlink", "nvidia")

HALF = Product(16, 16, 16, "float16", "float16", "float32", 32, "sm_90")
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
    Product(32, 16, 48, a, a, c, 64, arch, columns_a, columns_b)
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
    return obtain(CASES)


def skip_without_library() -> None:
    if not mathdx.available():
        pytest.skip("libmathdx is not installed")
    ((_, nvrtc),) = distribution_versions(("nvidia_cuda_nvrtc",))
    if nvrtc != "none" and "DIFFKERN_NVRTC" not in os.environ and tuple(map(int, nvrtc.split(".")[:2])) >= (13, 5):
        pytest.skip(f"libmathdx 0.4 does not compile with NVRTC {nvrtc}")


def linked(product: Product, code: bytes, *, add: bool = False) -> bytes:
    kernel = toolchain.ltoir(kernel_text(product, add=add), NAME, product.arch)
    return toolchain.link([kernel, code], product.arch, NAME)


def check(product: Product, cubin: bytes) -> None:
    sass = disassemble(cubin)
    assert "CALL" not in sass
    assert (re.search(r"\b[A-Z]MMA\b", sass) is not None) == (product.a in TENSOR_CORES)
    if product.a == "float32":
        assert "FFMA" in sass
    assert len(re.findall(r"\bBAR\.SYNC", sass)) == 2
    taken = resources(cubin)[NAME]
    assert taken.shared_bytes == product.shared_bytes
    assert taken.stack_bytes == 0


@pytest.mark.parametrize("product", CASES, ids=str)
def test_code_is_inlined_and_uses_tensor_cores(made: Products, product: Product) -> None:
    assert made.code[product].startswith(b"\xedCN\x7f")  # LTO code
    cubin = linked(product, made.code[product])
    check(product, cubin)
    # Without its thousands of unused constants: they are two megabytes.
    assert len(cubin) < 100_000


def test_a_product_can_be_added(made: Products) -> None:
    check(HALF, linked(HALF, made.code[HALF], add=True))


def test_a_refusal_names_the_product() -> None:
    skip_without_library()
    with pytest.raises(mathdx.CompileError, match="libmathdx refuses the matrix product 16x16x16 float16"):
        mathdx._needed().call("cublasdxCreateDescriptor", None, what=f"the matrix product {HALF}")
    assert mathdx.version().count(".") == 2


@pytest.fixture(scope="module")
def matrix() -> Products:
    skip_without_library()
    return obtain(MATRIX)


@pytest.mark.full
@pytest.mark.parametrize("product", MATRIX, ids=str)
def test_every_type_layout_and_architecture(matrix: Products, product: Product) -> None:
    check(product, linked(product, matrix.code[product]))
