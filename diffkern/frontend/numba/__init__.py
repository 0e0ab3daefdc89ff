"""Kernels in numba's spelling: the lowering of the names in :data:`diffkern.lang.numba_cuda.LANGUAGE`.

A name that is read or called becomes ops, by the modules for positions (:mod:`numba_grid`), memory and atomics
(:mod:`numba_memory`), cooperation of threads (:mod:`numba_votes`) and numbers (:mod:`numba_numbers`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from diffkern.frontend.numba import numba_grid, numba_memory, numba_numbers, numba_votes
from diffkern.frontend.numba.numba_grid import Call, begin, layout_of, special
from diffkern.frontend.numba.numba_memory import constant_array
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Term
from diffkern.lang.numba_cuda import TOGETHER

__all__ = ["CALLS", "begin", "constant_array", "special"]


def _seen_ahead(call: Call) -> Call:
    """Wrap a function by which threads work together: a launch along several axes is laid out for that beforehand."""

    def checked(cx: Context, name: str, node: ast.Call) -> Term:
        layout = layout_of(cx, name, node)
        if layout.axes > 1 and not layout.together:
            # The layout was chosen from the names in the source, before lowering: a call they don't show would find a
            # wrong one.
            cx.type_error(
                node, f"{name} is reached by way of a variable", "write the module's or the function's own name there"
            )
        return call(cx, name, node)

    return checked


_CALLS: Final[Mapping[str, Call]] = {
    **numba_grid.CALLS,
    **numba_memory.CALLS,
    **numba_votes.CALLS,
    **numba_numbers.CALLS,
}
CALLS: Final[Mapping[str, Call]] = {key: _seen_ahead(call) if key in TOGETHER else call for key, call in _CALLS.items()}
