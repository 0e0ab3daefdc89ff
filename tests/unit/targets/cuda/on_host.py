"""Runs what the CUDA emitter emits on this machine's processor, thread by thread: an oracle that needs no GPU.

The module's text is the one that goes to NVIDIA's compilers, but for what only a GPU has: the special registers become
variables that the runner sets, ``red`` and ``atom`` become LLVM's own atomic operations, functions of libdevice those
of libm. The approximate instructions err by one unit in the last place wherever they can, and flush subnormal numbers.
The matrix products that libmathdx would make are three loops of the first thread, over the layouts and types asked for.

The threads of a block take turns: each runs up to a barrier or a shuffle, in an order that changes every time, so that
a missing barrier shows. Where threads of a block meet at different places, the launch fails.
"""

from __future__ import annotations

import ctypes
import itertools
import random
import re
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from diffkern.contracts.argument_block import gpu_header
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function
from diffkern.ir.passes import run
from diffkern.runtime.native.loader import load_object
from diffkern.targets import target_named
from diffkern.targets.cpu import object_code as target
from diffkern.targets.cuda.kernel import emit_kernel
from diffkern.targets.cuda.mathdx import Product
from diffkern.targets.target import Settings

sys.path.insert(0, str(Path(__file__).parent.parent))  # the CPU back end's tests are used here
import cpu_harness
import test_cpu_checks
from product_call import calls, products_of

__all__ = ["HostCuda", "cpu_harness", "host_text", "test_cpu_checks"]

_serial = itertools.count()
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_PLACE = ctypes.CFUNCTYPE(None, ctypes.c_int)
_REGISTERS = ("tid.x", "ntid.x", "ctaid.x", "nctaid.x")

_APPROXIMATE = """
define internal float @host.{name}(float %x0) {{
  %m0 = call float @llvm.fabs.f32(float %x0)
  %s0 = fcmp olt float %m0, 0x3810000000000000
  %z0 = call float @llvm.copysign.f32(float 0.0, float %x0)
  %x = select i1 %s0, float %z0, float %x0
  {body}
  %b = bitcast float %r to i32
  %b1 = xor i32 %b, 1
  %r1 = bitcast i32 %b1 to float
  %m = call float @llvm.fabs.f32(float %r)
  %normal = fcmp oge float %m, 0x3810000000000000
  %finite = fcmp olt float %m, 0x7FF0000000000000
  %both = and i1 %normal, %finite
  %z = call float @llvm.copysign.f32(float 0.0, float %r)
  %small = fcmp olt float %m, 0x3810000000000000
  %e0 = select i1 %both, float %r1, float %r
  %e = select i1 %small, float %z, float %e0
  ret float %e
}}"""
_BODIES = {
    "rcp": "%r = fdiv float 1.0, %x",
    "rsqrt": "%q = call float @llvm.sqrt.f32(float %x)\n  %r = fdiv float 1.0, %q",
    "sqrt": "%r = call float @llvm.sqrt.f32(float %x)",
    "sin": "%r = call float @sinf(float %x)",
    "cos": "%r = call float @cosf(float %x)",
}
_QUOTIENT = """
define internal float @host.div(float %x, float %y) {
  %m = call float @llvm.fabs.f32(float %y)
  %s = fcmp olt float %m, 0x3810000000000000
  %z = call float @llvm.copysign.f32(float 0.0, float %y)
  %d = select i1 %s, float %z, float %y
  %r = fdiv float %x, %d
  ret float %r
}"""
_FAST_POWER = """
define internal float @host.fast_powf(float %x, float %y) {
  %l = call float @log2f(float %x)
  %p = fmul float %y, %l
  %r = call float @exp2f(float %p)
  ret float %r
}
declare float @log2f(float)
declare float @exp2f(float)"""
"""As libdevice has it."""

_MEETING = """
@host.meet = internal global ptr null
define void @"SYMBOL.meet"(ptr %f) {
  store ptr %f, ptr @host.meet
  ret void
}
define internal void @host.wait(i32 %place) {
  %f = load ptr, ptr @host.meet
  call void %f(i32 %place)
  ret void
}"""
_SHUFFLE = {
    way: f"""
@host.lanes.{way} = global [1024 x i32] undef
define internal {{i32, i1}} @host.shuffle.{way}(i32 %mask, i32 %value, i32 %distance, i32 %bound) {{
  %me = load i32, ptr @host.registers
  %mine = getelementptr i32, ptr @host.lanes.{way}, i32 %me
  store i32 %value, ptr %mine
  call void @host.wait(i32 1)
  %lane = and i32 %me, 31
  %other = {operation} i32 %lane, %distance
  %there = icmp {test} i32 %other, %bound
  %from = select i1 %there, i32 %other, i32 %lane
  %offset = sub i32 %from, %lane
  %place = getelementptr i32, ptr %mine, i32 %offset
  %found = load i32, ptr %place
  call void @host.wait(i32 2)
  %pair = insertvalue {{i32, i1}} undef, i32 %found, 0
  %out = insertvalue {{i32, i1}} %pair, i1 %there, 1
  ret {{i32, i1}} %out
}}"""
    for way, operation, test in (("down", "add", "sle"), ("up", "sub", "sge"))
}


_PRODUCT = """
define internal void @"{symbol}"(ptr %alpha, ptr %a, ptr %b, ptr %beta, ptr %c) {{
entry:
  %scale = load {c}, ptr %alpha
  %keep = load {c}, ptr %beta
  %fresh = fcmp oeq {c} %keep, 0.0
  %thread = call i32 @host.register.0()
  %first = icmp eq i32 %thread, 0
  br i1 %first, label %row, label %end
row:
  %i = phi i64 [ 0, %entry ], [ %i1, %done ]
  br label %column
column:
  %j = phi i64 [ 0, %row ], [ %j1, %store ]
  br label %term
term:
  %l = phi i64 [ 0, %column ], [ %l1, %term ]
  %sum = phi {c} [ 0.0, %column ], [ %sum1, %term ]
  %ia = mul i64 %i, {row_a}
  %la = mul i64 %l, {column_a}
  %at = add i64 %ia, %la
  %lb = mul i64 %l, {row_b}
  %jb = mul i64 %j, {column_b}
  %bt = add i64 %lb, %jb
  %pa = getelementptr {held}, ptr %a, i64 %at
  %pb = getelementptr {held}, ptr %b, i64 %bt
  %xa = load {held}, ptr %pa
  %xb = load {held}, ptr %pb
  {widen}
  %xy = fmul {c} %wa, %wb
  %sum1 = fadd {c} %sum, %xy
  %l1 = add i64 %l, 1
  %more = icmp slt i64 %l1, {k}
  br i1 %more, label %term, label %store
store:
  %ic = mul i64 %i, {n}
  %ct = add i64 %ic, %j
  %pc = getelementptr {c}, ptr %c, i64 %ct
  %old = load {c}, ptr %pc
  %kept = fmul {c} %keep, %old
  %base = select i1 %fresh, {c} 0.0, {c} %kept
  %scaled = fmul {c} %scale, %sum1
  %new = fadd {c} %base, %scaled
  store {c} %new, ptr %pc
  %j1 = add i64 %j, 1
  %columns = icmp slt i64 %j1, {n}
  br i1 %columns, label %column, label %done
done:
  %i1 = add i64 %i, 1
  %rows = icmp slt i64 %i1, {m}
  br i1 %rows, label %row, label %end
end:
  ret void
}}"""


def _product(p: Product) -> str:
    """The reference of a product of the library."""
    assert p.a == p.b
    names = {"float16": "half", "bfloat16": "bfloat", "tf32": "float", "float32": "float", "float64": "double"}
    held, c = names[p.a], names[p.c]
    widen = "%w{0} = fadd {1} 0.0, %x{0}" if held == c else f"%w{{0}} = fpext {held} %x{{0}} to {{1}}"
    row_a, column_a = (1, p.m) if p.columns_a else (p.k, 1)
    row_b, column_b = (1, p.k) if p.columns_b else (p.n, 1)
    return _PRODUCT.format(
        symbol=p.symbol, held=held, c=c, m=p.m, n=p.n, k=p.k, row_a=row_a, column_a=column_a, row_b=row_b,
        column_b=column_b, widen="\n  ".join(widen.format(x, c) for x in "ab"),
    )  # fmt: skip


def host_text(text: str, symbol: str, products: Sequence[Product] = ()) -> str:
    """The module for the host; its function ``<symbol>.set`` sets the special registers."""
    text = re.sub(r"addrspacecast (ptr) addrspace\(3\)\s+(\S+) to ptr", r"bitcast ptr \2 to ptr", text)
    text = text.replace("ptx_kernel ", "")
    text = re.sub(r"byval\([^)]*\) ?", "", text)
    text = text.replace("addrspace(3)", "").replace("addrspace(4)", "")
    shims = [_registers(symbol), *map(_product, products)]
    for product in products:
        text = re.sub(rf'declare [^\n]*@"{product.symbol}"[^\n]*', "", text)
    for k, name in enumerate(_REGISTERS):
        text, found = _replace_function(text, f"llvm.nvvm.read.ptx.sreg.{name}", f"host.register.{k}")
        if found:
            shims.append(
                f"define internal i32 @host.register.{k}() {{\n"
                f"  %p = getelementptr i32, ptr @host.registers, i64 {k}\n  %v = load i32, ptr %p\n  ret i32 %v\n}}"
            )
    # Other threads change shared memory while a thread waits: memory that others can see.
    text = re.sub(r"= internal\s+global (\[\d+ x \w+\] undef)", r"= global \1", text)
    text = re.sub(r"= external\s+global \[0 x i8\]", "= global [262144 x i8] undef", text)
    shims.append(_MEETING.replace("SYMBOL", symbol))
    for way in ("down", "up"):
        text, found = _replace_function(text, f"llvm.nvvm.shfl.sync.{way}.i32p", f"host.shuffle.{way}")
        if found:
            shims.append(_SHUFFLE[way])
    text, found = _replace_function(text, "llvm.nvvm.barrier0", "host.barrier")
    if found:
        shims.append("define internal void @host.barrier() {\n  call void @host.wait(i32 0)\n  ret void\n}")
    text = _atomics(text)
    for name, ty in (("f16x2", "half"), ("bf16x2", "bfloat")):
        called = re.compile(rf'asm sideeffect "red.relaxed.gpu.global.add.noftz.{name} [^"]*", "[^"]*"')
        if called.search(text):
            text = called.sub(f"@host.add.{name}", text)
            shims.append(
                f"define internal void @host.add.{name}(ptr %p, i32 %x) {{\n  %v = bitcast i32 %x to <2 x {ty}>\n"
                f"  %ignored = atomicrmw fadd ptr %p, <2 x {ty}> %v monotonic\n  ret void\n}}"
            )
    for count in (2, 4):
        called = re.compile(rf'asm sideeffect "red.relaxed.gpu.global.add.v{count}.f32 [^"]*", "[^"]*"')
        if called.search(text):
            text = called.sub(f"@host.add.v{count}", text)
            shims.append(_sum_of_vector(count))
    for name, body in _BODIES.items():
        instruction = f'asm  "{name}.approx.ftz.f32 $0, $1;", "=f,f"'
        if instruction in text:
            text = text.replace(instruction, f"@host.{name}")
            shims.append(_APPROXIMATE.format(name=name, body=body))
            if f"@{name}f(" in body:
                shims.append(f"declare float @{name}f(float)")
    divides = 'asm  "div.full.ftz.f32 $0, $1, $2;", "=f,f,f"'
    if divides in text:
        text = text.replace(divides, "@host.div")
        shims.append(_QUOTIENT)
    assert " asm " not in text, "an instruction without a form on the host"
    text = _library(text, shims)
    out = text + "\n" + "\n".join(shims) + "\n"
    for declared, second in (("fabs.f32", ""), ("sqrt.f32", ""), ("sqrt.f64", ""), ("copysign.f32", ", float")):
        if not re.search(rf'declare [^\n]*@"?llvm.{re.escape(declared)}"?\(', out):
            ty = "double" if declared.endswith("64") else "float"
            out += f"declare {ty} @llvm.{declared}({ty}{second})\n"
    return out


def _sum_of_vector(count: int) -> str:
    """Each number is added by itself, as the hardware does."""
    given = ", ".join(f"float %x{k}" for k in range(count))
    added = "\n".join(
        f"  %p{k} = getelementptr float, ptr %p, i64 {k}\n"
        f"  %ignored{k} = atomicrmw fadd ptr %p{k}, float %x{k} monotonic"
        for k in range(count)
    )
    return f"define internal void @host.add.v{count}(ptr %p, {given}) {{\n{added}\n  ret void\n}}"


def _registers(symbol: str) -> str:
    stores = "\n".join(
        f"  %p{k} = getelementptr i32, ptr @host.registers, i64 {k}\n  store i32 %a{k}, ptr %p{k}" for k in range(4)
    )
    return (
        "@host.registers = internal global [8 x i32] zeroinitializer\n"
        f'define void @"{symbol}.set"(i32 %a0, i32 %a1, i32 %a2, i32 %a3) {{\n{stores}\n  ret void\n}}'
    )


def _replace_function(text: str, name: str, by: str) -> tuple[str, bool]:
    if f'@"{name}"' not in text:
        return text, False
    text = re.sub(rf'declare [^\n]*@"{re.escape(name)}"[^\n]*', "", text)
    return text.replace(f'@"{name}"', f"@{by}"), True


def _atomics(text: str) -> str:
    found = re.compile(
        r'call (\w+) asm sideeffect "(red|atom)\.relaxed\.\w+\.\w+\.(add|min|max)\.(\w)\d+ [^"]*", "[^"]*"'
        r"\((ptr[^,]*), (\w+) ([^)]*)\)"
    )

    def operation(match: re.Match[str]) -> str:
        _, name, kind, letter, pointer, ty, value = match.groups()
        spelled = f"f{kind}" if letter == "f" else f"u{kind}" if letter == "u" and kind != "add" else kind
        before = "%ignored = " if name == "red" else ""
        return f"{before}atomicrmw {spelled} {pointer}, {ty} {value} monotonic"

    return found.sub(operation, text)


def _library(text: str, shims: list[str]) -> str:
    for name in sorted(set(re.findall(r"__nv_(\w+)", text))):
        single = f'float @"__nv_{name}"' in text
        ty, suffix = ("float", "f32") if single else ("double", "f64")
        if name == "fast_powf":
            text, _ = _replace_function(text, f"__nv_{name}", f"host.{name}")
            shims.append(_FAST_POWER)
        elif name.rstrip("f") == "rsqrt":
            text, _ = _replace_function(text, f"__nv_{name}", f"host.{name}")
            shims.append(
                f"define internal {ty} @host.{name}({ty} %x) {{\n  %r = call {ty} @llvm.sqrt.{suffix}({ty} %x)\n"
                f"  %q = fdiv {ty} 1.0, %r\n  ret {ty} %q\n}}"
            )
        else:
            text = text.replace(f'@"__nv_{name}"', f'@"{name.removeprefix("fast_")}"')
    return text


class HostCuda:
    """A function of the IR, compiled as for CUDA and run here.

    Parameters
    ----------
    fn
        The function.
    grid
        Number of blocks.
    threads
        Threads of a block.
    arch
        The architecture whose libraries it calls.
    settings
        Of the program.
    """

    def __init__(self, fn: Function, grid: int = 1, threads: int = 1, arch: str = "sm_90", **settings: Any) -> None:
        self.grid, self.threads, self.fn = grid, threads, fn
        symbol = f"cuda_on_host_{next(_serial)}"
        t, given = target.machine(), Settings(**settings)
        fn = run(target_named(arch).lowering(replace(given, may_alias=False)), clone_function(fn))
        with calls():
            self.module = emit_kernel(fn, symbol, replace(t.isa, halves=True), given, arch=arch)
        text = host_text(self.module.text, symbol, products_of(fn, arch))
        code = target.object_code(target.optimise(text, 10**9, t), t)
        addresses = load_object(code, [symbol, f"{symbol}.set", f"{symbol}.meet"])
        self._entry = _ENTRY(addresses[symbol])
        self._set = ctypes.CFUNCTYPE(None, *[ctypes.c_int] * 4)(addresses[f"{symbol}.set"])
        self._meet = _ENTRY(addresses[f"{symbol}.meet"])

    def launch(self, block: bytes) -> None:
        """Run all threads of the grid, the blocks one after the other; the header may be a CPU's."""
        status, *dims = struct.unpack_from("5q", block)
        at_once = self.grid * (1 if self.fn.tiled else self.threads)
        head = gpu_header(dims, self.fn.tid_arity, at_once, status)
        buffer = ctypes.create_string_buffer(head + block[len(head) :])
        for k in range(self.grid):
            turns = _Turns(self.threads)
            meet = _PLACE(turns.meet)
            self._meet(ctypes.cast(meet, ctypes.c_void_p))
            turns.run(
                lambda thread, k=k: self._set(thread, self.threads, k, self.grid),
                lambda: self._entry(ctypes.addressof(buffer)),
            )


class _Turns:
    """Lets the threads of a block run one at a time, from one meeting to the next."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.random = random.Random(count)
        self.current = 0
        self.places: list[int | None] = [None] * count  # where each waits; None when it has ended
        self.turn = [threading.Semaphore(0) for _ in range(count)]
        self.done = threading.Semaphore(0)

    def meet(self, place: int) -> None:
        """A thread waits for the others."""
        me = self.current
        self.places[me] = place
        self.done.release()
        self.turn[me].acquire()

    def run(self, enter: Callable[[int], None], body: Callable[[], None]) -> None:
        def whole(me: int) -> None:
            self.turn[me].acquire()
            body()
            self.places[me] = None
            self.done.release()

        workers = [threading.Thread(target=whole, args=(me,), daemon=True) for me in range(self.count)]
        for worker in workers:
            worker.start()
        order = list(range(self.count))
        while True:
            self.random.shuffle(order)
            for me in order:
                self.current = me
                enter(me)
                self.turn[me].release()
                self.done.acquire()
            assert len(set(self.places)) == 1, f"threads of a block wait in different places: {self.places}"
            if self.places[0] is None:
                break
        for worker in workers:
            worker.join()
