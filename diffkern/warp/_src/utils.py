"""``warp._src.utils``: the utilities of the public module."""

from __future__ import annotations

from typing import Any

import diffkern.warp.utils as public


def __getattr__(name: str) -> Any:
    return getattr(public, name)
