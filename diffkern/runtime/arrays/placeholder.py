"""The value of ``dk.array(dtype=float)``: the annotation of a parameter, and a stand-in for no array.

It counts as an array without elements, as programs for Warp begin with: for ``isinstance``, in a field of a struct,
and as an argument of a launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from diffkern.ir.structs import Stored
from diffkern.ir.types import FLOAT32
from diffkern.lang.annotations import ArrayAnnotation, array_annotation
from diffkern.process.late import ARRAY
from diffkern.runtime.arrays.convert import component_shape, stored_type

__all__ = ["Placeholder"]


class Placeholder(ArrayAnnotation):
    """The annotation that is made without data; programs may add attributes to it.

    Attributes
    ----------
    shape
        The extents of an array that has no elements; a program may store anything else here.
    """

    device: ClassVar[None] = None
    grad: ClassVar[None] = None
    ptr: ClassVar[None] = None
    requires_grad: ClassVar[bool] = False
    size: ClassVar[int] = 0
    shape: tuple[Any, ...]

    @classmethod
    def of(cls, dtype: Any, ndim: int) -> Placeholder:
        """Return the placeholder of an element type, or of any."""
        return cls.like(array_annotation(dtype, ndim))

    @classmethod
    def like(cls, annotation: ArrayAnnotation) -> Placeholder:
        """Return the placeholder of an annotation's element type and number of axes."""
        made = cls(annotation.element, annotation.ndim, annotation.kinds)
        made.shape = (0,) * annotation.ndim
        return made

    __class__ = property(lambda self: ARRAY.value)  # for isinstance

    def __len__(self) -> int:
        return 0

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a NumPy array without elements."""
        element: Stored = FLOAT32 if self.element is None else self.element
        return np.zeros((0,) * self.ndim + component_shape(element), stored_type(element))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        return Placeholder, (self.element, self.ndim, self.kinds), vars(self)
