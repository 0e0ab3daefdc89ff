"""A builder of LLVM instructions for lanes: an operand that all lanes share is spread where others differ.

In: operands, each a scalar that all lanes share or a vector with an element for each lane. Out: instructions on vectors
where an operand is one, and on scalars elsewhere. What is no arithmetic goes to the builder underneath.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from diffkern.targets.emit.types import I1, I32, I64, PTR, Builder
from diffkern.vecmath import literals

__all__ = ["LaneBuilder", "is_wide", "zeros"]

_PLAIN = (
    "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "and_", "or_", "xor", "shl", "lshr", "ashr",
    "fadd", "fsub", "fmul", "fdiv", "frem",
)  # fmt: skip
_COMPARISONS = ("icmp_signed", "icmp_unsigned", "fcmp_ordered", "fcmp_unordered")
_CONVERSIONS = (
    "trunc", "zext", "sext", "fptrunc", "fpext", "fptosi", "fptoui", "sitofp", "uitofp", "bitcast", "ptrtoint",
    "inttoptr",
)  # fmt: skip


def is_wide(value: Any) -> bool:
    """Whether a value has an element for each lane."""
    return isinstance(value.type, ir.VectorType)


def zeros(t: Any) -> Any:
    """A literal of zeros, of a vector or a scalar. Lanes that are off hold it rather than an undefined value."""
    if isinstance(t, ir.VectorType):
        return literals.zero(t)
    return ir.Constant(t, 0.0 if isinstance(t, (ir.FloatType, ir.DoubleType)) else 0)


class LaneBuilder:
    """Builds instructions on scalars and vectors.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
        What appends the instructions.
    lanes : int
        Elements of a vector.
    """

    def __init__(self, builder: Builder, lanes: int) -> None:
        self.plain, self.lanes = builder, lanes
        self._own: dict[tuple[str, int], Any] = {}
        for name in _PLAIN:
            setattr(self, name, self._arithmetic(getattr(builder, name)))
        for name in _COMPARISONS:
            setattr(self, name, self._comparison(getattr(builder, name)))
        for name in _CONVERSIONS:
            setattr(self, name, self._conversion(getattr(builder, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def _arithmetic(self, build: Any) -> Any:
        return lambda x, y, **more: build(*self.alike(x, y), **more)

    def _comparison(self, build: Any) -> Any:
        return lambda sign, x, y, **more: build(sign, *self.alike(x, y), **more)

    def _conversion(self, build: Any) -> Any:
        return lambda x, to, **more: build(x, self.wide_type(to) if is_wide(x) else to, **more)

    def select(self, condition: Any, x: Any, y: Any, **more: Any) -> Any:
        """A choice, for each lane or for all."""
        if is_wide(condition):
            x, y = self.spread(x), self.spread(y)
        return self.plain.select(condition, *self.alike(x, y), **more)

    # -- vectors -----------------------------------------------------------------------------------------------------

    def wide_type(self, t: Any) -> Any:
        """The type of a vector with an element for each lane."""
        return ir.VectorType(t, self.lanes)

    def alike(self, *values: Any) -> Sequence[Any]:
        """The values, all of them vectors if one is."""
        return [self.spread(v) for v in values] if any(map(is_wide, values)) else values

    def spread(self, value: Any) -> Any:
        """A vector of a value in each lane."""
        if is_wide(value):
            return value
        wide = self.wide_type(value.type)
        if isinstance(value, ir.Constant):
            return literals.splat(value, self.lanes)
        nothing = literals.undefined(wide)
        first = self.plain.insert_element(nothing, value, ir.Constant(I32, 0))
        return self.plain.shuffle_vector(first, nothing, zeros(self.wide_type(I32)))

    def steps(self, t: Any, stride: int) -> Any:
        """The literal ``0, stride, 2 stride, …``."""
        return literals.numbers(t, [k * stride for k in range(self.lanes)])

    def element(self, value: Any, lane: int) -> Any:
        """What a value is in a lane."""
        return self.plain.extract_element(value, ir.Constant(I32, lane)) if is_wide(value) else value

    def with_element(self, vector: Any, value: Any, lane: int) -> Any:
        """A vector with another value in a lane."""
        return self.plain.insert_element(vector, value, ir.Constant(I32, lane))

    def undefined(self, t: Any) -> Any:
        """A vector of nothing."""
        return literals.undefined(self.wide_type(t))

    def own(self, name: str, size: int) -> Any:
        """The address of so many bytes of the function's own, which are 0 in the beginning."""
        found = self._own.get((name, size))
        if found is None:
            t = ir.ArrayType(I64, -(-size // 8))
            with self.plain.goto_entry_block():
                found = self.plain.alloca(t, name=name)
                self.plain.store(ir.Constant(t, None), found)
            found.type = PTR
            self._own[name, size] = found
        return found

    # -- masks -------------------------------------------------------------------------------------------------------

    def any(self, mask: Any) -> Any:
        """Whether a lane of a mask is on."""
        if not is_wide(mask):
            return mask
        bits = ir.IntType(self.lanes)
        return self.plain.icmp_unsigned("!=", self.plain.bitcast(mask, bits), ir.Constant(bits, 0))

    def first(self, value: Any, mask: Any) -> Any:
        """What a value is in the first lane that is on; one is."""
        if mask is None:
            return self.element(value, 0)
        bits = ir.IntType(self.lanes)
        on = self.plain.bitcast(mask, bits)
        lane = self.intrinsic(f"llvm.cttz.i{self.lanes}", bits, [on, ir.Constant(I1, 0)])
        inside = self.plain.and_(lane, ir.Constant(bits, self.lanes - 1))
        return self.plain.extract_element(value, self.plain.zext(inside, I32))

    def both(self, mask: Any, other: Any) -> Any:
        """The lanes that are on in two masks; None for all."""
        return other if mask is None else self.and_(mask, other)

    def whole(self, mask: Any) -> Any:
        """A mask as a vector; None for all lanes."""
        return self.spread(ir.Constant(I1, 1) if mask is None else mask)

    def intrinsic(self, name: str, result: Any, args: Sequence[Any], fastmath: Sequence[str] = ()) -> Any:
        """Call an intrinsic by its whole name."""
        module = self.plain.module
        function = module.globals.get(name)
        if function is None:
            function = ir.Function(module, ir.FunctionType(result, [a.type for a in args]), name)
        return self.plain.call(function, args, fastmath=fastmath)
