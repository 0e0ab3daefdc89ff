"""The errors that a user can see: what went wrong, where, and what to do instead.

An error is made of a message, the source location it refers to, and a remedy. Its text shows ``file:line``, the source
line with a caret under the offending columns, and the remedy. The module imports nothing of diffkern, so that every
stage, from the frontend to the launch, can raise these.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final, Literal, TypeVar

__all__ = [
    "REPORT",
    "AutodiffError",
    "CompileError",
    "CudaError",
    "KernelError",
    "KernelRuntimeError",
    "KernelSyntaxError",
    "KernelTypeError",
    "LaunchError",
    "Loc",
    "MisuseError",
    "NonFiniteError",
    "compiling",
    "described",
    "is_of_user",
    "raise_all",
    "unexpected",
]


def described(value: object) -> str:
    """Return how a message names a value: an array by its shape and element type, without its elements."""
    if type(value) is list or type(value) is tuple:
        inside = ", ".join(map(described, value))
        return f"[{inside}]" if type(value) is list else f"({inside}{',' * (len(value) == 1)})"
    summary = getattr(type(value), "_summary", None)
    text: str = repr(value) if summary is None else summary(value)
    return text


@dataclass(frozen=True)
class Loc:
    """A span of source text in a user's file.

    Parameters
    ----------
    file : str
        Path as it is to be shown.
    line : int
        Line in that file, counted from 1.
    col : int
        Column in that line, in characters, counted from 0.
    end_line, end_col : int or None
        End of the span, the column exclusive; None where only the start is known.
    text : str
        The source line, without its newline; empty where the source is not at hand.
    """

    file: str
    line: int
    col: int
    end_line: int | None = None
    end_col: int | None = None
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def excerpt(self) -> str:
        """Return the source line and a line of carets under the span, or an empty string without source.

        A span that goes on to a later line is underlined to the end of its first line.
        """
        text = self.text.rstrip()
        if not text:
            return ""
        start = min(max(self.col, 0), len(text) - 1)
        if self.end_line is not None and self.end_line > self.line:
            end = len(text)
        else:
            end = start + 1 if self.end_col is None else self.end_col
        width = max(1, min(end, len(text)) - start)
        # Tabs before the span are repeated, so that the caret stands right at any tab width.
        padding = "".join("\t" if c == "\t" else " " for c in text[:start])
        return f"    {text}\n    {padding}{'^' * width}"


class KernelError(RuntimeError):
    """Base class of everything diffkern raises about a kernel or a launch.

    Parameters
    ----------
    message : str
        The problem, in one or two sentences.
    loc : Loc, optional
        The source location of the problem.
    remedy : str, optional
        The suggested fix.

    Attributes
    ----------
    message, loc, remedy
        As given.
    """

    def __init__(self, message: str, *, loc: Loc | None = None, remedy: str | None = None) -> None:
        self.args = (message,)  # which torch.compile follows, and not the constructors of built-in classes
        self.message = message
        self.loc = loc
        self.remedy = remedy
        self._parts: tuple[KernelError, ...] = ()

    @property
    def errors(self) -> tuple[KernelError, ...]:
        """The single errors; ``(self,)`` unless several are reported together."""
        return self._parts or (self,)

    def __str__(self) -> str:
        head = self.message if self.loc is None else f"{self.loc}: {self.message}"
        lines = [head]
        if self.loc is not None and (excerpt := self.loc.excerpt()):
            lines.append(excerpt)
        if self.remedy:
            lines.append(f"help: {self.remedy}")
        # Several errors of one kernel are shown together, each with its line.
        lines.extend(f"\n{part}" for part in self._parts)
        return "\n".join(lines)


class KernelSyntaxError(KernelError):
    """The kernel's source uses something that the kernel language does not have."""


class KernelTypeError(KernelError, TypeError):
    """The types in a kernel, or those of its arguments, do not fit together."""


class AutodiffError(KernelError):
    """The kernel cannot be differentiated with a guarantee that the result is right."""

    in_log: Literal["calls", "loads"] | None = None
    """The log of the launch that would hold the missing values, be they results of atomic updates or loads."""
    is_race = False
    """True if only a launch can show that no two threads race, by stamping elements with their readers and writers."""


class LaunchError(KernelError, TypeError, ValueError):
    """A launch's arguments do not fit the kernel; nothing was launched."""


class MisuseError(LaunchError):
    """The decorated or launched object is not a function or kernel, or an option of it does not exist."""


class KernelRuntimeError(LaunchError):
    """A debug program found an error while it ran; other threads did run, so arrays may have changed."""


class NonFiniteError(KernelRuntimeError):
    """A number became infinite or NaN in a program that looks for it: under ``dk.detect_anomaly()``, ``mode="finite"``.

    Attributes
    ----------
    kernel : str
        The kernel.
    is_adjoint : bool
        Whether it was in the kernel's adjoint.
    thread : tuple of int
        The thread's index.
    text : str
        What became what: a variable, an element or a component, and ``becomes nan`` or ``becomes infinite``.
    """

    def __init__(
        self,
        message: str,
        *,
        loc: Loc | None = None,
        remedy: str | None = None,
        kernel: str = "",
        is_adjoint: bool = False,
        thread: tuple[int, ...] = (),
        text: str = "",
    ) -> None:
        super().__init__(message, loc=loc, remedy=remedy)
        self.kernel = kernel
        self.is_adjoint = is_adjoint
        self.thread = thread
        self.text = text


class CompileError(KernelError):
    """The generated source could not be turned into object code."""


class CudaError(KernelError):
    """The CUDA driver reported an error.

    Attributes
    ----------
    call : str
        The driver's function that reported it.
    code : int
        The driver's number of the error.
    """

    def __init__(self, message: str, *, remedy: str | None = None, call: str = "", code: int = 0) -> None:
        super().__init__(message, remedy=remedy)
        self.call = call
        self.code = code

    def under(self, title: str) -> CudaError:
        """Return the same error with what was being done before its message."""
        return CudaError(f"{title}: {self.message}", remedy=self.remedy, call=self.call, code=self.code)


@contextlib.contextmanager
def compiling(name: str, loc: Loc | None = None) -> Iterator[None]:
    """Let nothing but errors of this family out of the compiler.

    Whatever else is raised in it is an error in diffkern, or a program deeper than Python's limit of recursion.
    """
    try:
        yield
    except (KernelError, MemoryError):
        raise
    except RecursionError as error:
        raise CompileError(
            f"the program of {name} is nested deeper than Python's limit of recursion allows",
            loc=loc,
            remedy="make parts of it functions with fewer branches and loops inside one another",
        ) from error
    except Warning:  # the user wants warnings as errors
        raise
    except Exception as error:
        if is_of_user(error):
            raise
        raise unexpected(CompileError, error, f"compiled {name}", loc) from error


REPORT: Final = "this is an error in diffkern: please report it together with the kernel"
"""The remedy of unforeseen errors."""

_Error = TypeVar("_Error", bound=KernelError)


_PLACE: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_LIBRARIES: Final = frozenset({"jax", "jaxlib", "llvmlite", "numba", "numba_cuda", "numpy", "torch"})


def is_of_user(error: BaseException) -> bool:
    """Return whether a special method of a user's class, such as ``__index__``, raised an error that diffkern caught.

    Errors of ``__getattr__`` and ``__getattribute__`` do not count: they mostly come from attributes that only diffkern
    asks for.
    """
    called: FrameType | None = None
    trace, ours = error.__traceback__, False
    while trace is not None:
        before, ours = ours, trace.tb_frame.f_code.co_filename.startswith(_PLACE)
        called = trace.tb_frame if before and not ours else None if ours else called
        trace = trace.tb_next
    if called is None:
        return False
    name, package = called.f_code.co_name, str(called.f_globals.get("__name__")).partition(".")[0]
    is_special = name.startswith("__") and name.endswith("__") and name not in ("__getattr__", "__getattribute__")
    return is_special and package not in _LIBRARIES and package not in sys.stdlib_module_names


def unexpected(kind: type[_Error], error: Exception, doing: str, loc: Loc | None = None) -> _Error:
    """Return an error of the family for an unforeseen one, to be raised from it.

    Parameters
    ----------
    kind : type
        The class of the error.
    error : Exception
        The exception that was raised.
    doing : str
        The operation that failed, with the kernel's name.
    loc : Loc, optional
        The source location of the kernel.
    """
    return kind(f"diffkern failed while it {doing} ({type(error).__name__}: {error})", loc=loc, remedy=REPORT)


def raise_all(errors: Sequence[KernelError]) -> None:
    """Raise the collected errors together; return if there are none.

    One error is raised as it is. Several become one exception of their nearest common class, with each of them in
    ``errors`` and in the text, in the order of the source. Of two that read the same only one is kept.

    Parameters
    ----------
    errors : sequence of KernelError
        The collected errors, in any order.
    """
    single = [part for error in errors for part in error.errors]
    unique = list({str(error): error for error in single}.values())
    if not unique:
        return
    if len(unique) == 1:
        raise unique[0]
    unique.sort(key=_source_order)
    together = _nearest_common_class(unique)(f"{len(unique)} errors")
    together._parts = tuple(unique)
    raise together


def _source_order(error: KernelError) -> tuple[str, int, int]:
    loc = error.loc
    return ("", 0, 0) if loc is None else (loc.file, loc.line, loc.col)


def _nearest_common_class(errors: Sequence[KernelError]) -> type[KernelError]:
    for candidate in type(errors[0]).__mro__:
        if issubclass(candidate, KernelError) and all(isinstance(error, candidate) for error in errors):
            return candidate
    return KernelError
