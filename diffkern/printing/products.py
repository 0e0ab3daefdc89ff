"""Matrix products of tiles that a library computes, by the names of the functions that call it."""

from __future__ import annotations

from diffkern.ir.nodes import Function, Op, walk
from diffkern.ir.ops.buffer import BUFFER_PRODUCTS

__all__ = ["is_same_product", "library_products"]


def library_products(fn: Function) -> dict[str, Op]:
    """Return the names of matrix products that a library computes, each with the first op that calls it."""
    found: list[Op] = []
    for op in walk(fn.body):
        if op.name in BUFFER_PRODUCTS and not any(is_same_product(first, op) for first in found):
            found.append(op)
    return {f"product_{k}": op for k, op in enumerate(found)}


def is_same_product(one: Op, other: Op) -> bool:
    """Return whether two products are one function; both may add to the old result."""
    # Whether the old result is added is left to each call, so it does not make another function.
    return {**one.attrs, "add": None} == {**other.attrs, "add": None}
