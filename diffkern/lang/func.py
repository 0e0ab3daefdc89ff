"""``@dk.func``: a Python function that kernels may call.

In: a plain function. Out: a :class:`Func`, which the frontend inlines at each call in a kernel and which is still an
ordinary function when called on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from diffkern.lang.imported import ByPath
from diffkern.lang.text import take_text

__all__ = ["Func", "constant", "func"]


class Func(ByPath):
    """A function for use in kernels.

    Attributes
    ----------
    pyfunc
        The Python function.
    """

    def __init__(self, pyfunc: Callable[..., Any]) -> None:
        if not callable(pyfunc) or not hasattr(pyfunc, "__code__"):
            raise TypeError(f"@dk.func decorates a Python function, not {pyfunc!r}")
        take_text(pyfunc)
        self.pyfunc = pyfunc
        functools.update_wrapper(self, pyfunc)

    @property
    def name(self) -> str:
        """The function's name."""
        return str(self.pyfunc.__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the Python function itself, on the host."""
        return self.pyfunc(*args, **kwargs)

    def _function(self) -> Callable[..., Any]:
        return self.pyfunc

    def __repr__(self) -> str:
        return f"<dk.func {self.name}>"


def func(pyfunc: Callable[..., Any]) -> Func:
    """Make a function callable from kernels. It is inlined there; it may call other such functions, but not itself."""
    return pyfunc if isinstance(pyfunc, Func) else Func(pyfunc)


def constant(value: Any) -> Any:
    """Return the value; it marks a global that kernels read as a constant."""
    return value
