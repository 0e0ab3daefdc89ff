"""Warp's loggers: the sink of the lines that ``wp.config`` asks for, and of programs' own through ``warp._src.logger``.

The default logger writes to standard output, and warnings and errors to standard error. Warnings pass the filters of
:mod:`warnings`. Messages below ``wp.config.log_level`` are dropped.
"""

from __future__ import annotations

import logging
import sys
import warnings
from types import TracebackType
from typing import Any, Final, Protocol, TextIO, runtime_checkable

from diffkern.warp import config
from diffkern.warp import config as settings

__all__ = [
    "LOG_DEBUG",
    "LOG_ERROR",
    "LOG_INFO",
    "LOG_WARNING",
    "Logger",
    "LoggerBasic",
    "ScopedLogLevel",
    "ScopedLogger",
    "get_logger",
    "log_debug",
    "log_error",
    "log_info",
    "log_warning",
    "set_logger",
]


@runtime_checkable
class Logger(Protocol):
    """The protocol of loggers: any object with these four methods."""

    def debug(self, message: str) -> None:
        """Take what is of use in search of a fault."""

    def info(self, message: str) -> None:
        """Take what is worth knowing."""

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        """Take a warning; `stacklevel` is that of :func:`warnings.warn`, called from here."""

    def error(self, message: str) -> None:
        """Take what went wrong."""


_METHODS: Final = ("debug", "info", "warning", "error")


class LoggerBasic:
    """The logger that is active at the start."""

    def debug(self, message: str) -> None:
        """Write a line to standard output."""
        print(message)

    info = debug

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        """Warn, and write what the filters let pass to standard error."""
        # The filters of the program decide; only the way in which a warning is shown differs.
        with warnings.catch_warnings():
            warnings.showwarning = _show
            warnings.warn(message, category, stacklevel=stacklevel)

    def error(self, message: str) -> None:
        """Write a line to standard error."""
        print(f"diffkern error: {message}", file=sys.stderr)


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    place = f" ({filename}:{lineno})" if vars(settings)["verbose_warnings"] else ""
    print(f"diffkern {category.__name__}: {message}{place}", file=sys.stderr)


class _State:
    logger: Logger = LoggerBasic()


_warnings_seen: Final[set[tuple[Any, str]]] = set()


def get_logger() -> Logger:
    """Return the logger that takes messages at present."""
    return _State.logger


def set_logger(logger: Logger | None) -> None:
    """Let an object take messages.

    Parameters
    ----------
    logger : Logger or None
        An object with the methods of :class:`Logger`; None for the one at the start.

    Raises
    ------
    TypeError
        If it lacks one of them.
    """
    if logger is None:
        _State.logger = LoggerBasic()
        return
    # Checked when it is set: a logger that fails at the first message would hide that message.
    missing = [name for name in _METHODS if not callable(getattr(logger, name, None))]
    if missing:
        raise TypeError(f"a logger has the methods {', '.join(_METHODS)}; {logger!r} has no {missing[0]}")
    _State.logger = logger


class ScopedLogger:
    """A ``with`` block for which another logger takes messages.

    Parameters
    ----------
    logger : Logger or None
        As of :func:`set_logger`.
    """

    def __init__(self, logger: Logger | None) -> None:
        self.logger = logger

    def __enter__(self) -> ScopedLogger:
        self._before = get_logger()
        set_logger(self.logger)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Not by set_logger, which would replace None by a new logger.
        _State.logger = self._before


def _level() -> int:
    return int(vars(settings)["log_level"])


def log_debug(message: str) -> None:
    """Send a message of the level ``LOG_DEBUG``."""
    if _level() <= LOG_DEBUG:
        get_logger().debug(message)


def log_info(message: str) -> None:
    """Send a message of the level ``LOG_INFO``."""
    if _level() <= LOG_INFO:
        get_logger().info(message)


def log_warning(message: str, category: Any = None, stacklevel: int = 1, once: bool = False) -> None:
    """Send a warning of the level ``LOG_WARNING``; with `once`, and of a deprecation, only the first time."""
    if _level() > LOG_WARNING:
        return
    key = category, message
    is_single = once or category is DeprecationWarning
    if is_single and key in _warnings_seen:
        return
    # Two frames lie between the caller and warnings.warn: this function and the logger's method.
    get_logger().warning(message, category=category, stacklevel=stacklevel + 2)
    if is_single:
        _warnings_seen.add(key)


def log_error(message: str) -> None:
    """Send an error, whatever the level."""
    send = get_logger().error
    send(message)


# -- levels of messages ------------------------------------------------------------------------------------------------
# Warp's levels of messages, for ``wp.config.log_level``. They hold for ``diffkern.warp.loggers``.


LOG_DEBUG: Final = logging.DEBUG
LOG_INFO: Final = logging.INFO
LOG_WARNING: Final = logging.WARNING
LOG_ERROR: Final = logging.ERROR


class ScopedLogLevel:
    """A ``with`` block for which ``wp.config.log_level`` is another one.

    Parameters
    ----------
    log_level : int
        The level.
    """

    def __init__(self, log_level: int) -> None:
        self.log_level = log_level

    def __enter__(self) -> ScopedLogLevel:
        self._before = vars(config)["log_level"]
        vars(config).update(log_level=self.log_level)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        vars(config).update(log_level=self._before)
