"""Runs what the CUDA emitter emits on this machine's processor, thread by thread: an oracle that needs no GPU.

The module's text is the one that goes to NVIDIA's compilers, but for what only a GPU has: the special registers become
variables that the runner sets, a block is one thread (so no lane is there to shuffle from, and a barrier waits for
nobody), ``red`` and ``atom`` become LLVM's own atomic operations, functions of libdevice those of libm. The approximate
instructions err by one unit in the last place wherever they can, and flush subnormal numbers.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diffkern.backends.cuda.kernel import emit_kernel
from diffkern.backends.llvm import target
from diffkern.ir.nodes import Function
from diffkern.passes.expand import expand_composites
from diffkern.runtime.native.loader import load_object

sys.path.insert(0, str(Path(__file__).parent.parent))  # the CPU back end's tests are used here
import cpu_harness
import test_cpu_checks

__all__ = ["HostBlocks", "HostCuda", "cpu_harness", "host_text", "test_cpu_checks"]

_serial = itertools.count()
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
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
}


def host_text(text: str, symbol: str, *, together: bool = False) -> str:
    """The module for the host; its function ``<symbol>.set`` sets the special registers.

    With ``together`` it takes the addresses of functions that wait at a barrier, exchange values between threads, and
    know which thread asks for a register.
    """
    text = text.replace("ptx_kernel ", "")
    text = re.sub(r"byval\([^)]*\) ?", "", text)
    text = text.replace("addrspace(3)", "").replace("addrspace(4)", "")
    shims = [_callbacks(symbol) if together else _registers(symbol)]
    for k, name in enumerate(_REGISTERS):
        text, found = _replace_function(text, f"llvm.nvvm.read.ptx.sreg.{name}", f"host.register.{k}")
        if found and together:
            shims.append(
                f"define internal i32 @host.register.{k}() {{\n{_call(0, 'i32', f'i32 {k}')}\n  ret i32 %v\n}}"
            )
        elif found:
            shims.append(
                f"define internal i32 @host.register.{k}() {{\n"
                f"  %p = getelementptr i32, ptr @host.registers, i64 {k}\n  %v = load i32, ptr %p\n  ret i32 %v\n}}"
            )
    text, found = _replace_function(text, "llvm.nvvm.shfl.sync.down.i32p", "host.shuffle")
    if found and together:
        shims.append(
            "define internal {i32, i1} @host.shuffle(i32 %mask, i32 %a, i32 %distance, i32 %last) {\n"
            f"{_call(2, 'i64', 'i32 %a, i32 %distance, i32 %last')}\n"
            "  %low = trunc i64 %v to i32\n  %high = lshr i64 %v, 32\n  %p = trunc i64 %high to i1\n"
            "  %r = insertvalue {i32, i1} undef, i32 %low, 0\n  %s = insertvalue {i32, i1} %r, i1 %p, 1\n"
            "  ret {i32, i1} %s\n}"
        )
    elif found:
        shims.append(
            "define internal {i32, i1} @host.shuffle(i32, i32, i32, i32) {\n  ret {i32, i1} zeroinitializer\n}"
        )
    text, found = _replace_function(text, "llvm.nvvm.barrier0", "host.barrier")
    if found:
        wait = _call(1, "i32", "i32 0") if together else ""
        shims.append(f"define internal void @host.barrier() {{\n{wait}\n  ret void\n}}")
    text = _atomics(text)
    for name, body in _BODIES.items():
        instruction = f'asm  "{name}.approx.ftz.f32 $0, $1;", "=f,f"'
        if instruction in text:
            text = text.replace(instruction, f"@host.{name}")
            shims.append(_APPROXIMATE.format(name=name, body=body))
    assert " asm " not in text, "an instruction without a form on the host"
    text = _library(text, shims)
    out = text + "\n" + "\n".join(shims) + "\n"
    for declared, second in (("fabs.f32", ""), ("sqrt.f32", ""), ("sqrt.f64", ""), ("copysign.f32", ", float")):
        if not re.search(rf'declare [^\n]*@"?llvm.{re.escape(declared)}"?\(', out):
            ty = "double" if declared.endswith("64") else "float"
            out += f"declare {ty} @llvm.{declared}({ty}{second})\n"
    return out


def _registers(symbol: str) -> str:
    stores = "\n".join(
        f"  %p{k} = getelementptr i32, ptr @host.registers, i64 {k}\n  store i32 %a{k}, ptr %p{k}" for k in range(4)
    )
    return (
        "@host.registers = internal global [8 x i32] zeroinitializer\n"
        f'define void @"{symbol}.set"(i32 %a0, i32 %a1, i32 %a2, i32 %a3) {{\n{stores}\n  ret void\n}}'
    )


def _callbacks(symbol: str) -> str:
    stores = "\n".join(
        f"  %p{k} = getelementptr ptr, ptr @host.callbacks, i64 {k}\n  store ptr %a{k}, ptr %p{k}" for k in range(3)
    )
    return (
        "@host.callbacks = internal global [3 x ptr] zeroinitializer\n"
        f'define void @"{symbol}.set"(ptr %a0, ptr %a1, ptr %a2) {{\n{stores}\n  ret void\n}}'
    )


def _call(k: int, result: str, arguments: str) -> str:
    return (
        f"  %c = getelementptr ptr, ptr @host.callbacks, i64 {k}\n  %f = load volatile ptr, ptr %c\n"
        f"  %v = call {result} %f({arguments})"
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
        if name.rstrip("f") == "rsqrt":
            text, _ = _replace_function(text, f"__nv_{name}", f"host.{name}")
            shims.append(
                f"define internal {ty} @host.{name}({ty} %x) {{\n  %r = call {ty} @llvm.sqrt.{suffix}({ty} %x)\n"
                f"  %q = fdiv {ty} 1.0, %r\n  ret {ty} %q\n}}"
            )
        else:
            text = text.replace(f'@"__nv_{name}"', f'@"{name}"')
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
        Threads of a block. They run one after the other, each through all barriers: with more than one, no thread may
        need what a later one does.
    options
        What :func:`emit_kernel` takes.
    """

    def __init__(self, fn: Function, grid: int = 1, threads: int = 1, **options: Any) -> None:
        self.grid, self.threads = grid, threads
        symbol = f"cuda_on_host_{next(_serial)}"
        t = target.target()
        self.module = emit_kernel(expand_composites(fn), symbol, triple=t.triple, data_layout=t.data_layout, **options)
        text = host_text(self.module.text, symbol)
        code = target.object_code(target.optimise(text, 10**9, t), t)
        addresses = load_object(code, [symbol, f"{symbol}.set"])
        self._entry = _ENTRY(addresses[symbol])
        self._set = ctypes.CFUNCTYPE(None, *[ctypes.c_int] * 4)(addresses[f"{symbol}.set"])

    def launch(self, block: bytes) -> None:
        """Run all threads of the grid, one after the other."""
        buffer = ctypes.create_string_buffer(block)
        for k, thread in itertools.product(range(self.grid), range(self.threads)):
            self._set(thread, self.threads, k, self.grid)
            self._entry(ctypes.addressof(buffer))


class HostBlocks:
    """A function of the IR, compiled as for CUDA; the threads of a block are threads of this process.

    Parameters
    ----------
    fn
        The function.
    block_dim
        Threads of a block.
    grid
        Number of blocks, which run one after the other.
    """

    def __init__(self, fn: Function, block_dim: int, grid: int = 1, **options: Any) -> None:
        self.fn, self.grid, self.block_dim = fn, grid, block_dim
        symbol = f"cuda_on_host_{next(_serial)}"
        t = target.target()
        expanded = expand_composites(fn)
        module = emit_kernel(expanded, symbol, triple=t.triple, data_layout=t.data_layout, **options)
        text = host_text(module.text, symbol, together=True)
        code = target.object_code(target.optimise(text, 10**9, t), t)
        addresses = load_object(code, [symbol, f"{symbol}.set"])
        self._entry = _ENTRY(addresses[symbol])
        self.me = threading.local()
        self.block = 0
        self.values: dict[int, int] = {}
        self.barrier = threading.Barrier(block_dim, timeout=60)
        self._callbacks = (
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(self._register),
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(self._wait),
            ctypes.CFUNCTYPE(ctypes.c_longlong, *[ctypes.c_int] * 3)(self._shuffle),
        )
        places = [ctypes.cast(c, ctypes.c_void_p) for c in self._callbacks]
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(addresses[f"{symbol}.set"])(*places)

    def _register(self, which: int) -> int:
        return (self.me.thread, self.block_dim, self.block, self.grid)[which]

    def _wait(self, _: int) -> int:
        self.barrier.wait()
        return 0

    def _shuffle(self, value: int, distance: int, last: int) -> int:
        me = self.me.thread
        self.values[me] = value
        self.barrier.wait()
        present = me % 32 + distance <= last
        found = self.values.get(me + distance, 0) if present else value  # a lane may be missing from the last warp
        self.barrier.wait()
        return (found & 0xFFFFFFFF) | (int(present) << 32)

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        """Run all threads; arrays among `args` are changed in place."""
        buffer = ctypes.create_string_buffer(cpu_harness.pack(self.fn, args, tuple(dim), 0, 0))

        def thread(k: int) -> None:
            self.me.thread = k
            self._entry(ctypes.addressof(buffer))

        for block in range(self.grid):
            self.block = block
            running = [threading.Thread(target=thread, args=(k,)) for k in range(self.block_dim)]
            for t in running:
                t.start()
            for t in running:
                t.join()
