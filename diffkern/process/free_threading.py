"""Python without its global lock, which diffkern does not support."""

from __future__ import annotations

import sys

from diffkern.process.tracebacks import warn

__all__ = ["warn_without_lock"]


def warn_without_lock() -> None:
    """Warn where Python runs without its global lock: tapes, caches and records count on it."""
    is_locked = getattr(sys, "_is_gil_enabled", None)
    if is_locked is not None and not is_locked():
        warn(
            "diffkern has not been tested without Python's global lock, on which its tapes, records and caches count; "
            "start Python with PYTHON_GIL=1, or use diffkern in one thread alone"
        )
