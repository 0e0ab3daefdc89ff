"""Loops whose condition is found out by all threads of a block together, as ``while cuda.syncthreads_or(p):``.

In: the source of a function. Out: the same, where such a loop has no condition of its own: its body begins by asking,
and leaves. So a barrier always stands between statements.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from typing import Final

from diffkern.frontend.source import Source

__all__ = ["without_waiting_tests"]

_WAITING: Final = frozenset(
    """
    syncthreads_count syncthreads_and syncthreads_or shfl_sync shfl_up_sync shfl_down_sync shfl_xor_sync
    all_sync any_sync ballot_sync
    """.split()
)


def without_waiting_tests(source: Source) -> Source:
    """Return a function's source without loops that wait in their condition."""
    if not any(_waits(node) for node in ast.walk(source.node)):
        return source
    node = _Loops().visit(copy.deepcopy(source.node))
    return dataclasses.replace(source, node=node)


def _waits(node: ast.AST) -> bool:
    if not isinstance(node, ast.While) or node.orelse:
        return False
    called = (n.func for n in ast.walk(node.test) if isinstance(n, ast.Call))
    return any(getattr(f, "attr", getattr(f, "id", None)) in _WAITING for f in called)


class _Loops(ast.NodeTransformer):
    def visit_While(self, node: ast.While) -> ast.While:
        waits = _waits(node)
        self.generic_visit(node)
        if waits:
            leave = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
            node.body.insert(0, leave)
            node.test = ast.Constant(True)
            for made in (leave, leave.test, leave.body[0], node.test):
                ast.copy_location(made, leave.test.operand)  # type: ignore[attr-defined]
        return node
