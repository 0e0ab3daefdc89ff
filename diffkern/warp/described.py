"""Attributes that Warp programs read from kernels and structs, besides launching and filling them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from diffkern.process.dataclass import dataclass

__all__ = ["Argument", "Declaration", "describe_struct"]


@dataclass(frozen=True)
class Argument:
    """A parameter, as Warp programs see it.

    Attributes
    ----------
    label
        Its name.
    type
        Its type or annotation; ``Any`` where that is left open.
    """

    label: str
    type: Any


@dataclass(frozen=True)
class Declaration:
    """The attributes of a kernel's code that Warp programs read.

    Attributes
    ----------
    args
        Its parameters, in order.
    has_unresolved_static_expressions
        True if a ``static()`` was left for later when the kernel was declared, which makes Warp's names of compiled
        modules depend on the order of launches. Always False here, where the values of ``static()`` are part of the
        cache keys.
    """

    args: tuple[Argument, ...]
    has_unresolved_static_expressions: bool = False


class _OfClass:
    """An attribute that a class has and its instances do not have."""

    def __init__(self, make: Callable[[type], Any]) -> None:
        self._make = make

    def __get__(self, instance: object, owner: type) -> Any:
        # As in Warp, where instances of a struct have only its fields.
        if instance is not None:
            raise AttributeError
        return self._make(owner)


def _variables(cls: type) -> dict[str, Argument]:
    """Return the fields of a struct, as Warp programs see them."""
    return {name: Argument(name, kind) for name, kind in inspect.get_annotations(cls, eval_str=True).items()}


_OF_STRUCTS: Final[Mapping[str, Callable[[type], Any]]] = {
    "cls": lambda cls: cls,
    "key": lambda cls: cls.__name__,
    "vars": _variables,
}
"""The attributes of a struct's class that programs for Warp read."""


def describe_struct(cls: type) -> None:
    """Add to a struct's class the attributes that Warp programs read, except those with the name of a field."""
    for name, make in _OF_STRUCTS.items():
        # A field or a method of the user's takes precedence.
        if not hasattr(cls, name) and name not in inspect.get_annotations(cls):
            setattr(cls, name, _OfClass(make))
