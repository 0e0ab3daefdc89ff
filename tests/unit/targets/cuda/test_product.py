"""The call of a matrix product: what libNVVM makes of it for each architecture, and what the module says."""

from __future__ import annotations

import pytest
from conftest import require
from product_kernel import NAME, kernel_module

from diffkern.errors import CompileError
from diffkern.targets.cuda import toolchain
from diffkern.targets.cuda.dialect import convert
from diffkern.targets.cuda.mathdx import Product

require("cuda.bindings.nvjitlink", "nvidia")

HALF = Product(16, 16, 16, "float16", "float16", "float32", threads=32, arch="sm_90")
DOUBLE = Product(16, 16, 16, "float64", "float64", "float64", threads=32, arch="sm_90")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("product", [HALF, DOUBLE], ids=str)
def test_a_kernel_with_a_product_becomes_lto_code(product: Product, arch: str) -> None:
    # libNVVM verifies it: before sm_100 with typed pointers, so that uses of shared memory as bytes are casts.
    assert toolchain.ltoir(kernel_module(product), NAME, arch).startswith(b"\xedCN\x7f")


@pytest.mark.parametrize(("add", "beta"), [(False, "0x0"), (True, "0x3ff0000000000000")])
def test_what_the_result_held_counts_only_when_added_to(add: bool, beta: str) -> None:
    stored = [
        line.split()[2].rstrip(",") for line in str(kernel_module(HALF, add=add)).splitlines() if "store float" in line
    ]
    assert stored == ["0x3ff0000000000000", beta]


@pytest.mark.parametrize("typed", [True, False])
def test_compilers_keep_the_call_where_all_threads_are(typed: bool) -> None:
    text = convert(kernel_module(HALF), NAME, typed=typed)
    lines = [line for line in text.splitlines() if HALF.symbol in line]
    assert [line.split()[0] for line in lines] == ["call", "declare"]
    assert all(line.endswith("convergent") for line in lines)


def test_a_function_that_is_not_linked_is_named() -> None:
    code = toolchain.ltoir(kernel_module(HALF), NAME, "sm_90")
    with pytest.raises(CompileError, match=HALF.symbol):
        toolchain.assemble(toolchain.link([code], "sm_90", NAME), "sm_90", NAME)
