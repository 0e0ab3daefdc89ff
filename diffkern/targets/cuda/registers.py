"""Special registers and warp operations of the CUDA target as LLVM calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from diffkern.ir.ops.scalar import LOGIC
from diffkern.targets.emit.types import F32, F64, I1, I8, I16, I32, I64, VOID, Builder, i32, i64

FULL_WARP = -1
WARP = 32


def special(b: Builder, name: str) -> Any:
    """Return a special register (``tid.x``, ``ntid.x``, ``ctaid.x``, ``nctaid.x``, ``laneid``) as an i32."""
    return b.call(function(b.module, f"llvm.nvvm.read.ptx.sreg.{name}", I32, []), [])


def synchronize(b: Builder) -> None:
    """Wait for all threads of the block; their writes are visible afterwards."""
    b.call(function(b.module, "llvm.nvvm.barrier0", VOID, []), [])


def function(module: ir.Module, name: str, result: Any, args: list[Any]) -> Any:
    """Return a declared function, declared on first use."""
    known = module.globals.get(name)
    return known if known is not None else ir.Function(module, ir.FunctionType(result, args), name)


def shuffle_down(b: Builder, value: Any, distance: Any, last: Any) -> tuple[Any, Any]:
    """Return the value of the lane that is ``distance`` further, and whether that lane is not behind ``last``.

    All lanes take part; values are of any type of at most 64 bits.
    """
    return _shuffle(b, "down", value, distance, last)


def shuffle_up(b: Builder, value: Any, distance: Any) -> tuple[Any, Any]:
    """Return the value of the lane that is ``distance`` before, and whether there is one; else the own value."""
    return _shuffle(b, "up", value, distance, i32(0))


def exchanged(b: Builder, value: Any, exchange: Callable[[Any], Any]) -> Any:
    """A number of any type of at most 64 bits by an exchange of words."""
    if isinstance(value.type, ir.IntType) and value.type.width < 32:
        return b.trunc(exchange(b.zext(value, I32)), value.type)
    if value.type in (F32, I32):
        return _cast(b, exchange(_cast(b, value, I32)), value.type)
    bits = _cast(b, value, I64)
    low, high = exchange(b.trunc(bits, I32)), exchange(b.trunc(b.lshr(bits, i64(32)), I32))
    return _cast(b, b.or_(b.zext(low, I64), b.shl(b.zext(high, I64), i64(32))), value.type)


def _shuffle(b: Builder, way: str, value: Any, distance: Any, bound: Any) -> tuple[Any, Any]:
    present: list[Any] = []

    def exchange(word: Any) -> Any:
        moved, there = _shuffle_word(b, way, word, distance, bound)
        present.append(there)
        return moved

    return exchanged(b, value, exchange), present[0]


def _cast(b: Builder, value: Any, ty: Any) -> Any:
    return value if value.type == ty else b.bitcast(value, ty)


def _shuffle_word(b: Builder, way: str, value: Any, distance: Any, bound: Any) -> tuple[Any, Any]:
    result = ir.LiteralStructType([I32, I1])
    fn = function(b.module, f"llvm.nvvm.shfl.sync.{way}.i32p", result, [I32] * 4)
    pair = b.call(fn, [i32(FULL_WARP), value, distance, bound])
    return b.extract_value(pair, 0), b.extract_value(pair, 1)


_NUMBERS = {F32: ("f32", "f"), F64: ("f64", "d"), I32: ("u32", "r"), I64: ("u64", "l")}
_PLACES = {1: "gpu.global", 3: "cta.shared"}
"""The scope and the memory of an atomic operation, by address space."""


def update_quietly(b: Builder, kind: str, pointer: Any, value: Any, *, signed: bool = False) -> None:
    """Update a number in memory atomically, without asking for the old value.

    The kinds are ``add``, ``min``, ``max``, ``and``, ``or`` and ``xor``, all but ``add`` of integers alone.
    """
    name, letter = _NUMBERS[value.type]
    # Bitwise operations have untyped forms only.
    if kind in LOGIC:
        name, signed = name.replace("u", "b"), False
    if signed and kind != "add":
        name = name.replace("u", "s")
    text = f"red.relaxed.{_PLACES[pointer.type.addrspace]}.{kind}.{name} [$0], $1;"
    fn = _instruction(b.module, f"dk_red_{kind}_{name}", VOID, [pointer.type, value.type], text, f"l,{letter}")
    b.call(fn, [pointer, value])


def add_floats_quietly(b: Builder, pointer: Any, values: list[Any]) -> None:
    """Add two or four float32 to consecutive numbers in memory, each atomically, with one instruction of sm_90.

    The address is a multiple of the bytes of all of them.
    """
    count = len(values)
    registers = ", ".join(f"${k}" for k in range(1, 1 + count))
    text = f"red.relaxed.{_PLACES[pointer.type.addrspace]}.add.v{count}.f32 [$0], {{{registers}}};"
    given = [pointer.type, *(value.type for value in values)]
    fn = _instruction(b.module, f"dk_red_add_v{count}_f32", VOID, given, text, ",".join(["l", *"f" * count]))
    b.call(fn, [pointer, *values])


def word_of_half(b: Builder, pointer: Any) -> tuple[Any, Any]:
    """Return the address of the 32 bits around 16 bits, and whether these are the upper ones."""
    # The second lowest bit of the address tells which half of the word it is.
    upper = b.trunc(b.lshr(b.ptrtoint(pointer, I64), i64(1)), I1)
    return b.gep(pointer, [b.select(upper, i64(-2), i64(0))], source_etype=I8), upper


def add_half_quietly(b: Builder, name: str, word: Any, upper: Any, value: Any) -> None:
    """Add 16 bits that are an ``f16`` or ``bf16`` to such a number in memory atomically, with one instruction.

    The hardware adds pairs alone: the number's neighbour in its word gets -0, which changes no number.
    """
    wide = b.zext(value, I32)
    pair = b.select(upper, b.or_(b.shl(wide, i32(16)), i32(0x8000)), b.or_(wide, i32(-0x80000000)))
    # The instruction exists for subnormal numbers that are kept, and wants that to be said.
    text = f"red.relaxed.{_PLACES[word.type.addrspace]}.add.noftz.{name}x2 [$0], $1;"
    fn = _instruction(b.module, f"dk_red_add_{name}x2", VOID, [word.type, I32], text, "l,r")
    b.call(fn, [word, pair])


def add_and_fetch(b: Builder, pointer: Any, value: Any) -> Any:
    """Add to a number in memory atomically; return the old value."""
    name, letter = _NUMBERS[value.type]
    text = f"atom.relaxed.{_PLACES[pointer.type.addrspace]}.add.{name} $0, [$1], $2;"
    operands = f"={letter},l,{letter}"
    fn = _instruction(b.module, f"dk_atom_add_{name}", value.type, [pointer.type, value.type], text, operands)
    return b.call(fn, [pointer, value])


def exchange_half(b: Builder, pointer: Any, expected: Any, value: Any) -> Any:
    """Replace 16 bits in memory atomically if they are the expected ones; return the old ones.

    It uses the instruction for 16 bits: LLVM would exchange the 32 bits around, part of which may lie outside an
    allocation.
    """
    text = f"atom.relaxed.{_PLACES[pointer.type.addrspace]}.cas.b16 $0, [$1], $2, $3;"
    fn = _instruction(b.module, "dk_atom_cas_b16", I16, [pointer.type, I16, I16], text, "=h,l,h,h")
    return b.call(fn, [pointer, expected, value])


def _instruction(module: ir.Module, name: str, result: Any, given: list[Any], text: str, operands: str) -> Any:
    """Return a function that is one instruction on an address and values."""
    symbol = f"{name}_{given[0].addrspace}"
    known = module.globals.get(symbol)
    if known is not None:
        return known
    fn = ir.Function(module, ir.FunctionType(result, given), symbol)
    fn.linkage = "internal"
    fn.attributes.add("alwaysinline")
    b = ir.IRBuilder(fn.append_basic_block("entry"))
    # With side effects, as LLVM must neither merge nor drop it.
    out = b.asm(fn.function_type, text, operands, fn.args, True)
    if result == VOID:
        b.ret_void()
    else:
        b.ret(out)
    return fn


def approximate(b: Builder, name: str, *args: Any) -> Any:
    """Emit the hardware's approximation ``rcp``, ``rsqrt``, ``sqrt``, ``sin``, ``cos`` or ``div`` of float32.

    It takes and gives no subnormal numbers. A quotient is the form for all divisors: the other one is 0 or NaN for
    those above 2^126.
    """
    symbol = f"dk_approximate_{name}"
    fn = b.module.globals.get(symbol)
    if fn is None:
        fn = ir.Function(b.module, ir.FunctionType(F32, [F32] * len(args)), symbol)
        fn.linkage = "internal"
        for attribute in ("alwaysinline", "nounwind", "readnone"):
            fn.attributes.add(attribute)
        inner = ir.IRBuilder(fn.append_basic_block("entry"))
        operands = ", ".join(f"${k}" for k in range(1 + len(args)))
        text = f"{name}.{'full' if name == 'div' else 'approx'}.ftz.f32 {operands};"
        # Without side effects, so that equal approximations are computed once.
        inner.ret(inner.asm(fn.function_type, text, ",".join(["=f", *"f" * len(args)]), fn.args, False))
    return b.call(fn, args)
