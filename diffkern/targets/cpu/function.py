"""A function that other compilers' programs call, as LLVM: its arguments are values, not an argument block.

A function in its compiled form for a processor, and a symbol, give an LLVM module that defines ``void
symbol(arguments..., results)``. A scalar is an argument; a vector or matrix is one for each component, in row-major
order; an array is the pointer to its first element, its extents and its strides in bytes, as int64. The results are
stored to a packed row of 8-byte places at the last argument, in the order of the components. The index of a thread
comes first, an int32 for each axis. The module holds nothing else that is visible from outside, and the caller that
links it inlines the function.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from diffkern.ir.nodes import Function
from diffkern.ir.types import Array, Element, Type, scalar_of
from diffkern.targets.emit.facts import analyse
from diffkern.targets.emit.frame import loop_stacks
from diffkern.targets.emit.function import BodyEmitter
from diffkern.targets.emit.kernel import float_flags
from diffkern.targets.emit.memory import ArrayRef, element_size
from diffkern.targets.emit.scalars import ScalarEmitter
from diffkern.targets.emit.types import I32, I64, PTR, VOID, Isa, TargetModule, i64, value_type
from diffkern.targets.emit.workspace import Workspace

__all__ = ["emit_function", "result_place"]


def emit_function(fn: Function, symbol: str, isa: Isa, *, fast_math: bool = False) -> str:
    """Emit the LLVM module of a function whose composite mathematics has been expanded."""
    module = TargetModule(symbol, isa)
    types = [I32] * fn.tid_arity + [t for p in fn.params for t in _passed(p.type)] + [PTR]
    function = ir.Function(module, ir.FunctionType(VOID, types), symbol)
    function.attributes.add("nounwind")
    function.attributes.add("alwaysinline")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    facts = analyse(fn)
    facts.reduced = []  # each call is by itself
    # Numba's function, into which this one is inlined, has LLVM estimate quotients that allow a reciprocal.
    flags = tuple(flag for flag in float_flags(fn, fast_math=fast_math) if flag != "arcp")
    scalars = ScalarEmitter(b, module, flags)
    room = Workspace(b)
    stacks = loop_stacks(room.take, facts)
    body = BodyEmitter(b, scalars, facts, {}, {}, stacks=stacks, vector_bytes=isa.vector_bytes)
    given = iter(function.args)
    body.tid = tuple(next(given) for _ in range(fn.tid_arity))
    for p in fn.params:
        if isinstance(p.type, Array):
            body.arrays[p] = _array(p.type, given)
        else:
            body.values[p] = tuple(next(given) for _ in range(element_size(p.type)))  # type: ignore[arg-type]
    place = 0
    # Results have 8 bytes each whatever their type, so a caller can index them.
    for values in body.region(fn.body):
        for value in values:
            b.store(value, result_place(b, function.args[-1], place))
            place += 1
    room.release()
    b.ret_void()
    return str(module)


def result_place(b: Any, results: Any, k: int) -> Any:
    """Return a pointer to the k-th scalar of the results."""
    return b.gep(results, [i64(k)], inbounds=True, source_etype=I64)


def _passed(t: Type) -> list[Any]:
    """Return the LLVM types of the arguments for a parameter."""
    if isinstance(t, Array):
        return [PTR, *[I64] * (2 * t.ndim)]
    element: Element = t  # type: ignore[assignment]
    return [value_type(scalar_of(element))] * element_size(element)


def _array(t: Array, given: Iterator[Any]) -> ArrayRef:
    data = next(given)
    shape = tuple(next(given) for _ in range(t.ndim))
    return ArrayRef(t, data, shape, tuple(next(given) for _ in range(t.ndim)))
