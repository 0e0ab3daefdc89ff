"""Facts about a text, remembered for processes that see the same text again.

:meth:`RememberedResults.keep` stores bytes under the digest of a file's text and a name; :meth:`RememberedResults.find`
returns them, in this process or a later one. The module that loads the run time sets the storage; without it nothing is
remembered.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["RememberedResults", "memory", "set_memory"]


class RememberedResults(Protocol):
    """The storage. Entries that are damaged or missing are not found."""

    def find(self, text: bytes, name: bytes) -> bytes | None:
        """Return the bytes kept under a name for a text."""

    def keep(self, text: bytes, name: bytes, found: bytes) -> None:
        """Keep bytes under a name for a text."""


class _Nothing:
    def find(self, text: bytes, name: bytes) -> bytes | None:
        return None

    def keep(self, text: bytes, name: bytes, found: bytes) -> None:
        pass


_memory: RememberedResults = _Nothing()


def set_memory(memory: RememberedResults) -> None:
    """Set the storage."""
    global _memory
    _memory = memory


def memory() -> RememberedResults:
    """Return the storage."""
    return _memory
