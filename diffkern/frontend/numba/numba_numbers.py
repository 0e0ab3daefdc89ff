"""Functions of numbers that ``numba.cuda`` has beside those of Python: fused products, bits.

A call such as ``cuda.popc`` becomes arithmetic, in which LLVM recognizes the CPU's instructions again.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from diffkern.frontend.numba.numba_grid import Call, nonneg
from diffkern.frontend.statements import branch
from diffkern.frontend.terms import arith, coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Term, Val
from diffkern.ir import types as T
from diffkern.ir.nodes import Value

__all__ = ["CALLS"]


def _numbers(cx: Context, name: str, node: ast.Call, count: int) -> list[Const | Val]:
    if len(node.args) != count or node.keywords:
        cx.type_error(
            node, f"{name} takes {count} arguments, not {len(node.args) + len(node.keywords)}", f"pass {count}"
        )
    return [coerce.scalar_term(cx, cx.expr(arg), arg, f"an argument of {name}") for arg in node.args]


def _fma(cx: Context, name: str, node: ast.Call) -> Term:
    a, b, c = _numbers(cx, name, node, 3)
    return arith.binary(cx, "add", arith.binary(cx, "mul", a, b, node), c, node)


def _selp(cx: Context, name: str, node: ast.Call) -> Term:
    condition, a, b = _numbers(cx, name, node, 3)
    return branch.choose(cx, condition, lambda: a, lambda: b, node, name)


def _bits(cx: Context, name: str, node: ast.Call) -> tuple[Value, T.Scalar]:
    """Return an integer as an unsigned one of 32 or 64 bits."""
    (x,) = _numbers(cx, name, node, 1)
    v = coerce.value(cx, x, node.args[0])
    if not isinstance(v.type, T.Scalar) or not v.type.is_integer:
        cx.type_error(node, f"{name} of {v.type}", "it takes an integer")
    t = T.UINT64 if v.type.bits == 64 else T.UINT32
    return cx.b.cast(v, t), t


def _ones(cx: Context, x: Value, t: T.Scalar) -> Value:
    """Return how many bits are set, by sums of ever wider groups."""
    b = cx.b

    def masked(v: Value, shift: int, mask: int) -> Value:
        return b.one("and", b.one("shr", v, b.const(shift, t)) if shift else v, b.const(mask * _repeated(t, mask), t))

    x = b.sub(x, masked(x, 1, 0x55))
    x = b.add(masked(x, 0, 0x33), masked(x, 2, 0x33))
    x = b.one("and", b.add(x, b.one("shr", x, b.const(4, t))), b.const(0x0F * _repeated(t, 0x0F), t))
    # The product adds all bytes up into the highest one.
    return b.one("shr", b.mul(x, b.const(_repeated(t, 1), t)), b.const(t.bits - 8, t))


def _repeated(t: T.Scalar, mask: int) -> int:
    """Return the factor that repeats a byte in every byte of a type."""
    return sum(1 << (8 * k) for k in range(t.bits // 8))


def _popc(cx: Context, name: str, node: ast.Call) -> Term:
    x, t = _bits(cx, name, node)
    return Val(nonneg(cx, cx.b.cast(_ones(cx, x, t), T.INT32)))


def _clz(cx: Context, name: str, node: ast.Call) -> Term:
    x, t = _bits(cx, name, node)
    shift = 1
    while shift < t.bits:  # all bits below the highest one
        x = cx.b.one("or", x, cx.b.one("shr", x, cx.b.const(shift, t)))
        shift *= 2
    # The zeros above the highest bit are the bits that are not set now.
    return Val(nonneg(cx, cx.b.cast(_ones(cx, cx.b.one("invert", x), t), T.INT32)))


def _ffs(cx: Context, name: str, node: ast.Call) -> Term:
    x, t = _bits(cx, name, node)
    # ~x & (x - 1) has exactly the zeros below the lowest bit that is set.
    below = cx.b.one("and", cx.b.one("invert", x), cx.b.sub(x, cx.b.const(1, t)))
    position = cx.b.add(cx.b.cast(_ones(cx, below, t), T.INT32), cx.b.i32(1))
    return Val(nonneg(cx, cx.b.select(cx.b.one("eq", x, cx.b.const(0, t)), cx.b.i32(0), position)))


def _brev(cx: Context, name: str, node: ast.Call) -> Term:
    x, t = _bits(cx, name, node)
    shift = t.bits // 2
    whole = (1 << t.bits) - 1
    mask = whole
    while shift:  # exchanges ever smaller groups
        mask ^= (mask << shift) & whole
        up = cx.b.one("shl", cx.b.one("and", x, cx.b.const(mask, t)), cx.b.const(shift, t))
        down = cx.b.one("and", cx.b.one("shr", x, cx.b.const(shift, t)), cx.b.const(mask, t))
        x, shift = cx.b.one("or", up, down), shift // 2
    return Val(x)


CALLS: Final[Mapping[str, Call]] = {
    "cuda.fma": _fma,
    "cuda.selp": _selp,
    "cuda.popc": _popc,
    "cuda.clz": _clz,
    "cuda.ffs": _ffs,
    "cuda.brev": _brev,
}
