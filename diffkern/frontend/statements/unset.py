"""Variables that are read where some path has not set them.

Where the dialect says so, such a variable is zero of its type from the beginning of the function. Branches and loops
make the zeros: they join a variable that one path has not set with zero, and loops carry it from trip to trip. What is
left for this module is a read where no path has set it that comes there, and to report reads in debug programs. Those
keep a mark for each variable that may be unset, a variable of its own that says whether it is set.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from diffkern.errors import KernelError
from diffkern.frontend.syntax.flow import Names, chain_of
from diffkern.frontend.syntax.survey import walk
from diffkern.frontend.terms import merge
from diffkern.frontend.terms.coerce import value
from diffkern.frontend.terms.context import RETURNED, Activation, Cascade, Context
from diffkern.frontend.terms.terms import (
    Binding,
    Const,
    Poison,
    Rec,
    RecView,
    Static,
    Term,
    Tup,
    Val,
    View,
    mark,
    nullness,
)
from diffkern.ir.nodes import Region

__all__ = ["maybe_unset", "read", "result", "with_marks"]


# -- which variables may be ------------------------------------------------------------------------------------------


def maybe_unset(body: Sequence[ast.stmt], names: Names, parameters: Iterable[str]) -> Names:
    """Return the variables of a function that may be read where some path has not set them; more rather than fewer."""
    walk = _Walk(names)
    walk.block(body, parameters)
    return frozenset(walk.found)


class _Walk:
    """A walk through statements with the names that every path has set so far."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.found: set[str] = set()

    def block(self, stmts: Sequence[ast.stmt], known: Iterable[str]) -> set[str]:
        """Return what is set behind statements; all names if control does not come there."""
        now = set(known)
        for stmt in stmts:
            self._statement(stmt, now)
        return now

    def _statement(self, stmt: ast.stmt, known: set[str]) -> None:
        match stmt:
            case ast.If():
                self._branches(stmt, known)
            case ast.For():
                self._reads(stmt.iter, known)
                known |= _stored(stmt.target)
                # The body may not run at all, so what it sets is not set behind the loop.
                self.block(stmt.body, known)
                self.block(stmt.orelse, known)
            case ast.While():
                self._reads(stmt.test, known)
                self.block(stmt.body, known)
                self.block(stmt.orelse, known)
            case ast.Return() | ast.Break() | ast.Continue():
                self._reads(stmt, known)
                # Nothing comes behind it, so it takes nothing away where paths join.
                known |= self._names
            case _:
                self._reads(stmt, known)
                if isinstance(stmt, ast.AugAssign) and isinstance(stmt.target, ast.Name):
                    # ``x += 1`` reads its target, which the tree says is stored.
                    self.found |= {stmt.target.id} - known
                known |= _stored(stmt)

    def _branches(self, stmt: ast.If, known: set[str]) -> None:
        chain = chain_of(stmt)
        for link in chain:
            self._reads(link.test, known)
        ends = [self.block(link.body, known) for link in chain]
        known |= set.intersection(self.block(chain[-1].orelse, known), *ends)

    def _reads(self, node: ast.AST, known: set[str]) -> None:
        for part in walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id in self._names:
                self.found |= {part.id} - known


def _stored(node: ast.AST) -> Names:
    """Return the variables that a simple statement sets in any case."""
    by_chance = {part.target for part in walk(node) if isinstance(part, ast.NamedExpr)}
    if not isinstance(node, (ast.expr, ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return frozenset()
    # ``x: float`` sets nothing.
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return frozenset()
    parts = (part for part in walk(node) if isinstance(part, ast.Name) and part not in by_chance)
    return frozenset(part.id for part in parts if isinstance(part.ctx, ast.Store))


def with_marks(cx: Context, names: Names) -> dict[str, Binding]:
    """Return the marks with which a function begins."""
    return {mark(name): Binding(Const(False), None) for name in sorted(names)} if cx.checked else {}


# -- what is read ------------------------------------------------------------------------------------------------------


def read(cx: Context, node: ast.Name, binding: Binding | None, frame: Activation) -> Term:
    """Return the term of a variable that some path has not set."""
    term = binding.term if binding is not None else None
    if isinstance(term, Poison):
        return term
    if not frame.dialect.unset_is_zero or (node.id not in frame.seen and not _is_skipped(cx, node, frame)):
        _refuse(cx, node, binding)
    if term is None:
        term = _zero(cx, node, binding, frame)
    assert term is not None
    # A function or a module has no zero.
    if isinstance(term, Static) and term.obj is not None:
        _refuse(cx, node, binding)
    _report(cx, node, frame)
    return term


def _refuse(cx: Context, node: ast.Name, binding: Binding | None) -> NoReturn:
    reason = binding.unset if binding is not None and binding.unset else "it is read before it is set"
    none = binding is None or binding.term is None
    what = f"the variable {node.id!r} {'has' if none else 'may have'} no value here: {reason}"
    cx.type_error(node, what, "set it before, on all paths")


def _zero(cx: Context, node: ast.Name, binding: Binding | None, frame: Activation) -> Term:
    """Return zero of the type that a variable was set to, on paths that do not come here."""
    shape = merge.shape_of(frame.seen[node.id])
    if not _is_number(shape):
        _refuse(cx, node, binding)
    return merge.build(shape, iter(merge.zeros(cx, shape)))


def _is_number(shape: merge.Shape) -> bool:
    """Return whether all parts of a shape are values that may be zero, or null."""
    match shape:
        case merge.MergedValue():
            return True
        case merge.Same(term):
            return nullness(term) is True
        case merge.Fields(_, parts):
            return all(map(_is_number, parts))
        case tuple():
            return all(map(_is_number, shape))
    return False


def _report(cx: Context, node: ast.Name, frame: Activation) -> None:
    """Let a debug program report the read where the variable is not set."""
    is_set = frame.env.get(mark(node.id))
    if is_set is None or is_set.term is None or is_set.term == Const(True) or isinstance(is_set.term, Poison):
        return
    text = f"the variable {node.id!r} is read where no path has set it"
    with cx.b.at(cx.loc(node)):
        cx.b.op("assertion", value(cx, is_set.term, node), text=text)


def result(cx: Context, term: Term | None, last: ast.stmt) -> Term | None:
    """Return the result of a func that may end without a value: zero of its type, if no path of this
    program has one.
    """
    frame = cx.frame
    values = (stmt.value for stmt in ast.walk(frame.source.node) if isinstance(stmt, ast.Return) and stmt.value)
    if term is None:
        # No return has been lowered, since conditions known now left them out; its type is found by trying.
        found = next((found for value in values if (found := _tried(cx, value)) is not None), None)
        if found is None or not _is_number(shape := merge.shape_of(found)):
            return None
        term = merge.build(shape, iter(merge.zeros(cx, shape)))
    if cx.checked and isinstance(term, (Const, Val, Rec, View, RecView)):
        has_returned = frame.env[RETURNED].term
        assert has_returned is not None
        with cx.b.at(cx.loc(last)):
            text = f"{frame.source.node.name} ends without a value here, which is zero"
            cx.b.op("assertion", value(cx, has_returned, last), text=text)
    return term


# -- variables that are set in branches which this program never takes ------------------------------------------------


def _is_skipped(cx: Context, node: ast.Name, frame: Activation) -> bool:
    """Return whether the text before sets a variable in a branch that was left out; note its type, found by trying."""
    for expression in _assigned_before(frame, node):
        term = _tried(cx, expression)
        if term is not None:
            frame.seen[node.id] = term
            return True
    return False


def _assigned_before(frame: Activation, node: ast.Name) -> Iterator[ast.expr]:
    """Yield what the function's text assigns to a variable before a place."""
    for stmt in ast.walk(frame.source.node):
        if not isinstance(stmt, ast.Assign) or (stmt.end_lineno or stmt.lineno) >= node.lineno:
            continue
        if any(isinstance(target, ast.Name) and target.id == node.id for target in stmt.targets):
            yield stmt.value


def _tried(cx: Context, expression: ast.expr) -> Term | None:
    """Return an expression lowered to no purpose but its type; None if it cannot be lowered here."""
    errors, skipped, updates = len(cx.errors), len(cx.skipped), len(cx.updates)
    seen = dict(cx.frame.seen)
    try:
        # Into a region that nobody keeps.
        with cx.b.into(Region()), cx.branch(dict(cx.env)):
            term = cx.expr(expression)
    except (KernelError, Cascade):
        term = None
    failed = len(cx.errors) > errors
    # Nothing of the attempt may be reported.
    del cx.errors[errors:], cx.skipped[skipped:], cx.updates[updates:]
    cx.frame.seen = seen
    return term if not failed and isinstance(term, (Const, Val, Rec, Tup)) else None
