"""``@dk.func``: a Python function that kernels may call.

In: a plain function. Out: a :class:`Func`, which the frontend inlines at each call in a kernel and which is still an
ordinary function when called on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from diffkern.errors import MisuseError
from diffkern.lang.called import Called, Form, KnownToNumba
from diffkern.lang.imported import ByPath
from diffkern.lang.text import take_text

__all__ = ["Func", "check_function", "constant", "func", "function_of_dispatcher"]


def check_function(obj: Any, decorator: str) -> None:
    """Refuse to decorate what is no function written in Python.

    Raises
    ------
    MisuseError
        With what to decorate instead.
    """
    if isinstance(obj, FunctionType):
        return
    remedy = "decorate a function made with def"
    if isinstance(obj, MethodType):
        remedy = "write it as a function outside of the class, and pass what it needs as arguments"
    elif isinstance(getattr(obj, "py_func", None), FunctionType):
        remedy = "decorate the Python function itself, which is its attribute py_func"
    raise MisuseError(f"{decorator} decorates a Python function, not {obj!r}", remedy=remedy)


def function_of_dispatcher(obj: Any) -> FunctionType | None:
    """Return the Python function that an object compiled by numba, or for its simulator, was made of; else None."""
    if type(obj).__module__.partition(".")[0] not in ("numba", "numba_cuda"):
        return None
    found = getattr(obj, "py_func", None) or getattr(obj, "fn", None)
    return found if isinstance(found, FunctionType) else None


class Func(ByPath, KnownToNumba):
    """A function for use in kernels.

    Attributes
    ----------
    pyfunc
        The Python function.
    """

    def __init__(self, pyfunc: Callable[..., Any]) -> None:
        check_function(pyfunc, "@dk.func")
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

    @functools.cached_property
    def grad(self) -> Called:
        """The partial derivatives: ``f.grad(x, y)`` is ``(df/dx, df/dy)``.

        One for each floating-point argument by value, in order; the bare number, not a tuple, where there is one. The
        func returns one floating-point number. It is called from Python, and from functions that numba compiles.
        """
        return Called(self, self.pyfunc, Form.GRAD, "The partial derivatives with respect to the arguments by value.")

    @functools.cached_property
    def vjp(self) -> Called:
        """The value and the derivatives weighted by cotangents: ``f.vjp(x, y, ct)`` is ``(f(x, y), (ct_x, ct_y))``.

        The last arguments are a cotangent for each floating-point result; 1.0 gives the value with its gradient.
        """
        return Called(self, self.pyfunc, Form.VJP, "The value, and the cotangents of the arguments by value.")

    def _function(self) -> Callable[..., Any]:
        return self.pyfunc

    def __repr__(self) -> str:
        return f"<dk.func {self.name}>"


def func(pyfunc: Callable[..., Any]) -> Func:
    """Make a function callable from kernels. It is inlined there; it may call other such functions, but not itself.

    A function that numba compiles, for the CPU or as a device function, is taken as the Python function it was made of.
    """
    if isinstance(pyfunc, Func):
        return pyfunc
    return Func(function_of_dispatcher(pyfunc) or pyfunc)


def constant(value: Any) -> Any:
    """Return the value; it marks a global that kernels read as a constant."""
    return value
