"""The CPU target: IR to LLVM code and object code for the processor that numba compiles for, or a named one."""

from diffkern.targets.cpu.compiler import Checking, CompiledObject, compile_function, target_description

__all__ = ["Checking", "CompiledObject", "compile_function", "target_description"]
