"""``warp._src.utils``: the utilities of the public module."""

from __future__ import annotations

from typing import Any

import diffkern.warp.utils as public
from diffkern.mapping import kernels as map_cache

__all__ = ["check_p2p", "map_cache"]


def check_p2p() -> bool:
    """Whether GPUs of the machine may reach the memory of each other, as far as the machine is concerned."""
    return True


def __getattr__(name: str) -> Any:
    return getattr(public, name)
