"""Which cases of a table run by default: chosen by a hash of the name, so that a new case does not move the others."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["is_usual", "one_in"]


def is_usual(name: str, every: int) -> bool:
    """Whether the case called ``name`` is among the one in ``every`` that run by default."""
    return zlib.crc32(name.encode()) % every == 0


def one_in(every: int, names: Iterable[str], always: Iterable[str] = ()) -> list[Any]:
    """Parameters of a test: one case in ``every`` and those of ``always`` run by default, the others with --full."""
    kept = set(always)
    return [
        name if name in kept or is_usual(name, every) else pytest.param(name, marks=pytest.mark.full) for name in names
    ]
