"""Descriptors of the objects that kernels know by ids: hash grids, trees, meshes, textures.

An id holds the address of its descriptor and the kind of the object; the first word of a descriptor is its own id.
"""

from __future__ import annotations

from diffkern.lang.func import func
from diffkern.lang.queries import ADDRESS_BITS, KIND_BIT
from diffkern.library.language import peek_uint64, uint64

__all__: list[str] = []

_PLACE = (1 << ADDRESS_BITS) - 1


@func
def descriptor_of(id, kind):  # type: ignore[no-untyped-def]
    """Return the address of the descriptor of an object of a kind; 0 if the id is not that of one."""
    place = id & uint64(_PLACE)
    known = place != uint64(0) and (id >> uint64(KIND_BIT)) == uint64(kind)
    if known:
        # The descriptor of an object that is gone does not hold the id any more.
        known = peek_uint64(place, 0) == id
    return place if known else uint64(0)
