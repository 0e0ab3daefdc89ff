"""``wp.map``: :func:`diffkern.map` for functions in Warp's dialect."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

from diffkern.kernels.kernel import Kernel as NativeKernel
from diffkern.lang.dialects import WARP
from diffkern.transforms.mapping import mapped
from diffkern.warp.declare import Kernel

__all__ = ["map_arrays"]

_given: Final[weakref.WeakKeyDictionary[NativeKernel, Kernel]] = weakref.WeakKeyDictionary()
"""The kernels that programs have asked for, by those that are launched."""


def map_arrays(
    func: Callable[..., Any],
    *inputs: Any,
    out: Any = None,
    return_kernel: bool = False,
    block_dim: int | None = None,
    device: Any = None,
) -> Any:
    """Apply a function to the elements of arrays.

    Parameters
    ----------
    func : callable
        A built-in, a func, a Python function in the language of kernels, or a lambda.
    *inputs, out, return_kernel, block_dim, device
        As in :func:`diffkern.map`.

    Returns
    -------
    array, list of array, or Kernel
        The results: one array, or a list of several.
    """
    found = mapped(func, inputs, out, return_kernel, block_dim, device, WARP)
    if not return_kernel:
        return found
    # Programs expect a kernel of Warp's class, which has a module and overloads. It is made once for each native
    # kernel, so that its programs are kept.
    if found not in _given:
        _given[found] = Kernel(found.func)
    return _given[found]
