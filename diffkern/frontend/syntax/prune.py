"""Removal of branches that are never taken, before anything else looks at them.

The body of a function, and the meaning of its names outside, give the body without the sides of ``if`` statements whose
condition is a constant: a static expression, or made of constants of the module or closure.
"""

from __future__ import annotations

import ast
import copy
import enum
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from diffkern.frontend.syntax.flow import chain_of
from diffkern.frontend.syntax.plain import enum_value, exact
from diffkern.frontend.syntax.scope import MISSING, NameScope
from diffkern.frontend.syntax.static import Given, Later
from diffkern.frontend.syntax.taken import note

__all__ = ["pruned"]

_COMPARE: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip


def pruned(
    body: Sequence[ast.stmt], scope: NameScope, variables: frozenset[str], results: Sequence[Any]
) -> list[ast.stmt]:
    """Return the statements without branches that are never taken; unchanged ones are the same objects.

    Parameters
    ----------
    variables
        Names that are the function's own, and thus no constants.
    results
        Of its static expressions.
    """
    return _Pruner(scope, variables, results).block(body)


class _Pruner:
    def __init__(self, scope: NameScope, variables: frozenset[str], results: Sequence[Any]) -> None:
        self.scope, self.variables, self.results = scope, variables, results

    def block(self, stmts: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for stmt in stmts:
            out += self._chain(stmt) if isinstance(stmt, ast.If) else [self._inside(stmt)]
        # A block must have a statement.
        return out or [ast.copy_location(ast.Pass(), stmt) for stmt in stmts[:1]]

    def _chain(self, stmt: ast.If) -> list[ast.stmt]:
        """Return the rest of an ``if`` and its ``elif``s."""
        chain = chain_of(stmt)
        # From the last link to the first, without recursion: a chain may have hundreds of them.
        rest = self.block(chain[-1].orelse)
        for link in reversed(chain):
            value = _plain(self._value(link.test))
            # Of other objects, the truth is decided by code of the program, which may depend on anything.
            if value is not MISSING and isinstance(value, (bool, int, float, str, tuple, type(None))):
                rest = self.block(link.body) if value else rest
            else:
                rest = [_changed(link, {"body": self.block(link.body), "orelse": rest})]
        return rest

    def _inside(self, stmt: ast.stmt) -> ast.stmt:
        names = [name for name in ("body", "orelse") if getattr(stmt, name, None)]
        return _changed(stmt, {name: self.block(getattr(stmt, name)) for name in names})

    def _value(self, node: ast.expr) -> Any:
        """Return the value of an expression, ``MISSING`` if it is not known."""
        match node:
            case Given():
                found = self.results[node.index]
                # A later result may differ from trip to trip.
                return MISSING if isinstance(found, Later) else found
            case ast.Constant():
                return node.value
            case ast.Name():
                return MISSING if node.id in self.variables else self.scope.lookup(node.id)
            case ast.Attribute():
                return self._attribute(node)
            case ast.UnaryOp(op=ast.Not()):
                value = _plain(self._value(node.operand))
                return MISSING if value is MISSING else not value
            case ast.BoolOp():
                return self._together(node)
            case ast.Compare(ops=[op]) if type(op) in _COMPARE:
                return self._compared(_COMPARE[type(op)], node.left, node.comparators[0])
        return MISSING

    def _together(self, node: ast.BoolOp) -> Any:
        # As Python does: the first operand that decides is the value, and the rest does not count.
        decides = isinstance(node.op, ast.Or)
        value: Any = MISSING
        for part in node.values:
            value = _plain(self._value(part))
            if value is MISSING or bool(value) is decides:
                return value
        return value

    def _compared(self, compare: Callable[[Any, Any], Any], left: ast.expr, right: ast.expr) -> Any:
        a, b = self._value(left), self._value(right)
        alike = type(a) is type(b) and isinstance(a, (bool, enum.Enum))
        if compare in (operator.is_, operator.is_not) and not alike and a is not None and b is not None:
            return MISSING  # two numbers or texts that are equal may be one object or two
        if not (alike and isinstance(a, enum.Enum)):
            a, b = _plain(a), _plain(b)
        plain = (bool, int, float, str, type(None))
        return compare(a, b) if alike or (isinstance(a, plain) and isinstance(b, plain)) else MISSING

    def _attribute(self, node: ast.Attribute) -> Any:
        """Return an attribute of a module or class; one of an object that is no captured name is recorded."""
        owner = self._value(node.value)
        found = MISSING if owner is MISSING else self.scope.attribute(owner, node.attr)
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if found is not MISSING and not isinstance(inner, ast.Name):
            note(found, owner, node.attr)
        return found


def _plain(value: Any) -> Any:
    """Return a number, text or tuple of a derived class, or a member of an enumeration of such, as one
    of Python's own.
    """
    if isinstance(value, enum.Enum):
        return enum_value(value) if isinstance(value, (int, float, str)) else value
    if isinstance(value, tuple):
        return tuple(tuple.__iter__(value))
    return exact(value)


def _changed(stmt: ast.stmt, blocks: Mapping[str, list[ast.stmt]]) -> ast.stmt:
    """Return a statement with other blocks; the statement itself if they are the same."""
    pairs = [(getattr(stmt, name), after) for name, after in blocks.items()]
    if all(len(a) == len(b) and all(map(operator.is_, a, b)) for a, b in pairs):
        return stmt
    made = copy.copy(stmt)
    for name, statements in blocks.items():
        setattr(made, name, statements)
    return made
