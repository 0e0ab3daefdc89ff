"""Where the choices of a random program come from: a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Choices"]

T = TypeVar("T")


class Choices:
    """Random choices that are the same for the same seed, on every machine and Python.

    Parameters
    ----------
    seed
        Any number.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, n: int) -> int:
        """A number from 0 to n-1."""
        return int(self._random.random() * n)

    def chance(self, percent: int) -> bool:
        """True as often as that."""
        return self.below(100) < percent

    def pick(self, items: Sequence[T]) -> T:
        """One of several."""
        return items[self.below(len(items))]

    def some(self, items: Sequence[T], most: int) -> list[T]:
        """Up to `most` different ones, in their order."""
        chosen = {self.below(len(items)) for _ in range(most)}
        return [items[k] for k in sorted(chosen)]
