"""Objects that are neither pickled nor copied."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Uncopied"]


class Uncopied:
    """An object that belongs to this process: it holds addresses or stands for pending work."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        name = type(self).__name__.removeprefix("Cuda")
        raise TypeError(
            f"a dk.{name} can be neither pickled nor copied: it belongs to this process and to what it was made with; "
            "make another one where it is needed"
        )
