"""The fake driver's memory: allocations, copies and fills.

In: the calls of :class:`diffkern.runtime.cuda.driver.Driver` about memory. Out: bytes in host memory that really move,
when their stream comes to it. New memory holds garbage, and freed memory becomes garbage.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from .base import Block, FakeBase, call
from .work import Work

__all__ = ["FakeMemory"]

_NEW, _FREED = 0xA5, 0xDD


class FakeMemory(FakeBase):
    """Device memory and pinned memory."""

    @call
    def alloc(self, nbytes: int, stream: int) -> int:
        self._not_capturing(stream, "alloc")
        if nbytes <= 0:
            raise self._failure("alloc", 1)
        block = Block(nbytes, self._context())
        self._blocks[block.address] = block
        bisect.insort(self._starts, block.address)
        self._enqueue("alloc", stream, "alloc", lambda: block.poison(_NEW))
        return block.address

    @call
    def free(self, address: int, stream: int) -> None:
        self._not_capturing(stream, "free")
        block = self._blocks.get(address)
        if block is None or block.freed:
            raise self._failure("free", 1)
        block.freed = True

        def run() -> None:
            block.gone = True
            block.poison(_FREED)

        self._enqueue("free", stream, "free", run)

    @call
    def alloc_host(self, nbytes: int) -> int:
        block = Block(nbytes, 0)
        self._pinned[block.address] = block
        return block.address

    @call
    def free_host(self, address: int) -> None:
        if address not in self._pinned:
            raise self._failure("free_host", 1)
        # The driver waits for copies in progress.
        self._time.finish()
        del self._pinned[address]

    def device_of(self, address: int) -> int | None:
        block = self._block_at(address)
        return None if block is None or block.freed else block.owner - 1

    def is_page_locked(self, address: int) -> bool:
        return self.is_pinned(address) or self.device_of(address) is not None

    def lock_pages(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Return page-locked memory of the host as another library has it, for tests."""
        block = Block(nbytes, 0)
        self._pinned[block.address] = block
        start = block.address - block._bytes.ctypes.data
        return block._bytes[start : start + nbytes]

    @call
    def copy_to_device(self, goal: int, source: int, nbytes: int, stream: int) -> None:
        self._check("copy_to_device", goal, nbytes)
        run = self._moving("copy_to_device", goal, source, nbytes)
        if not self.is_pinned(source) and self._time.capturing(stream) is None:
            kept = ctypes.create_string_buffer(ctypes.string_at(source, nbytes), max(nbytes, 1))

            def run() -> None:
                self._check_alive("copy_to_device", [goal])
                ctypes.memmove(goal, kept, nbytes)

        self._enqueue("copy_to_device", stream, "copy", run, (goal, source, nbytes))

    @call
    def copy_to_host(self, goal: int, source: int, nbytes: int, stream: int) -> None:
        self._check("copy_to_host", source, nbytes)
        run = self._moving("copy_to_host", goal, source, nbytes)
        made = self._enqueue("copy_to_host", stream, "copy", run, (goal, source, nbytes))
        if isinstance(made, Work) and not self.is_pinned(goal):
            self._time.complete([made])

    @call
    def copy(self, goal: int, source: int, nbytes: int, stream: int) -> None:
        self._check("copy", goal, nbytes)
        self._check("copy", source, nbytes)
        run = self._moving("copy", goal, source, nbytes)
        self._enqueue("copy", stream, "copy", run, (goal, source, nbytes))

    @call
    def copy_peer(self, goal: int, to: int, source: int, of: int, nbytes: int, stream: int) -> None:
        self._check("copy_peer", goal, nbytes)
        self._check("copy_peer", source, nbytes)
        run = self._moving("copy_peer", goal, source, nbytes)
        self._enqueue("copy_peer", stream, "copy", run, (goal, source, nbytes))

    @call
    def fill(self, goal: int, pattern: bytes, count: int, stream: int) -> None:
        if len(pattern) not in (1, 2, 4) or goal % len(pattern):
            raise self._failure("fill", 1)
        self._check("fill", goal, len(pattern) * count)
        content = pattern * count

        def run() -> None:
            self._check_alive("fill", [goal])
            ctypes.memmove(goal, content, len(content))

        self._enqueue("fill", stream, "fill", run, (goal, pattern, count))

    def _moving(self, call: str, goal: int, source: int, nbytes: int) -> Callable[[], None]:
        def run() -> None:
            self._check_alive(call, (goal, source))
            ctypes.memmove(goal, source, nbytes)

        return run
