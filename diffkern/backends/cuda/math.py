"""Which function computes an operation on CUDA: an own one, an instruction of the hardware, or libdevice's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from diffkern.backends.cuda import elementary
from diffkern.backends.cuda.registers import function
from diffkern.backends.llvm.scalars import ScalarEmitter
from diffkern.backends.llvm.types import value_type
from diffkern.ir.nodes import Op
from diffkern.ir.types import FLOAT32, Scalar
from diffkern.ops.scalar import BINARY_MATH, UNARY_MATH

PREFIX = "__nv_"
"""Start of the names of libdevice's functions."""

_LIBDEVICE = frozenset({*UNARY_MATH, *BINARY_MATH}) - {"sqrt"}

_OWN: Mapping[str, Callable[..., Any]] = {
    "div": elementary.divide,
    "sqrt": elementary.square_root,
    "sin": elementary.sine,
    "cos": elementary.cosine,
    "tan": elementary.tangent,
    "atan2": elementary.arctangent,
}
"""Functions of float32."""

_FAST: Mapping[str, str] = {
    "div": "llvm.nvvm.div.approx.f",
    "sqrt": "llvm.nvvm.sqrt.approx.f",
    "sin": "llvm.nvvm.sin.approx.f",
    "cos": "llvm.nvvm.cos.approx.f",
    "tan": "__nv_fast_tanf",
    "exp": "__nv_fast_expf",
    "log": "__nv_fast_logf",
    "log2": "__nv_fast_log2f",
    "log10": "__nv_fast_log10f",
    "pow": "__nv_fast_powf",
}
"""Approximations of float32 under ``fast_math``."""


class CudaScalars(ScalarEmitter):
    """Scalar operations with the mathematics of the CUDA target."""

    def emit(self, op: Op, args: list[Any]) -> Any:
        t = op.operands[0].type if op.operands else op.results[0].type
        assert isinstance(t, Scalar)
        if t == FLOAT32:
            if "fast" in self.flags and op.name in _FAST:
                ty = value_type(t)
                return self.builder.call(function(self.module, _FAST[op.name], ty, [ty] * len(args)), args)
            if op.name in _OWN:
                return _OWN[op.name](self.builder, *args)
        if op.name in _LIBDEVICE:
            return self.library(op.name, t, args)
        return ScalarEmitter.emit(self, op, args)

    def quotient(self, t: Scalar, x: Any, y: Any) -> Any:
        return elementary.divide(self.builder, x, y) if t == FLOAT32 else self.builder.fdiv(x, y)

    def remainder(self, t: Scalar, x: Any, y: Any) -> Any:
        return self.library("fmod", t, [x, y])

    def library(self, name: str, t: Scalar, args: list[Any]) -> Any:
        """A call of libdevice's function."""
        ty = value_type(t)
        symbol = f"{PREFIX}{name}" if t.bits == 64 else f"{PREFIX}{name}f"
        return self.builder.call(function(self.module, symbol, ty, [ty] * len(args)), args)
