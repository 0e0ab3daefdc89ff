"""``wp.ScopedMemoryTracker``: the arrays that a named part of a program allocates, and those it leaves alive.

The reports are made from the entries of :mod:`diffkern.runtime.memory.allocations`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from diffkern.runtime.memory.allocations import tracker

__all__ = ["ScopedMemoryTracker", "print_memory_report"]


class ScopedMemoryTracker:
    """A ``with`` block in which new arrays are noted, under its name and those of the blocks around it.

    Parameters
    ----------
    name : str, optional
        The block's name.
    active : bool, optional
        Whether it does anything.
    print : bool, optional
        Whether to print a report when it ends.
    report_func : callable, optional
        Takes the report in place of standard output.
    """

    def __init__(
        self,
        name: str = "root",
        active: bool = True,
        print: bool = True,
        report_func: Callable[[str], Any] | None = None,
    ) -> None:
        self.name, self.active, self.print, self.report_func = name, active, print, report_func
        self._begins = False

    def __enter__(self) -> ScopedMemoryTracker:
        if self.active:
            tracker.enter(self.name)
            # Only the outermost block turns tracking off again.
            self._begins = not tracker.is_on
            tracker.is_on = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self.active:
            return
        # Before the report, which then counts this block as closed.
        tracker.leave()
        try:
            if self.print:
                self.report()
        finally:
            if self._begins:
                tracker.is_on = False

    def report(self, file: Any = None, sort: str = "size", max_items: int = 10) -> None:
        """Print what is known now.

        Parameters
        ----------
        file : optional
            The output; standard output by default.
        sort : str, optional
            Whether the greatest are shown first (``"size"``), or the oldest (``"chronological"``).
        max_items : int, optional
            The number of single allocations that are shown.

        Raises
        ------
        ValueError
            If there is no such order.
        """
        text = tracker.report(sort, max_items)
        if self.report_func is not None:
            self.report_func(text)
        else:
            (file or sys.stdout).write(text)

    def clear(self) -> None:
        """Forget what was noted until now."""
        tracker.clear()


def print_memory_report(file: Any = None, sort: str = "size", max_items: int = 10) -> None:
    """Print which arrays were made in blocks of :class:`ScopedMemoryTracker`, and which of them are left.

    Parameters
    ----------
    file, sort, max_items : optional
        As of :meth:`ScopedMemoryTracker.report`.

    Raises
    ------
    ValueError
        If there is no such order.
    RuntimeError
        If no such block has begun.
    """
    text = tracker.report(sort, max_items)
    if not tracker.is_on:
        raise RuntimeError("memory is not tracked: call it in a block of wp.ScopedMemoryTracker")
    (file or sys.stdout).write(text)
