"""Special registers and warp operations of the CUDA target as LLVM calls."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern.backends.llvm.types import F32, F64, I32, I64, VOID, Builder, i32

FULL_WARP = -1
WARP = 32


def special(b: Builder, name: str) -> Any:
    """A special register (``tid.x``, ``ntid.x``, ``ctaid.x``, ``nctaid.x``, ``laneid``) as an i32."""
    return b.call(function(b.module, f"llvm.nvvm.read.ptx.sreg.{name}", I32, []), [])


def synchronize(b: Builder) -> None:
    """Wait for all threads of the block; what they wrote is seen afterwards."""
    b.call(function(b.module, "llvm.nvvm.barrier0", VOID, []), [])


def function(module: ir.Module, name: str, result: Any, args: list[Any]) -> Any:
    """A declared function, declared on first use."""
    known = module.globals.get(name)
    return known if known is not None else ir.Function(module, ir.FunctionType(result, args), name)


def shuffle(b: Builder, value: Any, mask: Any) -> Any:
    """The value of the lane whose number differs by ``mask``, for any type of 32 or 64 bits; all lanes take part."""
    if value.type.__class__ is ir.IntType and value.type.width < 32:
        return b.trunc(shuffle(b, b.zext(value, I32), mask), value.type)
    if value.type in (F32, I32):
        bits = value if value.type == I32 else b.bitcast(value, I32)
        moved = _shuffle_word(b, bits, mask)
        return moved if value.type == I32 else b.bitcast(moved, F32)
    bits = value if value.type == I64 else b.bitcast(value, I64)
    low, high = b.trunc(bits, I32), b.trunc(b.lshr(bits, ir.Constant(I64, 32)), I32)
    low, high = (b.zext(_shuffle_word(b, part, mask), I64) for part in (low, high))
    moved = b.or_(low, b.shl(high, ir.Constant(I64, 32)))
    return moved if value.type == I64 else b.bitcast(moved, value.type)


def _shuffle_word(b: Builder, value: Any, mask: Any) -> Any:
    fn = function(b.module, "llvm.nvvm.shfl.sync.bfly.i32", I32, [I32] * 4)
    return b.call(fn, [i32(FULL_WARP), value, mask, i32(WARP - 1)])


_RED = {F32: ("f32", "f"), F64: ("f64", "d"), I32: ("u32", "r"), I64: ("u64", "l")}


def add_quietly(b: Builder, pointer: Any, value: Any) -> None:
    """Add to a number in global memory atomically, without asking for the old value."""
    name, letter = _RED[value.type]
    symbol = f"dk_red_add_{name}"
    fn = b.module.globals.get(symbol)
    if fn is None:
        fn = ir.Function(b.module, ir.FunctionType(VOID, [pointer.type, value.type]), symbol)
        fn.linkage = "internal"
        fn.attributes.add("alwaysinline")
        inner = ir.IRBuilder(fn.append_basic_block("entry"))
        inner.asm(fn.function_type, f"red.relaxed.gpu.global.add.{name} [$0], $1;", f"l,{letter}", fn.args, True)
        inner.ret_void()
    b.call(fn, [pointer, value])
