"""What the process does, for whoever watches: launches, reverse sweeps and compilations, each with its begin and end.

In: observers, which are started and stopped. Out: they are told of every span while they are started. Launches that
nobody watches do not come here: while there is an observer, the word that launches look at is not 0, and they take the
way through :func:`diffkern.runtime.operation.perform`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from diffkern.runtime.scope import put, put_at_import
from diffkern.runtime.state import current

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
        What it is, for a person.
    facts
        What else is known, of types that JSON has.
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
    """Who is told of spans, by any thread.

    Attributes
    ----------
    synchronizes
        Whether the end of a launch on a GPU is that of its threads, so that each is waited for.
    """

    synchronizes: bool

    def begin(self, span: Span) -> None:
        """Take note that something begins."""

    def end(self, span: Span) -> None:
        """Take note that it has ended."""

    def past(self, span: Span) -> None:
        """Take note of something that was over when its times became known."""


class _Watched:
    """Who observes, in any thread."""

    observers: tuple[Observer, ...] = ()


watched: Final = _Watched()
_lock = threading.Lock()


def start(observer: Observer, at_import: bool = False) -> None:
    """Tell an observer of everything from now on; `at_import` says that diffkern is being imported."""
    with _lock:
        watched.observers = (*watched.observers, observer)
        (put_at_import if at_import else put)("observed", True)


def stop(observer: Observer) -> None:
    """Tell an observer of nothing more.

    Where another thread has started it, launches go on to ask whether they are watched, which takes time and nothing
    else.
    """
    with _lock:
        watched.observers = tuple(other for other in watched.observers if other is not observer)
        if not watched.observers and current.observed:
            put("observed", None)


@contextlib.contextmanager
def span(kind: str, name: str, waits_for: Any = None, /, **facts: Any) -> Iterator[Span]:
    """Tell the observers of what is done in the block.

    Parameters
    ----------
    kind, name
        As a :class:`Span` has them.
    waits_for
        The GPU on which it runs, for observers that wait for it.
    **facts
        As a :class:`Span` has them; more may be added in the block.
    """
    observers = watched.observers
    made = Span(kind, name, facts, thread=threading.get_ident())
    for observer in observers:
        observer.begin(made)
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
        for observer in reversed(observers):
            observer.end(made)


def past(made: Span) -> None:
    """Tell the observers of a span that is over."""
    made.thread = threading.get_ident()
    for observer in watched.observers:
        observer.past(made)
