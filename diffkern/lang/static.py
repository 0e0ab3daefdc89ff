"""``dk.static``: expressions of a kernel that Python evaluates, once, at the definition of the kernel.

The results of a function's static expressions are kept with the function, in the order of their position in its source.
The module that loads the frontend sets the function that finds and evaluates them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

from diffkern.process.late import OUTLINE

__all__ = ["keep_results", "kept_results", "resolve_static", "static"]

_RESULTS: Final = "__diffkern_static__"


def static(value: Any) -> Any:
    """Let Python evaluate an expression of a kernel, at the definition of the kernel; the result replaces it.

    The expression may use any name that Python sees there, and the variables of loops whose bounds are constants: such
    a loop is unrolled. For ``if dk.static(condition):`` only the branch that is taken is compiled. Called from Python
    it returns its argument.

    Parameters
    ----------
    value
        The expression. Its value is a number, a bool, a string (to be compared), a vector, matrix or struct, a tuple
        of these, a range (the tuple of its numbers: a loop over it is unrolled), a function that kernels may call, or
        a type.

    Returns
    -------
    value

    Examples
    --------
    >>> widths = {"narrow": 3, "wide": 5}
    >>> @dk.kernel
    ... def smooth(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    ...     i = dk.tid()
    ...     s = 0.0
    ...     for k in range(dk.static(widths["wide"])):
    ...         s += dk.static(0.5**k) * x[i + k]  # unrolled: each trip has its own weight
    ...     y[i] = s
    """
    return value


def resolve_static(pyfunc: Callable[..., Any]) -> None:
    """Evaluate the static expressions of a function that is being decorated; does nothing if it can have none.

    Raises
    ------
    KernelError
        If one cannot be evaluated, or the function's source is not found.
    """
    code = pyfunc.__code__
    # Asked of the code object, which costs nothing: finding static expressions needs the source, and most kernels have
    # none. A user may have imported `static` under another name, which the globals tell.
    names = {*code.co_names, *code.co_freevars}
    if static.__name__ in names or any(pyfunc.__globals__.get(name) is static for name in code.co_names):
        OUTLINE(pyfunc)


def keep_results(pyfunc: Callable[..., Any], results: list[Any]) -> None:
    """Keep the results of a function's static expressions."""
    pyfunc.__dict__[_RESULTS] = weakref.ref(pyfunc), pyfunc.__code__, results


def kept_results(pyfunc: Callable[..., Any]) -> list[Any] | None:
    """Return the results of a function's static expressions; None if they have not been evaluated."""
    of, code, results = pyfunc.__dict__.get(_RESULTS, (None, None, None))
    # What functools.wraps makes has the attributes of another function, and a function may be given another one's code.
    found: list[Any] | None = results if of is not None and of() is pyfunc and code is pyfunc.__code__ else None
    return found
