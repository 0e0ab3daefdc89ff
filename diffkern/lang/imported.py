"""Objects that stand for a function of a module: they are pickled by where they are imported from, as functions are.

In: an object and the function it was made of. Out: its import path, or an error where that leads to something else. In
copies of what refers to it, it is itself.
"""

from __future__ import annotations

import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

__all__ = ["ByPath", "is_found"]


class ByPath(ABC):
    """What is pickled by import path. A subclass says of which function it is."""

    __slots__ = ()

    @abstractmethod
    def _function(self) -> Callable[..., Any]: ...

    def __reduce_ex__(self, protocol: Any) -> Any:
        function = self._function()
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
    """Whether an object is what the import path of a function leads to."""
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is obj
