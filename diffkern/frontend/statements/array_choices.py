"""Expansion of arrays that branches and loops choose into accesses that a branch chooses.

Lowered ops, in which an ``if`` may yield arrays and a loop carry them, become ops in which each access to such an array
is an ``if`` of its own, with an access to one of the arrays on each side. A loop carries a number instead, which of the
arrays it may be that it is. Everything behind the frontend then sees the arrays themselves: which threads write to
which, gradients, checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NoReturn, TypeAlias

from diffkern.errors import KernelTypeError, Loc
from diffkern.frontend.terms.array_parts import element, within
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Fixed, PlacedPart, SliceAxis
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Op, Region, Update, Value, walk
from diffkern.ir.ops.memory import ARRAY_EXTENTS, PRIMAL_ELEMENTS
from diffkern.ir.types import BOOL, INT32, Array, Type
from diffkern.ir.views import Access, If, is_branch, is_control, is_loop, loop
from diffkern.process.dataclass import dataclass

__all__ = ["expand"]

_Tree: TypeAlias = "PlacedPart | tuple[Value, _Tree, _Tree]"
"""An array, or a part of one; or a condition, what holds where it holds, and where it does not."""

_Places: TypeAlias = "dict[object, tuple[Value | None, ...]]"
"""By the keys of parts, the values that tell where they lie."""

_MOST: Final = 32
"""Arrays that one variable may stand for: each access is made for all of them."""


def expand(cx: Context) -> None:
    """Expand the choices in the lowered ops, in place, and the augmented assignments that are in them.

    Raises
    ------
    KernelTypeError
        With the line of the loop or branch, for an array that is made in it and is chosen behind it.
    """
    if not cx.array_parts and not any(_is_choice(op) for op in walk(cx.b.region)):
        return
    expander = _ChoiceExpander(cx)
    expander.region(cx.b.region)
    cx.updates[:] = [made for update in cx.updates for made in expander.updates(update)]


def _is_choice(op: Op) -> bool:
    return is_control(op) and any(isinstance(v.type, Array) for v in op.results)


def _if(condition: Value, results: Sequence[Value], regions: Sequence[Region], loc: Loc | None) -> Op:
    """Make an ``if`` with the given results."""
    types = tuple(v.type for v in results)
    return Op("if", (condition,), tuple(results), {"types": types}, tuple(regions), loc)


def _chains(op: Op) -> Iterator[tuple[tuple[Value, ...], tuple[Value, ...]]]:
    """Yield the arrays by which a branch or loop gives or carries one, and those that it is then."""
    if is_branch(op):
        for result, then, orelse in If(op).choices:
            if isinstance(result.type, Array):
                yield (then, orelse), (result,)
        return
    for init, *carried, after, result in loop(op).chains:
        if isinstance(result.type, Array):
            yield (init, after), (*carried, result)


def _made_in(op: Op) -> set[Value]:
    """Return the values that are made in the regions of an op."""
    made = {v for region in op.regions for inner in walk(region) for v in inner.results}
    return made.union(v for region in op.regions for v in _params(region))


class _Possible:
    """The arrays that each chosen one may be, and parts of arrays, in the order in which they are met.

    A value that tells where a part lies is known where it is the same one on all paths; else there is None. What a loop
    or branch carries is told by no value that is made in it: the array may come from another trip.
    """

    def __init__(self, cx: Context, region: Region) -> None:
        self.cx = cx
        self.like: dict[object, PlacedPart] = {}
        choices = [op for op in walk(region) if _is_choice(op)]
        chains = [(made, *chain) for op in choices for made in (_made_in(op),) for chain in _chains(op)]
        self.found: dict[Value, _Places] = {v: {} for _, _, those in chains for v in those}
        grows = True
        while grows:
            grows = False
            for made, given, those in chains:
                items = (item for v in given for item in self.of(v).items())
                new = [(key, tuple(None if v in made else v for v in place)) for key, place in items]
                for v in those:
                    grows = self.grow(self.found[v], new) or grows

    def grow(self, found: _Places, new: Iterable[tuple[object, tuple[Value | None, ...]]]) -> bool:
        before = dict(found)
        for key, place in new:
            found[key] = tuple(v if v is w else None for v, w in zip(place, found.get(key, place), strict=True))
        if len(found) > _MOST:
            # Reported where the choice is expanded; there might be no end of it.
            return False
        return found != before

    def of(self, array: Value) -> _Places:
        """Return the parts that an array may stand for."""
        if array in self.found:
            return dict(self.found[array])
        part = self.cx.array_parts.get(array)
        if part is None:
            return self._as_one(PlacedPart.whole(array))
        found: _Places = {}
        for key, place in self.of(part.base).items():
            whole = self.like[key]
            if whole.is_whole:
                found.update(self._as_one(PlacedPart(whole.base, part.axes)))
                continue
            # Its values are computed where it is needed: here only what kind of part it is counts.
            with self.cx.b.into(Region()):
                inner = within(self.cx, whole, part)
            self.like.setdefault(inner.key, inner)
            known = {v for v in (*place, *part.values) if v is not None}
            found[inner.key] = tuple(v if v in known else None for v in inner.values)
        return found

    def _as_one(self, part: PlacedPart) -> _Places:
        self.like.setdefault(part.key, part)
        return {part.key: tuple(part.values)}


@dataclass(frozen=True)
class _Encoding:
    """The values of the IR that stand for a chosen array: which one it is, and where parts of arrays lie.

    Attributes
    ----------
    parts
        What it may be.
    places
        For each of these, the values that tell where it lies; None for those that are not the same on all paths.
    name
        The name of the variable.
    """

    parts: tuple[PlacedPart, ...]
    places: tuple[tuple[Value | None, ...], ...]
    name: str

    @property
    def moving(self) -> list[tuple[PlacedPart, int]]:
        """The parts of which something has to be told, each with the position of the value that does."""
        rows = zip(self.parts, self.places, strict=True)
        return [(part, k) for part, place in rows for k, v in enumerate(place) if v is None]

    @property
    def types(self) -> list[Type]:
        number = [] if len(self.parts) == 1 else [BOOL if len(self.parts) == 2 else INT32]
        return [*number, *(part.values[k].type for part, k in self.moving)]

    def fresh(self) -> list[Value]:
        """Return new values."""
        return [Value(t, f"which_{self.name}" if self.name and not k else "") for k, t in enumerate(self.types)]


class _ChoiceExpander:
    def __init__(self, cx: Context) -> None:
        self.cx = cx
        self.b: Builder = cx.b
        self.trees: dict[Value, _Tree] = {}
        self.copies: dict[Op, list[Op]] = {}
        self.possible = _Possible(cx, cx.b.region)

    def region(self, region: Region, first: Iterable[Op] = ()) -> None:
        """Expand the ops of a region, behind some others."""
        ops, region.ops = region.ops, [*first]
        with self.b.into(region):
            for op in ops:
                with self.b.at(op.loc):
                    if is_loop(op) and _is_choice(op):
                        self.loop(op)
                        continue
                    # Nested regions first: their accesses may be of arrays that an enclosing `if` has chosen before
                    # them.
                    for sub in op.regions:
                        self.region(sub)
                    self.op(op)

    def op(self, op: Op) -> None:
        if _is_choice(op):
            self.branch(op)
        elif not any(self.is_chosen(v) for v in op.operands):
            self.b.region.ops.append(op)
        elif len(op.results) == 1 and isinstance(op.result.type, Array):
            # A view of a chosen array makes no access: it is recorded as a choice of views.
            self.trees[op.result] = self.of_each(op)
        else:
            self.chosen(op, op.operands, op.results)

    def is_chosen(self, v: Value) -> bool:
        return v in self.trees or v in self.cx.array_parts

    def tree(self, array: Value) -> _Tree:
        """Return the tree of an array, which may compute the place of a part in the current region."""
        part = self.cx.array_parts.get(array)
        if part is None:
            return self.trees[array] if array in self.trees else PlacedPart.whole(array)
        return self._within(self.tree(part.base), part)

    def _within(self, tree: _Tree, part: PlacedPart) -> _Tree:
        if isinstance(tree, tuple):
            return tree[0], self._within(tree[1], part), self._within(tree[2], part)
        return within(self.cx, tree, part)

    def plan(self, op: Op, array: Value) -> _Encoding:
        """Return how an array is carried by a loop, or chosen by a branch."""
        made, found = _made_in(op), self.possible.found[array]
        kept = {key: place for key, place in found.items() if self.possible.like[key].base not in self.cx.unset_arrays}
        kept = kept or dict(list(found.items())[:1])
        parts = tuple(self.possible.like[key] for key in kept)
        if any(part.base in made for part in parts):
            self.refuse(op, "an array that is made in it", "make it before")
        if len(parts) > _MOST:
            self.refuse(op, f"more than {_MOST} arrays or parts", "pass one array with an axis more, and an index")
        return _Encoding(parts, tuple(kept.values()), array.name)

    def refuse(self, op: Op, what: str, remedy: str) -> NoReturn:
        kind = "branch" if is_branch(op) else "loop"
        raise KernelTypeError(f"after this {kind}, a variable stands for {what}", loc=op.loc, remedy=remedy)

    def branch(self, op: Op) -> None:
        """Append the ``if`` with its values, and with others for the arrays that it chooses by what only its own sides
        know; the tree of each array among its results is recorded.
        """
        view, behind = If(op), Region()
        results: list[Value] = []
        yields: tuple[list[Value], list[Value]] = ([], [])
        for result, *sides in view.choices:
            if not isinstance(result.type, Array):
                results.append(result)
                for side, out in zip(sides, yields, strict=True):
                    out.append(side)
                continue
            plan, trees = self.plan(op, result), []
            for side, region in zip(sides, op.regions, strict=True):
                with self.b.into(region):
                    trees.append(self.tree(side))
            if not any(_depends(tree, region) for tree, region in zip(trees, op.regions, strict=True)):
                self.trees[result] = self.without((view.condition, trees[0], trees[1]))
                continue
            kept = plan.fresh()
            results += kept
            for tree, region, out in zip(trees, op.regions, yields, strict=True):
                out += self.encoded(plan, tree, region)
            self.trees[result] = self.decoded(plan, kept, behind)
        for region, out in zip(op.regions, yields, strict=True):
            region.yields = tuple(out)
        if results or any(region.ops for region in op.regions):
            self.b.region.ops.append(_if(view.condition, results, op.regions, op.loc))
        self.b.region.ops += behind.ops

    def loop(self, op: Op) -> None:
        """Append the loop with values in the place of each array that it carries, and expand what is in it."""
        view, behind, carried = loop(op), Region(), len(op.results)
        plans = [self.plan(op, v) if isinstance(v.type, Array) else None for v in op.results]
        ends, bounds = view.yields, op.operands[: len(op.operands) - carried]
        init: list[Value] = []
        for v, plan in zip(view.init, plans, strict=True):
            init += [v] if plan is None else self.encoded(plan, self.tree(v), self.b.region)
        for region in op.regions:
            begin = Region()
            own = len(region.params) - carried  # the parameters of a `for` begin with its index
            region.params = (*region.params[:own], *self.kept(region.params[own:], plans, begin))
            self.region(region, begin.ops)
        yields: list[Value] = []
        for v, plan in zip(ends, plans, strict=True):
            with self.b.into(view.body):
                yields += [v] if plan is None else self.encoded(plan, self.tree(v), view.body)
        view.body.yields = tuple(yields)
        results = self.kept(op.results, plans, behind)
        self.b.region.ops.append(Op(op.name, (*bounds, *init), results, op.attrs, op.regions, op.loc))
        self.b.region.ops += behind.ops

    def kept(self, values: Sequence[Value], plans: Sequence[_Encoding | None], region: Region) -> tuple[Value, ...]:
        """Return carried values with others in the place of arrays, whose trees are recorded; computed in a region."""
        found: list[Value] = []
        for v, plan in zip(values, plans, strict=True):
            made = [v] if plan is None else plan.fresh()
            found += made
            if plan is not None:
                self.trees[v] = self.decoded(plan, made, region)
        return tuple(found)

    def decoded(self, plan: _Encoding, values: Sequence[Value], region: Region) -> _Tree:
        """Return the tree of the array for which values stand, with conditions that are computed in a region."""
        rest = iter(values)
        number = next(rest) if len(plan.parts) > 1 else None
        parts = [
            part.at(iter([next(rest) if v is None else v for v in place]))
            for part, place in zip(plan.parts, plan.places, strict=True)
        ]
        made: _Tree = parts[0]
        if number is None:
            return made
        if number.type == BOOL:
            return number, parts[1], made
        with self.b.into(region):
            for k, part in enumerate(parts[1:], 1):
                made = (self.b.one("eq", number, self.b.i32(k)), part, made)
        return made

    def encoded(self, plan: _Encoding, tree: _Tree, region: Region) -> list[Value]:
        """Return the values that stand for a tree, computed in a region."""
        keys, found = [part.key for part in plan.parts], []
        tree = self.without(tree)
        with self.b.into(region):
            if len(keys) > 1:
                found.append(self._number(tree, keys))
            for part, k in plan.moving:
                found.append(self._place(tree, part.key, k) or self.b.zero(part.values[k].type))
        return found

    def _number(self, tree: _Tree, keys: Sequence[object]) -> Value:
        two = len(keys) == 2
        if not isinstance(tree, tuple):
            # One that no access reaches may be taken for any.
            k = keys.index(tree.key) if tree.key in keys else 0
            return self.b.const(k == 1, BOOL) if two else self.b.i32(k)
        condition, *sides = tree
        ends = [side.key for side in sides if isinstance(side, PlacedPart)]
        if two and ends == [keys[1], keys[0]]:
            return condition
        if two and ends == list(keys):
            return self.b.one("not", condition)
        return self.b.select(condition, *(self._number(side, keys) for side in sides))

    def _place(self, tree: _Tree, key: object, k: int) -> Value | None:
        """Return one of the values that tell where the part of a key lies; None if the tree has no such part."""
        if not isinstance(tree, tuple):
            return tree.values[k] if tree.key == key else None
        condition, *sides = tree
        then, orelse = (self._place(side, key, k) for side in sides)
        if then is None or orelse is None or then is orelse:
            return then or orelse
        return self.b.select(condition, then, orelse)

    def without(self, tree: _Tree) -> _Tree:
        """Return a tree without the arrays that no access reaches, and without conditions that decide nothing."""
        if not isinstance(tree, tuple):
            return tree
        condition, then, orelse = tree[0], self.without(tree[1]), self.without(tree[2])
        if then == orelse or self.is_nowhere(orelse):
            return then
        return orelse if self.is_nowhere(then) else (condition, then, orelse)

    def is_nowhere(self, tree: _Tree) -> bool:
        # An array that no access reaches stands where a variable is not set.
        return isinstance(tree, PlacedPart) and tree.base in self.cx.unset_arrays

    def of_each(self, op: Op) -> _Tree:
        """Return the choice tree of an op that makes an array from arrays: the op applied to each of
        the chosen ones.
        """

        def each(k: int, operands: tuple[Value, ...]) -> _Tree:
            if k == len(operands):
                return PlacedPart.whole(self._copy(op, operands).result)
            if not self.is_chosen(operands[k]):
                return each(k + 1, operands)
            return over(self.tree(operands[k]), k, operands)

        def over(tree: _Tree, k: int, operands: tuple[Value, ...]) -> _Tree:
            if isinstance(tree, tuple):
                return tree[0], over(tree[1], k, operands), over(tree[2], k, operands)
            return each(k + 1, (*operands[:k], self.whole(tree, op), *operands[k + 1 :]))

        return each(0, op.operands)

    def whole(self, part: PlacedPart, op: Op) -> Value:
        """Return the array of a part that is the whole of it."""
        if not part.is_whole:
            raise KernelTypeError(
                f"{op.name.replace('_', ' ')} of a variable that stands for parts of arrays that differ in their axes",
                loc=op.loc,
                remedy="use it where each variable stands for one array, or pass arrays with the same number of axes",
            )
        return part.base

    def chosen(self, op: Op, operands: Sequence[Value], results: Sequence[Value]) -> None:
        """Append an op that takes chosen arrays, as a choice of ops; its results are the given values."""
        # One operand at a time: a nested choice handles the next one.
        place = next((k for k, v in enumerate(operands) if self.is_chosen(v)), None)
        if place is None:
            self.b.region.ops.append(Op(op.name, tuple(operands), tuple(results), op.attrs, op.regions, op.loc))
            self.copies.setdefault(op, []).append(self.b.region.ops[-1])
            return
        self._over(self.tree(operands[place]), place, op, operands, results)

    def _over(self, tree: _Tree, place: int, op: Op, operands: Sequence[Value], results: Sequence[Value]) -> None:
        if not isinstance(tree, tuple):
            self._of_part(tree, place, op, operands, results)
            return
        condition, *sides = tree
        regions = []
        for side in sides:
            # Each side has results of its own, which the `if` yields as the original ones.
            region, own = Region(), tuple(Value(v.type, v.name) for v in results)
            with self.b.into(region):
                self._over(side, place, op, operands, own)
            region.yields = own
            regions.append(region)
        self.b.region.ops.append(_if(condition, results, regions, op.loc))

    def _of_part(
        self, part: PlacedPart, place: int, op: Op, operands: Sequence[Value], results: Sequence[Value]
    ) -> None:
        if part.is_whole or place or op.name not in PRIMAL_ELEMENTS | ARRAY_EXTENTS:
            self.chosen(op, [*operands[:place], self.whole(part, op), *operands[place + 1 :]], results)
            return
        if op.name in ARRAY_EXTENTS:
            self._extent(part, op, results)
            return
        # The elements of a part are elements of the array, at other indices.
        index = Access(op).index
        given, taken = iter(zip(index, op.attrs["wrap"], strict=True)), []
        for axis in part.axes:
            at, wrap = (axis.index, axis.wrap) if isinstance(axis, Fixed) else next(given)
            if isinstance(axis, SliceAxis):
                at, wrap = element(self.cx, axis, at, wrap=wrap), False
            taken.append((at, wrap))
        attrs = {**op.attrs, "wrap": tuple(wrap for _, wrap in taken)}
        rest = operands[1 + len(index) :]
        made = Op(op.name, (part.base, *(at for at, _ in taken), *rest), tuple(results), attrs, op.regions, op.loc)
        self.b.region.ops.append(made)
        self.copies.setdefault(op, []).append(made)

    def _extent(self, part: PlacedPart, op: Op, results: Sequence[Value]) -> None:
        free = [(k, axis) for k, axis in enumerate(part.axes) if not isinstance(axis, Fixed)]
        k, axis = free[op.attrs["axis"]]
        if axis is None:
            self.b.one("shape", part.base, axis=k)
        else:
            self.b.add(axis.length, self.b.i32(0))
        self.b.region.ops[-1].results = tuple(results)

    def _copy(self, op: Op, operands: Sequence[Value]) -> Op:
        results = tuple(Value(v.type, v.name) for v in op.results)
        self.b.region.ops.append(Op(op.name, tuple(operands), results, op.attrs, op.regions, op.loc))
        return self.b.region.ops[-1]

    def updates(self, update: Update) -> list[Update]:
        """Return an augmented assignment for each of the stores that its store has become."""
        stores = self.copies.get(update.store)
        if stores is None:
            return [update]
        # The prelude is copied, as two stores must not share one region.
        return [Update(store, update.kind, Cloner(self.b).region(update.prelude)) for store in stores]


def _depends(tree: _Tree, region: Region) -> bool:
    """Return whether a condition of a tree, or the place of a part, is computed in a region."""
    made = {v for op in region.ops for v in op.results}
    if not isinstance(tree, tuple):
        return not made.isdisjoint(tree.values)
    return tree[0] in made or any(_depends(side, region) for side in tree[1:])


def _params(region: Region) -> Iterator[Value]:
    yield from region.params
    for op in walk(region):
        for inner in op.regions:
            yield from inner.params
