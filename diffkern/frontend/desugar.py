"""Forms of Python that are others in a longer spelling: lambda expressions, and loops over tuples.

In: the syntax tree of a function, as Python has parsed it. Out: a ``def``; a loop over a tuple that is written out is
one over ``range`` that chooses the element::

    for d in (-1, 0, n):        d_2 = n
        ...                     for d_at in range(3):
                                    d = -1 if d_at == 0 else 0 if d_at == 1 else d_2
                                    ...

What is new has the positions of what it stands for.
"""

from __future__ import annotations

import ast
from typing import TypeVar

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


def spell_out(definition: ast.FunctionDef) -> None:
    """Change loops over tuples into loops over ``range``, in place."""
    if any(_is_over_tuple(node) for node in ast.walk(definition)):
        _Loops(definition).change()


def _is_over_tuple(stmt: ast.AST) -> bool:
    return (
        isinstance(stmt, ast.For)
        and isinstance(stmt.iter, (ast.Tuple, ast.List))
        and isinstance(stmt.target, ast.Name)
        and bool(stmt.iter.elts)
        and not any(isinstance(e, ast.Starred) for e in stmt.iter.elts)
    )


class _Loops:
    """The loops over tuples of one function."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        self.definition = definition
        self.taken = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
        self.taken.update(node.arg for node in ast.walk(definition) if isinstance(node, ast.arg))

    def change(self) -> None:
        for parent in list(ast.walk(self.definition)):
            for field in ("body", "orelse"):
                statements = getattr(parent, field, None)
                if isinstance(statements, list):
                    setattr(parent, field, [made for stmt in statements for made in self._statement(stmt)])

    def _statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        if not _is_over_tuple(stmt):
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
        chosen = elements[-1]
        for k in reversed(range(len(elements) - 1)):
            test = ast.Compare(ast.Name(at, ast.Load()), [ast.Eq()], [ast.Constant(k)])
            chosen = ast.IfExp(test, elements[k], chosen)
        choice = _placed(ast.Assign([stmt.target], chosen), stmt.iter)
        count = _placed(ast.Call(ast.Name("range", ast.Load()), [ast.Constant(len(elements))], []), stmt.iter)
        stmt.target = ast.copy_location(ast.Name(at, ast.Store()), stmt.target)
        stmt.iter, stmt.body = count, [choice, *stmt.body]
        return [*before, stmt]

    def _free(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def _is_number(element: ast.expr) -> bool:
    inner = element.operand if isinstance(element, ast.UnaryOp) else element
    return isinstance(inner, ast.Constant)


def _placed(made: _Node, place: ast.AST) -> _Node:
    """Give the position of a node to all parts of another that have none."""
    for node in ast.walk(made):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, place)
    return made
