"""A builder of LLVM instructions for lanes: a uniform operand is broadcast where others are vectors.

An operand is a scalar that all lanes share or a vector with an element for each lane. Instructions are on vectors if an
operand is one, and on scalars otherwise. Instructions other than arithmetic go to the underlying builder.
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
    """Return whether a value has an element for each lane."""
    return isinstance(value.type, ir.VectorType)


def zeros(t: Any) -> Any:
    """Return a literal of zeros, a vector or a scalar. Lanes that are off hold it rather than an undefined value."""
    if isinstance(t, ir.VectorType):
        return literals.zero(t)
    return ir.Constant(t, 0.0 if isinstance(t, (ir.FloatType, ir.DoubleType)) else 0)


class LaneBuilder:
    """Builds instructions on scalars and vectors.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
        The builder that appends the instructions.
    lanes : int
        Elements of a vector.
    """

    def __init__(self, builder: Builder, lanes: int) -> None:
        self.plain, self.lanes = builder, lanes
        self._own: dict[tuple[str, int], Any] = {}
        # Operands are made alike before the underlying builder sees them, so the scalar emitters work unchanged.
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
        """Emit a selection, for each lane or for all."""
        if is_wide(condition):
            x, y = self.spread(x), self.spread(y)
        return self.plain.select(condition, *self.alike(x, y), **more)

    # -- vectors -----------------------------------------------------------------------------------------------------

    def wide_type(self, t: Any) -> Any:
        """Return the type of a vector with an element for each lane."""
        return ir.VectorType(t, self.lanes)

    def alike(self, *values: Any) -> Sequence[Any]:
        """Return the values, all of them vectors if one is."""
        return [self.spread(v) for v in values] if any(map(is_wide, values)) else values

    def spread(self, value: Any) -> Any:
        """Return a vector of a value in each lane."""
        if is_wide(value):
            return value
        wide = self.wide_type(value.type)
        if isinstance(value, ir.Constant):
            return literals.splat(value, self.lanes)
        nothing = literals.undefined(wide)
        first = self.plain.insert_element(nothing, value, ir.Constant(I32, 0))
        return self.plain.shuffle_vector(first, nothing, zeros(self.wide_type(I32)))

    def steps(self, t: Any, stride: int) -> Any:
        """Return the literal ``0, stride, 2 stride, …``."""
        return literals.numbers(t, [k * stride for k in range(self.lanes)])

    def element(self, value: Any, lane: int) -> Any:
        """Return the value in a lane."""
        return self.plain.extract_element(value, ir.Constant(I32, lane)) if is_wide(value) else value

    def with_element(self, vector: Any, value: Any, lane: int) -> Any:
        """Return a vector with another value in a lane."""
        return self.plain.insert_element(vector, value, ir.Constant(I32, lane))

    def undefined(self, t: Any) -> Any:
        """Return an undefined vector."""
        return literals.undefined(self.wide_type(t))

    def own(self, name: str, size: int) -> Any:
        """Return the address of zero-initialised memory of the function, of so many bytes."""
        found = self._own.get((name, size))
        if found is None:
            t = ir.ArrayType(I64, -(-size // 8))
            # Allocated at the entry, as an alloca in a loop would grow the stack with each trip.
            with self.plain.goto_entry_block():
                found = self.plain.alloca(t, name=name)
                self.plain.store(ir.Constant(t, None), found)
            found.type = PTR
            self._own[name, size] = found
        return found

    # -- masks -------------------------------------------------------------------------------------------------------

    def any(self, mask: Any) -> Any:
        """Return whether a lane of a mask is on."""
        if not is_wide(mask):
            return mask
        # The mask as an integer: one comparison, instead of a reduction over lanes.
        bits = ir.IntType(self.lanes)
        return self.plain.icmp_unsigned("!=", self.plain.bitcast(mask, bits), ir.Constant(bits, 0))

    def first(self, value: Any, mask: Any) -> Any:
        """Return the value in the first lane that is on; at least one has to be."""
        if mask is None:
            return self.element(value, 0)
        bits = ir.IntType(self.lanes)
        on = self.plain.bitcast(mask, bits)
        lane = self.intrinsic(f"llvm.cttz.i{self.lanes}", bits, [on, ir.Constant(I1, 0)])
        # An empty mask gives the number of lanes; masking keeps the extraction defined.
        inside = self.plain.and_(lane, ir.Constant(bits, self.lanes - 1))
        return self.plain.extract_element(value, self.plain.zext(inside, I32))

    def both(self, mask: Any, other: Any) -> Any:
        """Return the lanes that are on in two masks; None for all."""
        return other if mask is None else self.and_(mask, other)

    def whole(self, mask: Any) -> Any:
        """Return a mask as a vector; None stands for all lanes."""
        return self.spread(ir.Constant(I1, 1) if mask is None else mask)

    def intrinsic(self, name: str, result: Any, args: Sequence[Any], fastmath: Sequence[str] = ()) -> Any:
        """Call an intrinsic by its whole name."""
        module = self.plain.module
        function = module.globals.get(name)
        if function is None:
            function = ir.Function(module, ir.FunctionType(result, [a.type for a in args]), name)
        return self.plain.call(function, args, fastmath=fastmath)
