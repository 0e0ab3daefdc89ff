"""Desugaring of Python forms: lambda expressions, loops over tuples, ``match``.

The syntax tree of a function, as parsed by Python, becomes a ``def``; a loop over a tuple display becomes one over
``range`` that chooses the element::

    for d in (-1, 0, n):        d_2 = n
        ...                     for d_at in range(3):
                                    d = -1 if d_at == 0 else 0 if d_at == 1 else d_2
                                    ...

A ``match`` on constants is a chain of ``if`` and ``elif``, with the subject in a variable of its own. New nodes have
the positions of the nodes that they replace.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TypeVar

from diffkern.frontend.syntax.survey import nodes

__all__ = ["LAMBDA", "as_definition", "spell_out"]

_Node = TypeVar("_Node", bound=ast.AST)

LAMBDA = "<lambda>"
"""The name that Python gives to functions made by lambda expressions."""


def as_definition(found: ast.Lambda) -> ast.FunctionDef:
    """Return a lambda expression as a ``def`` of the same name and positions."""
    result = ast.copy_location(ast.Return(found.body), found.body)
    made = ast.FunctionDef(LAMBDA, found.args, [result], [], None, None)
    if "type_params" in made._fields:
        made.type_params = []  # type: ignore[attr-defined,unused-ignore]  # from Python 3.12 on
    return ast.copy_location(made, found)


def spell_out(
    definition: ast.FunctionDef, kinds: Collection[type[ast.AST]], unrolled: frozenset[str] = frozenset()
) -> None:
    """Change ``match`` into ``if``, and loops over tuples of numbers into loops over ``range``, in place.

    A tuple without a literal number may hold anything: the loop over it is unrolled during lowering, as is one whose
    variable is among `unrolled`. The function's body has nodes of some `kinds`.
    """
    if ast.Match in kinds:
        _Matches(definition).change()
    if ast.For in kinds and any(_is_over_numbers(node, unrolled) for node in nodes(definition)):
        _TupleLoops(definition, unrolled).change()


def _is_over_numbers(stmt: ast.AST, unrolled: frozenset[str]) -> bool:
    return (
        isinstance(stmt, ast.For)
        and isinstance(stmt.iter, (ast.Tuple, ast.List))
        and isinstance(stmt.target, ast.Name)
        and stmt.target.id not in unrolled
        and any(_is_number(e) for e in stmt.iter.elts)
        and not any(isinstance(e, ast.Starred) for e in stmt.iter.elts)
    )


class _Rewriter:
    """Replaces statements of one function."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        self.definition = definition
        self.taken = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
        self.taken.update(node.arg for node in ast.walk(definition) if isinstance(node, ast.arg))

    inner_first = False

    def change(self) -> None:
        parents = list(ast.walk(self.definition))
        # From the inside for `match`, whose replacement is a new statement that the walk would not visit.
        for parent in reversed(parents) if self.inner_first else parents:
            for field in ("body", "orelse"):
                statements = getattr(parent, field, None)
                if isinstance(statements, list):
                    setattr(parent, field, [made for stmt in statements for made in self._statement(stmt)])

    def _statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        raise NotImplementedError

    def _free(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


class _TupleLoops(_Rewriter):
    """The loops over tuples."""

    def __init__(self, definition: ast.FunctionDef, unrolled: frozenset[str]) -> None:
        super().__init__(definition)
        self.unrolled = unrolled

    def _statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        if not _is_over_numbers(stmt, self.unrolled):
            return [stmt]
        assert isinstance(stmt, ast.For)
        assert isinstance(stmt.iter, (ast.Tuple, ast.List))
        assert isinstance(stmt.target, ast.Name)
        target, elements = stmt.target.id, stmt.iter.elts
        before: list[ast.stmt] = []
        for k, element in enumerate(elements):
            if not _is_number(element):  # the body may change what it was made of
                name = self._free(f"{target}_{k}")
                before.append(_placed(ast.Assign([ast.Name(name, ast.Store())], element), element))
                elements[k] = ast.copy_location(ast.Name(name, ast.Load()), element)
        at = self._free(f"{target}_at")
        # The last one needs no test: the index is in range.
        chosen = elements[-1]
        for k in reversed(range(len(elements) - 1)):
            test = ast.Compare(ast.Name(at, ast.Load()), [ast.Eq()], [ast.Constant(k)])
            chosen = ast.IfExp(test, elements[k], chosen)
        choice = _placed(ast.Assign([stmt.target], chosen), stmt.iter)
        count = _placed(ast.Call(ast.Name("range", ast.Load()), [ast.Constant(len(elements))], []), stmt.iter)
        stmt.target = ast.copy_location(ast.Name(at, ast.Store()), stmt.target)
        stmt.iter, stmt.body = count, [choice, *stmt.body]
        return [*before, stmt]


class _Matches(_Rewriter):
    """The ``match`` statements; those with other patterns than constants stay as they are."""

    inner_first = True  # what was changed is another statement

    def _statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        if not isinstance(stmt, ast.Match):
            return [stmt]
        before: list[ast.stmt] = []
        subject = stmt.subject
        # Evaluated once, whatever the number of cases.
        if not isinstance(subject, ast.Name):
            name = self._free("subject")
            before.append(_placed(ast.Assign([ast.Name(name, ast.Store())], subject), subject))
            subject = ast.copy_location(ast.Name(name, ast.Load()), subject)
        rest: list[ast.stmt] = []
        for case in reversed(stmt.cases):
            # One pattern that is no constant leaves the whole statement to the fence, which refuses it.
            test = _test_of(case.pattern, subject)
            if test is None:
                return [stmt]
            body = case.body
            if isinstance(case.pattern, ast.MatchAs) and case.pattern.name is not None:
                # The guard may read the name, which is set in the body only.
                if case.guard is not None:
                    return [stmt]
                named = ast.Assign([ast.Name(case.pattern.name, ast.Store())], subject)
                body = [_placed(named, case.pattern), *body]
            if case.guard is not None:
                test = ast.BoolOp(ast.And(), [test, case.guard])
            rest = [_placed(ast.If(test, body, rest), case.pattern)]
        return [*before, *rest]


def _test_of(pattern: ast.pattern, subject: ast.Name) -> ast.expr | None:
    """Return the test whether a subject matches a pattern; None for a pattern that is no constant."""
    match pattern:
        case ast.MatchValue(value=value):
            return ast.Compare(subject, [ast.Eq()], [value])
        case ast.MatchSingleton(value=value):
            # Bools of a kernel are values, which have no identity.
            return ast.Compare(subject, [ast.Is() if value is None else ast.Eq()], [ast.Constant(value)])
        case ast.MatchOr(patterns=patterns):
            tests = [_test_of(part, subject) for part in patterns]
            known = [test for test in tests if test is not None]
            return ast.BoolOp(ast.Or(), known) if len(known) == len(tests) else None
        case ast.MatchAs(pattern=None):
            return ast.Constant(True)
    return None


def _is_number(element: ast.expr) -> bool:
    inner = element.operand if isinstance(element, ast.UnaryOp) else element
    return isinstance(inner, ast.Constant)


def _placed(made: _Node, place: ast.AST) -> _Node:
    """Give the position of a node to all parts of another that have none."""
    for node in ast.walk(made):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, place)
    return made
