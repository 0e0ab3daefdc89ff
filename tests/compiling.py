"""Functions of the IR to machine code in one call."""

from __future__ import annotations

from typing import Any

from diffkern.ir.nodes import Function
from diffkern.targets import target_named
from diffkern.targets.target import CompiledKernel, Settings


def compile_function(fn: Function, symbol: str, target: str = "native", **settings: Any) -> CompiledKernel:
    """Compile a function for a target."""
    return target_named(target).compile(fn, symbol, Settings(**settings))


def by_numba(fn: Function, symbol: str, arch: str = "sm_90", **settings: Any) -> bytes:
    """The cubin of a function that goes by LTO code, as one does that calls a library."""
    return target_named(arch, "numba").compile(fn, symbol, Settings(**settings)).code
