"""Alternatives in type hints: ``dk.float32 | None``, ``dk.array[float] | None``.

Annotations that are instances, not classes, lack the operator ``|``, which Python gives to classes only. This base
class adds it; the result is a ``typing.Union``.
"""

from __future__ import annotations

from typing import Any, Union

__all__ = ["Alternative"]


class Alternative:
    """An object that may be one of several types in a hint."""

    __slots__ = ()

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007 - classes alone have the operator

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007
