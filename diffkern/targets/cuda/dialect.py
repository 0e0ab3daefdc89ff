"""LLVM text of today in the dialects of libNVVM.

In: a module as this package's emitter prints it. Out: the same module as libNVVM reads it. For architectures before
sm_100 that is the language of LLVM 7: pointers have element types, so every pointer becomes ``i8*`` and is cast where
it is used, and there is no ``fneg``. For all of them, general intrinsics become functions of libdevice, and kernels
are marked by metadata.

The input is regular (one instruction a line, written by llvmlite), so lines are rewritten, not parsed; libNVVM verifies
what comes out.
"""

from __future__ import annotations

import re
import struct

from diffkern.errors import CompileError

_LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-"
    "v64:64:64-v128:128:128-n16:32:64"
)
"""The data layout that libNVVM asks for."""

_LIBRARY = {
    "fabs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "round": "round",
    "copysign": "copysign", "sqrt": "sqrt",
}  # fmt: skip
"""General intrinsics and the function of libdevice that each becomes."""

_NAME = r'[%@](?:"[^"]*"|[\w.$-]+)'
_POINTER = r"ptr(?: addrspace\((\d+)\))?"
_LOAD = re.compile(rf"  ({_NAME}) = load ((?:atomic )?)(.+?), {_POINTER} ({_NAME})(.*)$")
_STORE = re.compile(rf"  store (.+), {_POINTER} ({_NAME})(.*)$")
_GEP = re.compile(rf"  ({_NAME}) = getelementptr (inbounds )?(.+?), {_POINTER} ({_NAME}), (.*)$")
_ALLOCA = re.compile(rf"  ({_NAME}) = alloca (.*)$")
_RMW = re.compile(rf"  ({_NAME}) = atomicrmw (\w+) {_POINTER} ({_NAME}), (\w+) (\S+) (\w+)(.*)$")
_CAS = re.compile(rf"  ({_NAME}) = cmpxchg {_POINTER} ({_NAME}), (\w+) (\S+), \w+ (\S+) (\w+) (\w+)(.*)$")
_ATOMIC = re.compile(r"^(  .* = (?:cmpxchg|atomicrmw) .*?)(monotonic\b.*)$", re.MULTILINE)
"""An atomic operation and its ordering: a launch is on one device, as for all other atomic operations."""
_ACCESSES = ((_LOAD, 4, 3, 5), (_STORE, 2, None, 3), (_GEP, 4, 3, 5), (_RMW, 3, None, 4), (_CAS, 2, None, 3))
"""Patterns of lines with a pointer, and their groups: address space, type pointed to, pointer."""
_NEGATION = re.compile(rf"  ({_NAME}) = fneg ((?:\w+ )*)(float|double) (\S+)$")
_BLOCK = re.compile(rf"ptr byval\((\[[^\]]*\])\) (align \d+ )({_NAME})")
_VARIABLE = r'@(?:"[^"]*"|[\w.$-]+)'
_DEFINED = re.compile(rf"^({_VARIABLE}) = .*?\b(?:global|constant) (\[\d+ x [^\]]+\]|[\w.]+)", re.MULTILINE)
_BYTES = re.compile(rf"\b(i8(?: addrspace\((\d+)\))?\*) ({_VARIABLE})")
_SATURATING = re.compile(r'declare i(\d+) @"llvm\.fpto([su])i\.sat\.i\d+\.f(\d+)"\((?:float|double) [^)]*\)')


def convert(text: str, symbol: str, *, typed: bool) -> str:
    """A module in the dialect with typed or with opaque pointers; ``symbol`` is its kernel.

    Raises
    ------
    CompileError
        If a line has no form in the dialect.
    """
    text = re.sub(r'^target datalayout = ".*"$', f'target datalayout = "{_LAYOUT}"', text, count=1, flags=re.MULTILINE)
    text = re.sub(r",? !dbg !\d+", "", text)  # line tables are made on the way through PTX alone
    text = re.sub(r"^!llvm\.(?:dbg\.cu|module\.flags) .*$|^!\d+ = (?:distinct )?!DI.*$", "", text, flags=re.MULTILINE)
    text = _intrinsics(text.replace("ptx_kernel ", ""))
    if typed:  # the cast of the kernel's parameter stands first in its body
        text = re.sub(r"(byval\(.*)\n\{\nentry:", r"\1", text)
    lines = _typed_lines(text) if typed else _ATOMIC.sub(r'\1syncscope("device") \2', text).splitlines()
    kernel = re.search(rf'^define void @"{re.escape(symbol)}"\((.*?) (?:byval|%)', text, re.MULTILINE)
    if kernel is None:
        raise CompileError(f"there is no kernel {symbol} in the module")
    block = re.search(r"byval\((\[[^\]]*\])\)", text)
    assert block is not None
    parameter = f"{block[1]}*" if typed else "ptr"
    kind = f"void ({parameter})*" if typed else "ptr"
    if typed:  # other annotations of the kernel
        lines = [re.sub(rf'^(!\d+ = !{{ ?).*?(?= @"{re.escape(symbol)}")', rf"\1{kind}", line) for line in lines]
    node_number = 1 + max((int(n) for n in re.findall(r"^!(\d+) =", text, re.MULTILINE)), default=-1)
    named = next((k for k, line in enumerate(lines) if line.startswith("!nvvm.annotations")), None)
    node = f'!{{{kind} @"{symbol}", !"kernel", i32 1}}' if typed else f'!{{ptr @"{symbol}", !"kernel", i32 1}}'
    if named is None:
        lines.append(f"!nvvm.annotations = !{{!{node_number}}}")
    else:
        lines[named] = lines[named].replace("}", f", !{node_number}}}")
    version = node_number + 1
    used = f'i8* bitcast ({kind} @"{symbol}" to i8*)' if typed else f'ptr @"{symbol}"'
    lines += [
        # Without it the kernel is dropped when it is linked.
        f'@llvm.used = appending global [1 x {"i8*" if typed else "ptr"}] [{used}], section "llvm.metadata"',
        f"!{node_number} = {node}",
        f"!nvvmir.version = !{{!{version}}}",
        f"!{version} = !{{i32 2, i32 0, i32 3, i32 1}}",
    ]
    return "\n".join(lines) + "\n"


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


def _pointer(kind: str, space: str | None) -> str:
    return f"{kind} addrspace({space})*" if space else f"{kind}*"


def _untyped(text: str) -> str:
    """Opaque pointer types of a line as pointers to bytes."""
    return re.sub(r"\bptr addrspace\((\d+)\)", r"i8 addrspace(\1)*", re.sub(r"\bptr\b(?! addrspace)", "i8*", text))


def _fresh(name: str, suffix: str) -> str:
    return f'%"{name[1:].strip(chr(34))}.{suffix}"'


def _cast(result: str, pointer: str, kind: str, space: str | None) -> tuple[str, list[str]]:
    """A pointer to ``kind``, and the line that makes it; globals and pointers to bytes are what they are."""
    if pointer.startswith("@") or kind == "i8":
        return pointer, []
    name = _fresh(result, f"of{len(pointer)}")
    return name, [f"  {name} = bitcast {_pointer('i8', space)} {pointer} to {_pointer(kind, space)}"]


def _typed_lines(text: str) -> list[str]:
    """The lines of a module. Variables of the module have types too, so a use of one as bytes is cast."""
    variables = {match[1]: match[2] for match in _DEFINED.finditer(text)}
    out: list[str] = []
    for number, source in enumerate(text.splitlines()):
        before, line = _as_bytes(source, number, variables)
        out += [*before, *(_with_casts(x, variables) for x in _typed(line, number))]
    return out


def _as_bytes(line: str, number: int, variables: dict[str, str]) -> tuple[list[str], str]:
    """A line that reads or writes through a pointer, with a local name for the variable that the pointer is."""
    for pattern, space_at, kind_at, pointer_at in _ACCESSES:
        match = pattern.match(line)
        if match is None or match[pointer_at] not in variables:
            continue
        held = variables[match[pointer_at]]
        if kind_at is not None and match[kind_at] == held:
            return [], line
        name = f"%global.{number}"
        cast = f"  {name} = bitcast {_pointer(held, match[space_at])} {match[pointer_at]} to "
        start, end = match.span(pointer_at)
        return [cast + _pointer("i8", match[space_at])], line[:start] + name + line[end:]
    return [], line


def _with_casts(line: str, variables: dict[str, str]) -> str:
    """A line in which pointers to bytes that are variables of the module are cast in place."""

    def cast(match: re.Match[str]) -> str:
        kind, space, name = match.groups()
        if name not in variables:
            return match[0]
        return f"{kind} bitcast ({_pointer(variables[name], space)} {name} to {kind})"

    return _BYTES.sub(cast, line)


def _typed(line: str, number: int) -> list[str]:
    if match := _LOAD.match(line):
        result, atomic, kind, space, pointer, rest = match.groups()
        kind = _untyped(kind)
        typed, before = _cast(result, pointer, kind, space)
        return [*before, f"  {result} = load {atomic}{kind}, {_pointer(kind, space)} {typed}{rest}"]
    if match := _STORE.match(line):
        value, space, pointer, rest = match.groups()
        value = _untyped(value)
        kind = value.rsplit(" ", 1)[0]
        typed, before = _cast(f"%store.{number}", pointer, kind, space)
        return [*before, f"  store {value}, {_pointer(kind, space)} {typed}{rest}"]
    if match := _GEP.match(line):
        return _gep(*match.groups())
    if match := _ALLOCA.match(line):
        result, kind = match.groups()
        slot = _fresh(result, "slot")
        element = kind.split(",")[0]
        return [f"  {slot} = alloca {kind}", f"  {result} = bitcast {element}* {slot} to i8*"]
    if match := _RMW.match(line):
        return _update(*match.groups())
    if match := _CAS.match(line):
        result, space, pointer, kind, old, new, success, failure, rest = match.groups()
        typed, before = _cast(result, pointer, kind, space)
        values = f"{kind} {old}, {kind} {new} {success} {failure}{rest}"
        return [*before, f"  {result} = cmpxchg {_pointer(kind, space)} {typed}, {values}"]
    if match := _NEGATION.match(line):
        result, flags, kind, value = match.groups()
        return [f"  {result} = fsub {flags}{kind} -0.0, {value}"]
    if match := _BLOCK.search(line):
        kind, align, name = match.groups()
        parameter = _fresh(name, "block")
        line = line.replace(match[0], f"{kind}* byval {align}{parameter}")
        return [line, "{", "entry:", f"  {name} = bitcast {kind}* {parameter} to i8*"]
    return [_untyped(line)]


def _gep(result: str, inbounds: str | None, kind: str, space: str | None, pointer: str, indices: str) -> list[str]:
    typed, before = _cast(result, pointer, kind, space)
    element = kind
    if "," in indices.split("!", maxsplit=1)[0]:
        inner = re.fullmatch(r"\[\d+ x (.+)\]", kind)
        if inner is None:
            raise CompileError(f"getelementptr into {kind} has no form for libNVVM")
        element = inner[1]
    place = result if element == "i8" else _fresh(result, "at")
    out = [f"  {place} = getelementptr {inbounds or ''}{kind}, {_pointer(kind, space)} {typed}, {indices}"]
    if element != "i8":
        out.append(f"  {result} = bitcast {_pointer(element, space)} {place} to {_pointer('i8', space)}")
    return [*before, *out]


def _update(
    result: str, kind: str, space: str | None, pointer: str, ty: str, value: str, order: str, rest: str
) -> list[str]:
    typed, before = _cast(result, pointer, ty, space)
    if kind in ("fadd", "fsub") or (kind == "xchg" and ty in ("float", "double")):
        raise CompileError(f"atomicrmw {kind} of {ty} has no form for libNVVM")
    return [*before, f"  {result} = atomicrmw {kind} {_pointer(ty, space)} {typed}, {ty} {value} {order}{rest}"]
