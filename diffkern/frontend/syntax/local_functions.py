"""Functions that a kernel or func defines for itself: ``def`` and ``lambda`` in its body.

The body of a function becomes one with an expression in place of each such function, so that its reads and assignments
are its own. At a call it is lowered in place, and the variables around it have their values at the call.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Sequence
from typing import Any

from diffkern.frontend.syntax.desugar import as_definition
from diffkern.frontend.syntax.survey import walk
from diffkern.process.dataclass import dataclass

__all__ = ["Local", "LocalFunction", "captured", "set_apart"]


class LocalFunction(ast.expr):
    """An expression that stands for a function defined in another one."""

    # Without fields, so that walks of the outer function do not enter the inner one's names.
    _fields = ()
    definition: ast.FunctionDef


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """A function of a kernel as a value.

    Attributes
    ----------
    definition
        Its text.
    frame
        The activation that defines it.
    defaults
        The terms of the parameters that have defaults, by name.
    """

    definition: ast.FunctionDef
    frame: Any
    defaults: tuple[tuple[str, Any], ...]


def set_apart(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return a body in which local functions are expressions; without any, the same statements."""
    if not any(isinstance(node, (ast.FunctionDef, ast.Lambda)) for node in walk(*body)):
        return list(body)
    return [_Apart().visit(copy.deepcopy(stmt)) for stmt in body]


class _Apart(ast.NodeTransformer):
    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return _expression(as_definition(node))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        name = ast.copy_location(ast.Name(node.name, ast.Store()), node)
        return ast.copy_location(ast.Assign([name], _expression(node)), node)


def _expression(definition: ast.FunctionDef) -> LocalFunction:
    made = LocalFunction()
    made.definition = definition
    return ast.copy_location(made, definition)


def captured(body: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that local functions in a body read: their values may be needed wherever one is called."""
    found = (node.definition for node in walk(*body) if isinstance(node, LocalFunction))
    return frozenset(n.id for definition in found for n in walk(definition) if isinstance(n, ast.Name))
