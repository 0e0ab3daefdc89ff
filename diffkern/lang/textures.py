"""Textures as kernels see them: structs with an id and sizes, and how the first word of a descriptor is composed.

The host's classes are in :mod:`diffkern.spatial.texture`, the sampling in :mod:`diffkern.library.textures`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from diffkern.ir.structs import Struct
from diffkern.ir.types import INT32, UINT64
from diffkern.lang.structs import DEFINITION, Definition

__all__ = [
    "HANDLES", "LEVELS_BIT", "MOST_LEVELS", "NORMALIZED_BIT", "STRUCTS", "WHOLE_MIPS_BIT", "TextureAddressMode",
    "TextureFilterMode", "options",
]  # fmt: skip


class TextureAddressMode(enum.IntEnum):
    """The value of a texture outside of its extent."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


class TextureFilterMode(enum.IntEnum):
    """The interpolation of a texture."""

    CLOSEST = 0
    LINEAR = 1


STRUCTS: Final[Mapping[int, Struct]] = {
    n: Struct(f"Texture{n}D", (("id", UINT64), *((name, INT32) for name in ("width", "height", "depth")[:n])))
    for n in (1, 2, 3)
}
"""By the number of axes, what a kernel has of a texture."""

HANDLES: Final[Mapping[str, type]] = {
    struct.name: type(struct.name, (), {DEFINITION: Definition(struct, {})}) for struct in STRUCTS.values()
}
"""Annotations of library functions for textures, by name: the host's classes are in a later layer."""

LEVELS_BIT: Final = 8
"""The position of the number of mip levels among the options; two bits for each axis's address mode are below, and
the filter in bit 6."""
NORMALIZED_BIT: Final = 16
"""Set where coordinates go from 0 to 1."""
WHOLE_MIPS_BIT: Final = 17
"""Set where the nearest mip level is taken as it is."""
MOST_LEVELS: Final = 16
"""The mip levels that a texture may have."""


def options(modes: tuple[int, int, int], is_linear: bool, levels: int, is_normalized: bool, blends_levels: bool) -> int:
    """Return the word that says how a texture is sampled."""
    word = modes[0] | modes[1] << 2 | modes[2] << 4 | is_linear << 6 | levels << LEVELS_BIT
    return word | is_normalized << NORMALIZED_BIT | (not blends_levels) << WHOLE_MIPS_BIT
