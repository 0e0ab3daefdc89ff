"""Functions of the IR to machine code in one call."""

from __future__ import annotations

from typing import Any

from diffkern.ir.nodes import Function
from diffkern.targets import target_named
from diffkern.targets.target import Compiled, Settings


def compile_function(fn: Function, symbol: str, target: str = "native", **settings: Any) -> Compiled:
    """Compile a function for a target."""
    return target_named(target).compile(fn, symbol, Settings(**settings))


def by_nvidia(fn: Function, symbol: str, arch: str = "sm_90", **settings: Any) -> bytes:
    """The cubin of a function that NVIDIA's compilers make, as of one that calls a library."""
    from diffkern.targets.cuda import toolchain

    return toolchain.assemble(toolchain.link([lto_code(fn, symbol, arch, **settings)], arch, symbol), arch, symbol)


def lto_code(fn: Function, symbol: str, arch: str = "sm_90", **settings: Any) -> bytes:
    """The LTO code of a function for a GPU."""
    from diffkern.targets.cuda import toolchain
    from diffkern.targets.cuda.compiler import CudaTarget

    return toolchain.ltoir(CudaTarget(arch).emit(fn, symbol, Settings(**settings)).module, symbol, arch)
