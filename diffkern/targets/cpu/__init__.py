"""The CPU target: IR to LLVM code and object code for the processor that numba compiles for, or a named one."""

from diffkern.targets.cpu.compiler import target

__all__ = ["target"]
