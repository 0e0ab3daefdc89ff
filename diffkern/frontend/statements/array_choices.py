"""Expansion of arrays that a branch chooses into accesses that a branch chooses.

Lowered ops, in which an ``if`` may yield arrays, become ops in which each access to such an array is an ``if`` of its
own, with an access to one of the arrays on each side. Everything behind the frontend then sees the arrays themselves:
which threads write to which, gradients, checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from diffkern.errors import Loc
from diffkern.frontend.terms.context import Context
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Op, Region, Update, Value, walk
from diffkern.ir.types import Array
from diffkern.ir.views import If, is_branch

__all__ = ["expand"]

_Tree: TypeAlias = "Value | tuple[Value, _Tree, _Tree]"
"""An array; or a condition, what holds where it holds, and where it does not."""


def expand(cx: Context) -> None:
    """Expand the choices in the lowered ops, in place, and the augmented assignments that are in them."""
    if not any(_is_choice(op) for op in walk(cx.b.region)):
        return
    expander = _ChoiceExpander(cx.b)
    expander.region(cx.b.region)
    cx.updates[:] = [made for update in cx.updates for made in expander.updates(update)]


def _is_choice(op: Op) -> bool:
    return is_branch(op) and any(isinstance(v.type, Array) for v in op.results)


def _if(condition: Value, results: Sequence[Value], regions: Sequence[Region], loc: Loc | None) -> Op:
    """Make an ``if`` with the given results."""
    types = tuple(v.type for v in results)
    return Op("if", (condition,), tuple(results), {"types": types}, tuple(regions), loc)


class _ChoiceExpander:
    def __init__(self, b: Builder) -> None:
        self.b = b
        self.trees: dict[Value, _Tree] = {}
        self.copies: dict[Op, list[Op]] = {}

    def region(self, region: Region) -> None:
        ops, region.ops = region.ops, []
        with self.b.into(region):
            for op in ops:
                # Nested regions first: their accesses may be of arrays that an enclosing `if` has chosen before them.
                for sub in op.regions:
                    self.region(sub)
                with self.b.at(op.loc):
                    self.op(op)

    def op(self, op: Op) -> None:
        if _is_choice(op):
            self.b.region.ops.append(self.without_arrays(op))
        elif not any(v in self.trees for v in op.operands):
            self.b.region.ops.append(op)
        elif len(op.results) == 1 and isinstance(op.result.type, Array):
            # A view of a chosen array makes no access: it is recorded as a choice of views.
            self.trees[op.result] = self.of_each(op)
        else:
            self.chosen(op, op.operands, op.results)

    def without_arrays(self, op: Op) -> Op:
        """Return the ``if`` with its values only; the choice tree of each array among its results is recorded."""
        view, kept = If(op), []
        for k, (result, then, orelse) in enumerate(view.choices):
            if isinstance(result.type, Array):
                self.trees[result] = (view.condition, self.tree(then), self.tree(orelse))
            else:
                kept.append(k)
        for region in op.regions:
            region.yields = tuple(region.yields[k] for k in kept)
        return _if(view.condition, [op.results[k] for k in kept], op.regions, op.loc)

    def tree(self, array: Value) -> _Tree:
        return self.trees.get(array, array)

    def of_each(self, op: Op) -> _Tree:
        """Return the choice tree of an op that makes an array from arrays: the op applied to each of
        the chosen ones.
        """
        made: list[Value] = []

        def each(k: int, operands: tuple[Value, ...]) -> _Tree:
            if k == len(operands):
                made.append(self._copy(op, operands).result)
                return made[-1]
            return over(self.tree(operands[k]), k, operands)

        def over(tree: _Tree, k: int, operands: tuple[Value, ...]) -> _Tree:
            if isinstance(tree, tuple):
                return tree[0], over(tree[1], k, operands), over(tree[2], k, operands)
            return each(k + 1, (*operands[:k], tree, *operands[k + 1 :]))

        return each(0, op.operands)

    def chosen(self, op: Op, operands: Sequence[Value], results: Sequence[Value]) -> None:
        """Append an op that takes chosen arrays, as a choice of ops; its results are the given values."""
        # One operand at a time: a nested choice handles the next one.
        place = next((k for k, v in enumerate(operands) if v in self.trees), None)
        if place is None:
            self.b.region.ops.append(Op(op.name, tuple(operands), tuple(results), op.attrs, op.regions, op.loc))
            self.copies.setdefault(op, []).append(self.b.region.ops[-1])
            return
        self._over(self.trees[operands[place]], place, op, operands, results)

    def _over(self, tree: _Tree, place: int, op: Op, operands: Sequence[Value], results: Sequence[Value]) -> None:
        if not isinstance(tree, tuple):
            self.chosen(op, [*operands[:place], tree, *operands[place + 1 :]], results)
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
