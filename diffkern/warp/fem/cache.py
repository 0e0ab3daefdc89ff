"""``wp.fem.cache``: kernels and funcs made by factories, one for each suffix.

The same function with the same suffix gives the kernel or func that was made first, so calling the factory again
compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from diffkern.errors import MisuseError
from diffkern.warp.declare import Kernel, func
from diffkern.warp.modules import Module

__all__ = ["dynamic_func", "dynamic_kernel"]

_made: Final[dict[Any, Any]] = {}


def _key(function: Callable[..., Any], suffix: Any, options: Mapping[str, Any], by_types: bool) -> Any:
    """Return the dictionary key of a variant of a function."""
    # By text: annotations of a factory are new objects at each call.
    types = tuple(map(repr, function.__annotations__.values())) if by_types else ()
    return function.__module__, function.__qualname__, repr(suffix), repr(sorted(options.items())), types


def dynamic_func(
    suffix: Any, code_transformers: Sequence[Any] | None = None, allow_overloads: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that makes a func of a function in a factory, once for each suffix.

    Parameters
    ----------
    suffix
        What tells variants apart.
    code_transformers : sequence, optional
        Accepted where it is empty.
    allow_overloads : bool, optional
        Whether annotations tell them apart as well.
    """
    if code_transformers:
        raise MisuseError("a func is made of a function as it is written", remedy="leave out code_transformers")

    def decorate(function: Callable[..., Any]) -> Any:
        key = "func", *_key(function, suffix, {}, allow_overloads)
        if key not in _made:
            _made[key] = func(function)
        return _made[key]

    return decorate


def dynamic_kernel(
    suffix: Any, kernel_options: Mapping[str, Any] | None = None, allow_overloads: bool = False
) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that makes a kernel of a function in a factory, once for each suffix.

    Parameters
    ----------
    suffix
        What tells variants apart.
    kernel_options : mapping, optional
        Options of the kernel.
    allow_overloads : bool, optional
        Whether annotations tell them apart as well.
    """
    options = kernel_options or {}

    def decorate(function: Callable[..., Any]) -> Kernel:
        key = "kernel", *_key(function, suffix, options, allow_overloads)
        if key not in _made:
            # A module object of its own, so that variants of one name do not replace each other in the registered
            # module.
            _made[key] = Kernel(function, module=Module(function.__module__), options=options)
        made: Kernel = _made[key]
        return made

    return decorate
