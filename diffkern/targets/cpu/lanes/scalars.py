"""Scalar operations in lanes: the same emission as for one thread, on vectors where an operand differs between lanes.

Operands are values of :mod:`~diffkern.targets.cpu.lanes.builder`. Elementary functions are the vector forms of the
scalar ones, by the same formulas. Operations without a vector form are computed lane by lane.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern import vecmath
from diffkern.ir.nodes import Op
from diffkern.ir.ops.scalar import DIVISIONS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import STORAGE_ONLY, Scalar, scalar_of
from diffkern.targets.cpu.lanes.builder import LaneBuilder, is_wide
from diffkern.targets.emit.scalars import ScalarEmitter
from diffkern.targets.emit.types import TargetModule, value_type

__all__ = ["LaneScalars", "is_by_lane"]

_BY_LANE = DIVISIONS | {"next_checkpoint"}
"""Ops that become calls of scalar functions, or divisions, for which there is no vector instruction."""


class LaneScalars(ScalarEmitter):
    """Appends operations to a builder for lanes."""

    def __init__(self, builder: LaneBuilder, module: ir.Module, flags: tuple[str, ...]) -> None:
        super().__init__(builder, module, flags)
        self.lanes = builder
        self.one = ScalarEmitter(builder.plain, module, flags)

    def emit(self, op: Op, args: list[Any]) -> Any:
        # Uniform operands: one scalar instruction for all lanes.
        if not any(map(is_wide, args)):
            return self.one.emit(op, args)
        return self._by_lane(op, args) if self.is_by_lane(op, args) else super().emit(op, args)

    def is_by_lane(self, op: Op, args: list[Any]) -> bool:
        """Return whether an operation is computed lane by lane; LLVM vectorises division by an integer literal."""
        by_literal = op.name in DIVISIONS and isinstance(args[1], ir.Constant) and isinstance(args[1].type, ir.IntType)
        return is_by_lane(op) and not by_literal

    def _by_lane(self, op: Op, args: list[Any]) -> Any:
        b = self.lanes
        # Each lane gets a scalar instruction or call; the elements are put back together.
        out = b.undefined(value_type(scalar_of(op.result.type)))
        for lane in range(b.lanes):
            out = b.with_element(out, self.one.emit(op, [b.element(a, lane) for a in args]), lane)
        return out

    def intrinsic(self, name: str, t: Scalar, *args: Any) -> Any:
        if not any(map(is_wide, args)):
            return self.one.intrinsic(name, t, *args)
        given = self.lanes.alike(*args)
        wide = self.lanes.wide_type(value_type(t))
        return self.lanes.intrinsic(f"llvm.{name}.v{self.lanes.lanes}{_suffix(t)}", wide, given, self.flags)

    def elementary(self, name: str, t: Scalar, args: list[Any]) -> Any:
        if not any(map(is_wide, args)):
            return self.one.elementary(name, t, args)
        fma = self.module.isa.fma if isinstance(self.module, TargetModule) else None
        dtype = "float64" if t.bits == 64 else "float32"
        function = vecmath.declare(self.module, name, dtype, self.lanes.lanes, fma=fma)  # type: ignore[arg-type]
        return self.lanes.plain.call(function, self.lanes.alike(*args), fastmath=self.flags)

    def converted(self, name: str, target: Any, source: Scalar, x: Any) -> Any:
        if not is_wide(x):
            return self.one.converted(name, target, source, x)
        lanes = self.lanes.lanes
        full = f"{name}.v{lanes}{target.intrinsic_name}.v{lanes}{_suffix(source)}"
        return self.lanes.intrinsic(full, self.lanes.wide_type(target), [x])


def is_by_lane(op: Op) -> bool:
    """Return whether an operation is computed lane by lane, whatever its operands are."""
    row, types = lookup(op.name), [scalar_of(v.type) for v in (*op.operands, op.result)]
    if op.name in _BY_LANE or not STORAGE_ONLY.isdisjoint(types):
        return True
    called = row.library is not None and row.library.libm and not row.library.llvm
    return bool(called) and op.name not in vecmath.NAMES


def _suffix(t: Scalar) -> str:
    return str(value_type(t).intrinsic_name)
