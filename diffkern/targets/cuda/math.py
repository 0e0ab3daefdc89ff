"""The function that computes an operation on CUDA: an own one, an instruction of the hardware, or libdevice's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from llvmlite import ir

from diffkern.ir.nodes import Op
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import FLOAT32, Scalar
from diffkern.targets.cuda import elementary
from diffkern.targets.cuda.registers import approximate, function
from diffkern.targets.emit.scalars import ScalarEmitter
from diffkern.targets.emit.types import I32, constant, value_type

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

    @property
    def fast(self) -> bool:
        """True if functions may be approximations."""
        return "afn" in self.flags

    def emit(self, op: Op, args: list[Any]) -> Any:
        t = op.operands[0].type if op.operands else op.results[0].type
        assert isinstance(t, Scalar)
        library = lookup(op.name).library
        if t == FLOAT32:
            if self.fast:
                if op.name in _FAST_INSTRUCTIONS:
                    return approximate(self.builder, op.name, *args)
                if op.name == "pow":
                    return self.fast_power(*args)
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
        return approximate(self.builder, "sqrt", x) if self.fast else elementary.square_root(self.builder, x)

    def remainder(self, t: Scalar, x: Any, y: Any) -> Any:
        return self.library("fmod", t, [x, y])

    def fast_power(self, x: Any, y: Any) -> Any:
        """Emit the approximate power; libdevice has it for positive ``x`` whose logarithm times ``y`` is a number."""
        b, zero, one = self.builder, constant(FLOAT32, 0.0), constant(FLOAT32, 1.0)
        size = self.intrinsic("fabs", FLOAT32, x)
        value = self.library("fast_pow", FLOAT32, [size, y])
        # The special cases of C's pow, which the approximation does not have: exponents 0 and infinite, and the base 1.
        endless = b.fcmp_ordered("==", self.intrinsic("fabs", FLOAT32, y), constant(FLOAT32, math.inf))
        ones = b.or_(b.fcmp_ordered("==", y, zero), b.fcmp_ordered("==", x, one))
        ones = b.or_(ones, b.and_(endless, b.fcmp_ordered("==", size, one)))
        value = b.select(ones, one, value)
        half = b.fmul(y, constant(FLOAT32, 0.5))
        whole = b.fcmp_ordered("==", y, self.intrinsic("trunc", FLOAT32, y))
        # A negative base with an odd whole exponent gives a negative power.
        odd = b.and_(whole, b.fcmp_unordered("!=", half, self.intrinsic("trunc", FLOAT32, half)))
        negative = b.icmp_signed("<", b.bitcast(x, I32), ir.Constant(I32, 0))  # -0 as well
        value = b.select(b.and_(negative, odd), b.fneg(value), value)
        # A negative base has a power only for whole exponents, except for 0 and infinity.
        known = b.or_(
            whole, b.or_(b.fcmp_ordered("==", size, zero), b.fcmp_ordered("==", size, constant(FLOAT32, math.inf)))
        )
        return b.select(b.or_(known, b.not_(negative)), value, constant(FLOAT32, math.nan))

    def library(self, name: str, t: Scalar, args: list[Any]) -> Any:
        """Emit a call of libdevice's function."""
        ty = value_type(t)
        symbol = f"{PREFIX}{name}" if t.bits == 64 else f"{PREFIX}{name}f"
        return self.builder.call(function(self.module, symbol, ty, [ty] * len(args)), args)
