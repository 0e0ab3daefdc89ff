"""Warp's levels of messages, for ``wp.config.log_level``. diffkern itself says little, by ``wp.config.verbose``."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["LOG_DEBUG", "LOG_ERROR", "LOG_INFO", "LOG_WARNING"]

LOG_DEBUG: Final = logging.DEBUG
LOG_INFO: Final = logging.INFO
LOG_WARNING: Final = logging.WARNING
LOG_ERROR: Final = logging.ERROR
