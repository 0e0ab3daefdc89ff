"""Thread index, array shape, loads, stores, atomics, cotangent accumulation, loop stacks and control flow.

An ``opaque`` op belongs to a func with a derivative of its own: no derivative passes through it.

Index operands of ``load``, ``store``, ``atomic`` and ``accumulate`` are integers, one per axis. The attribute ``wrap``
is a tuple of bools, one per index: True where a negative index may occur and counts from the end, as in Python.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.ir.ops.row import Diff, Effect, OpDef, TypeRuleError, Uniformity
from diffkern.ir.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT64,
    Array,
    Element,
    Scalar,
    Stack,
    Type,
    Vec,
    scalar_of,
    value_type,
)

Attrs = Mapping[str, Any]

# The ops that read, write and read-modify-write arrays, on elements and on tiles.
LOADS = frozenset({"load", "tile_load"})
STORES = frozenset({"store", "tile_store"})
ATOMICS = frozenset({"atomic", "tile_atomic"})
ACCUMULATES = frozenset({"accumulate", "tile_accumulate"})
WRITES = STORES | ATOMICS | ACCUMULATES
ACCESSES = LOADS | WRITES
READS_BY_ADDRESS = frozenset({"peek", "fetch"})

NAN_EXTREMA = ("min", "max")
EXTREMA = (*NAN_EXTREMA, "fmin", "fmax")
"""Kinds of atomic updates that take the smaller or the greater: a NaN is passed on, or, as with C's fmin, skipped."""
HOLDING = ("take", "give")
"""Kinds by which one thread at a time holds an element: no other thread takes it until it is given back."""
HELD, WON = 1.0, 2.0
ATOMIC_KINDS = ("add", "sub", *EXTREMA, "exch", "and", "or", "xor", "inc", "dec", "cas", "keep", *HOLDING)
_BIT_KINDS = ("and", "or", "xor")
INTEGER_KINDS = (*_BIT_KINDS, "inc", "dec")
ACCUMULATE_MODES = ("plain", "atomic", "reduce")


def _array(t: Type) -> Array:
    if not isinstance(t, Array):
        raise TypeRuleError(f"needs an array, not {t}")
    return t


def _stack(t: Type) -> Stack:
    if not isinstance(t, Stack):
        raise TypeRuleError(f"needs a stack, not {t}")
    return t


def _indices(array: Array, types: Sequence[Type]) -> None:
    if len(types) != array.ndim:
        raise TypeRuleError(f"{array} needs {array.ndim} indices, not {len(types)}")
    for t in types:
        if not (isinstance(t, Scalar) and t.is_integer):
            raise TypeRuleError(f"an index must be an integer, not {t}")


def _stored(array: Array, t: Type) -> Element:
    want = value_type(array.dtype)
    if t != want:
        raise TypeRuleError(f"{array} takes values of type {want}, not {t}")
    return want


def _tid(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (INT32,)


def _shape(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    array = _array(types[0])
    if not 0 <= attrs["axis"] < array.ndim:
        raise TypeRuleError(f"axis {attrs['axis']} of {array}")
    return (INT32,)


def _constant_array(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    array, shape = _array(attrs["type"]), attrs["shape"]
    if not isinstance(array.dtype, Scalar) or array.layout != "C" or len(shape) != array.ndim:
        raise TypeRuleError(f"{array} of shape {shape}")
    if math.prod(shape) * array.dtype.itemsize != len(attrs["data"]):
        raise TypeRuleError(f"{len(attrs['data'])} bytes for {array} of shape {shape}")
    return (array,)


def _peek(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if types[0] != UINT64 or types[1] not in (INT32, INT64):
        raise TypeRuleError(f"needs an address and an index, uint64 and int32 or int64, not {types}")
    return (attrs["type"],)


def _fetch(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if tuple(types) != (UINT64, UINT64, INT32):
        raise TypeRuleError(f"needs two addresses and an index, uint64, uint64 and int32, not {types}")
    return (attrs.get("type", FLOAT32),)


def _deposit(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if tuple(types[:2]) != (UINT64, INT32) or types[2] not in (FLOAT32, FLOAT64):
        raise TypeRuleError(f"needs an address, an index and a number, not {types}")
    return ()


def _withdraw(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if tuple(types) != (UINT64, INT32):
        raise TypeRuleError(f"needs an address and an index, uint64 and int32, not {types}")
    return (attrs["type"],)


def _poke(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if tuple(types[:3]) != (UINT64, UINT64, INT32) or not isinstance(types[3], Scalar):
        raise TypeRuleError(f"needs two addresses, an index and a number, not {types}")
    return ()


def _element_of(array: Array, types: Sequence[Type]) -> None:
    if not array.outer or len(types) != array.outer:
        raise TypeRuleError(f"{array} has no array at {len(types)} indices")


def _inner_shape(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    array = _array(types[0])
    _element_of(array, types[1:])
    if not 0 <= attrs["axis"] < array.ndim - array.outer:
        raise TypeRuleError(f"axis {attrs['axis']} of the arrays in {array}")
    return (INT32,)


def _points(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    _element_of(_array(types[0]), types[1:])
    return (BOOL,)


def _array_at(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    array = _array(attrs["type"])
    if types[0] != Vec(UINT64, 1 + 2 * array.ndim):
        raise TypeRuleError(f"{array} is not described by {types[0]}")
    return (array,)


def _load(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    array = _array(types[0])
    _indices(array, types[1:])
    return (value_type(array.dtype),)


def _store(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    array = _array(types[0])
    _indices(array, types[1:-1])
    _stored(array, types[-1])
    return ()


def _atomic(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    array = _array(types[0])
    _indices(array, types[1:-1])
    if attrs["kind"] not in ATOMIC_KINDS:
        raise TypeRuleError(f"atomic {attrs['kind']!r}")
    if attrs["kind"] in ("fmin", "fmax") and not scalar_of(array.dtype).is_float:
        raise TypeRuleError(f"atomic {attrs['kind']} of {array}")
    is_bit = array.dtype == BOOL and attrs["kind"] in _BIT_KINDS
    is_integer = scalar_of(array.dtype).is_integer
    if attrs["kind"] in INTEGER_KINDS and not (is_integer or is_bit):
        raise TypeRuleError(f"atomic {attrs['kind']} of {array}")
    # The two values travel as one vector, so that every atomic update has one value operand.
    if attrs["kind"] == "cas":
        if not isinstance(types[-1], Vec) or types[-1].length != 2:
            raise TypeRuleError(f"takes what is expected and what replaces it, not {types[-1]}")
        return (_stored(array, types[-1].dtype),)
    if attrs["kind"] == "give":
        return _give(array, types[-1])
    return (_stored(array, types[-1]),)


def _give(array: Array, given: Type) -> tuple[Type, ...]:
    t = value_type(array.dtype)
    size = 1 if isinstance(t, Scalar) else t.size
    if not isinstance(given, Vec) or given != Vec(scalar_of(t), 4 * size):
        raise TypeRuleError(f"takes four numbers for each component of {t}, not {given}")
    return (t,)


def _accumulate(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if attrs["mode"] not in ACCUMULATE_MODES:
        raise TypeRuleError(f"accumulate mode {attrs['mode']!r}")
    return _store(types, attrs)


def _stack_new(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (_stack(attrs["type"]),)


def _slot(t: Type) -> None:
    if t != INT32:
        raise TypeRuleError(f"a slot is an int32, not {t}")


def _stack_get(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    _slot(types[1])
    return (_stack(types[0]).fields[attrs["field"]],)


def _stack_set(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    _slot(types[1])
    fields = _stack(types[0]).fields
    if tuple(types[2:]) != fields:
        raise TypeRuleError(f"needs {fields}, not {tuple(types[2:])}")
    return ()


def _if(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if tuple(types) != (BOOL,):
        raise TypeRuleError(f"needs one bool condition, not {types}")
    return tuple(attrs["types"])


def _for(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    lo = types[0]
    if not (isinstance(lo, Scalar) and lo.is_integer) or types[1] != lo or types[2] != lo:
        raise TypeRuleError(f"bounds and step must be integers of one type, not {types[:3]}")
    return tuple(types[3:])


def _while(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return tuple(types)


ROWS = (
    OpDef(
        "tid", "memory", 0, _tid, diff=Diff.ZERO, attrs={"axis": int}, uniformity=Uniformity.THREAD, cost=0.0, least=0
    ),
    # The extent of the launch itself
    OpDef("extent", "memory", 0, _tid, diff=Diff.ZERO, py="extent({axis})", attrs={"axis": int}, cost=0.0, least=0),
    OpDef("shape", "memory", 1, _shape, diff=Diff.ZERO, attrs={"axis": int}, cost=0.0, least=0),
    # An array that is part of the program: its elements in row-major order, as they lie in memory
    OpDef(
        "constant_array", "memory", 0, _constant_array, diff=Diff.ZERO,
        attrs={"type": Array, "shape": tuple, "data": bytes}, cost=0.0,
    ),
    # (address, index): an element of memory that belongs to no array of the launch, but to an object that an id names.
    # changing: the program may write to the memory, so it is not placed like a constant
    OpDef(
        "peek", "memory", 2, _peek, Effect.CONSTANT, Diff.ZERO,
        attrs={"type": Scalar}, optional={"changing": bool}, cost=1.5,
    ),
    # (address, address of a table, index): a number as from peek, of float32 unless another type is given, which
    # derivatives are taken with respect to, at addresses in its table; look is the same in a program that writes there;
    # along: has been differentiated in forward mode. And (address of cotangents, index, value): adds to a cotangent,
    # from one of many threads; does nothing at the address 0
    OpDef(
        "fetch", "memory", 3, _fetch, Effect.CONSTANT, Diff.SPECIAL,
        optional={"type": Scalar, "along": bool}, cost=1.5,
    ),
    OpDef("look", "memory", 3, _fetch, Effect.REPORT, Diff.SPECIAL, optional={"type": Scalar}, cost=1.5),
    OpDef("deposit", "memory", 3, _deposit, Effect.REPORT, Diff.INTERNAL, cost=20.0),
    # (address, address of a table, index, value): writes a number to memory; and (address of cotangents, index): its
    # cotangent, which becomes 0; 0 at the address 0
    OpDef("poke", "memory", 4, _poke, Effect.REPORT, Diff.SPECIAL, cost=1.5),
    OpDef("withdraw", "memory", 2, _withdraw, Effect.REPORT, Diff.INTERNAL, attrs={"type": Scalar}, cost=1.5),
    # (array, *index), of an array whose elements hold arrays: the extent of one of these, and whether it exists
    OpDef(
        "inner_shape", "memory", None, _inner_shape, Effect.CONSTANT, Diff.ZERO, attrs={"wrap": tuple, "axis": int},
        cost=1.5, least=0,
    ),
    OpDef("points", "memory", None, _points, Effect.CONSTANT, Diff.ZERO, attrs={"wrap": tuple}, cost=1.5),
    # (descriptor): the array that it describes; only in programs that know nothing but the array's address
    OpDef("array_at", "memory", 1, _array_at, diff=Diff.INTERNAL, attrs={"type": Array}, cost=0.0),
    # (array, *index). aligned: the alignment of the place in bytes. carried: made for a loop, and its value is used
    # only where the thread stores to the element as well. common: the element is the same for all threads of the block
    # and no thread writes it meanwhile; it is shared memory between barriers or a number of the launch. only: the
    # components that are used
    OpDef(
        "load", "memory", None, _load, Effect.READ, Diff.SPECIAL,
        attrs={"wrap": tuple},
        optional={"aligned": int, "carried": bool, "common": bool, "only": tuple, "opaque": bool}, cost=1.5,
    ),
    # (array, *index, value). alone: every thread of a launch makes this same update, so a launch may have one thread
    # only. only: the components that are written; the others stay as they are in memory
    OpDef(
        "store", "memory", None, _store, Effect.WRITE, Diff.SPECIAL,
        attrs={"wrap": tuple}, optional={"aligned": int, "alone": bool, "only": tuple, "opaque": bool}, cost=1.5,
    ),
    # (array, *index, value); result: the old value. augmented: written as an augmented assignment. cas: the value is
    # two, what is expected and what then replaces it. keep: components become 0 where the value is 0.
    # take: waits until nobody holds the components where the value is not 0, and holds them; the others are not read.
    # give: the value is four for each component: what take returned, 0 (not held), HELD (it stays what it was) or WON,
    # the number by which another array's element was updated, what the component becomes if that won. pair: the number
    # of the update of the other array
    OpDef(
        "atomic", "memory", None, _atomic, Effect.ATOMIC, Diff.SPECIAL,
        attrs={"wrap": tuple, "kind": str}, optional={"augmented": bool, "opaque": bool, "pair": int}, cost=20.0,
    ),
    # (array, *index, value): element += value, without a result. mode:
    #   plain   no other thread that may run at the same time touches the element
    #   atomic  another thread may
    #   reduce  the address is the same for all threads of a launch: partial sums per chunk, then one addition
    OpDef(
        "accumulate", "memory", None, _accumulate, Effect.ATOMIC, Diff.INTERNAL,
        attrs={"wrap": tuple, "mode": str}, optional={"aligned": int},
    ),
    OpDef("stack_new", "stack", 0, _stack_new, Effect.STACK_WRITE, Diff.INTERNAL, attrs={"type": Stack}),
    OpDef("stack_get", "stack", 2, _stack_get, Effect.STACK_READ, Diff.INTERNAL, attrs={"field": int}),  # (stack, slot)
    OpDef("stack_set", "stack", None, _stack_set, Effect.STACK_WRITE, Diff.INTERNAL),  # (stack, slot, *values)
    # types: the types of the results. guarded (of loops too): reversed only where a cotangent of the results is not
    # exactly zero. rarely: hardly any thread enters the first region
    OpDef(
        "if", "control", 1, _if, Effect.CONTROL, Diff.SPECIAL, attrs={"types": tuple},
        optional={"guarded": bool, "rarely": bool},
    ),
    # ahead: the step is positive, and index plus step never overflows. rolled: too long to be unrolled. threads: over
    # the threads of a block. once: hardly any thread makes more than one trip
    OpDef(
        "for", "control", None, _for, Effect.CONTROL, Diff.SPECIAL,
        optional={"ahead": bool, "rolled": bool, "threads": bool, "guarded": bool, "once": bool},
    ),
    OpDef("while", "control", None, _while, Effect.CONTROL, Diff.SPECIAL, optional={"guarded": bool}),
)  # fmt: skip


def _elements(*effects: Effect) -> frozenset[str]:
    return frozenset(row.name for row in ROWS if row.family == "memory" and row.effect in effects)


ELEMENT_LOADS = _elements(Effect.READ)
ELEMENT_STORES = _elements(Effect.WRITE)
PLAIN_ELEMENTS = ELEMENT_LOADS | ELEMENT_STORES
ELEMENT_WRITES = _elements(Effect.WRITE, Effect.ATOMIC)
UPDATES = _elements(Effect.ATOMIC)
ELEMENTS = ELEMENT_WRITES | _elements(Effect.READ)
"""The accesses of single elements of arrays."""
PRIMAL_ELEMENTS = frozenset(row.name for row in ROWS if row.name in ELEMENTS and row.diff is not Diff.INTERNAL)
"""Those that a kernel may have before it is differentiated."""
PRIMAL_ELEMENT_WRITES = PRIMAL_ELEMENTS & ELEMENT_WRITES
ELEMENT_ATOMICS = PRIMAL_ELEMENTS & UPDATES
ELEMENT_ACCUMULATES = UPDATES - PRIMAL_ELEMENTS
"""Updates that the program itself asks for, whose result is the old value, and those that add to a cotangent."""
ORDERED_FORMS = {"fetch": "look"}
"""The reads by the form of each that stays in its order with writes of such memory."""
DIFFERENTIATED_READS, ORDERED_READS = frozenset(ORDERED_FORMS), frozenset(ORDERED_FORMS.values())
PLACE_WRITES = frozenset({"poke"})
BY_ADDRESS = frozenset(row.name for row in ROWS if row.effect is Effect.CONSTANT and row.arity is not None)
"""The reads of memory that belongs to no array of the launch."""
PLACES = BY_ADDRESS | ORDERED_READS | PLACE_WRITES
"""All accesses of such memory that a kernel may have before it is differentiated."""
SLOTS = frozenset(row.name for row in ROWS if row.family == "stack" and row.arity != 0)
"""The accesses of loop stacks."""
NEW_STACKS = frozenset(row.name for row in ROWS if row.family == "stack" and row.arity == 0)
STACK_READS = frozenset(row.name for row in ROWS if row.effect is Effect.STACK_READ)
STACK_WRITES = SLOTS - STACK_READS
LOOPS = frozenset(row.name for row in ROWS if row.family == "control" and row.arity is None)
LAUNCH_INDICES = frozenset(row.name for row in ROWS if row.infer is _tid)
"""The thread's index in the launch and the extents of the launch, along an axis."""
THREAD_INDICES = frozenset(row.name for row in ROWS if row.uniformity is Uniformity.THREAD)
"""The thread's index in the launch, along an axis."""
ARRAY_EXTENTS = frozenset(row.name for row in ROWS if row.arity == 1 and "axis" in row.attrs)
"""The extents of arrays that are operands."""
