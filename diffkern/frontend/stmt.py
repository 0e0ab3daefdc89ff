"""Statements: assignments, branches, and what leaves the straight path.

In: a list of statements. Out: ops in the current region and new bindings. What follows a statement that may leave (by
``break``, ``continue``, ``return``) is lowered into the branch that does not leave, or guarded by a flag.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from diffkern.errors import KernelError
from diffkern.frontend import arith, assign, branch, calls, coerce, expr, library, loops, records
from diffkern.frontend.context import RETURN, RETURNED, Cascade, Context
from diffkern.frontend.fence import refuse_expression
from diffkern.frontend.flow import Names, assigned, contains, leaves
from diffkern.frontend.scope import evaluate_annotation
from diffkern.frontend.terms import Binding, Const, Poison, RecView, Static, Term, Val, View
from diffkern.frontend.tile_terms import check_update, is_tile
from diffkern.ir.nodes import Region, Value
from diffkern.lang import resolve_type

__all__ = ["lower_block"]

_ESCAPES = (ast.Break, ast.Continue, ast.Return)


def lower_block(cx: Context, stmts: Sequence[ast.stmt], tail_body: bool, tail_function: bool) -> None:
    """Lower statements one after the other.

    Parameters
    ----------
    tail_body
        Whether nothing follows them in the body of the innermost loop.
    tail_function
        Whether nothing follows them in the function.
    """
    for k, stmt in enumerate(stmts):
        flags = _flags(cx)
        if flags is None:
            return
        rest = stmts[k + 1 :]
        if flags:
            _guarded(cx, flags, stmts[k:], tail_body, tail_function)
            return
        if isinstance(stmt, ast.If):
            if _attempt(cx, stmt, lambda s=stmt, r=rest: _if(cx, s, r, tail_body, tail_function)):  # type: ignore[misc]
                return
        else:
            last = not rest
            _attempt(cx, stmt, lambda s=stmt, t=last: _statement(cx, s, tail_function and t))  # type: ignore[misc]


def _attempt(cx: Context, stmt: ast.stmt, lower: Callable[[], bool]) -> bool:
    """Lower a statement; a mistake is recorded and what the statement would have set is poisoned."""
    try:
        with cx.b.at(cx.loc(stmt)):
            return lower()
    except KernelError as error:
        cx.errors.extend(error.errors)
    except Cascade:
        pass
    for name in assigned([stmt]):
        binding = cx.env.get(name)
        if binding is None or not isinstance(binding.term, (View, RecView)):
            cx.env[name] = Binding(Poison(), None)
    if isinstance(stmt, ast.Return):
        cx.env[RETURN] = Binding(Poison(), None)
        cx.env[RETURNED] = Binding(Const(True), None)
    return False


# -- leaving -----------------------------------------------------------------------------------------------------------


def _flags(cx: Context) -> list[tuple[str, Value]] | None:
    """Flags that may be set here, known only at run time; None if control cannot come here."""
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


def _guarded(
    cx: Context, flags: Sequence[tuple[str, Value]], stmts: Sequence[ast.stmt], tail_body: bool, tail_function: bool
) -> None:
    """Lower statements that run only if no flag is set."""
    with cx.b.at(cx.loc(stmts[0])):
        leaving = flags[0][1]
        for _, flag in flags[1:]:
            leaving = cx.b.one("or", leaving, flag)
        go_on = cx.b.one("not", leaving)
        stays, left = dict(cx.env), dict(cx.env)
        for name, _ in flags:
            stays[name] = Binding(Const(False), None)
        if len(flags) == 1:
            left[flags[0][0]] = Binding(Const(True), None)
        going_on = _side(cx, stmts, stays, tail_body, tail_function)
        wanted = _wanted(cx, stmts[-1], tail_body, tail_function, escaping=True)
        line = stmts[0].lineno
        gone = branch.Side(Region(), left, left=True)
        branch.merge_branches(cx, go_on, going_on, gone, wanted, stmts[0], f"the condition to reach line {line}")


def _side(
    cx: Context, stmts: Sequence[ast.stmt], env: dict[str, Binding], tail_body: bool, tail_function: bool
) -> branch.Side:
    region = Region()
    with cx.b.into(region), cx.branch(env):
        cx.block(stmts, tail_body, tail_function)
    return branch.Side(region, env, branch.has_left(cx, env))


def _wanted(cx: Context, last: ast.stmt, tail_body: bool, tail_function: bool, escaping: bool) -> Names:
    """Names that may be read once control has passed a statement, flags included."""
    liveness = cx.frame.liveness
    wanted = set(liveness.after(last)) | {RETURN}
    if cx.frame.loops:
        state = cx.frame.loops[-1]
        wanted |= {state.broken, RETURNED}
        if not tail_body:
            wanted.add(state.continued)
        if escaping:
            wanted |= liveness.after(state.node) | liveness.head(state.node)
    elif not tail_function:
        wanted.add(RETURNED)
    return frozenset(wanted)


# -- branches ----------------------------------------------------------------------------------------------------------


def _if(cx: Context, stmt: ast.If, rest: Sequence[ast.stmt], tail_body: bool, tail_function: bool) -> bool:
    """Lower an ``if``; returns whether the statements after it have been lowered with it."""
    test = _condition(cx, stmt)
    if isinstance(test, Const):
        cx.block([*(stmt.body if test.value else stmt.orelse), *rest], tail_body, tail_function)
        return True
    then: Sequence[ast.stmt] = stmt.body
    orelse: Sequence[ast.stmt] = stmt.orelse
    escaping = contains([stmt], _ESCAPES)
    takes_rest = False
    if rest and escaping:
        if leaves(then):
            orelse, takes_rest = [*orelse, *rest], True
        elif leaves(orelse):
            then, takes_rest = [*then, *rest], True
    last = rest[-1] if takes_rest else stmt
    if rest and not takes_rest:
        tail_body = tail_function = False
    holds = _side(cx, then, dict(cx.env), tail_body, tail_function)
    fails = _side(cx, orelse, dict(cx.env), tail_body, tail_function)
    wanted = _wanted(cx, last, tail_body, tail_function, escaping)
    branch.merge_branches(cx, test.value, holds, fails, wanted, stmt, f"the condition in line {stmt.test.lineno}")
    return takes_rest


def _condition(cx: Context, stmt: ast.If) -> Const | Val:
    try:
        return coerce.as_bool(cx, cx.expr(stmt.test), stmt.test)
    except (KernelError, Cascade):
        # Both branches are looked at all the same, so that their mistakes are reported together with this one.
        for side in (stmt.body, stmt.orelse):
            _side(cx, side, dict(cx.env), False, False)
        raise


# -- simple statements -------------------------------------------------------------------------------------------------


def _statement(cx: Context, stmt: ast.stmt, tail_function: bool) -> bool:
    if isinstance(stmt, (ast.For, ast.While)):
        loops.lower_loop(cx, stmt)
        return False
    handler = _SIMPLE.get(type(stmt))
    if handler is None:
        refuse_expression(cx, stmt)
    handler(cx, stmt)
    return False


def _assign(cx: Context, stmt: ast.Assign) -> None:
    first = stmt.targets[0]
    term: Term
    if isinstance(first, (ast.Tuple, ast.List)) and calls.tid_call(cx, stmt.value):
        assert isinstance(stmt.value, ast.Call)
        with cx.b.at(cx.loc(stmt.value)):
            term = library.thread_index(cx, len(first.elts), stmt.value)
    else:
        term = cx.expr(stmt.value)
    for target in stmt.targets:
        assign.assign(cx, target, term, stmt)


def _annotated(cx: Context, stmt: ast.AnnAssign) -> None:
    annotation = stmt.annotation
    obj: Any
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        obj = _evaluated(cx, annotation, annotation.value)
    else:
        term = cx.expr(annotation)
        obj = term.obj if isinstance(term, Static) else None
    try:
        to = resolve_type(obj)
    except TypeError as error:
        cx.type_error(annotation, str(error))
    if stmt.value is None:
        return
    value = records.convert(cx, cx.expr(stmt.value), to, stmt.value, "the annotated variable")
    assign.assign(cx, stmt.target, value, stmt)


def _evaluated(cx: Context, node: ast.AST, text: str) -> Any:
    try:
        return evaluate_annotation(text, cx.frame.scope)
    except Exception as error:
        cx.type_error(node, f"the annotation {text!r} cannot be evaluated: {error}")


def _augmented(cx: Context, stmt: ast.AugAssign) -> None:
    where = assign.place(cx, stmt.target)
    current = assign.read(cx, where, stmt.target)
    operand = cx.expr(stmt.value)
    if isinstance(stmt.target, ast.Name) and is_tile(current):
        check_update(cx, stmt.target.id, stmt.target)
    kind = arith.BINARY[type(stmt.op)]
    result = expr.binary(cx, kind, current, operand, stmt)
    assign.write(cx, where, result, stmt.target)
    assign.note_update(cx, where, kind, operand, stmt.target)


def _expression(cx: Context, stmt: ast.Expr) -> None:
    if isinstance(stmt.value, ast.Constant):
        return  # a docstring
    cx.expr(stmt.value)


def _return(cx: Context, stmt: ast.Return) -> None:
    frame = cx.frame
    if stmt.value is not None and frame.returns_value:
        if len(cx.stack) == 1:
            cx.syntax_error(stmt, "a kernel returns nothing", "write the result to an array parameter")
        cx.env[RETURN] = Binding(cx.expr(stmt.value), cx.loc(stmt.value))
    elif frame.returns_value and len(cx.stack) > 1:
        cx.type_error(
            stmt, "this return has no value, and others have one", "return the same number of values everywhere"
        )
    cx.env[RETURNED] = Binding(Const(True), None)


def _break(cx: Context, stmt: ast.Break) -> None:
    state = cx.frame.loops[-1]
    state.set_at_breaks.append(frozenset(n for n, b in cx.env.items() if b.term is not None and b.unset is None))
    cx.env[state.broken] = Binding(Const(True), None)


def _continue(cx: Context, stmt: ast.Continue) -> None:
    cx.env[cx.frame.loops[-1].continued] = Binding(Const(True), None)


def _pass(cx: Context, stmt: ast.Pass) -> None:
    return


_SIMPLE: Final[Mapping[type[ast.stmt], Callable[[Context, Any], None]]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Pass: _pass,
}
