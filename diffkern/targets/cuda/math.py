"""Which function computes an operation on CUDA: an own one, an instruction of the hardware, or libdevice's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from diffkern.ir.nodes import Op
from diffkern.ir.types import FLOAT32, Scalar
from diffkern.ops.table import lookup
from diffkern.targets.cuda import elementary
from diffkern.targets.cuda.registers import approximate, function
from diffkern.targets.emit.scalars import ScalarEmitter
from diffkern.targets.emit.types import value_type

PREFIX = "__nv_"
"""Start of the names of libdevice's functions."""

_OWN: Mapping[str, Callable[..., Any]] = {
    "div": elementary.divide,
    "sqrt": elementary.square_root,
    "sin": elementary.sine,
    "cos": elementary.cosine,
    "tan": elementary.tangent,
    "atan2": elementary.arctangent,
}
"""Functions of float32."""

_FAST_INSTRUCTIONS = frozenset({"div", "sqrt", "rsqrt", "sin", "cos"})
"""Approximations of float32 under ``fast_math``; others are functions of libdevice."""


class CudaScalars(ScalarEmitter):
    """Scalar operations with the mathematics of the CUDA target."""

    def emit(self, op: Op, args: list[Any]) -> Any:
        t = op.operands[0].type if op.operands else op.results[0].type
        assert isinstance(t, Scalar)
        library = lookup(op.name).library
        if t == FLOAT32:
            if "fast" in self.flags:
                if op.name in _FAST_INSTRUCTIONS:
                    return approximate(self.builder, op.name, *args)
                if library is not None and library.fast:
                    return self.library(library.fast, t, args)
            if op.name in _OWN:
                return _OWN[op.name](self.builder, *args)
        if library is not None and library.libdevice and not library.llvm:
            return self.library(library.libdevice, t, args)
        return ScalarEmitter.emit(self, op, args)

    def quotient(self, t: Scalar, x: Any, y: Any) -> Any:
        return elementary.divide(self.builder, x, y) if t == FLOAT32 else self.builder.fdiv(x, y)

    def root(self, t: Scalar, x: Any) -> Any:
        if t != FLOAT32:
            return self.intrinsic("sqrt", t, x)
        fast = "fast" in self.flags
        return approximate(self.builder, "sqrt", x) if fast else elementary.square_root(self.builder, x)

    def remainder(self, t: Scalar, x: Any, y: Any) -> Any:
        return self.library("fmod", t, [x, y])

    def library(self, name: str, t: Scalar, args: list[Any]) -> Any:
        """A call of libdevice's function."""
        ty = value_type(t)
        symbol = f"{PREFIX}{name}" if t.bits == 64 else f"{PREFIX}{name}f"
        return self.builder.call(function(self.module, symbol, ty, [ty] * len(args)), args)
