"""Attribution to the user's code: warnings and tracebacks that point at the caller's line, not at diffkern's.

A warning is shown for the innermost line outside of diffkern. An error that leaves a public function loses its frames
inside of diffkern, which say nothing about the user's program; an unforeseen error becomes one of diffkern's own family
on the way, and keeps the frames of its cause. ``dk.config.full_traceback`` keeps all frames.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import CodeType, FrameType, TracebackType
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar

from diffkern.errors import REPORT, CompileError, KernelError, LaunchError, Loc, MisuseError, is_of_user, unexpected

__all__ = [
    "PASSED",
    "Entrance",
    "brief",
    "compiles",
    "fail_launch",
    "frames_are_shown",
    "let_pass",
    "place_of",
    "shorten",
    "show_frames",
    "warn",
]

_PLACE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_K = TypeVar("_K")


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn on behalf of the innermost caller outside of diffkern."""
    # Found by walking: the depth differs between entry points, and decorators add frames.
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and _is_passed_by(frame.f_code.co_filename):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level if frame is not None else 2)


def _is_passed_by(filename: str) -> bool:
    """Return whether a file belongs to diffkern, or to a standard module through which diffkern calls itself."""
    return filename.startswith(_PLACE) or filename in _BETWEEN


# Wrappers and context managers of the standard library are in between frames of diffkern.
_BETWEEN = frozenset(sys.modules[name].__file__ or name for name in ("functools", "contextlib"))

_shown = os.environ.get("DIFFKERN_FULL_TRACEBACK", "").strip() not in ("", "0")


def frames_are_shown() -> bool:
    """Return whether tracebacks show diffkern's own frames."""
    return _shown


def show_frames(shown: bool) -> None:
    """Say whether tracebacks show diffkern's own frames."""
    global _shown
    _shown = shown


def shorten(error: BaseException) -> None:
    """Take the frames that an error has gone through from it, where it was caught: a bare ``raise`` then adds none."""
    trace = error.__traceback__
    if _shown or trace is None:
        return
    trace.tb_next = None  # Python 3.10 goes on with the traceback that it has, not with the error's
    error.__traceback__ = None
    if getattr(error, "remedy", None) != REPORT:  # of which the frames are to be reported
        _shorten_origins(error)


def _shorten_origins(error: BaseException) -> None:
    """Do the same for the errors in diffkern that an error comes from; what the user was handling stays."""
    while error.__cause__ is not None or error.__context__ is not None:
        # `raise ... from` inside of diffkern explains an error; its own frames are left out, those of the user's code
        # stay.
        if error.__cause__ is not None:
            error = error.__cause__
            if _is_ours(error.__traceback__):
                error.__traceback__ = _of_user(error.__traceback__)
        elif error.__context__ is not None and _is_ours(error.__context__.__traceback__):
            error.__context__ = error.__context__.__context__
        else:
            return


def _is_ours(trace: TracebackType | None) -> bool:
    """Return whether an error was caught in diffkern."""
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PLACE)


def _of_user(trace: TracebackType | None) -> TracebackType | None:
    """Return the frames outside of diffkern."""
    kept: list[TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_PLACE):
            kept.append(trace)
        trace = trace.tb_next
    made: TracebackType | None = None
    # Tracebacks are linked from the outermost frame, so the chain is built from its end.
    for one in reversed(kept):
        made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return made


def brief(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a public function: its errors about kernels come without the frames inside of it."""

    @functools.wraps(function)
    def briefly(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except KernelError as error:
            shorten(error)
            raise

    return briefly


class Entrance(AbstractContextManager[None]):
    """Around what decorators do: only errors of the family leave it, without diffkern's frames.

    Parameters
    ----------
    decorator
        The name of the decorator.
    decorated
        The decorated object.
    """

    def __init__(self, decorator: str, decorated: Any) -> None:
        self._decorator, self._decorated = decorator, decorated

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KernelError):
            shorten(error)
        # An unforeseen error in diffkern is a bug to be reported, unlike one that the user's own methods raise.
        elif isinstance(error, Exception) and not isinstance(error, PASSED) and not is_of_user(error):
            name = getattr(self._decorated, "__name__", None) or repr(self._decorated)
            made = unexpected(MisuseError, error, f"took {name} for {self._decorator}", place_of(self._decorated))
            raise made from error


PASSED: Final = (MemoryError, Warning)
"""Exceptions that pass every boundary unchanged: lack of memory, and warnings that the user turned into errors."""


def let_pass(error: BaseException) -> BaseException:
    """Return an error of earlier work, which goes through the boundaries of a launch as it is."""
    vars(error)[_OF_EARLIER_WORK] = True
    return error


_OF_EARLIER_WORK: Final = "_diffkern_of_earlier_work"


def fail_launch(kernel: Any, error: Exception) -> NoReturn:
    """Raise what a launch raises for an unforeseen error, or the error if it is of earlier work or a user's method."""
    # An asynchronous failure shows up in a later launch, which must not be blamed for it.
    if _OF_EARLIER_WORK in vars(error) or is_of_user(error):
        raise error
    name = getattr(kernel, "name", None) or repr(kernel)
    raise unexpected(LaunchError, error, f"launched {name}", place_of(getattr(kernel, "func", None))) from error


def compiles(function: Callable[Concatenate[_K, _P], _R]) -> Callable[Concatenate[_K, _P], _R]:
    """Decorate a public function of a kernel that compiles it: only errors of the family leave it, without frames."""

    @functools.wraps(function)
    def briefly(kernel: _K, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            # The outer `try` shortens errors of both kinds, those that are raised in the inner one among them.
            try:
                return function(kernel, *args, **kwargs)
            except (KernelError, *PASSED):
                raise
            except Exception as error:
                if is_of_user(error):
                    raise
                # Wrong arguments of a public method are the caller's mistake, and no bug.
                if isinstance(error, TypeError) and _was_not_entered(error):
                    raise _wrong_call(function, kernel, error, kwargs) from None
                of = kernel[0] if isinstance(kernel, tuple) and kernel else kernel
                name = getattr(of, "name", None) or repr(of)
                place = place_of(getattr(of, "func", None))
                raise unexpected(CompileError, error, f"compiled {name}", place) from error
        except KernelError as error:
            shorten(error)
            raise

    return briefly


def _was_not_entered(error: Exception) -> bool:
    """Return whether a call failed before the function began, because its arguments do not fit the signature."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def _wrong_call(function: Callable[..., Any], of: Any, error: Exception, keywords: Iterable[str]) -> MisuseError:
    """The error for arguments that a method does not have: which ones it has."""
    parameters = [*inspect.signature(function).parameters.values()][1:]
    names = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    unknown = [repr(name) for name in keywords if name not in names]
    if not unknown:
        return MisuseError(str(error), remedy=f"its parameters are {', '.join(map(str, parameters))}")
    known = f"it has {', '.join(names)}" if names else "it has none"
    beside = f"adjoint_{function.__name__}"
    is_beside = unknown == ["'adjoint'"] and hasattr(of, beside)
    return MisuseError(
        f"{function.__name__} has no keyword argument {', '.join(unknown)}; {known}",
        remedy=f"write {beside}(...)" if is_beside else "take one of these names, or leave it out",
    )


def place_of(function: Any) -> Loc | None:
    """Return where a function stands, None if it is no function written in Python."""
    code = getattr(function, "__code__", None)
    return Loc(code.co_filename, code.co_firstlineno, 0) if isinstance(code, CodeType) else None
