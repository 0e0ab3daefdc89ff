"""Modules in the dialects of libNVVM.

In: a module as this package's emitter builds it. Out: its text as libNVVM reads it. For architectures before sm_100
that is the language of LLVM 7: pointers have element types, so every pointer becomes ``i8*`` and is cast where it is
used, and there is no ``fneg``. For all of them, general intrinsics become functions of libdevice, and kernels are
marked by metadata.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from diffkern.errors import CompileError
from diffkern.ops.table import all_ops
from diffkern.targets.emit.types import PTR

__all__ = ["convert", "opaque_text"]

_LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-"
    "v64:64:64-v128:128:128-n16:32:64"
)
"""The data layout that libNVVM asks for."""

_LIBRARY = {library.llvm: library.libdevice for row in all_ops().values() if (library := row.library) and library.llvm}
_LIBRARY["fabs"] = "fabs"
"""General intrinsics and the function of libdevice that each becomes."""

_SATURATING = re.compile(r'declare i(\d+) @"llvm\.fpto([su])i\.sat\.i\d+\.f(\d+)"\((?:float|double) [^)]*\)')
_ATOMIC = re.compile(r"^(  .* = (?:cmpxchg|atomicrmw|load atomic) .*?)(monotonic\b.*)$", re.MULTILINE)
"""An atomic operation and its ordering: a launch is on one device, as for all other atomic operations."""
_OPAQUE = re.compile(r'(?<![\w."])ptr(?: (addrspace\(\d+\)))?(?![\w."])')


_TYPED = re.compile(r"(?:\[\d+ x \w+\]|float|double|i\d+)( addrspace\(\d+\))?\*")
"""llvmlite still prints the types of some pointers: of stack slots, globals and by-value parameters."""
_TYPED_FUNCTION = re.compile(r"\b\w+ \([^()]*\)\*")


def opaque_text(module: ir.Module) -> str:
    """The text of a module in today's language, without types of pointers."""
    return _TYPED_FUNCTION.sub("ptr", _TYPED.sub(r"ptr\1", str(module)))


def convert(module: ir.Module, symbol: str, *, typed: bool) -> str:
    """The text of a module, which is changed, in the dialect with typed or with opaque pointers.

    Parameters
    ----------
    module
        The module.
    symbol
        Its kernel.
    typed
        Whether pointers have element types.

    Raises
    ------
    CompileError
        If an instruction has no form in the dialect.
    """
    module.data_layout = _LAYOUT
    kernel = module.globals[symbol]
    kernel.calling_convention = ""
    marks = module.add_metadata([kernel, "kernel", ir.Constant(ir.IntType(32), 1)])
    module.add_named_metadata("nvvm.annotations").add(marks)
    version = module.add_metadata([ir.Constant(ir.IntType(32), n) for n in (2, 0, 3, 1)])
    module.add_named_metadata("nvvmir.version").add(version)
    _keep(module, kernel)
    if typed:
        for function in module.functions:
            _type_pointers(function)
        text = _OPAQUE.sub(lambda m: f"i8 {m[1]}*" if m[1] else "i8*", str(module))
        text = re.sub(r"byval\([^)]*\)", "byval", text)
    else:
        text = _ATOMIC.sub(r'\1syncscope("device") \2', opaque_text(module))
    return _intrinsics(_without_lines(text))


def _keep(module: ir.Module, kernel: Any) -> None:
    """Name the kernel where it counts as used: else it is dropped when it is linked."""
    kept = ir.ArrayType(PTR, 1)
    used = ir.GlobalVariable(module, kept, "llvm.used")
    used.linkage, used.section = "appending", "llvm.metadata"
    used.initializer = ir.Constant(kept, [_cast(kernel, PTR)])


def _cast(value: Any, to: Any) -> Any:
    """A function or variable of a module as a pointer of another type."""
    return ir.FormattedConstant(to, f"bitcast ({value.type} {value.get_reference()} to {to})")


def _without_lines(text: str) -> str:
    """The text without debug metadata: line tables are made on the way through LLVM's PTX alone."""
    text = re.sub(r",? !dbg !\d+", "", text)
    return re.sub(r"^!llvm\.(?:dbg\.cu|module\.flags) .*$|^!\d+ = (?:distinct )?!DI.*$", "", text, flags=re.MULTILINE)


def _intrinsics(text: str) -> str:
    """General intrinsics as functions of libdevice, conversions that saturate as functions of the module."""
    for name, function in _LIBRARY.items():
        for width, suffix in (("f32", "f"), ("f64", "")):
            text = text.replace(f'@"llvm.{name}.{width}"', f'@"__nv_{function}{suffix}"')
    # The same instruction under the name that takes its kind as an operand.
    known = 'declare {i32, i1} @"llvm.nvvm.shfl.sync.i32"(i32 %".0", i32 %".1", i32 %".2", i32 %".3", i32 %".4")'
    for kind, way in ((1, "up"), (2, "down")):
        declared = rf'declare [^\n]*@"llvm.nvvm.shfl.sync.{way}.i32p"\([^\n]*'
        text = re.sub(declared, "" if known in text else known, text)
        used = f'@"llvm.nvvm.shfl.sync.{way}.i32p"(i32 -1, '
        text = text.replace(used, f'@"llvm.nvvm.shfl.sync.i32"(i32 -1, i32 {kind}, ')
    shims = []
    for match in set(_SATURATING.finditer(text)):
        bits, sign, width = match.groups()
        name = f"llvm.fpto{sign}i.sat.i{bits}.f{width}"
        text = text.replace(match[0], "").replace(f'@"{name}"', f'@"dk_{name[5:]}"')
        shims.append(_saturating(f"dk_{name[5:]}", int(bits), sign, int(width)))
    head, mark, tail = text.partition("\ndefine ")
    return head + "\n" + "\n".join(shims) + mark + tail if shims else text


def _saturating(name: str, bits: int, sign: str, width: int) -> str:
    """A conversion of a float to an integer that clamps, NaN to 0, of comparisons and a plain conversion."""
    ty = "float" if width == 32 else "double"
    low = -(1 << (bits - 1)) if sign == "s" else 0
    high = (1 << (bits - 1)) if sign == "s" else 1 << bits
    most = high - 1 - (1 << bits) if sign == "u" else high - 1
    floor, ceiling = (f"0x{_double_bits(float(v)):016X}" for v in (low, high))
    return f"""define internal i{bits} @"{name}"({ty} %x) alwaysinline {{
  %lo = fcmp ogt {ty} %x, {floor}
  %hi = fcmp olt {ty} %x, {ceiling}
  %in = and i1 %lo, %hi
  %safe = select i1 %in, {ty} %x, {ty} 0.0
  %q = fpto{sign}i {ty} %safe to i{bits}
  %nan = fcmp uno {ty} %x, %x
  %above = fcmp oge {ty} %x, {ceiling}
  %end = select i1 %above, i{bits} {most}, i{bits} {low}
  %out = select i1 %in, i{bits} %q, i{bits} %end
  %r = select i1 %nan, i{bits} 0, i{bits} %out
  ret i{bits} %r
}}"""


def _double_bits(value: float) -> int:
    return int.from_bytes(struct.pack(">d", value), "big")


# -- pointers with element types -------------------------------------------------------------------------------------


class _Pointer(ir.PointerType):  # type: ignore[misc]
    """A pointer whose element type is printed, whatever it is."""

    def __init__(self, element: Any, addrspace: int) -> None:
        super().__init__(None, addrspace)
        self.pointee = element

    def _to_string(self) -> str:
        return f"{self.pointee} addrspace({self.addrspace})*" if self.addrspace else f"{self.pointee}*"


def _type_pointers(function: Any) -> None:
    """Give the instructions of a function pointers of the types that they access; all other pointers are to bytes."""
    as_bytes: dict[Any, Any] = {}
    for block in function.blocks:
        instructions = [new for old in block.instructions for new in _typed(old, as_bytes)]
        if block is function.entry_basic_block:
            for argument in function.args:
                if "byval" in argument.attributes:
                    as_bytes[argument] = ir.CastInstr(block, "bitcast", argument, PTR)
                    instructions.insert(0, as_bytes[argument])
        block.instructions[:] = instructions
    casts = set(map(id, as_bytes.values()))
    for block in function.blocks:
        for x in block.instructions:
            if id(x) not in casts:
                x.operands = [_known(v, as_bytes) for v in x.operands]
            if isinstance(x, ir.PhiInstr):
                x.incomings = [(_known(v, as_bytes), origin) for v, origin in x.incomings]
            if isinstance(x, ir.GEPInstr):
                x.pointer = x.operands[0]
            x._clear_string_cache()


def _known(value: Any, as_bytes: dict[Any, Any]) -> Any:
    """A value as a pointer to bytes, if it points to something else."""
    if isinstance(value, ir.GlobalVariable):
        value.type = _Pointer(value.value_type, value.addrspace)
        return _cast(value, ir.PointerType(addrspace=value.addrspace))
    return as_bytes.get(value, value)


def _typed(x: Any, as_bytes: dict[Any, Any]) -> Iterator[Any]:
    """An instruction with the casts before and after it."""
    match x:
        case ir.LoadInstr() | ir.LoadAtomicInstr():
            yield _access(x, 0, x.type)
        case ir.StoreInstr():
            yield _access(x, 1, x.operands[0].type)
        case ir.AtomicRMW():
            if x.operation not in ("xchg", "add", "sub", "and", "or", "xor", "min", "max", "umin", "umax"):
                raise CompileError(f"atomicrmw {x.operation} has no form for libNVVM")
            yield _access(x, 0, x.type)
        case ir.CmpXchg():
            yield _access(x, 0, x.operands[1].type)
        case ir.GEPInstr():
            yield _access(x, 0, x.source_etype)
            x.type = _Pointer(x.source_etype if len(x.indices) == 1 else x.source_etype.element, x.type.addrspace)
        case ir.AllocaInstr():
            x.type = _Pointer(x.allocated_type, 0)
    if x.opname == "fneg":
        x.opname, x.operands = "fsub", [ir.Constant(x.type, -0.0), x.operands[0]]
    yield x
    if isinstance(x, (ir.GEPInstr, ir.AllocaInstr)):
        as_bytes[x] = ir.CastInstr(x.parent, "bitcast", x, ir.PointerType(addrspace=x.type.addrspace))
        yield as_bytes[x]


def _access(x: Any, position: int, element: Any) -> Any:
    """The cast of the operand through which an instruction accesses memory, which the instruction takes instead."""
    pointer = x.operands[position]
    cast = ir.CastInstr(x.parent, "bitcast", pointer, _Pointer(element, pointer.type.addrspace))
    x.operands = [*x.operands[:position], cast, *x.operands[position + 1 :]]
    return cast
