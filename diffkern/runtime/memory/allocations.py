"""Tracking of array allocations: number, size, scope and source line of those that are alive.

While a tracker is on, it is told of the memory of each new array and reports by scope and by place in the program.
While none is on, nothing is kept and allocating costs nothing extra.
"""

from __future__ import annotations

import collections
import itertools
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from diffkern.process.dataclass import dataclass

if TYPE_CHECKING:
    from diffkern.runtime.memory.memory import Memory

__all__ = ["Tracker", "noted", "tracker"]

_PACKAGE: Final = str(Path(__file__).resolve().parents[2])
_SPATIAL: Final = str(Path(_PACKAGE) / "spatial")
_ORDERS: Final = ("size", "chronological")


@dataclass(frozen=True)
class _Made:
    nbytes: int
    device: str
    what: str
    place: str
    scope: str


class Tracker:
    """Counts of allocations.

    Attributes
    ----------
    is_on
        Whether new arrays are noted.
    count, nbytes
        Number of allocations noted, and their bytes together.
    now, peak
        The bytes of those that are there, and the most that there have been at a time.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._scopes = threading.local()
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget all allocations."""
        with self._lock:
            self.count = self.nbytes = self.now = self.peak = 0
            self._live: dict[int, _Made] = {}
            self._keys = itertools.count()

    @property
    def live(self) -> int:
        """The number of noted allocations that are still alive."""
        return len(self._live)

    @property
    def _stack(self) -> list[str]:
        found: list[str] = self._scopes.__dict__.setdefault("stack", [])
        return found

    def enter(self, name: str) -> None:
        """Begin a scope of this thread within the scopes that it has begun."""
        self._stack.append(name)

    def leave(self) -> None:
        """End the innermost scope of this thread."""
        self._stack.pop()

    def note(self, memory: Memory, what: str) -> None:
        """Note memory that was allocated now, until it is freed."""
        kind = f"{memory.device.alias} (pinned)" if memory.is_pinned else memory.device.alias
        made = _Made(memory.nbytes, kind, what, _place(), "/".join(self._stack))
        with self._lock:
            key = next(self._keys)
            self._live[key] = made
            self.count, self.nbytes, self.now = self.count + 1, self.nbytes + made.nbytes, self.now + made.nbytes
            self.peak = max(self.peak, self.now)
        # `_live` is passed as it is now: after a clear() the finalizers of older arrays must not touch the new counts.
        weakref.finalize(memory, self._forget, self._live, key).atexit = False

    def _forget(self, live: dict[int, _Made], key: int) -> None:
        made = live.pop(key, None)
        if made is not None and live is self._live:
            self.now -= made.nbytes

    def report(self, sort: str = "size", max_items: int = 10) -> str:
        """Return a report of the allocations as text.

        Parameters
        ----------
        sort : str, optional
            Whether the largest are shown first (``"size"``), or the oldest (``"chronological"``).
        max_items : int, optional
            Number of single allocations to show.

        Raises
        ------
        ValueError
            If there is no such order.
        """
        if sort not in _ORDERS:
            raise ValueError(f"allocations are sorted by {' or '.join(map(repr, _ORDERS))}, not {sort!r}")
        return "\n".join(self._lines(sort, max_items)) + "\n"

    def _lines(self, sort: str, max_items: int) -> Iterator[str]:
        with self._lock:
            live = list(self._live.values())
        yield "Allocation Tracking Report"
        yield f"  Total allocations: {self.count} ({_size(self.nbytes)})"
        yield f"  Live allocations:  {len(live)} ({_size(sum(m.nbytes for m in live))}), at most {_size(self.peak)}"
        scopes: collections.Counter[str] = collections.Counter()
        for made in live:
            scopes[made.scope] += made.nbytes
        yield from (f"  {scope or '(no scope)'}: {_size(nbytes)}" for scope, nbytes in sorted(scopes.items()))
        shown = sorted(live, key=lambda m: -m.nbytes) if sort == "size" else live
        for made in shown[:max_items]:
            yield f"    {_size(made.nbytes):>10}  {made.device}  {made.what}  {made.place}  {made.scope}"
        if len(shown) > max_items:
            yield f"    and {len(shown) - max_items} more"


def _place() -> str:
    """Return the source line of the caller that makes an array, or the kind of the object of diffkern that holds it."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        # The acceleration structures make several arrays that the user has never heard of; their sum is named instead.
        if name.startswith(_SPATIAL):
            return f"(native:{Path(name).stem.replace('_', '')})"
        if not name.startswith(_PACKAGE):
            return f"{Path(name).name}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


def _size(nbytes: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024  # type: ignore[assignment]
    return f"{nbytes:.4g} GiB"


tracker: Final = Tracker()
"""The tracker of the process."""


def noted(memory: Memory, element: Any, shape: tuple[int, ...]) -> None:
    """Note the memory of a new array."""
    tracker.note(memory, f"array[{', '.join(map(str, (element, *shape)))}]")
