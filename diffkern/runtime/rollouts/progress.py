"""Progress bars on standard error, for work that takes more than a second."""

from __future__ import annotations

import sys
from typing import Any, Final

__all__ = ["Bar"]

_AFTER_S: Final = 1.0


class Bar:
    """A bar that appears after a second; does nothing where none is wanted or tqdm is not installed.

    Parameters
    ----------
    total : int
        Number of units of work.
    what : str
        The text in front of it.
    shown : bool, optional
        Whether it is wanted; by default where standard error is a terminal.
    """

    def __init__(self, total: int, what: str, shown: bool | None = None) -> None:
        self._bar: Any = None
        if not (sys.stderr.isatty() if shown is None else shown):
            return
        try:
            from tqdm import tqdm
        except ImportError:
            return
        # It is updated all the time, and a thread that does so would keep builds of kernels from forking.
        bar = type("_Bar", (tqdm,), {"monitor_interval": 0})
        self._bar = bar(total=total, desc=what, unit="", delay=_AFTER_S, miniters=0, file=sys.stderr)

    def update(self, done: int = 1) -> None:
        """Note that more units are done; 0 updates the elapsed time."""
        if self._bar is not None:
            self._bar.update(done)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()
