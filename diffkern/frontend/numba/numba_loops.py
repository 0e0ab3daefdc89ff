"""Loops whose condition all threads of a block determine together, as ``while cuda.syncthreads_or(p):``.

The source of a function is changed so that such a loop has no condition of its own: its body begins with the test, and
leaves the loop. So a barrier is always between statements.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from typing import Final

from diffkern.frontend.syntax.loop_tests import moved
from diffkern.frontend.syntax.source import Source

__all__ = ["without_waiting_tests"]

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
