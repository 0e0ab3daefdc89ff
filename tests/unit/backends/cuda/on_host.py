"""Runs what the CUDA emitter emits on this machine's processor, thread by thread: an oracle that needs no GPU.

The module's text is the one that goes to NVIDIA's compilers, but for what only a GPU has: the special registers become
variables that the runner sets, a warp is one thread (so a shuffle brings zero), ``red`` becomes LLVM's own atomic
operation, the approximate instructions become exact ones, and functions of libdevice those of libm.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import sys
from pathlib import Path
from typing import Any

from diffkern.backends.cuda.kernel import emit_kernel
from diffkern.backends.llvm import target
from diffkern.ir.nodes import Function
from diffkern.passes.expand import expand_composites
from diffkern.runtime.native.loader import load_object

sys.path.insert(0, str(Path(__file__).parent.parent))  # the CPU back end's tests are used here
import cpu_harness  # noqa: E402

__all__ = ["HostCuda", "cpu_harness", "host_text"]

_serial = itertools.count()
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_REGISTERS = ("tid.x", "ntid.x", "ctaid.x", "nctaid.x", "laneid")


def _approximation(declarations: str, body: str) -> str:
    """An approximate instruction that flushes subnormal numbers and errs in the last bit wherever it can."""
    return f"""{declarations}
define internal float @"NAME"(float %x0) {{
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


_APPROXIMATIONS = {
    "rcp": _approximation("", "%r = fdiv float 1.0, %x"),
    "rsqrt": _approximation("", "%q = call float @llvm.sqrt.f32(float %x)\n  %r = fdiv float 1.0, %q"),
}


def host_text(text: str, symbol: str) -> str:
    """The module for the host; ``<symbol>.set`` sets the special registers."""
    text = text.replace("ptx_kernel ", "")
    text = re.sub(r"byval\([^)]*\) ?", "", text)
    shims = []
    for k, name in enumerate(_REGISTERS):
        register = f"llvm.nvvm.read.ptx.sreg.{name}"
        if register in text:
            text = re.sub(rf'declare i32 @"{re.escape(register)}"\(\)', "", text)
            text = text.replace(f'@"{register}"', f'@"host.register.{k}"')
            shims.append(
                f'define internal i32 @"host.register.{k}"() alwaysinline {{ %p = getelementptr i32, ptr @host.registers,'
                f" i64 {k}\n %v = load i32, ptr %p\n ret i32 %v }}"
            )
    shims.append("@host.registers = internal global [8 x i32] zeroinitializer")
    stores = "\n".join(
        f"%p{k} = getelementptr i32, ptr @host.registers, i64 {k}\n store i32 %a{k}, ptr %p{k}" for k in range(4)
    )
    shims.append(f'define void @"{symbol}.set"(i32 %a0, i32 %a1, i32 %a2, i32 %a3) {{ {stores}\n ret void }}')
    if "llvm.nvvm.shfl.sync" in text:
        text = re.sub(r"declare i32 @\"llvm.nvvm.shfl.sync[^\n]*", "", text)
        text = re.sub(r'call i32 @"llvm.nvvm.shfl.sync.[^"]*"', "call i32 @host.shuffle", text)
        shims.append("define internal i32 @host.shuffle(i32, i32, i32, i32) { ret i32 0 }")
    for kind, ty, name in (
        ("fadd", "float", "f32"),
        ("fadd", "double", "f64"),
        ("add", "i32", "u32"),
        ("add", "i64", "u64"),
    ):
        text = re.sub(
            rf'call void asm sideeffect "red[^"]*\.{name} \[\$0\], \$1;", "[^"]*"\s*\((ptr addrspace\(1\) %"?[^",]*"?), {ty} (%"?[^")]*"?)\)',
            rf"%ignored = atomicrmw {kind} \1, {ty} \2 monotonic",
            text,
        )
    for name, template in _APPROXIMATIONS.items():
        instruction = f'asm  "{name}.approx.ftz.f32 $0, $1;", "=f,f"'
        if instruction in text:
            text = text.replace(instruction, f'@"host.{name}"')
            shims.append(template.replace("NAME", f"host.{name}"))
    for name in sorted(set(re.findall(r"__nv_(\w+)", text))):
        width = "double"
        plain = name
        if f'float @"__nv_{name}"' in text:
            width, plain = "float", name[:-1]
        if plain == "rsqrt":
            text = re.sub(rf'declare {width} @"__nv_{name}"[^\n]*', "", text)
            suffix = "f32" if width == "float" else "f64"
            shims.append(
                f'define internal {width} @"__nv_{name}"({width} %x) {{ %r = call {width} @llvm.sqrt.{suffix}({width} %x)\n'
                f" %q = fdiv {width} 1.0, %r\n ret {width} %q }}"
                + (f"\ndeclare double @llvm.sqrt.f64(double)" if width == "double" else "")
            )
        else:
            text = text.replace(f'@"__nv_{name}"', f'@"{name}"')
    out = text + "\n" + "\n".join(shims)
    for declared in ("llvm.fabs.f32", "llvm.sqrt.f32", "llvm.copysign.f32"):
        second = ", float" if "copysign" in declared else ""
        if not re.search(rf'declare [^\n]*@"?{re.escape(declared)}"?\(', out):
            out += f"\ndeclare float @{declared}(float{second})"
    return out


class HostCuda:
    """A function of the IR, compiled as for CUDA and run here.

    Parameters
    ----------
    fn
        The function.
    grid
        Blocks of one thread each.
    """

    def __init__(self, fn: Function, grid: int = 1, **options: Any) -> None:
        self.grid = grid
        self.types = tuple(p.type for p in fn.params)
        symbol = f"cuda_on_host_{next(_serial)}"
        t = target.target()
        self.module = emit_kernel(expand_composites(fn), symbol, triple=t.triple, data_layout=t.data_layout, **options)
        text = host_text(self.module.text, symbol)
        code = target.object_code(target.optimise(text, 10**9, t), t)
        addresses = load_object(code, [symbol, f"{symbol}.set"])
        self.entry = _ENTRY(addresses[symbol])
        self.set = ctypes.CFUNCTYPE(None, *[ctypes.c_int] * 4)(addresses[f"{symbol}.set"])

    def launch(self, block: bytes) -> None:
        """Run all threads of the grid, one after the other."""
        buffer = ctypes.create_string_buffer(block)
        for k in range(self.grid):
            self.set(0, 1, k, self.grid)
            self.entry(ctypes.addressof(buffer))
