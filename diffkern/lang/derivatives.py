"""The class of ``dk.grad``, ``dk.vjp`` and ``dk.jvp``, which make derivatives of funcs, in kernels and from Python."""

from __future__ import annotations

from typing import Final

from diffkern.errors import MisuseError
from diffkern.lang.called import Called, RequestedForm
from diffkern.lang.func import Func
from diffkern.lang.functions import as_func
from diffkern.lang.intrinsics import Intrinsic
from diffkern.lang.library import Composed

__all__ = ["FuncTransformation"]


class FuncTransformation:
    """Makes a derivative of a func.

    Attributes
    ----------
    form
        Which derivative.
    """

    def __init__(self, form: RequestedForm, doc: str) -> None:
        self.form: Final = form
        self.__name__ = form.value
        self.__doc__ = doc

    def __call__(self, function: Func | Composed | Intrinsic | Called) -> Called:
        """Return the derivative of a func, a built-in, or a derivative."""
        # A built-in has no attribute `grad`; the func that calls it has.
        if isinstance(function, (Composed, Intrinsic)):
            function = as_func(function)
        if not isinstance(function, (Func, Called)):
            raise MisuseError(
                f"dk.{self.__name__} takes a func or a built-in, not {function!r}",
                remedy="decorate the function with @dk.func",
            )
        made: Called = getattr(function, self.form.value)
        return made

    def __repr__(self) -> str:
        return f"<dk.{self.__name__}>"

    def __reduce__(self) -> str:
        return self.__name__
