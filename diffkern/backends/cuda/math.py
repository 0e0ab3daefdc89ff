"""Elementary functions on CUDA: which function computes an operation."""

from __future__ import annotations

from typing import Any

from diffkern.backends.cuda.registers import function
from diffkern.backends.llvm.scalars import ScalarEmitter
from diffkern.backends.llvm.types import value_type
from diffkern.ir.nodes import Op
from diffkern.ir.types import Scalar
from diffkern.ops.scalar import BINARY_MATH, UNARY_MATH

_LIBDEVICE = frozenset({*UNARY_MATH, *BINARY_MATH}) - {"sqrt"}
PREFIX = "__nv_"


class CudaScalars(ScalarEmitter):
    """Scalar operations with the mathematics of the CUDA target."""

    def emit(self, op: Op, args: list[Any]) -> Any:
        t = op.operands[0].type if op.operands else op.results[0].type
        assert isinstance(t, Scalar)
        if op.name in _LIBDEVICE:
            return self.library(op.name, t, args)
        return ScalarEmitter.emit(self, op, args)

    def remainder(self, t: Scalar, x: Any, y: Any) -> Any:
        return self.library("fmod", t, [x, y])

    def library(self, name: str, t: Scalar, args: list[Any]) -> Any:
        """A call of libdevice's function."""
        ty = value_type(t)
        symbol = f"{PREFIX}{name}" if t.bits == 64 else f"{PREFIX}{name}f"
        return self.builder.call(function(self.module, symbol, ty, [ty] * len(args)), args)
