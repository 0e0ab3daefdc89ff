"""Whose line it is: warnings and tracebacks that point at the user's code, not at diffkern's.

In: a warning, or an error on its way out of a public function. Out: the warning is shown for the innermost line outside
of diffkern; the error goes on without the frames between that function and the place where it was raised, which say
nothing about the user's program. With the environment variable DIFFKERN_FULL_TRACEBACK=1 all frames stay.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

from diffkern.errors import KernelError

__all__ = ["brief", "shortened", "warn"]

_PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn on behalf of the innermost caller outside of diffkern."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and _is_passed_by(frame.f_code.co_filename):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level if frame is not None else 2)


def _is_passed_by(filename: str) -> bool:
    """Whether a file is diffkern's, or one of the standard library's through which diffkern calls itself."""
    return filename.startswith(_PLACE) or filename in _BETWEEN


_BETWEEN = frozenset(sys.modules[name].__file__ or name for name in ("functools", "contextlib"))


def shortened(error: KernelError) -> KernelError:
    """Return an error without the frames that it has gone through, to be raised where it was caught."""
    if os.environ.get("DIFFKERN_FULL_TRACEBACK", "0") in ("", "0"):
        error.__traceback__ = None
    return error


def brief(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a public function: its errors about kernels come without the frames inside of it."""

    @functools.wraps(function)
    def briefly(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except KernelError as error:
            raise shortened(error)  # noqa: B904 - the same error

    return briefly
