"""``@wp.func_native``: functions whose bodies are text in C++, which no kernel here calls.

A module that defines some of them can be imported; a kernel that calls one is refused where it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from diffkern.errors import MisuseError

__all__ = ["NativeFunction", "func_native"]


class NativeFunction:
    """A function whose body is text in C++.

    Attributes
    ----------
    refused_in_kernels
        What is wrong with a call in a kernel, and what to write instead.
    """

    refused_in_kernels = (
        "has a body in C++, which is not compiled here",
        "write it in Python, as a function decorated with @wp.func",
    )

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any) -> NoReturn:
        raise MisuseError(
            f"the body of {self.__name__} is text in C++, which is not compiled here",
            remedy="write it in Python, as a function decorated with @wp.func",
        )


def func_native(
    snippet: str, adj_snippet: str | None = None, replay_snippet: str | None = None
) -> Callable[[Callable[..., Any]], NativeFunction]:
    """Take a function with a body in C++, which cannot be called.

    Parameters
    ----------
    snippet, adj_snippet, replay_snippet : str
        Texts in C++, which are not compiled.

    Returns
    -------
    callable
        The decorator.
    """
    return NativeFunction
