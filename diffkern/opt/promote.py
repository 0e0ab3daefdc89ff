"""Promote elements that a thread carries through memory to SSA values: loads are replaced by stored values; in place.

Only arrays that the function stores to matter. A load whose element's contents are known (stored or loaded before, with
no store in between that may name the same element) is replaced by them. Elements updated in a loop at an index that
does not change there become carried values of the loop, and an element that only one branch of an ``if`` knows becomes
a result of it; where the other path did not access the element it is loaded there, provided that it exists. Stores stay
where they are, so the program does the same; the gain is that replay in the adjoint needs no memory to know these
values.

Valid only where parameters do not overlap, as differentiated launches guarantee.
"""

from __future__ import annotations

from diffkern.analysis.affine import AffineForms, enclosing_loops
from diffkern.analysis.dependence import Positions, begins
from diffkern.analysis.threads import Never, relate
from diffkern.errors import Loc
from diffkern.ir.builder import Builder
from diffkern.ir.clone import defined_in, substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ELEMENT_LOADS, ELEMENT_STORES, PRIMAL_ELEMENTS, WRITES
from diffkern.ir.ops.rule import COTANGENT_ARRAYS
from diffkern.ir.types import INT64, SHARED, STORAGE_ONLY, Array, Scalar, scalar_of
from diffkern.ir.views import Access, If, Ruled, is_branch, is_loop, loop
from diffkern.opt.cse import written_arrays

Key = tuple[Value, tuple[Value, ...]]
Contents = dict[Key, Value]


def _by_rules(fn: Function) -> set[Value]:
    """Return arrays whose cotangents a user's derivative accesses; these follow the contents through memory."""
    found: set[Value] = set()
    for op in walk(fn.body):
        if op.name in COTANGENT_ARRAYS:
            found.update((op.operands[0], op.result))
        elif op.attrs.get("opaque"):
            found.add(Access(op).array)
    return found


def promote(fn: Function) -> Function:
    """Replace loads of known contents in a function."""
    p = _Promoter(fn)
    p.region(fn.body, {})
    substitute(fn.body, p.mapping)
    return fn


class _Promoter:
    def __init__(self, fn: Function) -> None:
        self.forms = AffineForms(fn)
        self.arity = fn.tid_arity
        self.loops = enclosing_loops(fn)
        self.order = Positions()
        self.order.visit(fn.body)
        self.mapping: dict[Value, Value] = {}
        self.made: dict[Value, Op] = {}
        self.wrapped: set[Key] = set()
        self.written: set[Value] = set()
        self.loaded = {Access(op).array for op in walk(fn.body) if op.name in ELEMENT_LOADS}
        by_tiles = {Access(op).array for op in walk(fn.body) if op.name in WRITES and op.name.startswith("tile")}
        for array in written_arrays(fn.body) - by_tiles - _by_rules(fn):
            # Other threads of the block write to what it shares.
            own = isinstance(array.type, Array) and array.type.layout != SHARED
            # A stored float16 reads back rounded, so the stored value is not what a load returns.
            if own and scalar_of(array.type) not in STORAGE_ONLY:
                self.written.add(array)

    def resolve(self, v: Value) -> Value:
        while v in self.mapping:
            v = self.mapping[v]
        return v

    def key(self, op: Op) -> Key:
        access = Access(op)
        key = access.array, tuple(self.resolve(v) for v in access.index)
        if any(access.wrap):
            self.wrapped.add(key)
        return key

    def distinct(self, a: Key, b: Key) -> bool:
        """Return whether two accesses of one thread at one moment certainly name different elements."""
        if a[0] is not b[0]:
            return True
        # A negative index may name the same element as a positive one.
        if a in self.wrapped or b in self.wrapped:
            return False
        for x, y in zip(a[1], b[1], strict=True):
            one, other = self.forms.of(x), self.forms.of(y)
            if one.const != other.const and one.terms == other.terms:
                return True
        return False

    def forget(self, contents: Contents, written: Key) -> None:
        # A store invalidates every element that it may overlap.
        for known in [k for k in contents if k != written and not self.distinct(k, written)]:
            del contents[known]

    def region(self, region: Region, contents: Contents) -> None:
        kept: list[Op] = []
        for op in region.ops:
            kept.extend(self.op(op, contents))
        region.ops[:] = kept

    def tracked(self, op: Op) -> bool:
        return op.name in PRIMAL_ELEMENTS and Access(op).array in self.written

    def op(self, op: Op, contents: Contents) -> list[Op]:
        op.operands = tuple(self.resolve(v) for v in op.operands)
        if is_branch(op):
            self.branch(op, contents)
        elif is_loop(op):
            return self.loop(op, contents)
        elif op.name == "ruled":
            self.rules(Ruled(op), contents)
        elif self.tracked(op):
            key = self.key(op)
            if op.name in ELEMENT_LOADS:
                # The contents are known, so the load is redundant.
                if key in contents:
                    self.mapping[op.result] = contents[key]
                    if contents[key] in self.made:  # an error about the load made here is about the user's load
                        self.made.pop(contents[key]).loc = op.loc
                    return []
                contents[key] = op.result
            else:
                self.forget(contents, key)
                # An atomic update leaves contents that depend on other threads.
                contents.pop(key, None)
                if op.name in ELEMENT_STORES:
                    contents[key] = Access(op).value
        return [op]

    def rules(self, call: Ruled, contents: Contents) -> None:
        """Visit the rules of a call: a derivative sees the contents behind it; a replay is not changed."""
        if call.derivative is not None:
            self.region(call.derivative, dict(contents))

    def branch(self, op: Op, contents: Contents) -> None:
        branches = [dict(contents), dict(contents)]
        for sub, inner in zip(op.regions, branches, strict=True):
            self.region(sub, inner)
            sub.yields = tuple(self.resolve(v) for v in sub.yields)
        then, orelse = branches
        view = If(op)
        # Values defined in a branch are not visible behind it, so contents at such an index cannot be merged.
        local = defined_in(view.then) | defined_in(view.orelse)
        stored = {self.key(inner) for sub in op.regions for inner in walk(sub) if inner.name in ELEMENT_STORES}
        for sub, here, there in ((view.then, then, orelse), (view.orelse, orelse, then)):
            for key in there:
                # One branch stores the element, the other does not know it: load it there, so that both can yield it.
                if key not in here and key in stored and key[0] in self.loaded and not local.intersection(key[1]):
                    here[key] = self.content(key, sub, op.loc)
                    local.update(defined_in(sub))
        for key in [k for k in then if k in orelse and not local.intersection(k[1])]:
            a, b = self.resolve(then[key]), self.resolve(orelse[key])
            if a is b and a not in local:
                contents[key] = a
                continue
            merged = Value(a.type, key[0].name)
            op.results = (*op.results, merged)
            op.attrs = {**op.attrs, "types": (*op.attrs["types"], a.type)}
            for sub, y in zip(op.regions, (a, b), strict=True):
                # Contents that both branches know become a result of the if.
                sub.yields = (*sub.yields, y)
            contents[key] = merged
            self.made.update((merged, self.made.pop(v)) for v in (a, b) if v in self.made)
        for key in [k for k in contents if k not in then or k not in orelse]:
            del contents[key]

    def loop(self, op: Op, contents: Contents) -> list[Op]:
        accesses = self.accesses(op)
        # The location of a write is that of the load made on its behalf, for messages.
        written = {key: inner.loc for key, inner in accesses if inner.name not in ELEMENT_LOADS}
        touched = {key[0] for key in written}
        # Stores of earlier trips reach the loop's start: contents survive only if the loop carries them.
        for key in [k for k in contents if k[0] in touched and not self.carriable(op, k, accesses)]:
            del contents[key]
        before = Region()
        lent = []
        for key, loc in written.items():
            if key not in contents and key[0] in self.loaded and self.carriable(op, key, accesses):
                contents[key] = self.content(key, before, loc)
                if self.only_where_stored(key, accesses):
                    load = self.made[contents[key]]
                    # The load in front of the loop is read only in trips that store as well, which dependence analysis
                    # relies on.
                    load.attrs = {**load.attrs, "carried": True}
                    lent.append(key)
        # Contents that the loop writes become carried values, so the loads inside of the loop find them.
        self.carry(op, [k for k in contents if k in written], contents)
        # If the loop makes no trip the element may belong to another thread, so it is not known behind it.
        for key in lent:
            del contents[key]
        return [*before.ops, op]

    def only_where_stored(self, key: Key, accesses: list[tuple[Key, Op]]) -> bool:
        """Return whether an element is known to be the thread's own only because it stores wherever it reads.

        A loop may make no trip, so its contents may be used in the loop alone.
        """
        here = [a for k, a in accesses if k == key]
        stores = [a for a in here if a.name in ELEMENT_STORES]
        proved = (relate(self.forms, store, store) for store in stores)
        if not self.arity or all(isinstance(r, Never) or r.same_thread(self.arity) for r in proved):
            return False
        loads = (a for a in here if a.name in ELEMENT_LOADS)
        return all(any(self.implies(load, store) for store in stores) for load in loads)

    def implies(self, load: Op, store: Op) -> bool:
        """Return whether a thread that executes a load executes a store as well."""
        return self.order.implies(load, store) and begins(self.loops[store], self.loops[load])

    def accesses(self, op: Op) -> list[tuple[Key, Op]]:
        """Return the accesses in a loop to arrays that the function writes."""
        return [(self.key(inner), inner) for sub in op.regions for inner in walk(sub) if self.tracked(inner)]

    def carriable(self, op: Op, key: Key, accesses: list[tuple[Key, Op]]) -> bool:
        """Return whether the loop touches the element through this very index only."""
        # An index that is computed inside of the loop may name another element in each trip.
        inner = set().union(*(defined_in(sub) for sub in op.regions))
        if inner.intersection(key[1]):
            return False
        stores = [(k, a) for k, a in accesses if k[0] is key[0] and a.name not in ELEMENT_LOADS]
        return all(a.name in ELEMENT_STORES if k == key else self.disjoint(k, key, inner) for k, a in stores)

    def disjoint(self, varying: Key, fixed: Key, inner: set[Value]) -> bool:
        """Return whether an access in the loop names another element in every iteration."""
        if varying in self.wrapped or fixed in self.wrapped:
            return False
        for x, y in zip(varying[1], fixed[1], strict=True):
            difference = self.forms.of(x) - self.forms.of(y)
            if difference.is_constant and difference.const != 0 and x not in inner:
                return True
        return False

    def content(self, key: Key, region: Region, loc: Loc | None) -> Value:
        """Return the element's contents at the end of a region that does not know them, or 0 if it does not exist."""
        array, index = key
        b = Builder(region, loc)
        exists = self.exists(b, key)
        load, skip = Region(), Region()
        with b.into(load):
            load.yields = (b.one("load", array, *index, wrap=self.wraps(key), hint=array.name),)
        with b.into(skip):
            skip.yields = (b.zero(load.yields[0].type),)
        (value,) = b.if_(exists, load, skip, names=(array.name,))
        self.made[value] = load.ops[-1]
        return value

    def exists(self, b: Builder, key: Key) -> Value:
        """Return whether an index is inside the array, as the element is not certain to be accessed."""
        array, index = key
        found: Value | None = None
        for axis, v in enumerate(index):
            assert isinstance(v.type, Scalar)
            extent = b.cast(b.one("shape", array, axis=axis), INT64)
            position = b.cast(v, INT64)
            # An index that may count from the end is valid down to minus the extent.
            least = b.neg(extent) if key in self.wrapped else b.const(0, INT64)
            inside = b.one("and", b.one("ge", position, least), b.one("lt", position, extent))
            found = inside if found is None else b.one("and", found, inside)
        assert found is not None
        return found

    def wraps(self, key: Key) -> tuple[bool, ...]:
        return (key in self.wrapped,) * len(key[1])

    def carry(self, op: Op, carried: list[Key], contents: Contents) -> None:
        """Add the elements to the loop's carried values and visit its regions."""
        unchanged = {k: v for k, v in contents.items() if k not in carried}
        entries = []
        for key in carried:
            op.operands = (*op.operands, contents[key])
            entries.append(Value(contents[key].type, key[0].name))
        for sub in op.regions:
            # A while has two regions, the test and the body, each with parameters of its own.
            params = entries if sub is op.regions[0] else [Value(v.type, v.name) for v in entries]
            sub.params = (*sub.params, *params)
            inner = {**unchanged, **dict(zip(carried, params, strict=True))}
            self.region(sub, inner)
            sub.yields = tuple(self.resolve(v) for v in sub.yields)
            if sub is loop(op).body:
                sub.yields = (*sub.yields, *(self.resolve(inner[key]) for key in carried))
        # Behind the loop the element holds what the last trip left, or the initial contents.
        results = tuple(Value(v.type, v.name) for v in entries)
        op.results = (*op.results, *results)
        contents.update(zip(carried, results, strict=True))
