"""The operations of ``emitter.py`` as LLVM instructions, scalar or with a fixed number of lanes.

Instructions are added by an ``llvmlite.ir.IRBuilder`` at the end of a block. None carries a fast-math flag. ``mad`` is
``llvm.fma`` where the target has it, and ``llvm.fmuladd`` elsewhere; ``product_error`` is one ``llvm.fma`` or Dekker's
splitting, with the same exact result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from diffkern.vecmath import literals
from diffkern.vecmath.emitter import (
    FLOAT_OF,
    INT_OF,
    TABLES,
    BinaryName,
    CompareName,
    IntName,
    Kind,
    LogicName,
    UnaryName,
)
from diffkern.vecmath.masked import lane_by_lane

SCALAR_TYPES: dict[Kind, ir.Type] = {
    "f32": ir.FloatType(),
    "f64": ir.DoubleType(),
    "i32": ir.IntType(32),
    "i64": ir.IntType(64),
    "bool": ir.IntType(1),
}
_SPLITTER: dict[Kind, float] = {"f32": 4097.0, "f64": 134217729.0}
_COMPARE: dict[CompareName, str] = {"lt": "<", "le": "<=", "eq": "=="}
_INTEGER: dict[IntName, str] = {
    "iadd": "add",
    "isub": "sub",
    "iand": "and_",
    "ior": "or_",
    "ixor": "xor",
    "shl": "shl",
    "shr": "lshr",
}


def vector_type(kind: Kind, lanes: int) -> ir.Type:
    """Return the LLVM type of a kind: scalar for one lane."""
    return SCALAR_TYPES[kind] if lanes == 1 else ir.VectorType(SCALAR_TYPES[kind], lanes)


def suffix(kind: Kind, lanes: int) -> str:
    """Return the type as LLVM spells it in the names of intrinsics."""
    return kind if lanes == 1 else f"v{lanes}{kind}"


@functools.cache
def _contents(name: str) -> ir.FormattedConstant:
    """Return a table as text; its thousands of numbers are formatted once per process."""
    bits = np.asarray(TABLES[name](), np.float64).view(np.uint64).tolist()
    kind = ir.ArrayType(ir.DoubleType(), len(bits))
    return ir.FormattedConstant(kind, "[" + ", ".join(f"double 0x{b:016x}" for b in bits) + "]")


class LLVMEmitter:
    """Builds instructions.

    Parameters
    ----------
    builder
        Positioned at the end of a block of a function of the module that receives the code.
    lanes
        1 for scalars; otherwise every value is a vector of that many elements.
    fma
        Whether the target has a fused multiply-add instruction.
    out_of_line
        Returns the scalar LLVM function for an out-of-line name and kind, defining it if needed.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        lanes: int,
        fma: bool,
        out_of_line: Callable[[str, Kind], ir.Function],
    ) -> None:
        self._builder = builder
        self._lanes = lanes
        self.fuses = fma
        self._out_of_line = out_of_line

    def const(self, kind: Kind, value: float) -> ir.Constant:
        scalar = SCALAR_TYPES[kind]
        if kind in FLOAT_OF:
            # llvmlite prints a Python int as it stands, and LLVM wants it within the signed range.
            width = scalar.width
            value = (int(value) + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
        elif kind == "bool":
            value = int(value) & 1
        if self._lanes == 1:
            return ir.Constant(scalar, value)
        return literals.splat(ir.Constant(scalar, value), self._lanes)

    def _intrinsic(self, name: str, kind: Kind, *operands: ir.Value) -> ir.Value:
        full = f"llvm.{name}.{suffix(kind, self._lanes)}"
        module = self._builder.module
        function = module.globals.get(full)
        if function is None:
            kind_type = vector_type(kind, self._lanes)
            function = ir.Function(module, ir.FunctionType(kind_type, [kind_type] * len(operands)), full)
        return self._builder.call(function, operands)

    def binary(self, name: BinaryName, kind: Kind, a: ir.Value, b: ir.Value) -> ir.Value:
        return getattr(self._builder, f"f{name}")(a, b)

    def unary(self, name: UnaryName, kind: Kind, a: ir.Value) -> ir.Value:
        if name == "neg":
            return self._builder.fneg(a)
        return self._intrinsic("fabs" if name == "abs" else "sqrt", kind, a)

    def mad(self, kind: Kind, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return self._intrinsic("fma" if self.fuses else "fmuladd", kind, a, b, c)

    def product_error(self, kind: Kind, a: ir.Value, b: ir.Value, product: ir.Value) -> ir.Value:
        build = self._builder
        if self.fuses:
            return self._intrinsic("fma", kind, a, b, build.fneg(product))
        a_high, a_low = self._split(kind, a)
        b_high, b_low = self._split(kind, b)
        error = build.fsub(build.fmul(a_high, b_high), product)
        error = build.fadd(error, build.fmul(a_high, b_low))
        error = build.fadd(error, build.fmul(a_low, b_high))
        return build.fadd(error, build.fmul(a_low, b_low))

    def _split(self, kind: Kind, a: ir.Value) -> tuple[ir.Value, ir.Value]:
        build = self._builder
        scaled = build.fmul(a, self.const(kind, _SPLITTER[kind]))
        high = build.fsub(scaled, build.fsub(scaled, a))
        return high, build.fsub(a, high)

    def copysign(self, kind: Kind, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._intrinsic("copysign", kind, a, b)

    def integer(self, name: IntName, kind: Kind, a: ir.Value, b: ir.Value) -> ir.Value:
        return getattr(self._builder, _INTEGER[name])(a, b)

    def compare(self, name: CompareName, kind: Kind, a: ir.Value, b: ir.Value) -> ir.Value:
        if kind in FLOAT_OF:
            return self._builder.icmp_signed(_COMPARE[name], a, b)
        return self._builder.fcmp_ordered(_COMPARE[name], a, b)

    def logic(self, name: LogicName, a: ir.Value, b: ir.Value) -> ir.Value:
        return getattr(self._builder, "xor" if name == "xor" else f"{name}_")(a, b)

    def select(self, condition: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._builder.select(condition, a, b)

    def to_bits(self, kind: Kind, a: ir.Value) -> ir.Value:
        return self._builder.bitcast(a, vector_type(INT_OF[kind], self._lanes))

    def from_bits(self, kind: Kind, a: ir.Value) -> ir.Value:
        return self._builder.bitcast(a, vector_type(FLOAT_OF[kind], self._lanes))

    def widen(self, a: ir.Value) -> ir.Value:
        return self._builder.fpext(a, vector_type("f64", self._lanes))

    def narrow(self, a: ir.Value) -> ir.Value:
        return self._builder.fptrunc(a, vector_type("f32", self._lanes))

    def lookup(self, table: str, index: ir.Value) -> ir.Value:
        build = self._builder
        variable = self._table(table)
        zero = ir.Constant(ir.IntType(64), 0)
        if self._lanes == 1:
            return build.load(build.gep(variable, [zero, index], inbounds=True))
        result: ir.Value = literals.undefined(vector_type("f64", self._lanes))
        for lane in range(self._lanes):
            position = ir.Constant(ir.IntType(32), lane)
            address = build.gep(variable, [zero, build.extract_element(index, position)], inbounds=True)
            result = build.insert_element(result, build.load(address), position)
        return result

    def _table(self, name: str) -> ir.GlobalVariable:
        module = self._builder.module
        full = f"dkm.table.{name}"
        found = module.globals.get(full)
        if found is not None:
            return found
        contents = _contents(name)
        variable = ir.GlobalVariable(module, contents.type, full)
        variable.linkage = "internal"
        variable.global_constant = True
        variable.initializer = contents
        return variable

    def rare(self, condition: ir.Value, name: str, kind: Kind, x: ir.Value, fast: ir.Value) -> ir.Value:
        function = self._out_of_line(name, kind)
        if self._lanes == 1:
            return self._call_if(
                condition, lambda: self._builder.call(function, [x], cconv=function.calling_convention), fast
            )
        mask_type = ir.IntType(self._lanes)
        bits = self._builder.bitcast(condition, mask_type)
        some = self._builder.icmp_unsigned("!=", bits, ir.Constant(mask_type, 0))
        slow = lane_by_lane(self._builder.module, function, self._lanes)

        def each_lane() -> ir.Value:
            result = self._builder.call(slow, [x, bits], cconv=slow.calling_convention)
            return self._builder.select(condition, result, fast)

        return self._call_if(some, each_lane, fast)

    def _call_if(self, condition: ir.Value, slow: Callable[[], ir.Value], fast: ir.Value) -> ir.Value:
        before = self._builder.block
        with self._builder.if_then(condition, likely=False):
            value = slow()
            inside = self._builder.block
        phi: Any = self._builder.phi(fast.type)
        phi.add_incoming(fast, before)
        phi.add_incoming(value, inside)
        return phi
