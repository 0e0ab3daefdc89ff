"""Variable names of generated source: the user's where possible, valid, and never two live values under one name."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable


class Names:
    """Allocates names. Names taken inside a ``scope`` can be reused after it."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._reserved = frozenset(reserved) | frozenset(keyword.kwlist)
        self._taken: list[tuple[str, str]] = []  # (base, name) in the order in which they were given out
        self._live: set[str] = set()
        self._next: dict[str, int] = {}  # base → the first number not known to be taken

    def taken(self) -> int:
        """Return a mark for :meth:`release`."""
        return len(self._taken)

    def release(self, mark: int) -> None:
        """Release all names taken since the mark."""
        for base, name in self._taken[mark:]:
            self._live.discard(name)
            # The numbers are searched from the start again, as some of them are free now.
            self._next[base] = 0
        del self._taken[mark:]

    def fresh(self, hint: str) -> str:
        """Return a name like ``hint`` that is not in use."""
        base = re.sub(r"\W", "_", hint) or "t"
        if base[0].isdigit():
            base = f"t{base}"
        n = self._next.get(base, 0)
        name = f"{base}_{n}" if n else base
        while name in self._reserved or name in self._live:
            n += 1
            name = f"{base}_{n}"
        self._next[base] = n + 1
        self._live.add(name)
        self._taken.append((base, name))
        return name
