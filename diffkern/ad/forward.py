"""Forward mode: from a function to one that also computes a tangent of each value that depends on its inputs.

A function of the stage ``primal``, with parameters that have tangents, becomes a function of the same stage and grid
with the parameters ``original..., tangents...``. It does what the original does, and applies the derivative of that to
the tangents of arrays. As it is of the same stage it can be treated like any kernel: it is compiled, differentiated in
reverse mode (which gives products with second derivatives) or in forward mode once more.

Each op is copied and followed by its tangent: for pure ops by the rules in ``diffkern.ad.rules.tangent``, for an access
to an array by the same access to the array's tangent. Branches and loops carry the tangents of the values they carry. A
thread sees the tangents of other threads exactly where it sees their values.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from diffkern.ad.activity import Activity, HiddenPaths
from diffkern.ad.extrema import forward_extremum, given_tangent
from diffkern.ad.memory import check_atomics
from diffkern.ad.replay import refuse
from diffkern.ad.rules.tangent import TangentArguments, Transpose, Transposes, tangent_rule
from diffkern.ad.singular import Guards, kept_zero
from diffkern.ad.tables import clear_tangent, tangent_of
from diffkern.ad.tiles import map_body
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner, free_values
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.block import SHARED_ARRAYS
from diffkern.ir.ops.memory import (
    ATOMICS,
    DIFFERENTIATED_READS,
    ELEMENT_ATOMICS,
    EXTREMA,
    HOLDING,
    LOADS,
    ORDERED_READS,
    PLACE_WRITES,
    STORES,
)
from diffkern.ir.ops.row import Diff, Tangent
from diffkern.ir.ops.scalar import SUMS
from diffkern.ir.ops.table import lookup
from diffkern.ir.structs import Argument, leaves
from diffkern.ir.types import Array, Mat, Scalar, Type, Vec, is_differentiable
from diffkern.ir.views import Access, Ruled, StackSlot, While, loop
from diffkern.process.dataclass import dataclass

__all__ = ["Tools", "by_tangents", "forward_func", "with_tangents"]


@dataclass(frozen=True)
class Tools:
    """The parts of reverse mode that forward mode uses.

    Attributes
    ----------
    transpose
        Transposes rules of operations.
    vjp
        From a function and its active parameters to one that also takes a cotangent for each result, and yields the
        results and the cotangents of the active parameters.
    """

    transpose: Transpose
    vjp: Callable[[Function, Sequence[int]], Function]


def with_tangents(
    fn: Function,
    types: Sequence[Argument],
    tangents: Sequence[tuple[int, Argument]],
    tools: Tools,
    leading: int | None = None,
) -> Function:
    """Return a kernel that takes tangents for some of its arguments.

    Parameters
    ----------
    fn : Function
        Of the stage ``primal``; it is not changed.
    types : sequence of Argument
        The types of its arguments.
    tangents : sequence of (int, Argument)
        The arguments that have tangents and the types of these, which equal the arguments' own except for their layout.
        A null array means that the argument is constant, or that its tangent is not used.
    tools : Tools
        The parts of reverse mode that are needed.
    leading : int, optional
        The number of arguments in front of the first tangents, which are the tangents of these arguments; the tangents
        of the other arguments come last. By default all.

    Returns
    -------
    Function
        Of the stage ``primal``.

    Raises
    ------
    AutodiffError
        If a tangent cannot be computed; with the source line and a remedy.
    """
    first = list(itertools.accumulate((sum(1 for _ in leaves(t)) for t in types), initial=0))
    leading = len(types) if leading is None else leading
    given: dict[Value, Value] = {}
    early: list[Value] = []
    late: list[Value] = []
    # A parameter of the user's may already be called t_x.
    taken = set(fn.param_names)
    for argument, t in tangents:
        added = early if argument < leading else late
        for k, (_, leaf) in enumerate(leaves(t)):
            of = fn.params[first[argument] + k]
            added.append(Value(leaf, _free_name(_name(of), taken)))
            # An argument may be a struct; only its differentiable leaves have tangents, and a null tangent is not
            # followed.
            if is_differentiable(leaf) and not (isinstance(leaf, Array) and leaf.is_null):
                given[of] = added[-1]
    made = _Forward(fn, given, tools)
    made.ops(fn.body.ops)
    own = made.values(fn.params)
    params = (*own[: first[leading]], *early, *own[first[leading] :], *late)
    return replace(fn, name=f"{fn.name}_jvp", params=params, body=made.b.region)


def forward_func(fn: Function, active: Sequence[int], tools: Tools) -> Function:
    """Return a function that yields its results and then their tangents, zero for those that do not depend on inputs.

    It takes the parameters of `fn` and then a tangent for each of those at the positions `active`, which are by value.
    Results that are not floats have no tangents. For the rest see :func:`with_tangents`.
    """
    given = {fn.params[k]: Value(fn.params[k].type, _name(fn.params[k])) for k in active}
    made = _Forward(fn, given, tools)
    region = made.whole(fn.body, [y for y in fn.body.yields if is_differentiable(y.type)])
    return replace(fn, name=f"{fn.name}_jvp", params=(*made.values(fn.params), *given.values()), body=region)


def by_tangents(fn: Function, active: Sequence[int], tools: Tools) -> Function:
    """Return the function that reverse mode would make of a function that yields its results, built by forward mode.

    It takes a cotangent for each result that is a float, and yields the results and the cotangents of the parameters
    `active`: the change of the results along each of their components, weighted. The work grows with the number of
    these components.
    """
    along = forward_func(fn, active, tools)
    params = [Value(p.type, p.name) for p in fn.params]
    smooth = [k for k, y in enumerate(fn.body.yields) if is_differentiable(y.type)]
    seeds = [Value(fn.body.yields[k].type, f"ct_{k}") for k in smooth]
    b = Builder(loc=fn.loc)
    zeros = [b.zero(fn.params[k].type) for k in active]
    results: Sequence[Value] = ()
    found = []
    for position, k in enumerate(active):
        parts = []
        # One forward pass per component: along a unit vector the tangents of the results are one column of the
        # Jacobian.
        for unit in _units(b, fn.params[k].type):
            given = (*params, *zeros[:position], unit, *zeros[position + 1 :])
            cloner = Cloner(b, dict(zip(along.params, given, strict=True)))
            yields = cloner.inline(Region((), along.body.ops, along.body.yields), ())
            # The primal results are the same in each pass; common subexpressions are merged later.
            results = yields[: len(fn.body.yields)]
            changes = zip(seeds, yields[len(results) :], strict=True)
            parts.append(functools.reduce(b.add, (_weighted(b, seed, change) for seed, change in changes)))
        found.append(b.construct(fn.params[k].type, parts))
    b.region.yields = (*results, *found)
    return replace(fn, name=f"{fn.name}_vjp", params=(*params, *seeds), body=b.region)


def _units(b: Builder, t: Type) -> Iterator[Value]:
    """Iterate over the unit vectors along each component of a number, vector or matrix."""
    if isinstance(t, Scalar):
        yield b.const(1.0, t)
        return
    assert isinstance(t, (Vec, Mat))
    for k in range(t.size):
        yield b.construct(t, [b.const(float(k == n), t.dtype) for n in range(t.size)])


def _weighted(b: Builder, seed: Value, change: Value) -> Value:
    """Return the sum of the products of components."""
    return functools.reduce(b.add, map(b.mul, b.components(seed), b.components(change)))


class _Forward(Cloner):
    def __init__(self, fn: Function, given: Mapping[Value, Value], tools: Tools) -> None:
        super().__init__(Builder())
        self.tools = tools
        self.env = {p: Value(p.type, p.name) for p in fn.params}
        self.tangents: dict[Value, Value] = {p: t for p, t in given.items() if not isinstance(p.type, Array)}
        self.arrays: dict[Value, Value] = {p: t for p, t in given.items() if isinstance(p.type, Array)}
        self.fields: dict[Value, dict[int, int]] = {}  # of a stack: where the tangents of its fields are
        self.shared = [op for op in walk(fn.body) if op.name in SHARED_ARRAYS]
        own = [op.result for op in self.shared if is_differentiable(op.result.type)]
        # Shared arrays are roots too: their contents pass tangents between threads within the launch.
        self.roots = [*given, *own]
        self.activity = Activity(fn, self.roots)
        self.guards = Guards(fn)
        # Fresh numbers for pairs of extrema, above all that a program differentiated before has already.
        self.pairs = itertools.count(1 + max((op.attrs.get("pair", -1) for op in walk(fn.body)), default=-1))
        self.transposes = Transposes(tools.transpose)
        self._check(fn)

    def _check(self, fn: Function) -> None:
        """Refuse programs that would silently lose a tangent, or whose tangents depend on the order of threads."""
        check_atomics(fn, self.roots)
        hidden = HiddenPaths(fn, self.roots)
        for op in walk(fn.body):
            if op.name not in LOADS | ATOMICS or op.attrs.get("opaque") or not is_differentiable(op.result.type):
                continue
            array = Access(op).array
            if array not in self.roots and hidden.through(op):
                raise AutodiffError(
                    f"{array.name} carries values with tangents inside the kernel but has no tangent of its own",
                    loc=op.loc,
                    remedy=f"pass an array for the tangent of {array.name}",
                )

    # -- tangents ----------------------------------------------------------------------------------------------------

    def tangent(self, v: Value) -> Value:
        """Return the tangent of a value, a zero where it has none."""
        found = self.tangents.get(v)
        return self.b.zero(v.type) if found is None else found

    def varies(self, v: Value) -> bool:
        """Return whether a value may have a tangent."""
        return v in self.activity.varied and is_differentiable(v.type) and not isinstance(v.type, Array)

    def whole(self, region: Region, with_tangents: Sequence[Value]) -> Region:
        """Return a copy of a region without parameters that yields tangents behind its own yields."""
        copy = Region()
        with self.b.into(copy):
            self.ops(region.ops)
            copy.yields = (*self.values(region.yields), *map(self.tangent, with_tangents))
        return copy

    # -- ops ---------------------------------------------------------------------------------------------------------

    def op(self, op: Op) -> None:
        with self.b.at(op.loc):
            special = _SPECIAL.get(op.name)
            if special is not None:
                special(self, op)
                return
            # The primal op comes first, as its result may be part of the rule (as in exp or sqrt).
            super().op(op)
            if lookup(op.name).diff is Diff.RULE:
                self.pure(op)

    def pure(self, op: Op) -> None:
        given = [self.tangents.get(v) for v in op.operands]
        if not is_differentiable(op.result.type) or all(t is None for t in given):
            return
        guarded = self.guards.needed(op)

        def guard(tangent: Value, contribution: Value) -> Value:
            return kept_zero(self.b, op, tangent, contribution, again=True)

        invertible = not guarded and self.guards.divides_safely(op)
        along = TangentArguments(
            op, self.values(op.operands), self.env[op.result], given, guard if guarded else None, invertible,
            steep=self.guards.steep_tangents(op), norm=self.guards.is_norm(op),
        )  # fmt: skip
        before = len(self.b.region.ops)
        tangent = tangent_rule(self.b, along, self.transposes)
        if tangent is not None:
            self.found(op.result, tangent)
        if guarded:  # the partial derivative may not be finite, and is a factor of the tangent's own derivative
            # If this program is differentiated once more, a zero tangent times an infinite partial derivative has to
            # stay zero in the second derivative too; the mark tells later guards.
            for new in self.b.region.ops[before:]:
                if new.name == "mul" or lookup(new.name).tangent is Tangent.BILINEAR:
                    new.attrs = {**new.attrs, "guarded": True}

    def found(self, v: Value, tangent: Value) -> None:
        tangent.name = tangent.name or _name(v)
        self.tangents[v] = tangent

    # -- memory ------------------------------------------------------------------------------------------------------

    def shared_new(self, op: Op) -> None:
        super().op(op)
        if op.result in self.roots:
            # The numbers of shared arrays have to be unique within the kernel; the twins follow after the last one.
            number = 1 + max(one.attrs["number"] for one in self.shared) + self.shared.index(op)
            self.arrays[op.result] = self.b.one("shared_new", **{**op.attrs, "number": number}, hint=_name(op.result))

    def load(self, op: Op) -> None:
        super().op(op)
        twin = self.arrays.get(Access(op).array)
        if twin is not None and not op.attrs.get("opaque"):
            # "aligned" was proved for the primal's array and does not hold for the caller's tangent array.
            attrs = {name: value for name, value in op.attrs.items() if name != "aligned"}
            index = self.values(Access(op).places)
            self.tangents[op.result] = self.b.one(op.name, twin, *index, hint=_name(op.result), **attrs)

    def fetch(self, op: Op) -> None:
        """Copy a number that is found by an id, and fetch its tangent where there is one."""
        _, table, index = self.values(op.operands)
        if is_differentiable(op.result.type):
            self.found(op.result, tangent_of(self.b, op, table, index))
        super().op(replace(op, attrs={**op.attrs, "along": True}))

    def look(self, op: Op) -> None:
        super().op(op)
        if is_differentiable(op.result.type):
            raise AutodiffError(
                "a kernel reads values of a volume that it also stores to, in forward mode",
                loc=op.loc,
                remedy="launch on a dk.Tape, store to another volume, or split the kernel in two launches",
            )

    def store(self, op: Op) -> None:
        super().op(op)
        twin = self.arrays.get(Access(op).array)
        if twin is not None and not op.attrs.get("opaque"):
            attrs = {name: value for name, value in op.attrs.items() if name != "aligned"}
            # A store of a value without a tangent stores a zero: the element's old tangent belongs to the old content.
            self.b.op(op.name, twin, *self.values(Access(op).places), self.tangent(Access(op).value), **attrs)

    def poke(self, op: Op) -> None:
        super().op(op)
        _, table, index, value = op.operands
        if is_differentiable(value.type):
            # A number without a tangent takes the place of one that may have had one.
            at, number = self.values((table, index))
            clear_tangent(self.b, at, number, value.type)
        if self.tangents.get(op.operands[-1]) is not None:
            raise AutodiffError(
                "a value with a tangent is stored to a volume, which has none in forward mode",
                loc=op.loc,
                remedy="launch on a dk.Tape, or store to an array that is a parameter",
            )

    def atomic(self, op: Op) -> None:
        twin, kind = self.arrays.get(Access(op).array), op.attrs["kind"]
        if twin is not None and op.name in ELEMENT_ATOMICS and kind in EXTREMA and not op.attrs.get("opaque"):
            self.extremum(op, twin)
            return
        super().op(op)
        if twin is None or op.attrs.get("opaque"):
            return
        if kind in HOLDING:
            self.holding(op, twin)
            return
        self.check_result(op)
        if kind not in SUMS:
            raise AutodiffError(
                f"{op.name}_{kind} has no derivative in forward mode", loc=op.loc,
                remedy=f"keep it out of arrays with tangents, or use {op.name}_add",
            )  # fmt: skip
        tangent = self.tangents.get(Access(op).value)
        if tangent is not None:
            # The twin's update is a plain atomic add; "augmented" describes the user's statement, and only its messages
            # use it.
            attrs = {name: value for name, value in op.attrs.items() if name != "augmented"}
            self.b.op(op.name, twin, *self.values(Access(op).places), tangent, **attrs)

    def check_result(self, op: Op) -> None:
        """Refuse to use the value that an atomic update returned."""
        if self.activity.active(op.result):
            raise AutodiffError(
                f"the value returned by {op.name}_{op.attrs['kind']} is used where tangents are wanted",
                loc=op.loc,
                remedy="it depends on the order of threads and has no derivative; use the array in a later launch",
            )

    def extremum(self, op: Op, twin: Value) -> None:
        """Copy an atomic minimum or maximum, and give the element the tangent of its winner."""
        self.check_result(op)
        pair = op.attrs.get("pair")
        # The pair number ties the update of the element to that of its tangent, so that reverse mode finds the winner.
        numbered = replace(op, attrs={**op.attrs, "pair": next(self.pairs) if pair is None else pair})
        super().op(numbered)
        access, places = Access(op), self.values(Access(op).index)
        old, array, value = self.env[op.result], self.value(access.array), self.value(access.value)
        forward_extremum(self.b, numbered, value, self.tangent(access.value), old, (array, twin), places)

    def holding(self, op: Op, twin: Value) -> None:
        """Apply a "take" or "give" of first tangents to the second tangents as well."""
        value = self.value(Access(op).value)
        if op.attrs["kind"] == "give":
            value = given_tangent(self.b, value, self.tangent(Access(op).value))
        before = self.b.one("atomic", twin, *self.values(Access(op).index), value, **op.attrs)
        if op.attrs["kind"] == "take":
            self.found(op.result, before)

    # -- control flow ------------------------------------------------------------------------------------------------

    # Only results that vary are carried as tangents, else every branch and loop would double its results.
    def branch(self, op: Op) -> None:
        kept = [k for k, r in enumerate(op.results) if self.varies(r)]
        condition = self.value(op.operands[0])
        regions = [self.whole(sub, [sub.yields[k] for k in kept]) for sub in op.regions]
        names = [r.name for r in op.results] + [_name(op.results[k]) for k in kept]
        self.results(op, kept, self.b.if_(condition, regions[0], regions[1], names))

    def results(self, op: Op, kept: Sequence[int], found: Sequence[Value]) -> None:
        count = len(op.results)
        self.env.update(zip(op.results, found[:count], strict=True))
        self.tangents.update(zip((op.results[k] for k in kept), found[count:], strict=True))

    def loop(self, op: Op) -> None:
        old = loop(op)
        kept = [k for k, p in enumerate(old.carried) if self.varies(p)]
        bounds, init = self.values(old.bounds), self.values(old.init)
        begin = [self.tangent(old.init[k]) for k in kept]
        regions = []
        if isinstance(old, While):
            regions.append(self.carrying(old.test, old.tested, kept, ()))
        regions.append(self.carrying(old.body, old.carried, kept, [old.yields[k] for k in kept]))
        names = [r.name for r in op.results] + [_name(op.results[k]) for k in kept]
        found = self.b.op(op.name, *bounds, *init, *begin, regions=regions, names=names, **op.attrs)
        self.results(op, kept, found)

    def carrying(
        self, region: Region, carried: Sequence[Value], kept: Sequence[int], with_tangents: Sequence[Value]
    ) -> Region:
        """Return a copy of a loop's region that also carries the tangents of some of its values."""
        params = tuple(Value(p.type, p.name) for p in region.params)
        tangents = tuple(Value(carried[k].type, _name(carried[k])) for k in kept)
        self.env.update(zip(region.params, params, strict=True))
        self.tangents.update(zip((carried[k] for k in kept), tangents, strict=True))
        copy = self.whole(region, with_tangents)
        copy.params = (*params, *tangents)
        return copy

    # -- loop stacks: what a derivative that is called keeps of its loops ---------------------------------------------

    def stack_new(self, op: Op) -> None:
        """Create a stack that also has the tangents of the fields that are floats."""
        kind = op.attrs["type"]
        # A stack with fields that are floats has as many more, behind its own, so positions of the old ones stay valid.
        smooth = [k for k, t in enumerate(kind.fields) if is_differentiable(t)]
        self.fields[op.result] = {k: len(kind.fields) + n for n, k in enumerate(smooth)}
        wider = replace(kind, fields=(*kind.fields, *(kind.fields[k] for k in smooth)))
        self.env[op.result] = self.b.one("stack_new", type=wider, hint=op.result.name)

    def stack_set(self, op: Op) -> None:
        values = StackSlot(op).values
        tangents = [self.tangent(values[k]) for k in self.fields[StackSlot(op).stack]]
        self.b.op("stack_set", *self.values(op.operands), *tangents, **op.attrs)

    def stack_get(self, op: Op) -> None:
        super().op(op)
        if self.varies(op.result):
            field = self.fields[StackSlot(op).stack][op.attrs["field"]]
            self.found(op.result, self.b.one("stack_get", *self.values(op.operands), **{**op.attrs, "field": field}))

    # -- tiles and rules ---------------------------------------------------------------------------------------------

    def tile_map(self, op: Op) -> None:
        """Copy a map so that it computes elements and their tangents."""
        kept = [k for k, v in enumerate(op.operands) if v in self.tangents]
        if not kept:
            super().op(op)
            return
        skip = len(op.attrs["shape"]) if op.attrs["indexed"] else 0
        body = map_body(op.attrs["body"])
        given = {body.params[skip + k]: Value(body.params[skip + k].type, _name(op.operands[k])) for k in kept}
        # The function of a map is differentiated like a function of its own, along the elements of tiles with tangents.
        made = _Forward(body, given, self.tools)
        smooth = [k for k, y in enumerate(body.body.yields) if y in made.tangents or made.varies(y)]
        region = made.whole(body.body, [body.body.yields[k] for k in smooth])
        region.params = (*made.values(body.params), *given.values())
        dtypes = op.attrs["dtypes"]
        attrs = {**op.attrs, "body": region, "dtypes": (*dtypes, *(dtypes[k] for k in smooth))}
        operands = (*self.values(op.operands), *(self.tangents[op.operands[k]] for k in kept))
        names = [r.name for r in op.results] + [_name(op.results[k]) for k in smooth]
        self.results(op, smooth, self.b.op("tile_map", *operands, names=names, **attrs))

    def tile_sort(self, op: Op) -> None:
        """Permute tangents into the order of the keys."""
        super().op(op)
        keys = self.value(op.operands[0])
        for v, r in zip(op.operands, op.results, strict=False):
            tangent = self.tangents.get(v)
            if tangent is not None:
                self.found(r, self.b.op("tile_sort", keys, tangent, **op.attrs)[1])

    def ruled(self, op: Op) -> None:
        """Copy a call of a func with a derivative of its own; the transpose of that derivative maps the tangents."""
        plain = Cloner(self.b, self.env)  # what is done in its regions has no tangents
        plain.op(op)
        call = Ruled(op)
        # Reverse mode reports a refused op when it replays the derivative; forward mode only transposes it: look here.
        for part in walk(call.derivative) if call.derivative is not None else ():
            if part.name == "refused":
                refuse(part)
        if call.derivative is None:
            pairs = zip(op.results, call.returned, strict=True)
            self.tangents.update((r, self.tangents[v]) for r, v in pairs if v in self.tangents)
            return
        if any(array in self.arrays for array in call.arrays):
            raise AutodiffError(
                "the derivative of this func adds to the cotangents of arrays, and has no transpose to be had from it",
                loc=op.loc,
                remedy="differentiate in reverse mode, or pass numbers and vectors to the func instead of the array",
            )
        if not any(v in self.tangents for v in call.inputs):
            return
        derivative = plain.region(call.derivative)
        captured = free_values(derivative)
        fresh = [Value(v.type, v.name) for v in (*captured, *derivative.params)]
        cloner = Cloner(Builder(), dict(zip((*captured, *derivative.params), fresh, strict=True)))
        # The rule is differentiated as a closed function: what it captures from outside becomes parameters.
        cloner.ops(derivative.ops)
        cloner.b.region.yields = cloner.values(derivative.yields)
        fn = Function("derivative", tuple(fresh), cloner.b.region, loc=op.loc)
        # The rule is linear in its cotangents, so its transpose with respect to them maps input tangents to output
        # tangents; it may be evaluated at zero cotangents.
        transposed = self.tools.vjp(fn, range(len(captured), len(fresh)))
        given = [*captured, *(self.b.zero(p.type) for p in derivative.params), *map(self.tangent, call.inputs)]
        inside = Cloner(self.b, dict(zip(transposed.params, given, strict=True)))
        found = inside.inline(Region((), transposed.body.ops, transposed.body.yields), ())
        for r, tangent in zip(op.results, found[len(call.inputs) :], strict=True):
            self.found(r, tangent)


def _free_name(name: str, taken: set[str]) -> str:
    """Return a name that no parameter has, and reserve it."""
    while name in taken:
        name = f"t{name}"
    taken.add(name)
    return name


def _name(v: Value) -> str:
    """Return the name of a value's tangent."""
    return f"t_{v.name}" if v.name else ""


_SPECIAL: Final[Mapping[str, Callable[[_Forward, Op], None]]] = {
    **dict.fromkeys(LOADS, _Forward.load),
    **dict.fromkeys(STORES, _Forward.store),
    **dict.fromkeys(ATOMICS, _Forward.atomic),
    **dict.fromkeys(DIFFERENTIATED_READS, _Forward.fetch),
    **dict.fromkeys(ORDERED_READS, _Forward.look),
    **dict.fromkeys(PLACE_WRITES, _Forward.poke),
    "shared_new": _Forward.shared_new,
    "stack_new": _Forward.stack_new,
    "stack_set": _Forward.stack_set,
    "stack_get": _Forward.stack_get,
    "if": _Forward.branch,
    "for": _Forward.loop,
    "while": _Forward.loop,
    "tile_map": _Forward.tile_map,
    "tile_sort": _Forward.tile_sort,
    "ruled": _Forward.ruled,
}
