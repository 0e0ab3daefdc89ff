"""Built-in functions and derivatives as funcs, and what makes derivatives of funcs.

Given a built-in, or a derivative of a derivative, these functions return a func of the same parameters whose body is
one call of it. The rest of the compiler then handles funcs only.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Sequence
from typing import Any, Final

from diffkern.errors import MisuseError
from diffkern.lang.called import Called, RequestedForm
from diffkern.lang.dialects import NATIVE, Dialect, dialect_of
from diffkern.lang.func import Func
from diffkern.lang.intrinsics import Intrinsic
from diffkern.lang.library import Composed

__all__ = ["FuncTransformation", "as_func", "calling"]


@functools.cache
def as_func(built_in: Composed | Intrinsic, dialect: Dialect = NATIVE) -> Func:
    """Return the func that calls a built-in.

    Parameters
    ----------
    built_in : Composed or Intrinsic
        The built-in, which takes and gives numbers, vectors and matrices.
    dialect : Dialect
        The rules under which it is called.

    Raises
    ------
    MisuseError
        For one without parameters.
    """
    # The signature is text for people: brackets mark optional parameters, dots repeated ones, which a func cannot have.
    parts = [part.strip(" []") for part in built_in.signature.split(",") if "..." not in part]
    names = [part.partition("=")[0] for part in parts if part]
    if not names:
        raise MisuseError(f"dk.{built_in.name} has no parameters", remedy="name a function of floats")
    return _written(built_in.name, parts, names, built_in, f"<dk.{built_in.name} in {dialect.name}>", dialect)


def calling(derivative: Called, count: int) -> Func:
    """Return the func of so many parameters that calls a derivative."""
    found: Func | None = derivative.funcs.get(count)
    if found is None:
        names = [f"x{k}" for k in range(count)]
        name = derivative.name.replace(".", "_")
        # The name of the file must be unique among derivatives: linecache would return the text of another one.
        file = f"<{derivative.name} of {count} arguments, {id(derivative)}>"
        found = _written(name, names, names, derivative, file, dialect_of(derivative.pyfunc))
        derivative.funcs[count] = found
    return found


def _written(name: str, parts: Sequence[str], names: Sequence[str], called: Any, file: str, dialect: Dialect) -> Func:
    text = f"def {name}({', '.join(parts)}):\n    return called({', '.join(names)})\n"
    # The frontend reads source, so generated functions need a text that linecache finds. An entry without a time of
    # modification is never considered stale.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"called": called, "__name__": __name__}
    exec(compile(text, file, "exec"), space)
    return Func(space[name], dialect)


# -- derivatives of funcs ----------------------------------------------------------------------------------------------


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
