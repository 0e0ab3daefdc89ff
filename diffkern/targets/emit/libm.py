"""The function that computes a transcendental operation: an own vectorisable one if there is one, otherwise libm's."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern import vecmath
from diffkern.errors import CompileError
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Scalar
from diffkern.targets.emit.types import TargetModule, value_type


def math_function(module: ir.Module, name: str, t: Scalar) -> Any:
    """Return the function in ``module`` that computes operation ``name`` on values of type ``t``."""
    # Masked forms let the vectoriser call the function in lanes that a branch has turned off.
    if name in vecmath.NAMES:
        fma = module.isa.fma if isinstance(module, TargetModule) else None
        return vecmath.declare(module, name, "float64" if t.bits == 64 else "float32", fma=fma, masked=True)
    row, ty = lookup(name), value_type(t)
    if row.library is None or not row.library.libm:
        raise CompileError(f"the C library has no function {name}")
    symbol = row.library.libm if t.bits == 64 else f"{row.library.libm}f"
    known = module.globals.get(symbol)
    if known is not None:
        return known
    fn = ir.Function(module, ir.FunctionType(ty, [ty] * (row.arity or 0)), symbol)
    # errno is never read, so the call is pure and may be moved or dropped.
    fn.attributes.add("readnone")
    fn.attributes.add("nounwind")
    return fn
