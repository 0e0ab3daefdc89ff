"""Changes to modules that numba offers no option for: division in float32, and which loops are copied.

An LLVM module that numba-cuda made from printed source is changed in place. Float32 is divided as the other compiler
does it; NVIDIA's correctly rounded form takes ten times the instructions. No loop is unrolled: libNVVM makes six times
the instructions of some by it. Nor is a loop duplicated for the outcomes of a condition that it does not change: that
doubles its atomic operations.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern.targets.cuda import elementary
from diffkern.targets.cuda.body import SHARED_MEMORY
from diffkern.targets.cuda.registers import approximate
from diffkern.targets.emit.loops import not_unrolled
from diffkern.targets.emit.types import F32

__all__ = ["finish"]


def finish(module: Any) -> None:
    """Change a module, once."""
    for variable in module.global_values:
        if isinstance(variable, ir.GlobalVariable) and variable.addrspace == SHARED_MEMORY:
            variable.align = 16  # a library's products ask for it
    for function in tuple(module.functions):
        place = {block: k for k, block in enumerate(function.blocks)}
        for k, block in enumerate(function.blocks):
            for instruction in tuple(block.instructions):
                if instruction.opname == "fdiv" and instruction.type == F32:
                    _divide(block, instruction)
            end = block.terminator
            # A branch to an earlier block closes a loop.
            goes_back = any(place[b] <= k for b in getattr(end, "operands", ()) if isinstance(b, ir.Block))
            if goes_back and "llvm.loop" not in end.metadata:
                not_unrolled(module, end)
                _hold(block)


def _divide(block: Any, instruction: Any) -> None:
    b = ir.IRBuilder(block)
    b.position_before(instruction)
    fast = "fast" in instruction.flags
    value = approximate(b, "div", *instruction.operands) if fast else elementary.divide(b, *instruction.operands)
    block.instructions.remove(instruction)
    value._name = instruction._name  # those who use it know its name


def _hold(block: Any) -> None:
    """End a block with an empty instruction that no compiler may copy to where fewer threads are."""
    b = ir.IRBuilder(block)
    b.position_before(block.terminator)
    nothing = ir.InlineAsm(ir.FunctionType(ir.VoidType(), ()), "", "", side_effect=True)
    b.call(nothing, (), attrs=("convergent",))
