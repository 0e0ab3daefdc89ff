"""The thread pool in Python, for systems without POSIX threads.

It behaves like the native pool, with a more expensive hand-over: the submitter draws chunks from a queue, helpers from
an executor draw from the same one, and a helper that has not begun when the chunks are gone is taken back. ctypes
releases the interpreter's lock while a chunk runs, so that chunks run in parallel.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["PythonPool"]

_Kernel = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class PythonPool:
    """A pool with the three functions of the native one: ``reset``, ``configure`` and ``run``."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._workers = 0

    def reset(self) -> None:
        """Forget all threads, as the child must after a fork."""
        self._lock = threading.Lock()
        self._executor = None

    def configure(self, workers: int, spin_ns: int) -> None:
        """Set the number of helpers. Nothing spins here, so that `spin_ns` has no effect."""
        with self._lock:
            if workers != self._workers and self._executor is not None:
                self._executor.shutdown(wait=False)
                self._executor = None
            self._workers = workers

    def run(self, fn: int, blocks: int, block_stride: int, n: int, chunk: int, first: int, step: int) -> int:
        """Run the chunks as the native pool does; return 0, or 1 if the numbers make no sense."""
        if n < 0 or chunk <= 0 or first < 0 or step <= 0:
            return 1
        chunks = deque(range(first, -(-n // chunk), step))  # the thread that takes one runs it
        kernel = _Kernel(fn)

        def draw() -> None:
            for c in _drawn(chunks):
                kernel(blocks + c * block_stride, c * chunk, min(n, (c + 1) * chunk))

        helpers = min(self._workers, len(chunks) - 1)
        futures: list[Future[None]] = []
        try:
            if helpers > 0:
                # Submitting under the lock: an executor that is shut down takes no more work.
                with self._lock:
                    if self._executor is None:
                        self._executor = ThreadPoolExecutor(self._workers, "diffkern")
                    for _ in range(helpers):
                        futures.append(self._executor.submit(draw))  # noqa: PERF401 - known one by one if interrupted
            draw()
        finally:
            # After an interrupt too: what still runs reads the argument blocks, which are the caller's.
            chunks.clear()
            for future in futures:
                if not future.cancel():
                    future.result()
        return 0


def _drawn(chunks: deque[int]) -> Iterator[int]:
    while True:
        try:
            yield chunks.popleft()
        except IndexError:
            return
