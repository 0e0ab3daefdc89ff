"""Funcs that change variables of their caller, as funcs that return the new values of these variables.

The definition of a func and the names of such parameters give a definition each of whose ``return`` statements returns
the values of these parameters as well, after the result if there is one.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from diffkern.frontend.syntax.flow import falls_off

__all__ = ["giving_back"]


def giving_back(definition: ast.FunctionDef, names: Sequence[str]) -> ast.FunctionDef:
    """Return the definition of a func that returns the values of parameters too."""
    made = copy.copy(definition)
    visitor = _Returns(names)
    # On copies: the tree is shared by all activations, and the func may be called without references elsewhere.
    made.body = [visitor.visit(copy.deepcopy(stmt)) for stmt in definition.body]
    # Falling off the end is a return as well, and has to give the values back.
    if falls_off(made.body) and not visitor.has_values:
        last = ast.Return(None)
        ast.copy_location(last, made.body[-1])
        made.body.append(visitor.visit(last))
    return made


class _Returns(ast.NodeTransformer):
    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.has_values = names, False

    def visit_Return(self, node: ast.Return) -> ast.Return:
        own = [] if node.value is None or _is_none(node.value) else [node.value]
        self.has_values = self.has_values or bool(own)
        node.value = ast.Tuple([*own, *(ast.Name(name, ast.Load()) for name in self.names)], ast.Load())
        for part in (node.value, *node.value.elts[len(own) :]):
            ast.copy_location(part, node)
        return node

    # A function inside of this one returns to it, not to the caller.
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
