"""Traces in the format of Chrome's, which https://ui.perfetto.dev and chrome://tracing show.

Spans become events of a JSON file, by thread.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from diffkern._version import __version__
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.observe.spans import Span, start, stop

__all__ = ["ScopedTrace"]


class ScopedTrace(Uncopied):
    """Write a trace of a block: ``with dk.ScopedTrace("trace.json"): ...``.

    It has launches and their adjoints, copies and fills, reverse sweeps, replays, compilations with their passes, and
    programs that are loaded, of all threads of the process. https://ui.perfetto.dev shows the file. What JAX and
    functions of PyTorch launch in native code is not in it.

    Parameters
    ----------
    filename : path
        The file, written when the block ends, also by an error.
    synchronize : bool, optional
        Whether each launch on a GPU is waited for, so that its event is as long as its threads run. Otherwise it is
        the time that the program takes to launch it.

    Attributes
    ----------
    events : list of dict
        The events that were written, after the block.
    """

    inspects = False

    def __init__(self, filename: str | os.PathLike[str], synchronize: bool = False) -> None:
        self.filename = os.fspath(filename)
        self.synchronizes = bool(synchronize)
        self.events: list[dict[str, Any]] = []
        self._spans: list[Span] = []
        self._names: dict[int, str] = {}

    def __enter__(self) -> ScopedTrace:
        self._spans, self._names = [], {}
        start(self)
        return self

    def __exit__(self, *_: object) -> None:
        stop(self)
        self.events = self._made()
        with open(self.filename, "w", encoding="utf-8") as file:
            json.dump(
                {"traceEvents": self.events, "displayTimeUnit": "ms", "otherData": {"diffkern": __version__}}, file
            )

    # -- an observer -------------------------------------------------------------------------------------------------

    def begin(self, span: Span) -> None:
        """Note the name of the thread, which may be gone when the file is written."""
        if span.thread not in self._names:
            self._names[span.thread] = threading.current_thread().name

    def end(self, span: Span) -> None:
        """Keep a span."""
        self._spans.append(span)

    past = end

    def inspect(self, operation: Any) -> None:
        """Do nothing: spans say enough."""

    def _made(self) -> list[dict[str, Any]]:
        process = os.getpid()
        named = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
            for thread, name in self._names.items()
        ]
        first = min((span.begin for span in self._spans), default=0)
        # Of spans that begin at the same time, the enclosing one comes first, as viewers nest by order.
        spans = sorted(self._spans, key=lambda span: (span.begin, -span.end))
        return named + [
            {
                "name": span.name, "cat": span.kind, "ph": "X", "pid": process, "tid": span.thread,
                "ts": (span.begin - first) / 1e3, "dur": (span.end - span.begin) / 1e3, "args": span.facts,
            }
            for span in spans
        ]  # fmt: skip
