"""Parameters of funcs that stand for variables of the caller: ``wp.ref[float]`` in Warp's dialect.

A type in brackets gives an annotation. A value that a func assigns to such a parameter is, when the call returns, the
value of the caller's variable, element, component or field.
"""

from __future__ import annotations

from typing import Any

from diffkern.lang.annotations import ArrayAnnotation

__all__ = ["Reference", "ref"]


class Reference:
    """The annotation of a parameter that stands for a variable of the caller.

    Attributes
    ----------
    dtype
        The variable's type.
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    @property
    def value_type(self) -> Any:
        """The variable's type."""
        return self.dtype

    @property
    def is_changed(self) -> bool:
        """True if the caller's variable may have another value after a call. An array's elements may change without
        that.
        """
        return not isinstance(self.dtype, ArrayAnnotation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((Reference, self.dtype))

    def __repr__(self) -> str:
        return f"wp.ref[{getattr(self.dtype, '__name__', self.dtype)}]"


class ref:
    """Makes such annotations: ``wp.ref[wp.float32]``."""

    def __class_getitem__(cls, dtype: Any) -> Reference:
        return Reference(dtype)

    def __new__(cls, *args: Any) -> Any:
        raise TypeError("wp.ref is for annotations: write wp.ref[type]")
