"""Warp's utilities: those of :mod:`diffkern.utils`, and what programs for Warp alone need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diffkern.lang.func import Func
from diffkern.runtime.observe.timer import ScopedTimer
from diffkern.types import transformation
from diffkern.utils import (
    array_cast,
    array_inner,
    array_scan,
    array_sum,
    radix_sort_pairs,
    runlength_encode,
    segmented_sort_pairs,
)
from diffkern.warp.coloring import (
    GraphColoringAlgorithm,
    graph_coloring_assign,
    graph_coloring_balance,
    graph_coloring_get_groups,
)
from diffkern.warp.declare import func

__all__ = [
    "GraphColoringAlgorithm",
    "ScopedTimer",
    "array_cast",
    "array_inner",
    "array_scan",
    "array_sum",
    "create_warp_function",
    "graph_coloring_assign",
    "graph_coloring_balance",
    "graph_coloring_get_groups",
    "radix_sort_pairs",
    "runlength_encode",
    "segmented_sort_pairs",
    "transform_expand",
]


def transform_expand(t: Any) -> Any:
    """Return a transform of seven numbers in a row.

    Parameters
    ----------
    t : sequence
        The position and the rotation as a quaternion.

    Returns
    -------
    transform
        The transform.
    """
    return transformation(float)(*(float(number) for number in t[:7]))


def create_warp_function(f: Callable[..., Any]) -> tuple[Func, Any]:
    """Make a Python function callable from kernels.

    Parameters
    ----------
    f : callable
        The function, which may be a lambda.

    Returns
    -------
    Func, None
        The function; there is no module beside it, as the unit of compilation is the kernel.
    """
    # Warp returns the module as well, which programs unpack.
    made: Any = func(f)
    return made, None
