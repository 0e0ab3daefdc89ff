"""Statements after one that may have left: flags known at run time, the ``if`` that they guard, and the variables set.

Statements at a place where a ``break``, ``continue`` or ``return`` before them may have been taken are wrapped in an
``if`` op, unless it is known now whether they run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from diffkern.frontend.builtins import local
from diffkern.frontend.statements import branch
from diffkern.frontend.syntax.flow import Names, leaves
from diffkern.frontend.terms.context import RETURN, RETURNED, Context, LoopState
from diffkern.frontend.terms.terms import Binding, Const, Val
from diffkern.ir.nodes import Region, Value

__all__ = ["end_of_trip", "flags", "guarded", "set_here", "side", "wanted"]


def flags(cx: Context) -> list[tuple[str, Value]] | None:
    """Return the flags that may be set here, known only at run time; None if control cannot come here."""
    names = [RETURNED]
    if cx.frame.loops:
        state = cx.frame.loops[-1]
        names = [state.continued, state.broken, RETURNED]
    found = []
    for name in names:
        binding = cx.env.get(name)
        if binding is None:
            continue
        if isinstance(binding.term, Val):
            found.append((name, binding.term.value))
        elif binding.term == Const(True):
            return None
    return found


def guarded(
    cx: Context, known: Sequence[tuple[str, Value]], stmts: Sequence[ast.stmt], tail_body: bool, tail_function: bool
) -> None:
    """Lower statements that run only if none of the flags is set."""
    with cx.b.at(cx.loc(stmts[0])):
        leaving = known[0][1]
        for _, flag in known[1:]:
            leaving = cx.b.one("or", leaving, flag)
        go_on = cx.b.one("not", leaving)
        stays, left = dict(cx.env), dict(cx.env)
        # On this side all flags are known to be False, so that nested statements are not guarded again.
        for name, _ in known:
            stays[name] = Binding(Const(False), None)
        # With several flags it is not known which one is set on the other side.
        if len(known) == 1:
            left[known[0][0]] = Binding(Const(True), None)
        going_on = side(cx, stmts, stays, tail_body, tail_function)
        read = wanted(cx, stmts[-1], tail_body, tail_function, escaping=True)
        line = stmts[0].lineno
        gone = branch.BranchSide(Region(), left, left=True)
        branch.merge_branches(cx, go_on, going_on, gone, read, stmts[0], f"the condition to reach line {line}")


def side(
    cx: Context, stmts: Sequence[ast.stmt], env: dict[str, Binding], tail_body: bool, tail_function: bool
) -> branch.BranchSide:
    """Lower statements over a set of variables, as one side of a branch."""
    region = Region()
    with cx.b.into(region), cx.branch(env):
        cx.block(stmts, tail_body, tail_function)
    return branch.BranchSide(region, env, branch.has_left(cx, env) or leaves(stmts))


def wanted(cx: Context, last: ast.stmt, tail_body: bool, tail_function: bool, escaping: bool) -> Names:
    """Return the names that may be read once control has passed a statement, flags included."""
    liveness = cx.frame.liveness
    found = {*liveness.after(last), RETURN, *cx.frame.going_on, *local.names(cx.env)}
    if cx.frame.loops:
        state = cx.frame.loops[-1]
        found |= {state.broken, RETURNED}
        if not tail_body:
            found.add(state.continued)
        # A side that leaves goes on behind the loop, or at its next trip.
        if escaping:
            found |= liveness.after(state.node) | liveness.head(state.node)
    elif not tail_function:
        found.add(RETURNED)
    return frozenset(found)


def set_here(cx: Context) -> Names:
    """Return the names of the variables that every path to this place has set."""
    return frozenset(name for name, b in cx.env.items() if b.term is not None and b.unset is None)


def end_of_trip(state: LoopState, env: dict[str, Binding], names: Iterable[str]) -> None:
    """Mark which variables a ``continue`` may have left unset at the end of a trip."""
    for name in names:
        binding = env.get(name)
        if binding is not None and binding.unset is None and not all(name in known for known in state.set_at_continues):
            reason = f"a continue of the loop in line {state.node.lineno} comes before it is set"
            env[name] = Binding(binding.term, binding.loc, reason)
