"""The names that library functions are written with: the kernel language without ``diffkern`` itself.

A name is looked up as a type over the scalar type of a call (:mod:`diffkern.lang.generic`), as a built-in function, and
as a public name of the language, in this order.
"""

from __future__ import annotations

from typing import Any, Final

from diffkern.lang import COMPOSITES, public_names
from diffkern.lang.generic import CASTS, CHOICES, GENERICS
from diffkern.lang.intrinsics import INTERNAL, INTRINSICS
from diffkern.lang.textures import HANDLES

__all__: list[str] = []

_NAMES: Final[dict[str, Any]] = {
    **public_names(), **COMPOSITES, **INTRINSICS, **INTERNAL, **GENERICS, **CASTS, **CHOICES, **HANDLES,
}  # fmt: skip


def __getattr__(name: str) -> Any:
    try:
        return _NAMES[name]
    except KeyError:
        raise AttributeError(f"the kernel language has no {name!r}") from None
