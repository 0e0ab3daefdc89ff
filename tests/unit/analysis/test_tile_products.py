"""Products that a kernel and its adjoint need: nothing that nobody wants."""

from __future__ import annotations

import pytest

import diffkern as dk
from diffkern.analysis.tile_products import TileProduct, factor_type, product_of
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.ir.nodes import Function, walk

f2 = dk.array(dtype=float, ndim=2)
h2 = dk.array(dtype=dk.float16, ndim=2)
FORWARD = TileProduct(16, 8, 32, "float32", "float32", "float32", False, False)
OF_A = TileProduct(16, 32, 8, "float32", "float32", "float32", False, True)
OF_B = TileProduct(32, 8, 16, "float32", "float32", "float32", True, False)


@dk.kernel
def product(a: f2, b: f2, c: f2):
    i = dk.tid()
    x = dk.tile_load(a, shape=(16, 32), offset=(i * 16, 0))
    y = dk.tile_load(b, shape=(32, 8))
    dk.tile_store(c, dk.tile_matmul(x, y), offset=(i * 16, 0))


def tile_products(fn: Function) -> list[TileProduct]:
    """The different products, in program order."""
    return list(dict.fromkeys(product_of(op) for op in walk(fn.body) if op.name == "tile_matmul"))


def needed(active: set[int] | None) -> set[TileProduct]:
    types = product.argument_types()
    if active is None:
        return set(tile_products(Compilation(product.func, types).forward))
    return set(tile_products(Compilation(product.func, types, Variant(active=frozenset(active))).adjoint.fn))


def test_a_forward_has_one_product() -> None:
    assert needed(None) == {FORWARD}


@pytest.mark.parametrize(
    ("active", "products"), [({0, 1, 2}, {OF_A, OF_B}), ({0, 2}, {OF_A}), ({1, 2}, {OF_B}), ({2}, set())]
)
def test_an_adjoint_has_the_products_of_active_factors(active: set[int], products: set[TileProduct]) -> None:
    assert needed(active) == products


def test_halves_keep_their_type() -> None:
    @dk.kernel
    def half(a: h2, c: f2):
        x = dk.tile_load(a, shape=(16, 16))
        total = dk.tile_zeros(shape=(16, 16), dtype=float)
        dk.tile_matmul(x, dk.tile_transpose(x), total)
        dk.tile_store(c, total)

    found = tile_products(Compilation(half.func, half.argument_types()).forward)
    assert [(p.a, p.b, p.c) for p in found] == [("float16", "float16", "float32")]


def test_factors_of_a_half_and_a_float_meet_in_tf32_where_the_gradient_is_a_half() -> None:
    @dk.kernel
    def half(a: h2, b: h2, c: f2):
        total = dk.tile_zeros(shape=(16, 16), dtype=float)
        dk.tile_matmul(dk.tile_load(a, shape=(16, 16)), dk.tile_load(b, shape=(16, 16)), total)
        dk.tile_store(c, total)

    found = tile_products(
        Compilation(half.func, half.argument_types(), Variant(active=frozenset({0, 1, 2}))).adjoint.fn
    )
    assert {(p.a, p.b, p.c) for p in found} == {("tf32", "tf32", "float32")}


def test_tf32_is_asked_for_and_holds_for_the_adjoint() -> None:
    @dk.kernel
    def rounded(a: f2, b: f2, c: f2):
        x, y = dk.tile_load(a, shape=(16, 16)), dk.tile_load(b, shape=(16, 16))
        dk.tile_store(c, dk.tile_matmul(x, y, precision="tf32"))

    types = rounded.argument_types()
    found = tile_products(Compilation(rounded.func, types).forward)
    found += tile_products(Compilation(rounded.func, types, Variant(active=frozenset({0, 1, 2}))).adjoint.fn)
    assert [(p.a, p.b, p.c) for p in found] == [("tf32", "tf32", "float32")] * 3


@pytest.mark.parametrize(
    ("a", "b", "result", "factor"),
    [
        ("float32", "float32", "float32", "float32"),
        ("float32", "float32", "float16", "float32"),
        ("bfloat16", "bfloat16", "float32", "bfloat16"),
        ("bfloat16", "float16", "float32", "float32"),
        ("float32", "bfloat16", "bfloat16", "tf32"),
        ("float16", "float32", "float32", "float32"),
        ("float32", "float32", "float64", "float64"),
        ("float16", "float64", "float16", "float64"),
    ],
)
def test_factor_types(a: str, b: str, result: str, factor: str) -> None:
    assert factor_type(a, b, result, "default") == factor
