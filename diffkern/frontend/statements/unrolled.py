"""Loops that are unrolled where they are lowered: each trip is lowered by itself, over an item that is known now.

The trips of a ``for`` statement follow one after the other. ``break``, ``continue`` and ``return`` in a condition known
now end a trip or the loop now; in others they set flags, which guard the trips that follow.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

from diffkern.frontend.statements import branch, leaving
from diffkern.frontend.statements.iterables import Items
from diffkern.frontend.syntax.flow import assigned
from diffkern.frontend.syntax.static import variables_of_statics
from diffkern.frontend.terms.context import RETURNED, Context, LoopState
from diffkern.frontend.terms.terms import Binding, Const, Term, Val
from diffkern.ir.nodes import Region

__all__ = ["TakeItem", "is_wanted", "unroll"]


class TakeItem(ast.stmt):
    """The beginning of a trip, which assigns the item to the loop's target."""

    _fields = ("target",)
    item: Callable[[], Term]

    def __init__(self, target: ast.expr) -> None:
        super().__init__()
        self.target = target


def is_wanted(cx: Context, stmt: ast.For) -> bool:
    """Return whether static expressions of the function use a variable of the loop."""
    return not variables_of_statics(cx.frame.pyfunc).isdisjoint(assigned([stmt.target]))


def unroll(cx: Context, stmt: ast.For, items: Items) -> None:
    """Lower the trips of a loop, and its ``else``."""
    uid = cx.new_uid()
    state = LoopState(stmt, f"$broken{uid}", f"$continued{uid}")
    cx.env[state.broken] = Binding(Const(False), None)
    path, errors = cx.call_path, len(cx.errors)
    assert isinstance(items.count, int)
    for k in range(items.count):
        # The trips after an error would only repeat it.
        if any(cx.env[flag].term == Const(True) for flag in (state.broken, RETURNED)) or len(cx.errors) > errors:
            break
        # What is recorded of a call differs from trip to trip.
        cx.call_path = (*path, stmt, k)
        take = ast.copy_location(TakeItem(stmt.target), stmt.target)
        take.item = partial(items.item, Const(k))
        _trip(cx, state, take)
    cx.call_path = path
    _after(cx, state)


def _trip(cx: Context, state: LoopState, take: TakeItem) -> None:
    cx.env[state.continued] = Binding(Const(False), None)
    state.set_at_continues.clear()
    cx.frame.loops.append(state)
    try:
        cx.block([take, *state.node.body], True, False)
    finally:
        cx.frame.loops.pop()
    cx.env.pop(state.continued, None)
    leaving.end_of_trip(state, cx.env, assigned([take, *state.node.body], cx.changing))


def _after(cx: Context, state: LoopState) -> None:
    """Lower what follows the trips: the ``else``; note which variables a break may have left unset."""
    stmt = state.node
    for name in assigned([*([stmt.target] if isinstance(stmt, ast.For) else []), *stmt.body], cx.changing):
        binding = cx.env.get(name)
        if binding is not None and binding.unset is None and not all(name in known for known in state.set_at_breaks):
            reason = f"a break of the loop in line {stmt.lineno} comes before it is set"
            cx.env[name] = Binding(binding.term, binding.loc, reason)
    broken = cx.env.pop(state.broken).term
    # Left by a break in any case.
    if not stmt.orelse or broken == Const(True):
        return
    if not isinstance(broken, Val):
        cx.block(stmt.orelse, False, False)
        return
    with cx.b.at(cx.loc(stmt.orelse[0])):
        # A break skips the ``else``, with the variables as they are.
        by_break = branch.BranchSide(Region(), dict(cx.env), left=False)
        by_end = leaving.side(cx, stmt.orelse, dict(cx.env), False, False)
        wanted = leaving.wanted(cx, stmt, False, False, escaping=True)
        label = f"a break of the loop in line {stmt.lineno}"
        branch.merge_branches(cx, broken.value, by_break, by_end, wanted, stmt, label)
