"""Variable names of generated source: the user's where possible, valid, and never two live values under one name."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable


class Names:
    """Gives out names. Names taken inside a ``scope`` can be given out again after it."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._reserved = frozenset(reserved) | frozenset(keyword.kwlist)
        self._taken: list[str] = []

    def taken(self) -> int:
        """A mark for :meth:`release`."""
        return len(self._taken)

    def release(self, mark: int) -> None:
        """Give up all names taken since the mark."""
        del self._taken[mark:]

    def fresh(self, hint: str) -> str:
        """A name like ``hint`` that is not in use."""
        base = re.sub(r"\W", "_", hint) or "t"
        if base[0].isdigit():
            base = f"t{base}"
        name, n = base, 0
        while name in self._reserved or name in self._taken:
            n += 1
            name = f"{base}_{n}"
        self._taken.append(name)
        return name
