"""Lowers arrays of single threads to vectors, in kernels whose threads synchronize.

In a function as written, in place: where threads synchronize at barriers or share arrays, an array that a thread has
for itself becomes a vector of all numbers in it. It is kept across a barrier like any number, and is carried, replayed
and differentiated like one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from diffkern.errors import KernelTypeError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.block import BLOCK_EXTENTS
from diffkern.ir.ops.table import lookup
from diffkern.ir.ops.tile import components, of_block
from diffkern.ir.types import BFLOAT16, FLOAT16, UINT32, Mat, Scalar, Stack, Tile, Type, Vec, scalar_of, value_type
from diffkern.ir.views import Part

__all__ = ["MOST", "arrays_as_vectors"]

MOST: Final = 64
"""Numbers in such an array: what is written to it at an index known at run time chooses among all of them."""


def arrays_as_vectors(fn: Function) -> Function:
    """Turn the arrays of threads into vectors, if threads of a block cooperate as single threads; return the function.

    Raises
    ------
    KernelTypeError
        With the line of an array that is too large.
    """
    ops = list(walk(fn.body))
    if not any(map(_works_together, ops)) or any(lookup(op.name).family == "tile" and of_block(op) for op in ops):
        return fn
    arrays = {v: v.type for v in _values(fn.body) if isinstance(v.type, Tile) and v.type.own}
    if not arrays:
        return fn
    for op in ops:
        _check(op)
    # Types are changed in place, so that every op that merely passes an array on needs no rewriting.
    for v in _values(fn.body):
        v.type = _vector(v.type)
    for op in ops:
        op.attrs = {**op.attrs, **{k: _retyped(x) for k, x in op.attrs.items() if k in ("type", "types")}}
    _region(fn.body, Builder(), arrays)
    return fn


def _values(region: Region) -> Iterator[Value]:
    yield from region.params
    for op in walk(region):
        yield from op.results
        for sub in op.regions:
            yield from sub.params


def _works_together(op: Op) -> bool:
    return lookup(op.name).family == "block" and op.name not in BLOCK_EXTENTS


def _vector(t: Type) -> Type:
    """Return the type of a vector with the numbers of a value of a type."""
    if isinstance(t, Tile) and t.own:
        return Vec(_number(t), t.size * components(t))
    return Stack(tuple(map(_vector, t.fields)), t.slots, t.level) if isinstance(t, Stack) else t  # type: ignore[arg-type]


def _number(t: Tile) -> Scalar:
    return scalar_of(value_type(t.dtype))


def _retyped(given: Any) -> Any:
    """Return the types that an attribute names, with arrays as vectors."""
    return tuple(map(_vector, given)) if isinstance(given, tuple) else _vector(given)


def _region(region: Region, b: Builder, arrays: Mapping[Value, Tile]) -> None:
    """Lower the ops of a region and of those in it, in place."""
    done = Region()
    for op in region.ops:
        for sub in op.regions:
            _region(sub, b, arrays)
        lowered, held = _OPS.get(op.name), next((v for v in (*op.operands, *op.results) if v in arrays), None)
        if lowered is None or held is None:
            done.ops.append(op)
            continue
        with b.into(done), b.at(op.loc):
            lowered(b, op, arrays[held])
        # The last op takes over the old results, so uses need not be renamed.
        done.ops[-1].results = op.results
    region.ops = done.ops


def _check(op: Op) -> None:
    t = op.results[0].type if op.name == "tile_fill" else None
    if isinstance(t, Tile) and t.own and t.size * components(t) > MOST:
        raise KernelTypeError(
            f"threads of a block wait for one another in this kernel, and each has an array of "
            f"{t.size * components(t)} numbers; {MOST} are the most",
            loc=op.loc,
            remedy="take a part of a shared array for each thread, as in s[dk.thread_index(), k]",
        )


def _numbers(b: Builder, item: Value, t: Tile) -> list[Value]:
    """Return the numbers of an element as memory keeps them, rounded to its type."""
    parts = b.components(item) if isinstance(item.type, (Vec, Mat)) else [item]
    rounding = _ROUNDED.get(scalar_of(t.dtype))
    return parts if rounding is None else [b.one(rounding, x) for x in parts]


_ROUNDED: Final = {FLOAT16: "round_float16", BFLOAT16: "round_bfloat16"}


def _fill(b: Builder, op: Op, t: Tile) -> Value:
    return b.construct(_vector(t), _numbers(b, op.operands[0], t) * t.size)


def _position(b: Builder, index: Sequence[Value], t: Tile) -> tuple[Value, Value]:
    """Return the number of an element and whether it exists."""
    inside: Value | None = None
    place: Value | None = None
    for v, extent in zip(index, t.shape, strict=True):
        assert isinstance(v.type, Scalar)
        zero, end = b.const(0, v.type), b.const(extent, v.type)
        within = b.one("and", b.one("ge", v, zero), b.one("lt", v, end))
        inside = within if inside is None else b.one("and", inside, within)
        # The unsigned position of an index out of range is never used: a test accompanies it.
        counted = b.cast(v, UINT32)
        place = counted if place is None else b.add(b.mul(place, b.const(extent, UINT32)), counted)
    assert place is not None
    assert inside is not None
    return b.mul(place, b.const(components(t), UINT32)), inside


def _extract(b: Builder, op: Op, t: Tile) -> Value:
    place, inside = _position(b, Part(op).index, t)
    zero = b.zero(_number(t))
    found = [
        b.select(inside, b.one("extract_dyn", op.operands[0], _behind(b, place, k)), zero) for k in range(components(t))
    ]
    element = op.result.type
    return b.construct(element, found) if isinstance(element, (Vec, Mat)) else found[0]


def _behind(b: Builder, place: Value, k: int) -> Value:
    return place if k == 0 else b.add(place, b.const(k, UINT32))


def _replace(b: Builder, op: Op, t: Tile) -> Value:
    """Replace an element; the position behind the end stands for an element that does not exist."""
    place, inside = _position(b, Part(op).index, t)
    place = b.select(inside, place, b.const(t.size * components(t), UINT32))
    made = op.operands[0]
    for k, x in enumerate(_numbers(b, Part(op).value, t)):
        made = b.one("insert_dyn", made, x, _behind(b, place, k))
    return made


_OPS: Final[Mapping[str, Callable[[Builder, Op, Tile], Value]]] = {
    "tile_fill": _fill,
    "tile_extract": _extract,
    "tile_replace": _replace,
}
