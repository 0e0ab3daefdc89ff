"""Which function computes a transcendental operation: an own vectorisable one where there is one, otherwise libm's."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern import vecmath
from diffkern.ir.types import Scalar
from diffkern.targets.emit.types import TargetModule, value_type

# LLVM knows these as intrinsics: it folds and moves the calls, and lowers them to libm's functions.
_INTRINSICS = frozenset({"exp", "exp2", "log", "log2", "log10", "sin", "cos", "pow"})


def math_function(module: ir.Module, name: str, t: Scalar) -> Any:
    """The function, declared or defined in ``module``, that computes operation ``name`` on values of type ``t``."""
    if name in vecmath.NAMES:
        fma = module.isa.fma if isinstance(module, TargetModule) else None
        return vecmath.declare(module, name, "float64" if t.bits == 64 else "float32", fma=fma, masked=True)
    ty = value_type(t)
    fnty = ir.FunctionType(ty, [ty] * (2 if name in ("pow", "atan2") else 1))
    if name in _INTRINSICS:
        return module.declare_intrinsic(f"llvm.{name}", [ty], fnty)
    symbol = name if t.bits == 64 else f"{name}f"
    known = module.globals.get(symbol)
    if known is not None:
        return known
    fn = ir.Function(module, fnty, symbol)
    # errno is nobody's business here, so the call is pure and may be moved or dropped.
    fn.attributes.add("readnone")
    fn.attributes.add("nounwind")
    return fn
