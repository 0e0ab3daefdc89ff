"""Statements: assignments, branches, and what leaves the straight path.

Statements become ops in the current region and new bindings. What follows a statement that may leave (by ``break``,
``continue``, ``return``) is lowered into the branch that does not leave, or guarded by a flag.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from diffkern.errors import KernelError
from diffkern.frontend.builtins import library, output, records
from diffkern.frontend.statements import assign, branch, calls, expr, leaving, loops
from diffkern.frontend.statements.matching import user_operator
from diffkern.frontend.statements.unrolled import TakeItem
from diffkern.frontend.syntax.fence import refuse_expression
from diffkern.frontend.syntax.flow import assigned, chain_of, contains, leaves
from diffkern.frontend.syntax.text_annotations import evaluate_annotation
from diffkern.frontend.terms import arith, coerce
from diffkern.frontend.terms.context import RETURN, RETURNED, Cascade, Context
from diffkern.frontend.terms.terms import Binding, Const, Poison, Rec, RecView, Static, Term, Val, View
from diffkern.frontend.tiles import tile_fields, tile_records
from diffkern.frontend.tiles.tile_terms import holds_tiles
from diffkern.ir.nodes import Region
from diffkern.lang import resolve_type

__all__ = ["lower_block"]

_ESCAPES = (ast.Break, ast.Continue, ast.Return)
_NESTED: Final = 16
"""The deepest nesting of a chain's branches, or of statements that may leave, before it starts over outside."""


class _GoOn(ast.stmt):
    """The rest of a chain, in the ``else`` of a part of it: none of its conditions held."""


class _After(ast.stmt):
    """The place after a loop, where the places that threads reach are marked."""


def lower_block(cx: Context, stmts: Sequence[ast.stmt], tail_body: bool, tail_function: bool) -> None:
    """Lower statements one after the other.

    Parameters
    ----------
    tail_body
        Whether nothing follows them in the body of the innermost loop.
    tail_function
        Whether nothing follows them in the function.
    """
    if cx.is_marked:
        stmts = _with_ends_of_loops(cx, stmts)
    for k, stmt in enumerate(stmts):
        flags = leaving.flags(cx)
        # Left in any case: nothing behind is reached.
        if flags is None:
            return
        # A deep nest of branches would exceed Python's recursion limit, here and in each pass over the IR; so what is
        # too far behind is lowered outside, after a test of the flag.
        rest = stmts[k + 1 :]
        near, far = _apart(stmts[k:] if flags else rest)
        tails = (tail_body, tail_function) if not far else (False, False)
        if flags:
            leaving.guarded(cx, flags, near, *tails)
            # Those before have been lowered, so what follows asks for the flags again.
            lower_block(cx, far, tail_body, tail_function)
            return
        if isinstance(stmt, ast.If):
            if _attempt(cx, stmt, lambda s=stmt, r=near, t=tails: _chain(cx, s, r, *t)):  # type: ignore[misc]
                lower_block(cx, far, tail_body, tail_function)
                return
        else:
            last = not rest
            _attempt(cx, stmt, lambda s=stmt, t=last: _statement(cx, s, tail_function and t))  # type: ignore[misc]
            if leaves((stmt,)):
                return  # what stands behind it is never reached


def _with_ends_of_loops(cx: Context, stmts: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Return the statements with one of its own after each loop, which is not reached where the loop is left."""
    found: list[ast.stmt] = []
    for k, stmt in enumerate(stmts):
        found.append(stmt)
        if isinstance(stmt, (ast.For, ast.While)) and not any(isinstance(s, _After) for s in stmts[k + 1 : k + 2]):
            after = ast.copy_location(_After(), stmt)
            # The new node has no liveness of its own.
            cx.frame.liveness.stands_for(after, stmt)
            found.append(after)
    return found


def _attempt(cx: Context, stmt: ast.stmt, lower: Callable[[], bool]) -> bool:
    """Lower a statement and return what `lower` does; an error is recorded, and what the statement would set is
    poisoned.
    """
    try:
        with cx.b.at(cx.loc(stmt)):
            if not isinstance(stmt, (_GoOn, TakeItem)):
                cx.mark("after" if isinstance(stmt, _After) else "statement")
            return lower()
    except KernelError as error:
        # Lowering goes on, so that one compilation reports all independent errors.
        cx.errors.extend(error.errors)
    except Cascade:
        # Remembered: if no error is reported in the end, this statement is what has gone wrong.
        cx.skipped.append(cx.loc(stmt))
    for name in assigned([stmt], cx.changing):
        binding = cx.env.get(name)
        # An array's elements are not in the variable, so an error does not make the array unknown.
        if binding is None or not isinstance(binding.term, (View, RecView)):
            cx.env[name] = Binding(Poison(), None)
    # The value is unknown, but control does leave here.
    if isinstance(stmt, ast.Return):
        cx.env[RETURN] = Binding(Poison(), None)
        cx.env[RETURNED] = Binding(Const(True), None)
    return False


def _apart(rest: Sequence[ast.stmt]) -> tuple[Sequence[ast.stmt], Sequence[ast.stmt]]:
    """Return the statements that go into the branches before them if these leave, and those for which a
    flag is tested.
    """
    count = 0
    for k, stmt in enumerate(rest[:-1]):
        count += isinstance(stmt, ast.If) and contains([stmt], _ESCAPES)
        if count == _NESTED:
            return rest[: k + 1], rest[k + 1 :]
    return rest, ()


# -- branches ----------------------------------------------------------------------------------------------------------


def _chain(cx: Context, stmt: ast.If, rest: Sequence[ast.stmt], tail_body: bool, tail_function: bool) -> bool:
    """Lower an ``if``; return whether the statements after it have been lowered with it.

    A long chain of ``elif`` is lowered in parts, each where none of the conditions before has held.
    """
    chain = chain_of(stmt)
    if len(chain) <= 2 * _NESTED:
        return _if(cx, stmt, rest, tail_body, tail_function)
    before = dict(cx.env)  # what holds where the next part begins
    more = f"$more{cx.new_uid()}"
    cx.frame.going_on.append(more)
    try:
        cx.env[more] = Binding(Const(True), None)
        for k in range(0, len(chain), _NESTED):
            _part_of_chain(cx, chain[k : k + _NESTED], k + _NESTED >= len(chain), before, stmt)
    finally:
        cx.frame.going_on.remove(more)
        cx.env.pop(more, None)
    return False


def _part_of_chain(
    cx: Context, links: Sequence[ast.If], last: bool, before: Mapping[str, Binding], stmt: ast.If
) -> None:
    """Lower some branches of a chain where the flag that says so is set, and set it again."""
    more = cx.frame.going_on[-1]
    term = cx.env[more].term
    if term == Const(False):
        # One of the conditions before holds in any case.
        return
    part = links[0]
    if not last:
        end: list[ast.stmt] = [ast.copy_location(_GoOn(), links[-1])]
        for link in reversed(links):
            part = ast.copy_location(ast.If(link.test, link.body, end), link)
            # The new node has no liveness of its own; what is read behind it is that of the whole chain.
            cx.frame.liveness.stands_for(part, stmt)
            end = [part]
    # Unset until the part's last ``else`` sets it again.
    cx.env[more] = Binding(Const(False), None)
    if not isinstance(term, Val):
        _if(cx, part, (), False, False)
        return
    # Names that the parts before have set are set in other branches than this one.
    env = {**before, more: Binding(Const(False), None)}
    with cx.b.at(cx.loc(part)):
        holds = leaving.side(cx, [part], env, False, False)
        fails = branch.BranchSide(Region(), dict(cx.env), branch.has_left(cx, cx.env))
        wanted = leaving.wanted(cx, stmt, False, False, contains([part], _ESCAPES))
        branch.merge_branches(cx, term.value, holds, fails, wanted, part, f"the condition in line {part.test.lineno}")


def _if(cx: Context, stmt: ast.If, rest: Sequence[ast.stmt], tail_body: bool, tail_function: bool) -> bool:
    """Lower an ``if`` as it stands; return as :func:`_chain` does."""
    test = _condition(cx, stmt)
    if isinstance(test, Const):
        # Only the side that is taken is lowered, so the other may be wrong for these types, as under a test of a dtype.
        cx.block([*(stmt.body if test.value else stmt.orelse), *rest], tail_body, tail_function)
        return True
    then: Sequence[ast.stmt] = stmt.body
    orelse: Sequence[ast.stmt] = stmt.orelse
    escaping = contains([stmt], _ESCAPES)
    takes_rest = False
    # What follows belongs to the side that stays, so no flag is needed.
    if rest and escaping:
        if leaves(then):
            orelse, takes_rest = [*orelse, *rest], True
        elif leaves(orelse):
            then, takes_rest = [*then, *rest], True
    last = rest[-1] if takes_rest else stmt
    # More follows behind the branch, so a return in it is not the last thing.
    if rest and not takes_rest:
        tail_body = tail_function = False
    holds = leaving.side(cx, then, dict(cx.env), tail_body, tail_function)
    fails = leaving.side(cx, orelse, dict(cx.env), tail_body, tail_function)
    wanted = leaving.wanted(cx, last, tail_body, tail_function, escaping)
    branch.merge_branches(cx, test.value, holds, fails, wanted, stmt, f"the condition in line {stmt.test.lineno}")
    return takes_rest


def _condition(cx: Context, stmt: ast.If) -> Const | Val:
    try:
        return coerce.as_bool(cx, cx.expr(stmt.test), stmt.test)
    except (KernelError, Cascade):
        # Both branches are looked at all the same, so that their errors are reported together with this one.
        for side in (stmt.body, stmt.orelse):
            leaving.side(cx, side, dict(cx.env), False, False)
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
    # How many indices there are is known by the targets alone.
    if isinstance(first, (ast.Tuple, ast.List)) and calls.tid_call(cx, stmt.value):
        assert isinstance(stmt.value, ast.Call)
        with cx.b.at(cx.loc(stmt.value)):
            term = library.thread_index(cx, len(first.elts), stmt.value)
    else:
        term = cx.expr(stmt.value)
    for target in stmt.targets:
        # The value is evaluated once, also for ``a = b = f()``.
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
        cx.type_error(annotation, str(error), "write a type such as float, dk.vec3 or a struct, or leave it out")
    # ``x: float`` alone sets nothing.
    if stmt.value is None:
        return
    value = records.convert(cx, cx.expr(stmt.value), to, stmt.value, "the annotated variable")
    assign.assign(cx, stmt.target, value, stmt)


def _evaluated(cx: Context, node: ast.AST, text: str) -> Any:
    try:
        return evaluate_annotation(text, cx.frame.scope)
    except Exception as error:
        cx.type_error(
            node,
            f"the annotation {text!r} cannot be evaluated: {error}",
            "write a type such as float, dk.vec3 or dk.float64",
        )


def _augmented(cx: Context, stmt: ast.AugAssign) -> None:
    # The target's index is evaluated once, before the operand, as in Python.
    where = assign.place(cx, stmt.target)
    current = assign.read(cx, where, stmt.target)
    operand = cx.expr(stmt.value)
    kind = arith.BINARY[type(stmt.op)]
    is_own = user_operator(cx, kind, current, operand, stmt) is not None
    if isinstance(where, assign.TilePart) and isinstance(current, Rec):
        result = tile_records.combined(cx, kind, current, operand, stmt)
    else:
        result = expr.binary(cx, kind, current, operand, stmt)
    # A tile is changed in place, which views of it see.
    if isinstance(stmt.target, ast.Name) and isinstance(current, (Val, Rec)) and holds_tiles(current):
        made = [leaf.value for leaf in tile_fields.leaves(result)]
        tile_records.replace(cx, stmt.target.id, current, made, stmt.target)
        return
    assign.write(cx, where, result, stmt.target)
    # Threads may update one element at once, so such updates may have to be atomic; a user's func has none.
    if not is_own:
        assign.note_update(cx, where, kind, operand, stmt.target)


def _take_item(cx: Context, stmt: TakeItem) -> None:
    assign.assign(cx, stmt.target, stmt.item(), stmt.target)


def _go_on(cx: Context, stmt: _GoOn) -> None:
    cx.env[cx.frame.going_on[-1]] = Binding(Const(True), None)


def _expression(cx: Context, stmt: ast.Expr) -> None:
    if isinstance(stmt.value, ast.Constant):
        return  # a docstring
    cx.expr(stmt.value)


def _return(cx: Context, stmt: ast.Return) -> None:
    frame = cx.frame
    if stmt.value is not None and frame.returns_value:
        if cx.in_kernel:
            cx.syntax_error(stmt, "a kernel returns nothing", "write the result to an array parameter")
        cx.env[RETURN] = Binding(cx.expr(stmt.value), cx.loc(stmt.value))
    elif frame.returns_value and not cx.in_kernel:
        cx.type_error(
            stmt, "this return has no value, and others have one", "return the same number of values everywhere"
        )
    cx.env[RETURNED] = Binding(Const(True), None)


def _break(cx: Context, stmt: ast.Break) -> None:
    state = cx.frame.loops[-1]
    # Behind the loop, what is set depends on where it was left.
    state.set_at_breaks.append(leaving.set_here(cx))
    cx.env[state.broken] = Binding(Const(True), None)


def _continue(cx: Context, stmt: ast.Continue) -> None:
    state = cx.frame.loops[-1]
    state.set_at_continues.append(leaving.set_here(cx))
    cx.env[state.continued] = Binding(Const(True), None)


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
    ast.Assert: output.assertion,
    TakeItem: _take_item,
    _GoOn: _go_on,
    _After: _pass,
}
