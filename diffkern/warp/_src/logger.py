"""``warp._src.logger``: loggers, and what sends them messages."""

from __future__ import annotations

from diffkern.warp.loggers import (
    LOG_DEBUG,
    LOG_ERROR,
    LOG_INFO,
    LOG_WARNING,
    Logger,
    LoggerBasic,
    _warnings_seen,
    get_logger,
    log_debug,
    log_error,
    log_info,
    log_warning,
    set_logger,
)

__all__ = [
    "LOG_DEBUG", "LOG_ERROR", "LOG_INFO", "LOG_WARNING", "Logger", "LoggerBasic", "_warnings_seen", "get_logger",
    "log_debug", "log_error", "log_info", "log_warning", "set_logger",
]  # fmt: skip
