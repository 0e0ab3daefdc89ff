"""Spans for observers: launches, reverse sweeps and compilations of the process, each with its begin and end.

Observers are started and stopped, and told of every span in between. Launches that nobody watches do not come here:
while there is an observer, the word that launches look at is not 0, and they take the way through
:func:`diffkern.runtime.arrays.operation.perform`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final, Protocol

from diffkern.process.dataclass import dataclass
from diffkern.runtime.memory.scope import put, put_at_import
from diffkern.runtime.memory.state import current

__all__ = ["Observer", "Span", "past", "span", "start", "stop", "watched"]


@dataclass(slots=True)
class Span:
    """Something that takes time.

    Attributes
    ----------
    kind
        ``"launch"``, ``"adjoint"``, ``"memory"`` (copies and fills), ``"replay"``, ``"backward"``, ``"compile"``,
        ``"pass"``, ``"load"``.
    name
        Its name for messages.
    facts
        Further facts, of JSON types.
    begin, end
        Nanoseconds of :func:`time.perf_counter_ns`.
    thread
        The thread that does it.
    """

    kind: str
    name: str
    facts: dict[str, Any] = field(default_factory=dict)
    begin: int = 0
    end: int = 0
    thread: int = 0


class Observer(Protocol):
    """An object that is told of spans, by any thread.

    Attributes
    ----------
    synchronizes
        Whether the end of a launch on a GPU is that of its threads, so that each is waited for.
    inspects
        Whether it looks at launches, copies and fills before they run: then a recorded sequence runs them one by one.
    """

    synchronizes: bool
    inspects: bool

    def begin(self, span: Span) -> None:
        """Note that a span begins."""

    def end(self, span: Span) -> None:
        """Note that it has ended."""

    def past(self, span: Span) -> None:
        """Note a span that was over when its times became known."""

    def inspect(self, operation: Any) -> None:
        """Look at an operation that is about to run."""


class _Watched:
    """The observers, of all threads."""

    # A tuple that is replaced as a whole: a span in progress keeps the observers that it began with.
    observers: tuple[Observer, ...] = ()

    @property
    def inspects(self) -> bool:
        """True if an observer looks at operations before they run."""
        return any(observer.inspects for observer in self.observers)

    def inspect(self, operation: Any) -> None:
        """Let those observers look at an operation that is about to run."""
        for observer in self.observers:
            if observer.inspects:
                observer.inspect(operation)


watched: Final = _Watched()
_lock = threading.Lock()


def start(observer: Observer, at_import: bool = False) -> None:
    """Tell an observer of everything from now on; `at_import` says that diffkern is being imported."""
    with _lock:
        watched.observers = (*watched.observers, observer)
        (put_at_import if at_import else put)("observed", True)


def stop(observer: Observer) -> None:
    """Stop telling an observer.

    If another thread has started it, launches go on asking whether they are watched, which takes time but has no other
    effect.
    """
    with _lock:
        watched.observers = tuple(other for other in watched.observers if other is not observer)
        if not watched.observers and current.observed:
            put("observed", None)


@contextlib.contextmanager
def span(kind: str, name: str, waits_for: Any = None, /, **facts: Any) -> Iterator[Span]:
    """Tell the observers of the work in the block.

    Parameters
    ----------
    kind, name
        As in a :class:`Span`.
    waits_for
        The GPU on which it runs, for observers that wait for it.
    **facts
        As in a :class:`Span`; more may be added in the block.
    """
    observers = watched.observers
    made = Span(kind, name, facts, thread=threading.get_ident())
    for observer in observers:
        observer.begin(made)
    # Taken after the observers were told, and the end before, so that their own time is not counted.
    made.begin = time.perf_counter_ns()
    try:
        yield made
        if waits_for is not None and any(o.synchronizes for o in observers) and not waits_for.is_capturing:
            waits_for.synchronize()
    except BaseException as error:
        made.facts["error"] = type(error).__name__
        raise
    finally:
        made.end = time.perf_counter_ns()
        # In reverse, as ranges of profilers have to nest.
        for observer in reversed(observers):
            observer.end(made)


def past(made: Span) -> None:
    """Tell the observers of a span that is over."""
    made.thread = threading.get_ident()
    for observer in watched.observers:
        observer.past(made)
