"""The work of streams on the CPU: queues, marks in them, and the pending work on host memory.

Work that is given to a queue runs in order, in a thread of the queue's own. Ctrl-C may end any Python function of the
giving thread between two calls, so that nothing here keeps counts: ``Queue.work`` is the truth, every change of it is
one call of C, and what an interrupted call left undone (a thread to start, a queue to take out of those with work) the
next wait does. For the same reason no thread waits for a condition variable, whose lock Python takes and gives back:
all waits are for plain locks.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from diffkern.process.interrupts import LOOK_SECONDS, wait
from diffkern.process.tracebacks import let_pass
from diffkern.runtime.native.slow_path import slow_path_flags

if TYPE_CHECKING:
    from diffkern.runtime.memory.stream import Event

__all__ = [
    "Awaited", "Failure", "Mark", "Queue", "drain", "drain_queues", "forget_work_after_fork", "on_its_way", "postponed",
    "settle",
]  # fmt: skip

_UNFINISHED = (
    "the process was forked while a stream had work before this event; that work is done in the parent alone: call "
    "dk.synchronize() before forking"
)
_IDLE_SECONDS = 1.0  # how long a thread without work lives on


class Failure:
    """An error that ended the work of a queue, and of queues that waited for it. It is raised to one caller only.

    Attributes
    ----------
    told : bool
        Whether it has been raised.
    left_out : int
        Number of pieces of work that were skipped because of it.
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
    """One recording of an event: a place in a queue.

    Attributes
    ----------
    happened : bool
        Whether all work before it has run, or was skipped after an error.
    time : float
        The time of that, in seconds.
    failure : Failure or None
        The error that ended the work before it.
    """

    __slots__ = ("_done", "failure", "happened", "time")

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self.happened = False
        self.time = 0.0
        self.failure: Failure | None = None

    def happen(self, failure: Failure | None = None) -> None:
        """Mark it as happened, once."""
        self.time = time.perf_counter()
        self.failure = failure
        self.happened = True
        # Published last: the next holder of the lock finds the time and the failure.
        self._done.release()

    def forget(self, failure: Failure) -> None:
        """Mark it as happened in the child of a fork, where no other thread holds its lock."""
        if not self.happened:
            self.time, self.failure = time.perf_counter(), failure
        self.happened, self._done = True, threading.Lock()

    def is_set(self) -> bool:
        """Return whether it has happened and no error is left to be raised."""
        return self.happened and (self.failure is None or self.failure.told)

    def block(self) -> Failure | None:
        """Wait for it, and return the error that ended the work before it unless it was raised."""
        while not self.happened:
            # Waiting with a timeout lets Ctrl-C through. The lock is passed on, as several threads may wait for one
            # mark.
            if self._done.acquire(timeout=LOOK_SECONDS):
                self._done.release()
        return None if self.failure is None or self.failure.told else self.failure

    def wait(self) -> None:
        """Wait for it, and raise the error that ended the work before it."""
        failure = self.block()
        if failure is not None:
            failure.tell()


class Awaited:
    """A mark that the work of another queue waits for: an error before the mark ends that work as well."""

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
        The work that has not ended yet: functions, marks, and the locks of waiting threads.
    failure : Failure or None
        The error that ended the work. The rest would compute from wrong contents and is skipped; work that comes after
        the error was reported runs again.
    """

    def __init__(self) -> None:
        self.work: deque[_Work] = deque()
        self.failure: Failure | None = None
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._serving = threading.Lock()  # held by the thread that runs the work
        _queues.add(self)

    def put(self, work: _Work) -> None:
        """Add work, to run after all that was put before, and after what was put off."""
        settle()
        self._add(work)

    def _add(self, work: _Work) -> None:
        with _lock:
            # Marked as busy before there is work: a thread that looks at host memory meanwhile waits rather than races.
            _busy.add(self)
            slow_path_flags.busy(True)
            if self.failure is not None and self.failure.told:
                self.work.append(_Resumption())
            self.work.append(work)
        self._wake.put(None)
        # A thread that has just run out of work may still hold the lock; it looks for work once more after its release.
        if not self._serving.locked():
            threading.Thread(target=self._serve, name="diffkern stream", daemon=True).start()

    def wait(self) -> None:
        """Wait until all work has run, and raise the error that ended it."""
        if self.work:
            waiter = _Waiter()
            self._add(waiter)
            wait(waiter.lock)  # if this is interrupted, the queue releases a lock that is not awaited
        failure = self.failure
        try:
            if failure is not None:
                failure.tell()
        finally:
            self._rest()

    def _rest(self) -> None:
        """Remove the queue from those that have to be waited for, if it has no work and no error to report."""
        with _lock:
            if not self.work and (self.failure is None or self.failure.told):
                _busy.discard(self)
                _show()

    def _serve(self) -> None:
        _thread.serves = True
        while self._serving.acquire(blocking=False):
            try:
                while True:
                    while self.work:
                        # The work stays in the queue while it runs, so that an empty queue means that all work has
                        # ended.
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
        # Taken out before the lock is released: the waiting thread then finds the queue without work.
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
            # Only work of the user counts in the note that the error gets.
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
        """Start over in the child of a fork: the work belongs to the parent, and so does the thread."""
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


class _Request:
    """A thread that waits for what was put off, and the error that ended that."""

    __slots__ = ("error", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lock.acquire()
        self.error: BaseException | None = None


class _Joint:
    """Another way to do some work that was put off, together with more: a function that says whether it has done it."""

    __slots__ = ("has_run", "run", "work")

    def __init__(self, work: tuple[Callable[[], None], ...], run: Callable[[], bool]) -> None:
        self.work, self.run, self.has_run = work, run, False


class Postponed:
    """Work of the default stream that is put off until anything may look at what it has done.

    Who waits for pending work has it run first, in its order. It always runs in one thread of its own, where no Ctrl-C
    and no signal handler can come between, and stays pending until it has ended: who looks meanwhile waits for that.
    Its owner may say how it is done together with more.

    Threads that give work hold no lock: a signal handler that waits for the work may run in them at any time.

    Attributes
    ----------
    work : deque
        What has not ended yet.
    """

    __slots__ = ("_has_begun", "_joint", "_owner", "_requests", "_serving", "work")

    def __init__(self) -> None:
        self.work: deque[Callable[[], None]] = deque()
        self._owner: object = None
        self.forget()

    def forget(self) -> None:
        """Start over in the child of a fork, before which all has run."""
        self.work.clear()
        self._has_begun = False
        self._joint: _Joint | None = None
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        self._serving = threading.Lock()  # held by the thread that runs the work

    def put(self, owner: object, work: Callable[[], None]) -> None:
        """Put off some work; that of another owner has run before."""
        if self.work and self._owner is not owner:
            settle()
        self._owner = owner
        # Busy before there is work, for the sake of Ctrl-C, and again: who finds no work takes the mark away.
        self._mark()
        self.work.append(work)
        self._mark()

    def is_all(self, owner: object, count: int) -> bool:
        """Return whether so much work of an owner is all that is pending in the process."""
        if not count:
            return not _busy
        return len(self.work) == count and self._owner is owner and _busy == {self}

    def join(self, owner: object, run: Callable[[], bool]) -> bool:
        """Have the work of an owner done by a function instead, which does more; return whether it was.

        The function returns False if it has done nothing; then, or if the work has begun to run, the work itself runs.
        """
        joint = _Joint((*self.work,), run)
        if self._has_begun or self._owner is not owner or not joint.work:
            return False
        self._joint = joint
        try:
            self.wait()
        finally:
            # After an interrupt the work is left, and the function's own part is not done.
            if self._joint is joint:
                self._joint = None
        return joint.has_run

    def wait(self) -> None:
        """Run it, and wait for that."""
        if not self.work:
            self._rest()
            return
        if sys.is_finalizing():
            self._run()  # other threads have ended, and none can begin
            return
        request = _Request()
        self._requests.put(request)
        # A thread that has just run out of work may still hold the lock; it looks once more after its release.
        if not self._serving.locked():
            try:
                threading.Thread(target=self._serve, name="diffkern launches", daemon=True).start()
            except RuntimeError:  # near the end of a process
                self._answer()
        wait(request.lock)  # if this is interrupted, the thread releases a lock that is not awaited
        if request.error is not None:
            raise let_pass(request.error)

    def _serve(self) -> None:
        _thread.serves = True
        while self._serving.acquire(blocking=False):
            try:
                while self._answer():
                    pass
            finally:
                self._serving.release()
            if self._requests.empty():  # else it came between the last look and the release
                return

    def _answer(self) -> bool:
        """Run the work for the next thread that waits; return False if none has come for a while."""
        try:
            request = self._requests.get(timeout=_IDLE_SECONDS)
        except Empty:
            return False
        try:
            self._run()
        except BaseException as error:
            request.error = error
        request.lock.release()
        return True

    def _run(self) -> None:
        self._has_begun = True
        # A finalizer that the collector calls here would look at results in the middle of the work.
        collects = gc.isenabled()
        gc.disable()
        try:
            joint = self._joint
            if joint is not None and (*self.work,) == joint.work and joint.run():
                for _ in joint.work:
                    self.work.popleft()
                joint.has_run = True
            while self.work:
                self.work[0]()
                self.work.popleft()
        except BaseException:
            self.work.clear()  # the rest would compute from wrong contents
            raise
        finally:
            if collects:
                gc.enable()
            self._has_begun = False
            self._rest()

    def _mark(self) -> None:
        _busy.add(self)
        _show()

    def _rest(self) -> None:
        if not self.work:
            self._owner = None
            _busy.discard(self)
            _show()
            if self.work:  # it came meanwhile
                self._mark()


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
                _show()


_Work = Callable[[], None] | Mark | Awaited | _Resumption | _Waiter


_queues: weakref.WeakSet[Queue] = weakref.WeakSet()
# Queues with work that has not run, and copies on their way. Queues and copies change it under the lock.
_busy: set[Queue | Postponed | _Transfer] = set()
_lock = threading.Lock()


def _show() -> None:
    """Note for native code whether work is pending."""
    slow_path_flags.busy(bool(_busy))
    if _busy:  # what was put off takes no lock, and may have come between
        slow_path_flags.busy(True)


postponed = Postponed()


class _Thread(threading.local):
    """The state of each thread."""

    serves = False
    """True if it runs the work of a stream, which waits for other streams only where that is asked for."""


_thread = _Thread()


def drain() -> None:
    """Wait until the work of all streams has run, and raise an error of one of them that was not raised yet."""
    # A thread that serves a stream must not wait for its own queue. The loop covers work that is put meanwhile.
    while _busy and not _thread.serves:
        for queue in _busy.copy():
            queue.wait()


def drain_queues() -> None:
    """Wait until the work of all streams of the CPU has run; copies to and from GPUs may be on their way."""
    while _busy and not _thread.serves:
        queues = [busy for busy in _busy.copy() if not isinstance(busy, _Transfer)]
        if not queues:
            return
        for queue in queues:
            queue.wait()


def settle() -> None:
    """Wait until the work that was put off has run, before other work may come behind it or its results be seen."""
    if postponed.work and not _thread.serves:
        postponed.wait()


def on_its_way(event: Event) -> None:
    """Make all reads of host memory wait for an event, behind a copy to or from pinned memory."""
    with _lock:
        _busy.add(_Transfer(event))
        slow_path_flags.busy(True)


def forget_work_after_fork() -> None:
    """Start over in the child of a fork, which has only the thread that forked."""
    global _lock
    # Another thread may have held the lock at the fork, and will never release it here.
    _lock = threading.Lock()
    _busy.clear()
    slow_path_flags.busy(False)
    _thread.serves = False
    postponed.forget()
    for queue in list(_queues):
        queue.forget()
