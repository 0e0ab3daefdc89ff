"""``warp._src.utils``: the utilities of the public module."""

from __future__ import annotations

from typing import Any

import diffkern.warp.utils as public


def check_p2p() -> bool:
    """Whether GPUs of the machine may reach the memory of each other, as far as the machine is concerned."""
    return True


def __getattr__(name: str) -> Any:
    return getattr(public, name)
