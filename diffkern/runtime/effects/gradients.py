"""The gradients of what was recorded on a tape, by the arrays and structs that have them."""

from __future__ import annotations

from typing import Any

from diffkern.errors import MisuseError, described
from diffkern.lang.structs import definition_of
from diffkern.runtime.arrays.array import array

__all__ = ["Gradients", "gradient_of"]


class Gradients(dict[array, array]):
    """Gradients by array. For a struct, which is not a key, it gives a struct with the gradients of its arrays."""

    def __getitem__(self, key: Any) -> Any:
        if definition_of(type(key)) is not None:
            return gradient_of(key)
        return super().__getitem__(key)


def gradient_of(value: Any) -> Any:
    """Return the gradient of an array, None if it has none; for a struct a struct with those of its arrays.

    Raises
    ------
    MisuseError
        For anything else.
    """
    if isinstance(value, array):
        return value.grad
    definition = definition_of(type(value))
    if definition is None:
        raise MisuseError(
            f"arrays and structs of arrays have gradients, not {described(value)}",
            remedy="pass an array made with requires_grad=True",
        )
    made = type(value)()
    for name in definition.type.names:
        field = getattr(value, name)
        if isinstance(field, array) or definition_of(type(field)) is not None:
            setattr(made, name, gradient_of(field))
    return made
