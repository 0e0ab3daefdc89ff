"""What was found out about a text, remembered for processes that see the same text again.

In: the digest of a file's text, a name for what was found out, and bytes. Out: these bytes, in this process or a later
one. Whoever loads the run time says where they are kept; without that they are not.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Memory", "memory", "set_memory"]


class Memory(Protocol):
    """Where it is kept; what is damaged, or was not kept, is not found."""

    def find(self, text: bytes, name: bytes) -> bytes | None:
        """Return what was kept under a name for a text."""

    def keep(self, text: bytes, name: bytes, found: bytes) -> None:
        """Keep something under a name for a text."""


class _Nothing:
    def find(self, text: bytes, name: bytes) -> bytes | None:
        return None

    def keep(self, text: bytes, name: bytes, found: bytes) -> None:
        pass


_memory: Memory = _Nothing()


def set_memory(memory: Memory) -> None:
    """Say where it is kept."""
    global _memory
    _memory = memory


def memory() -> Memory:
    """Return where it is kept."""
    return _memory
