"""The work of streams on the CPU: queues, marks in them, and what host memory has to be waited for.

In: work, given to a queue. Out: it runs in order, in a thread of the queue's own. Ctrl-C may end any Python function of
the giving thread between two calls, so nothing here counts: ``Queue.work`` is the truth, every change of it is one call
of C, and what an interrupted call left undone (a thread to start, a queue to take out of those with work) the next wait
does. For the same reason nobody waits for a condition variable, whose lock Python takes and gives back: the waits here
are for plain locks.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from diffkern.runtime.state import attention

if TYPE_CHECKING:
    from diffkern.runtime.stream import Event

__all__ = ["Mark", "Queue", "forget_work_after_fork", "on_its_way", "settle", "settle_queues"]

_IDLE_SECONDS = 1.0  # how long a thread without work lives on


class Mark:
    """One happening of an event: the place in a queue where it was recorded.

    Attributes
    ----------
    happened : bool
        Whether all work before it has run, or was left out after an error.
    time : float
        When that was, in seconds.
    error : BaseException or None
        The error that ended the work before it.
    """

    __slots__ = ("_done", "error", "happened", "time")

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self.happened = False
        self.time = 0.0
        self.error: BaseException | None = None

    def happen(self, error: BaseException | None = None) -> None:
        """Let it happen, once."""
        self.time = time.perf_counter()
        self.error = error
        self.happened = True
        self._done.release()

    def is_set(self) -> bool:
        """Whether it has happened and all work before it has run."""
        return self.happened and self.error is None

    def wait(self) -> None:
        """Wait for it, and raise the error of the work before it."""
        with self._done:
            pass
        if self.error is not None:
            raise self.error


class Queue:
    """The work of one stream. Its thread knows the queue, not the stream, so that a forgotten stream can end.

    Attributes
    ----------
    work : deque
        What has not run to its end yet: functions, marks, and the locks of those who wait.
    error : BaseException or None
        What ended the work; the rest, which would compute from wrong contents, is left out until somebody waits.
    """

    def __init__(self) -> None:
        self.work: deque[Callable[[], None] | Mark | _Waiter] = deque()
        self.error: BaseException | None = None
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._serving = threading.Lock()  # held by the thread that runs the work
        _queues.add(self)

    def put(self, work: Callable[[], None] | Mark | _Waiter) -> None:
        """Let work run after all that was put before."""
        with _lock:
            _busy.add(self)
            attention.busy(True)
            self.work.append(work)
        self._wake.put(None)
        if not self._serving.locked():
            threading.Thread(target=self._serve, name="diffkern stream", daemon=True).start()

    def wait(self) -> None:
        """Wait until all work has run, and raise the error that ended it."""
        if self.work:
            waiter = _Waiter()
            self.put(waiter)
            waiter.lock.acquire()  # if this is interrupted, the queue gives the lock back to nobody
        else:
            self._rest()
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _rest(self) -> None:
        """Take the queue out of those with work, if there is none."""
        with _lock:
            if not self.work:
                _busy.discard(self)
                attention.busy(bool(_busy))

    def _serve(self) -> None:
        while self._serving.acquire(blocking=False):
            try:
                while True:
                    while self.work:
                        self._do(self.work[0])
                    try:
                        self._wake.get(timeout=_IDLE_SECONDS)
                    except Empty:
                        break
            finally:
                self._serving.release()
            if not self.work:  # else it came between the last look and the release
                return

    def _do(self, work: Callable[[], None] | Mark | _Waiter) -> None:
        if isinstance(work, _Waiter):
            self._drop()
            work.lock.release()
            return
        if isinstance(work, Mark):
            work.happen(self.error)
        elif self.error is None:
            try:
                work()
            except BaseException as error:
                self.error = error
        self._drop()

    def _drop(self) -> None:
        with _lock:
            self.work.popleft()
        if not self.work:
            self._rest()

    def forget(self) -> None:
        """Begin anew in the child of a fork: the work belongs to the parent, and so does the thread."""
        left, self.work = self.work, deque()
        self.error = None
        self._wake, self._serving = SimpleQueue(), threading.Lock()
        for work in left:
            if isinstance(work, Mark) and not work.happened:
                work.happen()


class _Waiter:
    """Somebody who waits for the work before it."""

    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lock.acquire()


class _Transfer:
    """A copy between pinned memory and a GPU that may be on its way."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def wait(self) -> None:
        self.event.synchronize()
        with _lock:
            _busy.discard(self)  # another thread may have waited as well
            attention.busy(bool(_busy))


_queues: weakref.WeakSet[Queue] = weakref.WeakSet()
# Queues with work that has not run, and copies on their way. Guarded by the lock.
_busy: set[Queue | _Transfer] = set()
_lock = threading.Lock()


def settle() -> None:
    """Wait until the work of all streams has run."""
    while _busy:
        with _lock:
            queues = list(_busy)
        for queue in queues:
            queue.wait()


def settle_queues() -> None:
    """Wait until the work of all streams of the CPU has run; copies to and from GPUs may be on their way."""
    while queues := [busy for busy in _busy.copy() if isinstance(busy, Queue)] if _busy else []:
        for queue in queues:
            queue.wait()


def on_its_way(event: Event) -> None:
    """Let everything that looks at host memory wait for an event, behind a copy to or from pinned memory."""
    with _lock:
        _busy.add(_Transfer(event))
        attention.busy(True)


def forget_work_after_fork() -> None:
    """Begin anew in the child of a fork, which has only the thread that forked."""
    global _lock
    _lock = threading.Lock()
    _busy.clear()
    attention.busy(False)
    for queue in list(_queues):
        queue.forget()
