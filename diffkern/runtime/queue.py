"""The work of streams on the CPU: queues, marks in them, and what host memory has to be waited for.

In: work, given to a queue. Out: it runs in order, in a thread of the queue's own. Ctrl-C may end any Python function of
the giving thread between two calls, so nothing here counts: ``Queue.work`` is the truth, every change of it is one call
of C, and what an interrupted call left undone (a thread to start, a queue to take out of those with work) the next wait
does. For the same reason no thread waits for a condition variable, whose lock Python takes and gives back: the waits
here are for plain locks.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from diffkern.callers import let_pass
from diffkern.interrupts import LOOK_SECONDS, wait
from diffkern.runtime.state import attention

if TYPE_CHECKING:
    from diffkern.runtime.stream import Event

__all__ = ["Awaited", "Failure", "Mark", "Queue", "drain", "drain_queues", "forget_work_after_fork", "on_its_way"]

_UNFINISHED = (
    "the process was forked while a stream had work before this event; that work is done in the parent alone: call "
    "dk.synchronize() before forking"
)
_IDLE_SECONDS = 1.0  # how long a thread without work lives on


class Failure:
    """An error that ended the work of a queue, and of those that waited for it. It is raised to one of those who look.

    Attributes
    ----------
    told : bool
        Whether it has been raised.
    left_out : int
        How many pieces of work were left out because of it.
    """

    __slots__ = ("_error", "left_out", "told")

    def __init__(self, error: BaseException) -> None:
        self._error = error
        self.told = False
        self.left_out = 0

    def tell(self) -> None:
        """Raise the error, unless it has been raised."""
        if self.told:
            return
        self.told = True
        if self.left_out and hasattr(self._error, "add_note"):  # from Python 3.11 on
            what = "one piece" if self.left_out == 1 else f"{self.left_out} pieces"
            self._error.add_note(f"this ended work on a stream; {what} of work behind it did not run")
        raise let_pass(self._error)


class Mark:
    """One happening of an event: the place in a queue where it was recorded.

    Attributes
    ----------
    happened : bool
        Whether all work before it has run, or was left out after an error.
    time : float
        When that was, in seconds.
    failure : Failure or None
        What ended the work before it.
    """

    __slots__ = ("_done", "failure", "happened", "time")

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self.happened = False
        self.time = 0.0
        self.failure: Failure | None = None

    def happen(self, failure: Failure | None = None) -> None:
        """Let it happen, once."""
        self.time = time.perf_counter()
        self.failure = failure
        self.happened = True
        self._done.release()

    def forget(self, failure: Failure) -> None:
        """Let it have happened, in the child of a fork, where no other thread holds its lock."""
        if not self.happened:
            self.time, self.failure = time.perf_counter(), failure
        self.happened, self._done = True, threading.Lock()

    def is_set(self) -> bool:
        """Whether it has happened and no error is left to be raised."""
        return self.happened and (self.failure is None or self.failure.told)

    def block(self) -> Failure | None:
        """Wait for it, and return what ended the work before it unless it was raised."""
        while not self.happened:
            if self._done.acquire(timeout=LOOK_SECONDS):
                self._done.release()
        return None if self.failure is None or self.failure.told else self.failure

    def wait(self) -> None:
        """Wait for it, and raise what ended the work before it."""
        failure = self.block()
        if failure is not None:
            failure.tell()


class Awaited:
    """A mark that the work of another queue waits for: what ended the work before it ends that as well."""

    __slots__ = ("mark",)

    def __init__(self, mark: Mark) -> None:
        self.mark = mark


class _Resumption:
    """The place in a queue behind which work runs again: the error was reported before that work came."""

    __slots__ = ()


class Queue:
    """The work of one stream. Its thread knows the queue, not the stream, so that a forgotten stream can end.

    Attributes
    ----------
    work : deque
        What has not run to its end yet: functions, marks, and the locks of those who wait.
    failure : Failure or None
        What ended the work. The rest would compute from wrong contents, so it is left out; what comes after it
        was reported runs again.
    """

    def __init__(self) -> None:
        self.work: deque[_Work] = deque()
        self.failure: Failure | None = None
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._serving = threading.Lock()  # held by the thread that runs the work
        _queues.add(self)

    def put(self, work: _Work) -> None:
        """Let work run after all that was put before."""
        with _lock:
            _busy.add(self)
            attention.busy(True)
            if self.failure is not None and self.failure.told:
                self.work.append(_Resumption())
            self.work.append(work)
        self._wake.put(None)
        if not self._serving.locked():
            threading.Thread(target=self._serve, name="diffkern stream", daemon=True).start()

    def wait(self) -> None:
        """Wait until all work has run, and raise the error that ended it."""
        if self.work:
            waiter = _Waiter()
            self.put(waiter)
            wait(waiter.lock)  # if this is interrupted, the queue releases a lock that is not awaited
        failure = self.failure
        try:
            if failure is not None:
                failure.tell()
        finally:
            self._rest()

    def _rest(self) -> None:
        """Take the queue out of those that have to be waited for, if it has no work and no error to tell of."""
        with _lock:
            if not self.work and (self.failure is None or self.failure.told):
                _busy.discard(self)
                attention.busy(bool(_busy))

    def _serve(self) -> None:
        _thread.serves = True
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

    def _do(self, work: _Work) -> None:
        if isinstance(work, _Waiter):
            self._drop()
            work.lock.release()
            return
        if isinstance(work, Mark):
            work.happen(self.failure)
        elif isinstance(work, _Resumption):
            if self.failure is not None and self.failure.told:
                self.failure = None
        elif self.failure is not None:
            self.failure.left_out += not isinstance(work, Awaited)
        elif isinstance(work, Awaited):
            self.failure = work.mark.block()
        else:
            try:
                work()
            except BaseException as error:
                self.failure = Failure(error)
        self._drop()

    def _drop(self) -> None:
        with _lock:
            self.work.popleft()
        if not self.work:
            self._rest()

    def forget(self) -> None:
        """Begin anew in the child of a fork: the work belongs to the parent, and so does the thread."""
        left, self.work = self.work, deque()
        self.failure = None
        self._wake, self._serving = SimpleQueue(), threading.Lock()
        for work in left:
            if isinstance(work, Mark):
                work.forget(Failure(RuntimeError(_UNFINISHED)))


class _Waiter:
    """A thread that waits for the work before it."""

    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lock.acquire()


class _Transfer:
    """A copy between pinned memory and a GPU that may be on its way."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def wait(self) -> None:
        try:
            self.event.synchronize()
        finally:  # an error is told once
            with _lock:
                _busy.discard(self)  # another thread may have waited as well
                attention.busy(bool(_busy))


_Work = Callable[[], None] | Mark | Awaited | _Resumption | _Waiter


_queues: weakref.WeakSet[Queue] = weakref.WeakSet()
# Queues with work that has not run, and copies on their way. Guarded by the lock.
_busy: set[Queue | _Transfer] = set()
_lock = threading.Lock()


class _Thread(threading.local):
    """What is known of each thread."""

    serves = False
    """Whether it runs the work of a stream, which waits for other streams only where it says so."""


_thread = _Thread()


def drain() -> None:
    """Wait until the work of all streams has run, and raise an error of one of them that was not raised yet."""
    while _busy and not _thread.serves:
        with _lock:
            queues = list(_busy)
        for queue in queues:
            queue.wait()


def drain_queues() -> None:
    """Wait until the work of all streams of the CPU has run; copies to and from GPUs may be on their way."""
    while _busy and not _thread.serves:
        queues = [busy for busy in _busy.copy() if isinstance(busy, Queue)]
        if not queues:
            return
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
    _thread.serves = False
    for queue in list(_queues):
        queue.forget()
