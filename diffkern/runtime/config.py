"""Settings of the process: ``dk.config``.

In: attributes set by the user, or environment variables at the start. Out: checked values. Who depends on a setting
asks to be told when it changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["Config", "config"]

_MODES = ("release", "debug")


class Config:
    """Settings of the process.

    Attributes
    ----------
    mode : {"release", "debug"}
        Debug programs check every array index. DIFFKERN_MODE sets the initial value.
    verbose : bool
        Whether to print what is compiled. DIFFKERN_VERBOSE=1 sets it at the start.
    """

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []
        self._mode = "release"
        self.verbose = os.environ.get("DIFFKERN_VERBOSE", "").strip() not in ("", "0")
        self.mode = os.environ.get("DIFFKERN_MODE", "").strip() or "release"

    @property
    def mode(self) -> str:
        """``"release"`` or ``"debug"``."""
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        if value not in _MODES:
            raise ValueError(f"the mode is 'release' or 'debug', not {value!r}")
        if value != self._mode:
            self._mode = value
            for listener in self._listeners:
                listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever a setting that compiled programs depend on changes."""
        self._listeners.append(listener)

    def __repr__(self) -> str:
        return f"<dk.config mode={self.mode!r} verbose={self.verbose!r}>"


config = Config()
