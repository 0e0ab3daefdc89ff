"""Loops whose condition sets variables: ``while (y := f(x)) > 0.0``, ``while randf(state) < p``.

The body of a function is changed so that such a loop has no condition of its own: its body begins with the test, and
leaves the loop, after the statements of its ``else``.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from diffkern.frontend.syntax.flow import assigned
from diffkern.frontend.syntax.scope import MISSING, NameScope
from diffkern.frontend.syntax.signature import references_of
from diffkern.frontend.syntax.source import Source
from diffkern.frontend.syntax.survey import walk
from diffkern.lang import Func
from diffkern.lang.intrinsics import lowering_key

__all__ = ["moved", "without_changing_tests", "without_waiting_tests"]


def without_changing_tests(body: Sequence[ast.stmt], scope: NameScope, variables: frozenset[str]) -> list[ast.stmt]:
    """Return a body without loops that set variables in their condition; without any, the same statements."""

    def outside(node: ast.expr) -> object:
        if isinstance(node, ast.Attribute):
            owner = outside(node.value)
            return MISSING if owner is MISSING else scope.attribute(owner, node.attr)
        return scope.lookup(node.id) if isinstance(node, ast.Name) and node.id not in variables else MISSING

    def changing(node: ast.expr) -> str | dict[str, int] | None:
        found = outside(node)
        if isinstance(found, Func):
            return references_of(found) or None
        return None if found is MISSING else lowering_key(found)

    return moved(body, lambda loop: bool(assigned([loop.test], changing)))


def moved(body: Sequence[ast.stmt], wanted: Callable[[ast.While], bool]) -> list[ast.stmt]:
    """Return a body in which the conditions of some loops are tests at the start of their bodies."""
    if not any(isinstance(node, ast.While) and wanted(node) for node in walk(*body)):
        return list(body)
    return [_Loops(wanted).visit(copy.deepcopy(stmt)) for stmt in body]


class _Loops(ast.NodeTransformer):
    def __init__(self, wanted: Callable[[ast.While], bool]) -> None:
        self._wanted = wanted

    def visit_While(self, node: ast.While) -> ast.While:
        wanted = self._wanted(node)
        # Inner loops first, in the copy of the body that this loop keeps.
        self.generic_visit(node)
        if wanted:
            test = node.test
            # The `else` runs when the condition fails, and not at a `break` of the body, which stays outside of this
            # test.
            leave = ast.If(ast.UnaryOp(ast.Not(), test), [*node.orelse, ast.Break()], [])
            node.body, node.test, node.orelse = [leave, *node.body], ast.Constant(True), []
            for made in (leave, leave.test, leave.body[-1], node.test):
                ast.copy_location(made, test)
        return node


# -- conditions of whole blocks ----------------------------------------------------------------------------------------
# Loops whose condition all threads of a block determine together, as ``while cuda.syncthreads_or(p):``.
#
# The source of a function is changed so that such a loop has no condition of its own: its body begins with the test,
# and leaves the loop. So a barrier is always between statements.


_WAITING: Final = frozenset(
    """
    syncthreads_count syncthreads_and syncthreads_or shfl_sync shfl_up_sync shfl_down_sync shfl_xor_sync
    all_sync any_sync ballot_sync
    """.split()
)


def without_waiting_tests(source: Source) -> Source:
    """Return a function's source without loops that wait in their condition."""
    node = copy.copy(source.node)
    node.body = moved(source.node.body, _waits)
    return dataclasses.replace(source, node=node)


def _waits(node: ast.While) -> bool:
    called = (n.func for n in ast.walk(node.test) if isinstance(n, ast.Call))
    return any(getattr(f, "attr", getattr(f, "id", None)) in _WAITING for f in called)
