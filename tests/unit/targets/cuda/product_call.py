"""The call of a library's matrix product in a kernel by LLVM, which programs by numba-cuda have: for runs on the host.

In: a ``buffer_product`` and the body under construction. Out: instructions for all threads of the block, which have met
before them and meet after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from llvmlite import ir

from diffkern.ir.nodes import Function, Op, walk
from diffkern.targets.cuda.architecture import called
from diffkern.targets.cuda.body import CudaBody
from diffkern.targets.cuda.mathdx import Product
from diffkern.targets.cuda.registers import function
from diffkern.targets.emit.types import F32, F64, PTR, VOID, Builder

__all__ = ["calls", "products_of"]


def products_of(fn: Function, arch: str) -> tuple[Product, ...]:
    """The products that a function calls."""
    return tuple(dict.fromkeys(called(op, 0, arch) for op in walk(fn.body) if op.name == "buffer_product"))


@contextmanager
def calls() -> Iterator[None]:
    """Let kernels by LLVM call the library's products."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CudaBody, "buffer_product", _emit)
        yield


def _emit(body: CudaBody, op: Op) -> None:
    product, b = called(op, 0, body.arch), body.builder
    wide = F64 if product.c == "float64" else F32
    symbol = function(b.module, product.symbol, VOID, [PTR] * 5)
    symbol.attributes.add("convergent")
    alpha, beta = _number(b, wide, 1.0), _number(b, wide, 1.0 if op.attrs["add"] else 0.0)
    result, left, right = (b.addrspacecast(body.arrays[v].data, PTR) for v in op.operands)
    b.call(symbol, [alpha, left, right, beta, result], attrs=("convergent",))


def _number(b: Builder, t: Any, value: float) -> Any:
    """Memory that holds a number."""
    with b.goto_entry_block():
        place = b.alloca(t)
        b.store(ir.Constant(t, value), place)
    return place
