"""Warp's levels of messages, for ``wp.config.log_level``. They hold for :mod:`diffkern.warp.loggers`."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final

from diffkern.warp import config

__all__ = ["LOG_DEBUG", "LOG_ERROR", "LOG_INFO", "LOG_WARNING", "ScopedLogLevel"]

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
