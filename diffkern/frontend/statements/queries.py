"""Loops over queries: ``for j in hash_grid_query(...)``.

A ``for`` statement and the query behind ``in`` become two loops, one over the ranges of memory in which results lie and
one over the places of a range, which together behave as one::

    for segment in range(segments(query)):
        for at in range(*segment(query, segment)):
            j = item(query, at)
            ...                             # the body: continue goes on with the next place
        else:
            continue
        break                               # only where the body has a break
    else:
        ...

A query does not change while it is looped over, and both loops are counted, so that the adjoint runs through it again
instead of keeping the results.

Other queries give their results one after the other. A loop over one is a ``while``::

    more = True
    while more:
        query, index, more = following(query, index)
        if more:
            j = index
            ...
    else:
        ...
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from types import ModuleType

from diffkern.frontend.builtins import composed
from diffkern.frontend.statements import ranges
from diffkern.frontend.statements.unrolled import TakeItem
from diffkern.frontend.syntax.flow import contains
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Rec, Term, Tup, Val
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.lang.library import Overload
from diffkern.lang.queries import STEPPED, WALKED

__all__ = ["Stretch", "loop_over", "loop_through"]


class Stretch(ast.For):
    """The inner loop, over the places of a range."""

    trips: Callable[[], ranges.Trips]


def loop_over(cx: Context, stmt: ast.For, query: Rec) -> tuple[ast.For, ranges.Trips]:
    """Return the outer loop that replaces a statement, and its trips."""
    module = importlib.import_module(f"diffkern.library.{WALKED[query.struct.name]}")
    key = (*cx.call_path, stmt)
    # The same statements when the loop is lowered again: what is recorded of a loop is found by its node.
    loop = cx.loops_made.get(key)
    if loop is None:
        loop = cx.loops_made[key] = _nested(cx, stmt)
    assert isinstance(loop, ast.For)
    inner = loop.body[0]
    assert isinstance(inner, Stretch)
    liveness = cx.frame.liveness
    liveness.stands_for(loop, stmt)
    # The new statements are followed by the loop's next trip, or by what follows the loop.
    for part in (inner, *inner.orelse, *loop.body[1:]):
        liveness.stands_in(part, stmt)
    take = inner.body[0]
    assert isinstance(take, TakeItem)

    def trips() -> ranges.Trips:
        bounds = _called(cx, module, "segment", stmt, query, _variable(cx, loop))
        assert isinstance(bounds, Tup)
        low, high = map(_number, bounds.items)
        return ranges.Trips(low, high, 1, T.INT32, nonneg=True)

    def item() -> Term:
        found = _called(cx, module, "item", stmt, query, _variable(cx, inner))
        cx.nonneg.add(_number(found))
        return found

    inner.trips, take.item = trips, item
    count = _number(_called(cx, module, "segments", stmt, query))
    return loop, ranges.Trips(cx.b.i32(0), count, 1, T.INT32, nonneg=True)


def loop_through(cx: Context, stmt: ast.For, query: Rec) -> ast.While:
    """Return the loop that replaces a statement over a query whose results come one after the other."""
    module = importlib.import_module(f"diffkern.library.{STEPPED[query.struct.name]}")
    key = (*cx.call_path, stmt)
    loop = cx.loops_made.get(key)
    if loop is None:
        loop = cx.loops_made[key] = _stepped(cx, stmt)
    assert isinstance(loop, ast.While)
    step, inside = loop.body
    assert isinstance(step, TakeItem)
    assert isinstance(step.target, ast.Tuple)
    assert isinstance(inside, ast.If)
    take = inside.body[0]
    assert isinstance(take, TakeItem)
    names = [part.id for part in step.target.elts if isinstance(part, ast.Name)]
    liveness = cx.frame.liveness
    liveness.stands_for(loop, stmt)
    liveness.keep(names)
    # The query, the index and the flag are variables of the function, which the loop carries like the user's.
    cx.frame.locals |= frozenset(names)
    for part in (step, inside, take):
        liveness.stands_in(part, stmt)
    begin: tuple[Term, ...] = (query, Val(cx.b.i32(0)), Val(cx.b.const(True, T.BOOL)))
    for name, term in zip(names, begin, strict=True):
        cx.bind(name, term, stmt)

    def variable(name: str) -> Term:
        term = cx.env[name].term
        assert term is not None
        return term

    def following() -> Term:
        now = variable(names[0])
        assert isinstance(now, Rec)
        return _called(cx, module, "following", stmt, now, variable(names[1]))

    step.item, take.item = following, lambda: variable(names[1])
    return loop


def _stepped(cx: Context, stmt: ast.For) -> ast.While:
    """Return the loop, around the body."""
    uid = cx.new_uid()

    def name(stem: str, context: ast.expr_context) -> ast.Name:
        return ast.copy_location(ast.Name(f"${stem}{uid}", context), stmt.target)

    variables = ast.copy_location(
        ast.Tuple([name(stem, ast.Store()) for stem in ("query", "index", "more")], ast.Store()), stmt.target
    )
    step, take = (ast.copy_location(TakeItem(target), stmt.target) for target in (variables, stmt.target))
    inside = ast.copy_location(ast.If(name("more", ast.Load()), [take, *stmt.body], []), stmt)
    return ast.copy_location(ast.While(name("more", ast.Load()), [step, inside], stmt.orelse), stmt)


def _nested(cx: Context, stmt: ast.For) -> ast.For:
    """Return both loops, around the body."""

    def counter() -> ast.Name:
        return ast.copy_location(ast.Name(f"$at{cx.new_uid()}", ast.Store()), stmt.target)

    take = ast.copy_location(TakeItem(stmt.target), stmt.target)
    goes_on: list[ast.stmt] = []
    leaves: list[ast.stmt] = []
    # A break of the body leaves the inner loop, and then has to leave the outer one.
    if contains(stmt.body, (ast.Break,)):
        goes_on, leaves = [ast.copy_location(ast.Continue(), stmt)], [ast.copy_location(ast.Break(), stmt)]
    inner = ast.copy_location(Stretch(counter(), stmt.iter, [take, *stmt.body], goes_on), stmt)
    return ast.copy_location(ast.For(counter(), stmt.iter, [inner, *leaves], stmt.orelse), stmt)


def _called(cx: Context, module: ModuleType, name: str, node: ast.AST, query: Rec, at: Term | None = None) -> Term:
    """Return the result of a function of the library."""
    overload = Overload(getattr(module, name).pyfunc)
    given = dict(zip(overload.signature.parameters, (query, at), strict=False))
    return composed.inlined(cx, overload, {k: term for k, term in given.items() if term is not None}, None, node)


def _variable(cx: Context, loop: ast.For) -> Term:
    assert isinstance(loop.target, ast.Name)
    term = cx.env[loop.target.id].term
    assert term is not None
    return term


def _number(term: Term) -> Value:
    assert isinstance(term, Val)
    return term.value
