"""Kernels in numba's spelling: what the names of :data:`diffkern.lang.numba_cuda.LANGUAGE` are lowered to.

In: a name that is read or called. Out: ops, by the modules for positions (:mod:`numba_grid`), memory and atomics
(:mod:`numba_memory`), what threads do together (:mod:`numba_votes`) and numbers (:mod:`numba_numbers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from diffkern.frontend import numba_grid, numba_memory, numba_numbers, numba_votes
from diffkern.frontend.numba_grid import Call, begin, special
from diffkern.frontend.numba_memory import constant_array

__all__ = ["CALLS", "begin", "constant_array", "special"]

CALLS: Final[Mapping[str, Call]] = {
    **numba_grid.CALLS,
    **numba_memory.CALLS,
    **numba_votes.CALLS,
    **numba_numbers.CALLS,
}
