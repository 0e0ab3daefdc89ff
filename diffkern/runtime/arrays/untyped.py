"""Arrays whose element type is chosen by the parameter they are passed to.

An array over another library's memory, as Warp's ``from_torch(return_ctype=True)`` makes it, becomes an array with the
elements and axes that a parameter takes.
"""

from __future__ import annotations

from typing import Any

from diffkern.ir.types import Scalar
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.create import empty
from diffkern.runtime.arrays.foreign import adopt

__all__ = ["Untyped", "untyped"]


class Untyped(array):
    """An array that parameters with other elements take too, where these are made of the same numbers."""

    __slots__ = ()

    source: Any
    """The object that owns the memory."""

    def taken_by(self, annotation: ArrayAnnotation) -> array:
        """Return the array that a parameter takes, or this one if there is none."""
        element = annotation.element
        if element is None or annotation.indexed or annotation.accepts(self._type):
            return self
        if not self.size:
            return empty((0,) * annotation.ndim, annotation.dtype, device=self.device)
        try:
            found = adopt(self.source, element)
        except (TypeError, ValueError):
            return self
        return found if found is not None and annotation.accepts(found._type) else self


def untyped(made: array, source: Any) -> array:
    """Return a new array as one whose memory parameters may interpret, where that can make a difference."""
    whole = isinstance(made._element, Scalar) and made._element.is_integer
    if type(made) is array and (made.ndim > 1 or not made.size or whole):
        made.__class__ = Untyped
        made.__dict__["source"] = source
    return made
