"""Cloning of regions under a substitution: the tool from which inlining, unrolling and replay are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import Array, Mat, Scalar, Vec, value_type


class Cloner:
    """Copies ops into a builder's current region, replacing operands by what :attr:`env` maps them to.

    Values without an entry are taken from outside and stay as they are. A subclass overrides :meth:`op` to change what
    particular ops become.
    """

    def __init__(self, builder: Builder, env: dict[Value, Value] | None = None) -> None:
        self.b = builder
        self.env: dict[Value, Value] = {} if env is None else env

    def value(self, v: Value) -> Value:
        return self.env.get(v, v)

    def values(self, vs: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(self.value(v) for v in vs)

    def ops(self, ops: Iterable[Op]) -> None:
        for op in ops:
            self.op(op)

    def op(self, op: Op) -> None:
        """Copy one op; results are entered into the environment."""
        # Regions first: they see only values defined before the op, and their copies must not see its results.
        regions = tuple(self.region(sub) for sub in op.regions)
        self.emit(op, self.values(op.operands), regions)

    def emit(self, op: Op, operands: tuple[Value, ...], regions: tuple[Region, ...]) -> Op:
        results = tuple(Value(r.type, r.name) for r in op.results)
        # Attributes are shared between the copies: no pass changes the mapping of an op in place.
        copy = Op(op.name, operands, results, op.attrs, regions, op.loc)
        self.b.region.ops.append(copy)
        self.env.update(zip(op.results, results, strict=True))
        return copy

    def region(self, region: Region) -> Region:
        """Return a copy of a whole region with fresh parameters."""
        # Parameters enter the environment before the body is copied, because its ops use them.
        copy = Region(tuple(Value(p.type, p.name) for p in region.params))
        self.env.update(zip(region.params, copy.params, strict=True))
        with self.b.into(copy):
            self.ops(region.ops)
        copy.yields = self.values(region.yields)
        return copy

    def inline(self, region: Region, arguments: Iterable[Value]) -> tuple[Value, ...]:
        """Copy a region's ops into the current region with its parameters bound; returns the yielded values."""
        self.env.update(zip(region.params, arguments, strict=True))
        self.ops(region.ops)
        return self.values(region.yields)


def clone_function(fn: Function) -> Function:
    """Return a copy with the same parameters and a body of its own, which passes may change in place.

    Its augmented assignments stay as they are written: those that are noted beside the function are the original's.
    """
    # An update names the store op that ends it by identity, and the copy has other ops.
    return replace(fn, body=Cloner(Builder()).region(fn.body), updates=())


def substitute(region: Region, mapping: dict[Value, Value]) -> None:
    """Replace uses of values throughout a region, in place. Chains in the mapping are followed."""

    def resolve(v: Value) -> Value:
        # A value may be replaced by one that is itself replaced later in the same pass.
        while v in mapping:
            v = mapping[v]
        return v

    if not mapping:
        return
    for op in walk(region):
        if not mapping.keys().isdisjoint(op.operands):
            op.operands = tuple(map(resolve, op.operands))
        for sub in op.regions:
            sub.yields = tuple(resolve(v) for v in sub.yields)
    region.yields = tuple(resolve(v) for v in region.yields)


def defined_in(region: Region) -> set[Value]:
    """Return all values defined in a region and the regions nested in it, its parameters included."""
    out = set(region.params)
    for op in walk(region):
        out.update(op.results)
        for sub in op.regions:
            out.update(sub.params)
    return out


def free_values(region: Region) -> list[Value]:
    """Values used in a region but defined outside of it, in order of first use."""
    # Values are defined once, so one set for the whole region suffices: no scope can shadow another.
    inner = defined_in(region)
    out: dict[Value, None] = {}
    for op in walk(region):
        for v in op.operands:
            if v not in inner:
                out.setdefault(v)
        for sub in op.regions:
            for v in sub.yields:
                if v not in inner:
                    out.setdefault(v)
    for v in region.yields:
        if v not in inner:
            out.setdefault(v)
    return list(out)


# -- parameters that receive the same array ----------------------------------------------------------------------------
# Merging of array parameters that receive the same array.
#
# ``merge_parameters`` takes a function and the pairs of parameters that are given one array, and lets it access that
# array through one parameter only, in place. Analyses of one array then see every access to it: which elements are
# overwritten, by which thread, and where two threads may update one.


def merge_parameters(fn: Function, merged: Sequence[tuple[int, int]]) -> Function:
    """Use one parameter instead of each merged one, in place; the merged ones stay, but are unused.

    Parameters
    ----------
    fn : Function
        The function.
    merged : sequence of (int, int)
        Each merged parameter with the one that replaces it, by position.
    """
    instead = {fn.params[k]: fn.params[of] for k, of in merged}
    substitute(fn.body, instead)
    for update in fn.updates:
        substitute(update.prelude, instead)
    return fn


# -- values by reference -----------------------------------------------------------------------------------------------
# Turn parameters by value into arrays of one element, for callers whose values only the kernel can read.
#
# Scalar, vector and matrix parameters of a function become one-dimensional arrays that every thread reads at index 0,
# in place. Types of storage only (float16, bfloat16) are passed in the type of their values.


def values_by_reference(fn: Function) -> Function:
    """Replace parameters by value, in place; return the function."""
    b = Builder()
    b.loc = fn.loc
    zero: Value | None = None
    params: list[Value] = []
    read: dict[Value, Value] = {}
    for p in fn.params:
        if not isinstance(p.type, (Scalar, Vec, Mat)):
            params.append(p)
            continue
        held = Value(Array(value_type(p.type), 1), p.name)
        zero = b.i32(0) if zero is None else zero
        read[p] = b.one("load", held, zero, wrap=(False,))
        params.append(held)
    substitute(fn.body, read)
    fn.body.ops[:0] = b.region.ops
    fn.params = tuple(params)
    return fn
