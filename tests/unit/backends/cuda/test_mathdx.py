"""libmathdx itself: each type of element on one architecture. It takes minutes, so only with --full."""

from __future__ import annotations

import pytest

from diffkern.backends.cuda import mathdx
from diffkern.backends.cuda.mathdx import Product

CASES = [
    Product(16, 16, 16, "float16", "float16", "float32", 32, "sm_90"),
    Product(16, 16, 16, "bfloat16", "bfloat16", "float32", 32, "sm_90", columns_a=True),
    Product(16, 16, 16, "tf32", "tf32", "float32", 32, "sm_80"),
    Product(16, 16, 16, "float32", "float32", "float32", 32, "sm_90", columns_b=True),
    Product(16, 16, 16, "float64", "float64", "float64", 64, "sm_90"),
    Product(16, 16, 16, "float16", "float16", "float16", 32, "sm_100"),
]


@pytest.mark.full
@pytest.mark.parametrize("product", CASES, ids=str)
def test_code_is_made(product: Product) -> None:
    if not mathdx.available():
        pytest.skip("libmathdx is not installed")
    code = mathdx.generate(product)
    assert len(code) > 100_000
    assert code.startswith(b"\xedCN\x7f")  # LTO code


@pytest.mark.full
def test_a_refusal_names_the_product() -> None:
    if not mathdx.available():
        pytest.skip("libmathdx is not installed")
    assert mathdx.version().count(".") == 2
