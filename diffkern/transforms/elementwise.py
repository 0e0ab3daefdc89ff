"""Kernels for the run time's own use on GPUs that copy or accumulate one array into another, element by element.

Both arrays have the same type and shape, and any strides. There are kernels for one to four axes; they are compiled
like a user's, once for each element type and layout.
"""

from __future__ import annotations

import functools
from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.intrinsics import INTRINSICS

__all__ = ["find"]

tid: Any = INTRINSICS["tid"]


# The run time launches them itself: they must neither be recorded nor be affected by the user's settings.
_kernel = functools.partial(Kernel, enable_backward=False, mode="release")


@_kernel
def copy1(target, source):  # type: ignore[no-untyped-def]
    i = tid()
    target[i] = source[i]


@_kernel
def copy2(target, source):  # type: ignore[no-untyped-def]
    i, j = tid()
    target[i, j] = source[i, j]


@_kernel
def copy3(target, source):  # type: ignore[no-untyped-def]
    i, j, k = tid()
    target[i, j, k] = source[i, j, k]


@_kernel
def copy4(target, source):  # type: ignore[no-untyped-def]
    i, j, k, m = tid()
    target[i, j, k, m] = source[i, j, k, m]


@_kernel
def add1(target, source):  # type: ignore[no-untyped-def]
    i = tid()
    target[i] = target[i] + source[i]


@_kernel
def add2(target, source):  # type: ignore[no-untyped-def]
    i, j = tid()
    target[i, j] = target[i, j] + source[i, j]


@_kernel
def add3(target, source):  # type: ignore[no-untyped-def]
    i, j, k = tid()
    target[i, j, k] = target[i, j, k] + source[i, j, k]


@_kernel
def add4(target, source):  # type: ignore[no-untyped-def]
    i, j, k, m = tid()
    target[i, j, k, m] = target[i, j, k, m] + source[i, j, k, m]


_KERNELS: dict[str, tuple[Kernel, ...]] = {"copy": (copy1, copy2, copy3, copy4), "add": (add1, add2, add3, add4)}


def find(name: str, ndim: int) -> Kernel:
    """Return the kernel of a name for arrays of so many axes."""
    return _KERNELS[name][ndim - 1]
