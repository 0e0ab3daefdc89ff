"""Elements that a thread carries through memory become SSA values: loads are replaced by what was stored; in place.

Only arrays that the function stores to matter. A load whose element's content is known (stored or loaded before, with
no store in between that may name the same element) is replaced by that content. Elements updated in a loop at an index
that does not change there become carried values of the loop. Stores stay where they are, so the program does the same;
what changes is that replay in the adjoint needs no memory to know these values.

Valid only where parameters do not overlap, as differentiated launches guarantee.
"""

from __future__ import annotations

from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner, defined_in, substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import STORAGE_ONLY, Array, scalar_of
from diffkern.passes.affine import AffineForms
from diffkern.passes.cse import written_arrays

Key = tuple[Value, tuple[Value, ...]]
Contents = dict[Key, Value]


def promote(fn: Function) -> Function:
    """Replace loads of known contents in a function."""
    p = _Promoter(fn)
    p.region(fn.body, {})
    substitute(fn.body, p.mapping)
    return fn


def _key(op: Op) -> Key:
    return op.operands[0], (op.operands[1:] if op.name == "load" else op.operands[1:-1])


class _Promoter:
    def __init__(self, fn: Function) -> None:
        self.forms = AffineForms(fn)
        self.mapping: dict[Value, Value] = {}
        self.wrapped: set[Key] = set()
        self.written = set()
        for array in written_arrays(fn.body):
            if isinstance(array.type, Array) and scalar_of(array.type) not in STORAGE_ONLY:
                self.written.add(array)

    def resolve(self, v: Value) -> Value:
        while v in self.mapping:
            v = self.mapping[v]
        return v

    def key(self, op: Op) -> Key:
        array, index = _key(op)
        key = array, tuple(self.resolve(v) for v in index)
        if any(op.attrs["wrap"]):
            self.wrapped.add(key)
        return key

    def distinct(self, a: Key, b: Key) -> bool:
        """Whether two accesses of one array, at one moment of one thread, surely name different elements."""
        if a[0] is not b[0]:
            return True
        if a in self.wrapped or b in self.wrapped:
            return False
        for x, y in zip(a[1], b[1], strict=True):
            difference = self.forms.of(x) - self.forms.of(y)
            if difference.is_constant and difference.const != 0:
                return True
        return False

    def forget(self, contents: Contents, written: Key) -> None:
        for known in [k for k in contents if k != written and not self.distinct(k, written)]:
            del contents[known]

    def region(self, region: Region, contents: Contents) -> None:
        kept: list[Op] = []
        for position, op in enumerate(region.ops):
            if op.name == "if":
                kept.extend(self.before_branch(op, region.ops[position + 1 :], contents))
            kept.extend(self.op(op, contents))
        region.ops[:] = kept

    def before_branch(self, op: Op, later: list[Op], contents: Contents) -> list[Op]:
        """Load elements that a branch stores to and that are accessed in any case, so that both paths know them."""
        stores = [inner for sub in op.regions for inner in walk(sub) if self.tracked(inner, ("store",))]
        unknown = [k for k in dict.fromkeys(map(self.key, stores)) if k not in contents]
        if not unknown:
            return []
        branches = [{self.key(inner) for inner in sub.ops if self.tracked(inner)} for sub in op.regions]
        always = (branches[0] & branches[1]) | {self.key(inner) for inner in later if self.tracked(inner)}
        local = defined_in(op.regions[0]) | defined_in(op.regions[1])
        b = Builder(Region(), op.loc)
        for key in unknown:
            if key in always and not local.intersection(key[1]):
                contents[key] = b.one("load", key[0], *key[1], wrap=self.wraps(key), hint=key[0].name)
        return b.region.ops

    def tracked(self, op: Op, names: tuple[str, ...] = ("load", "store")) -> bool:
        return op.name in names and op.operands[0] in self.written

    def op(self, op: Op, contents: Contents) -> list[Op]:
        op.operands = tuple(self.resolve(v) for v in op.operands)
        if op.name == "if":
            self.branch(op, contents)
        elif op.regions:
            return self.loop(op, contents)
        elif op.name in ("load", "store", "atomic") and op.operands[0] in self.written:
            key = self.key(op)
            if op.name == "load":
                if key in contents:
                    self.mapping[op.result] = contents[key]
                    return []
                contents[key] = op.result
            else:
                self.forget(contents, key)
                contents.pop(key, None)
                if op.name == "store":
                    contents[key] = op.operands[-1]
        return [op]

    def branch(self, op: Op, contents: Contents) -> None:
        branches = [dict(contents), dict(contents)]
        for sub, inner in zip(op.regions, branches, strict=True):
            self.region(sub, inner)
            sub.yields = tuple(self.resolve(v) for v in sub.yields)
        then, orelse = branches
        local = defined_in(op.regions[0]) | defined_in(op.regions[1])
        for key in [k for k in then if k in orelse and not local.intersection(k[1])]:
            a, b = self.resolve(then[key]), self.resolve(orelse[key])
            if a is b and a not in local:
                contents[key] = a
                continue
            merged = Value(a.type, key[0].name)
            op.results = (*op.results, merged)
            op.attrs = {**op.attrs, "types": (*op.attrs["types"], a.type)}
            for sub, y in zip(op.regions, (a, b), strict=True):
                sub.yields = (*sub.yields, y)
            contents[key] = merged
        for key in [k for k in contents if k not in then or k not in orelse]:
            del contents[key]

    def loop(self, op: Op, contents: Contents) -> list[Op]:
        accesses = self.accesses(op)
        touched = {key[0] for key, store, _ in accesses if store}
        for key in [k for k in contents if k[0] in touched and not self.carriable(op, k, accesses)]:
            del contents[key]
        carried: list[Key] = [k for k in contents if k[0] in touched]
        before: list[Op] = []
        for key in self.candidates(op, accesses):
            if key not in contents:
                contents[key] = self.initial(op, key, before)
                carried.append(key)
        self.carry(op, carried, contents)
        return [*before, op]

    def accesses(self, op: Op) -> list[tuple[Key, bool, bool]]:
        """Keys accessed in a loop, whether each is written, and whether it is accessed in every iteration."""
        every = set(op.regions[-1].ops) | set(op.regions[0].ops)
        out = []
        for sub in op.regions:
            for inner in walk(sub):
                if inner.name in ("load", "store", "atomic") and inner.operands[0] in self.written:
                    out.append((self.key(inner), inner.name != "load", inner in every))
        return out

    def carriable(self, op: Op, key: Key, accesses: list[tuple[Key, bool, bool]]) -> bool:
        """Whether the loop touches the element through this very index only."""
        inner = set().union(*(defined_in(sub) for sub in op.regions))
        if inner.intersection(key[1]):
            return False
        return all(k == key or not store or self.apart(k, key, inner) for k, store, _ in accesses if k[0] is key[0])

    def apart(self, varying: Key, fixed: Key, inner: set[Value]) -> bool:
        """Whether an access in the loop names another element in every iteration."""
        if varying in self.wrapped or fixed in self.wrapped:
            return False
        for x, y in zip(varying[1], fixed[1], strict=True):
            difference = self.forms.of(x) - self.forms.of(y)
            if difference.is_constant and difference.const != 0 and x not in inner:
                return True
        return False

    def candidates(self, op: Op, accesses: list[tuple[Key, bool, bool]]) -> list[Key]:
        """Elements worth carrying: read and written in the loop, and accessed in every iteration."""
        written = {k for k, store, _ in accesses if store}
        always = {k for k, _, every in accesses if every}
        read = {k for k, store, _ in accesses if not store}
        return [k for k in dict.fromkeys(k for k, _, _ in accesses) if k in written & always & read
                and self.carriable(op, k, accesses)]  # fmt: skip

    def initial(self, op: Op, key: Key, before: list[Op]) -> Value:
        """The element's content before the loop, loaded only if the loop makes a trip."""
        b = Builder(Region(), op.loc)
        if op.name == "for":
            runs = _makes_trip(b, op)
        else:
            (runs,) = Cloner(b, {}).inline(op.regions[0], op.operands)
        load, skip = Region(), Region()
        with b.into(load):
            load.yields = (b.one("load", key[0], *key[1], wrap=self.wraps(key), hint=key[0].name),)
        with b.into(skip):
            skip.yields = (b.zero(load.yields[0].type),)
        (value,) = b.if_(runs, load, skip, names=(key[0].name,))
        before.extend(b.region.ops)
        return value

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
            params = entries if sub is op.regions[0] else [Value(v.type, v.name) for v in entries]
            sub.params = (*sub.params, *params)
            inner = {**unchanged, **dict(zip(carried, params, strict=True))}
            self.region(sub, inner)
            sub.yields = tuple(self.resolve(v) for v in sub.yields)
            if sub is op.regions[-1]:
                sub.yields = (*sub.yields, *(self.resolve(inner[key]) for key in carried))
        results = tuple(Value(v.type, v.name) for v in entries)
        op.results = (*op.results, *results)
        contents.update(zip(carried, results, strict=True))


def _makes_trip(b: Builder, op: Op) -> Value:
    lo, hi, step = op.operands[:3]
    zero = b.const(0, step.type)  # type: ignore[arg-type]
    up = b.one("and", b.one("gt", step, zero), b.one("lt", lo, hi))
    down = b.one("and", b.one("lt", step, zero), b.one("gt", lo, hi))
    return b.one("or", up, down)
