"""The arguments of a launch for an array that is indexed through index arrays: its leaves and its type.

The base of :class:`diffkern.transforms.indexed.indexedarray`: an array, and for each axis an array of int32 or None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diffkern.errors import described
from diffkern.ir.structs import IndexedArray
from diffkern.ir.types import Array
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.componentwise import Componentwise
from diffkern.runtime.arrays.type_keys import is_long, key_of_long, register_type

__all__ = ["SeenThrough"]


class SeenThrough(Componentwise):
    """An array and its index arrays.

    Attributes
    ----------
    data : array
        The array.
    indices : tuple
        For each axis an array of int32, or None.
    """

    data: array
    indices: tuple[array | None, ...]

    if TYPE_CHECKING:

        def contiguous(self) -> array: ...
        def assign(self, src: Any) -> None: ...

    @property
    def in_warps_dialect(self) -> bool:
        """True if the array was made by names of :mod:`diffkern.warp`."""
        return self.data.in_warps_dialect

    @property
    def passed(self) -> tuple[str, list[array]]:
        """The key of its type in a launch, and the arrays that are passed for it.

        Raises
        ------
        TypeError
            If the elements are structs.
        """
        t = self.data._type
        if not isinstance(t, Array):
            raise TypeError(
                f"an indexed array of structs, {described(self)}, is not passed to kernels; pass .contiguous()"
            )
        arrays = [self.data, *(index for index in self.indices if index is not None)]
        # The layouts are part of the type: a kernel loads indices differently for contiguous and strided index arrays.
        layouts = tuple("" if index is None else index._type.layout for index in self.indices)
        key = register_type(IndexedArray(t.dtype, t.ndim, t.layout, layouts))
        key = key_of_long(key) if any(is_long(held._key) for held in arrays) else key
        return self.data._memory.device.keyed(key), arrays
