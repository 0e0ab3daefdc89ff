"""A matrix product of tiles in shared memory, as a call of the function that libmathdx makes for it.

In: a :class:`Product`, and pointers to its factors and result in the memory of the block, each aligned to 16 bytes.
Out: instructions for all threads of the block; the function's code is linked in later
(``compile_function(…, link_with=…)``). The threads have to meet before it, so that what any of them wrote is
multiplied, and after it, so that any of them may read the result.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern.targets.cuda.mathdx import Product
from diffkern.targets.cuda.registers import function
from diffkern.targets.emit.types import F32, F64, PTR, VOID, Builder

__all__ = ["emit_product"]


def emit_product(builder: Builder, product: Product, a: Any, b: Any, c: Any, *, add: bool) -> None:
    """Compute ``c = a @ b``, or with `add` ``c += a @ b``.

    Parameters
    ----------
    builder
        Where the code goes. All threads of the block come here.
    product
        Sizes, types, and how the factors lie.
    a, b, c
        Pointers into shared memory.
    add
        Whether the product is added to what the result holds.
    """
    wide = F64 if product.c == "float64" else F32
    symbol = function(builder.module, product.symbol, VOID, [PTR] * 5)
    symbol.attributes.add("convergent")  # no compiler may move the call to where some threads are not
    alpha, beta = _number(builder, wide, 1.0), _number(builder, wide, 1.0 if add else 0.0)
    left, right, result = (builder.addrspacecast(p, PTR) for p in (a, b, c))
    builder.call(symbol, [alpha, left, right, beta, result], attrs=("convergent",))


def _number(builder: Builder, t: Any, value: float) -> Any:
    """Memory that holds a number; it is gone when the function is inlined."""
    with builder.goto_entry_block():
        place = builder.alloca(t)
        builder.store(ir.Constant(t, value), place)
    return place
