"""A function under construction that reads its parameters from the argument block, shared by all targets.

For a function's IR, and the LLVM function that is being built with the pointer to the block, :class:`Frame` has the
parameters as arrays and values of LLVM, slots for the sums into uniform addresses, and the destinations of those sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any

from llvmlite import ir

from diffkern.contracts import abi
from diffkern.ir.nodes import Function, Op, Value
from diffkern.ir.ops.memory import NAN_EXTREMA
from diffkern.ir.types import Array, Element, Kind, Scalar, scalar_of
from diffkern.ir.types import value_type as held_type
from diffkern.ir.views import Access
from diffkern.targets.emit.facts import FunctionFacts, invariant_ops
from diffkern.targets.emit.function import BodyEmitter
from diffkern.targets.emit.memory import ArrayRef, address, element_size, load_array, load_element
from diffkern.targets.emit.scalars import ScalarEmitter
from diffkern.targets.emit.types import I8, I64, Builder, constant, i64, value_type

__all__ = ["Frame", "loop_stacks", "neutral", "summed_type", "untyped", "width"]


class Frame:
    """A function and its parameters.

    Parameters
    ----------
    module, fn, facts
        The module, the function's IR, and the facts about it.
    builder
        A builder at the entry of the LLVM function.
    block
        Pointer to the argument block.
    scalars
        Emits scalar operations.
    space : int, optional
        The address space of the arrays' elements.
    used : container of Value, optional
        The parameters that are read, if not all.
    """

    def __init__(
        self,
        module: ir.Module,
        fn: Function,
        facts: FunctionFacts,
        builder: Builder,
        block: Any,
        scalars: ScalarEmitter,
        space: int = 0,
        used: Container[Value] | None = None,
    ) -> None:
        self.module, self.fn, self.facts = module, fn, facts
        self.builder, self.block, self.scalars = builder, block, scalars
        self.arrays: dict[Value, ArrayRef] = {}
        self.values: dict[Value, tuple[Any, ...]] = {}
        # Everything is read at the entry, once for all threads that the function runs.
        fields, _ = abi.layout([p.type for p in fn.params])
        for p, place in zip(fn.params, fields, strict=True):
            if used is not None and p not in used:
                continue
            if isinstance(p.type, Array):
                self.arrays[p] = load_array(builder, block, place.offset, p.type, space)
            else:
                self.values[p] = self.by_value(p.type, place.offset)  # type: ignore[arg-type]

    def header(self, offset: int) -> Any:
        """Return a field of the header of the argument block."""
        b = self.builder
        return b.load(b.gep(self.block, [i64(offset)], inbounds=True, source_etype=I8), typ=I64)

    def extent(self, axis: int) -> Any:
        """Return an extent of the launch, as an int32."""
        return self.builder.trunc(self.header(abi.DIMS + 8 * axis), ir.IntType(32))

    def by_value(self, t: Element, offset: int) -> tuple[Any, ...]:
        """Return the components of a parameter by value."""
        b = self.builder
        passed = abi.passed_type(t)
        pointer = b.gep(self.block, [i64(offset)], inbounds=True, source_etype=I8)
        return tuple(load_element(b, passed, pointer))  # type: ignore[arg-type]

    def stacks(self) -> dict[int, Any]:
        """Return memory for the loops' stacks, by level."""
        return loop_stacks(lambda size: untyped(self.builder.alloca(ir.ArrayType(I64, size // 8))), self.facts)

    def accumulators(self) -> dict[int, list[Any]]:
        """Return neutral slots for the components of what is gathered for uniform addresses, by identity of the op."""
        return {id(op): self._slots(op) for op in (*self.facts.reduced, *self.facts.extremes)}

    def _slots(self, op: Op) -> list[Any]:
        b, s = self.builder, summed_type(op)
        slots = [b.alloca(value_type(s)) for _ in range(width(op))]
        for slot in slots:
            b.store(neutral(op), slot)
        return slots

    def summed(self, sums: dict[int, list[Any]]) -> list[tuple[Any, Scalar]]:
        """Return all slots in program order, each with its type."""
        return [(slot, summed_type(op)) for op in self.facts.reduced for slot in sums[id(op)]]

    def destination(self, op: Op, body: BodyEmitter) -> tuple[ArrayRef, Any]:
        """Return the array and the element of a sum; its index is recomputed from values that all threads share."""
        # The loop over threads has ended, so values computed inside of it are not available here.
        for needed in invariant_ops(op, self.facts):
            body.op(needed)
        array = self.arrays[Access(op).array]
        indices = [body.index(v) for v in Access(op).index]
        return array, address(self.builder, array, indices, op.attrs.get("wrap", (False,) * len(indices)))


def loop_stacks(take: Callable[[int], Any], facts: FunctionFacts, lanes: int = 1) -> dict[int, Any]:
    """Return memory for the loop stacks of some threads, by level; `take` allocates bytes, in whole words."""
    return {level: take((size + 7) // 8 * 8 * lanes) for level, size in sorted(facts.stack_bytes.items())}


def neutral(op: Op) -> Any:
    """Return the number that changes nothing: 0 for sums, for a minimum the greatest number of the type."""
    s, kind = summed_type(op), op.attrs.get("kind")
    if kind not in NAN_EXTREMA:
        return constant(s, 0)
    if s.is_float:
        return constant(s, math.inf if kind == "min" else -math.inf)
    signed = s.kind is Kind.INT
    top = 2 ** (s.bits - signed) - 1
    return constant(s, top if kind == "min" else -top - 1 if signed else 0)


def width(op: Op) -> int:
    """Return how many scalars an update adds."""
    return element_size(_array(op).dtype)


def summed_type(op: Op) -> Scalar:
    """Return the scalar type in which an update is summed: that of its values."""
    return scalar_of(held_type(_array(op).dtype))


def _array(op: Op) -> Array:
    array = Access(op).array.type
    assert isinstance(array, Array)
    return array


def untyped(slot: Any) -> Any:
    """Return a stack slot as an opaque pointer: llvmlite still gives ``alloca`` a typed one."""
    slot.type = ir.PointerType()
    return slot
