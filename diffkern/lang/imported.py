"""Objects that stand for a function of a module: they are pickled by their import path, as functions are.

Pickling such an object gives the import path of the function it was made of, or an error if that path leads to another
object. Copying and deep copying return the object itself.
"""

from __future__ import annotations

import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

__all__ = ["ByPath", "is_found"]


class ByPath(ABC):
    """A base class of objects that are pickled by import path. A subclass names the function."""

    __slots__ = ()

    @abstractmethod
    def _function(self) -> Callable[..., Any]: ...

    def __reduce_ex__(self, protocol: Any) -> Any:
        function = self._function()
        # Checked when it is pickled: unpickling in another process would silently return something else.
        if not is_found(self, function):
            raise pickle.PicklingError(
                f"{self!r} cannot be pickled: that keeps its import path, and {function.__module__}."
                f"{function.__qualname__} is not found or is something else; define it at the top level of a module"
            )
        return function.__qualname__

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def is_found(obj: object, function: Callable[..., Any]) -> bool:
    """Return whether the import path of a function leads to this object."""
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is obj
