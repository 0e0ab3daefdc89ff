"""``wp.fem.cache``: the names of the decorators that Warp's finite elements make kernels with."""

from __future__ import annotations

from diffkern.warp.absent_modules import named

__getattr__ = named(__name__, "", "dynamic_func dynamic_kernel", "decorate with @wp.func or @wp.kernel in a function")
