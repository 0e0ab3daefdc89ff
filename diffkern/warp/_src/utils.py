"""``warp._src.utils``: the utilities of the public module."""

from __future__ import annotations

from typing import Any

import diffkern.warp.utils as public
from diffkern.transforms.mapping import kernels as map_cache

__all__ = ["check_p2p", "map_cache"]


def check_p2p() -> bool:
    """Return whether the machine allows GPUs to access the memory of each other."""
    return True


def __getattr__(name: str) -> Any:
    return getattr(public, name)
