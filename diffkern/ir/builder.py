"""Builds IR: appends ops to a current region, inferring result types from the operation table.

A :class:`Builder` takes operand values and attributes and produces well-typed ops. It never rewrites what it has built;
simplification is the business of ``diffkern.opt``, apart from the trivial identities that :meth:`Builder.add` and
friends apply so that derivative rules can be written without special cases.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from diffkern.errors import Loc
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import BOOL, INT32, Element, Mat, Scalar, Tile, Type, Vec, value_type


class _At:
    """A context in which new ops get another source position.

    It is a class because one is entered around nearly every op, and a generator would be slower.
    """

    __slots__ = ("_builder", "_loc")

    def __init__(self, builder: Builder, loc: Loc | None) -> None:
        self._builder, self._loc = builder, loc

    def __enter__(self) -> None:
        self._builder.loc, self._loc = self._loc, self._builder.loc

    def __exit__(self, *raised: object) -> None:
        self._builder.loc = self._loc


class Builder:
    """Appends ops to :attr:`region`.

    Attributes
    ----------
    region
        The region that receives new ops.
    loc
        The source position given to new ops.
    """

    def __init__(self, region: Region | None = None, loc: Loc | None = None) -> None:
        self.region = region if region is not None else Region()
        self.threads = 0  # of a block, where each has numbers of its own beside the tiles
        self.loc = loc

    # -- structure ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def into(self, region: Region) -> Iterator[Region]:
        """Append to another region for the duration of a ``with`` block."""
        outer, self.region = self.region, region
        try:
            yield region
        finally:
            self.region = outer

    def at(self, loc: Loc | None) -> _At:
        """Give new ops another source position for the duration of a ``with`` block."""
        return _At(self, loc)

    def op(
        self,
        name: str,
        *operands: Value,
        regions: Sequence[Region] = (),
        names: Sequence[str] = (),
        **attrs: Any,
    ) -> tuple[Value, ...]:
        """Append any op; returns its results. ``names`` are hints for the results.

        Raises
        ------
        TypeRuleError
            If the types of operands or the attributes do not fit the operation.
        """
        row = lookup(name)
        if row.arity is not None and len(operands) != row.arity:
            raise ValueError(f"{name} takes {row.arity} operands, not {len(operands)}")
        row.check_attrs(attrs)
        types = row.infer([v.type for v in operands], attrs)
        results = tuple(map(Value, types))
        for result, hint in zip(results, names, strict=False):
            result.name = hint
        self.region.ops.append(Op(name, tuple(operands), results, attrs, tuple(regions), self.loc))
        return results

    def one(self, name: str, *operands: Value, hint: str = "", **attrs: Any) -> Value:
        """Append an op with exactly one result and return it."""
        (value,) = self.op(name, *operands, names=(hint,) if hint else (), **attrs)
        return value

    def if_(self, cond: Value, then: Region, orelse: Region, names: Sequence[str] = ()) -> tuple[Value, ...]:
        """Append an ``if`` whose regions are complete; both must yield the same types."""
        types = tuple(v.type for v in then.yields)
        return self.op("if", cond, regions=(then, orelse), names=names, types=types)

    def for_(
        self, lo: Value, hi: Value, step: Value, init: Sequence[Value], body: Region, names: Sequence[str] = ()
    ) -> tuple[Value, ...]:
        """Append a ``for`` whose body is complete."""
        return self.op("for", lo, hi, step, *init, regions=(body,), names=names)

    def while_(self, init: Sequence[Value], cond: Region, body: Region, names: Sequence[str] = ()) -> tuple[Value, ...]:
        """Append a ``while`` whose regions are complete."""
        return self.op("while", *init, regions=(cond, body), names=names)

    # -- constants ---------------------------------------------------------------------------------------------------

    def const(self, value: bool | int | float, type: Scalar) -> Value:
        """Return a literal. Floats keep their full Python value; codegen rounds them to ``type``."""
        # The integer `1` as a float constant would be printed, and folded, as an integer.
        if type.is_float:
            value = float(value)
        return self.one("const", value=value, type=type)

    def zero(self, type: Type) -> Value:
        """Return the additive zero of a scalar or composite type."""
        return self.full(type, 0)

    def full(self, type: Type, value: float) -> Value:
        """Return a scalar constant, or a composite with every component equal to it."""
        if isinstance(type, Scalar):
            return self.const(value if type != BOOL else bool(value), type)
        if isinstance(type, (Vec, Mat)):
            c = self.const(value, type.dtype)
            return self.one("construct", *([c] * type.size), type=type)
        if isinstance(type, Tile):
            return self.one("tile_fill", self.full(value_type(type.dtype), value), type=type)
        raise TypeError(f"no constant of type {type}")

    def i32(self, value: int) -> Value:
        """Return an int32 literal."""
        return self.const(value, INT32)

    # -- arithmetic --------------------------------------------------------------------------------------------------

    # Cotangents of tiles are tiles: rules that add or negate them call these two methods without knowing the shape.
    def add(self, a: Value, b: Value) -> Value:
        return self.each("add", a, b) if isinstance(a.type, Tile) else self.one("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self.one("sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self.one("mul", a, b)

    def each(self, name: str, *tiles: Value) -> Value:
        """Append an op on the elements of tiles of one type."""
        t = tiles[0].type
        assert isinstance(t, Tile)
        # The body of a `tile_map` is a region of its own, so its ops must not go to the region that receives the map.
        body = Region(tuple(Value(value_type(t.dtype)) for _ in tiles))
        with self.into(body):
            body.yields = (self.one(name, *body.params),)
        return self.one("tile_map", *tiles, shape=t.shape, dtypes=(t.dtype,), body=body, indexed=False)

    def div(self, a: Value, b: Value) -> Value:
        return self.one("div", a, b)

    def neg(self, a: Value) -> Value:
        return self.each("neg", a) if isinstance(a.type, Tile) else self.one("neg", a)

    def select(self, cond: Value, a: Value, b: Value) -> Value:
        return self.one("select", cond, a, b)

    def scale(self, a: Value, s: Value) -> Value:
        """Return ``a * s`` where ``a`` is a composite or a scalar and ``s`` a scalar."""
        return self.one("mul" if isinstance(a.type, Scalar) else "scale", a, s)

    def cast(self, a: Value, to: Element) -> Value:
        """Return ``a`` as another type; ``a`` itself when it has that type already."""
        return a if a.type == to else self.one("cast", a, to=to)

    def extract(self, a: Value, index: int) -> Value:
        return self.one("extract", a, index=index)

    def components(self, a: Value) -> list[Value]:
        """Return all components of a composite, or the scalar itself."""
        if isinstance(a.type, (Vec, Mat)):
            return [self.extract(a, k) for k in range(a.type.size)]
        return [a]

    def construct(self, type: Type, components: Sequence[Value]) -> Value:
        """Return a composite of its components, or the one scalar."""
        if isinstance(type, (Vec, Mat)):
            return self.one("construct", *components, type=type)
        (value,) = components
        return value
