"""Lowers arrays in elements of arrays to arrays at the addresses that the elements hold.

Parameters of layout ``P`` have leading axes for the elements and further ones for the arrays in them. In place, they
become parameters that are arrays of descriptors; each access reads a descriptor, and is an access of the array that it
describes. Nothing after this pass knows that two of these may be the same array, so no later pass may move accesses.
"""

from __future__ import annotations

from collections.abc import Mapping

from diffkern.errors import CompileError
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Function, Op, Value
from diffkern.ir.ops.memory import ACCESSES, ARRAY_EXTENTS, ELEMENT_LOADS
from diffkern.ir.types import HELD, INT32, UINT64, Array, Scalar, scalar_of, value_type
from diffkern.ir.views import Access

__all__ = ["arrays_at_addresses", "elements_at_addresses"]


def arrays_at_addresses(fn: Function) -> Function:
    """Access the arrays that descriptors describe, in place."""
    return _lowered(fn, _Arrays)


def elements_at_addresses(fn: Function) -> Function:
    """Read elements at addresses, in place, for a target that has no arrays but its parameters.

    Raises
    ------
    CompileError
        If one is written.
    """
    return _lowered(fn, _Elements)


def _lowered(fn: Function, kind: type[_Pointed]) -> Function:
    held = {p: Value(p.type.held, p.name) for p in fn.params if isinstance(p.type, Array) and p.type.outer}
    if held:
        made = kind(held)
        fn.body = made.region(fn.body)
        fn.params = tuple(held.get(p, p) for p in fn.params)
    return fn


class _Pointed(Cloner):
    """Copies a function; subclasses emit the accesses."""

    def __init__(self, held: Mapping[Value, Value]) -> None:
        super().__init__(Builder(), dict(held))
        self.held = held

    def op(self, op: Op) -> None:
        array = op.operands[0] if op.operands else None
        if array not in self.held or op.name in ARRAY_EXTENTS:
            super().op(op)
            return
        with self.b.at(op.loc):
            assert array is not None
            assert isinstance(array.type, Array)
            words = self.described(op, array, array.type.outer)
            if op.name == "inner_shape":
                self.env[op.result] = self.b.cast(words[1 + op.attrs["axis"]], INT32)
            elif op.name == "points":
                self.env[op.result] = self.b.one("ne", words[0], self.b.const(0, UINT64))
            else:
                self.access(op, array.type, words)

    def described(self, op: Op, array: Value, outer: int) -> list[Value]:
        """Read the descriptor in an element."""
        index = self.values(op.operands[1 : 1 + outer])
        found = self.b.one("load", self.held[array], *index, wrap=tuple(op.attrs["wrap"][:outer]))
        return self.b.components(found)

    def access(self, op: Op, t: Array, words: list[Value]) -> None:
        raise NotImplementedError


class _Arrays(_Pointed):
    def access(self, op: Op, t: Array, words: list[Value]) -> None:
        if op.name not in ACCESSES:
            raise CompileError(
                f"{op.name} of an array in an element of an array",
                loc=op.loc,
                remedy="pass the array as a parameter of its own",
            )
        inner = Array(t.dtype, t.ndim - t.outer, HELD)
        described = self.b.construct(Array(t.dtype, t.ndim, t.layout).held.dtype, words)
        array = self.b.one("array_at", described, type=inner)
        array.name = op.operands[0].name
        # The leading indices selected the descriptor; the others are those of the array it describes.
        attrs = {**op.attrs, "wrap": tuple(op.attrs["wrap"][t.outer :])}
        copy = Op(op.name, op.operands, op.results, attrs, op.regions, op.loc)
        self.emit(copy, (array, *self.values(op.operands[1 + t.outer :])), ())


class _Elements(_Pointed):
    def access(self, op: Op, t: Array, words: list[Value]) -> None:
        if op.name not in ELEMENT_LOADS:
            raise CompileError(
                "numba-cuda's programs do not write to an array in an element of an array",
                loc=op.loc,
                remedy="leave out compiler='numba', or pass the array as a parameter of its own",
            )
        b, inner, address = self.b, t.ndim - t.outer, words[0]
        for k, index in enumerate(Access(op).index[t.outer :]):
            extent = b.cast(words[1 + k], INT32)
            at = b.cast(self.value(index), INT32)
            if op.attrs["wrap"][t.outer + k]:
                at = b.select(b.one("lt", at, b.i32(0)), b.add(at, extent), at)
            # The address is computed in bytes from the strides of the descriptor; the product wraps for negative ones
            # as intended.
            address = b.add(address, b.mul(b.cast(at, UINT64), words[1 + inner + k]))
        scalar, held = scalar_of(t.dtype), value_type(t.dtype)
        count = 1 if isinstance(t.dtype, Scalar) else t.dtype.size
        parts = [b.one("peek", address, b.i32(k), type=scalar, changing=True) for k in range(count)]
        self.env[op.result] = parts[0] if isinstance(t.dtype, Scalar) else b.construct(held, parts)
