"""The fake driver's streams, events and graphs.

In: the calls of :class:`diffkern.runtime.cuda.driver.Driver` that order work. Out: work in a
:class:`support.fake_driver.work.Timeline`, which runs it when somebody waits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from diffkern.runtime.cuda.driver import LEGACY_STREAM

from .base import FakeBase, call
from .work import Graph, Node, Work

__all__ = ["FakeStreams"]


class FakeStreams(FakeBase):
    """Streams, events, captures and graphs."""

    def priority_range(self) -> tuple[int, int]:
        return 0, -5

    @call
    def stream_create(self, priority: int, non_blocking: bool) -> int:
        handle = self._handle()
        self._time.add_stream(handle, self._context(), not non_blocking)
        return handle

    @call
    def stream_destroy(self, stream: int) -> None:
        self._time.remove_stream(self._known(stream, "stream_destroy"))

    @call
    def stream_synchronize(self, stream: int) -> None:
        self._not_capturing(stream, "stream_synchronize")
        self._time.finish_stream(self._known(stream, "stream_synchronize"), self._context())

    @call
    def stream_wait(self, stream: int) -> None:
        self._not_capturing(stream, "stream_synchronize")
        self._time.finish_stream(self._known(stream, "stream_synchronize"), self._context())

    @call
    def stream_query(self, stream: int) -> bool:
        return self._time.query(self._known(stream, "stream_query"), self._context())

    @call
    def stream_wait_event(self, stream: int, event: int) -> None:
        mark = self._events[event]
        if isinstance(mark, Node):
            self._time.join(stream, mark)
        elif mark is not None:
            if self._time.capturing(stream) is not None:
                raise self._failure("stream_wait_event", 905)
            self._enqueue("stream_wait_event", stream, "wait", lambda: None, needs=mark)

    @call
    def event_create(self, timing: bool) -> int:
        handle = self._handle()
        self._events[handle] = None
        return handle

    @call
    def event_destroy(self, event: int) -> None:
        del self._events[event]

    @call
    def event_record(self, event: int, stream: int) -> None:
        self._events[event] = self._enqueue("event_record", stream, "event", lambda: None)

    @call
    def event_query(self, event: int) -> bool:
        mark = self._events[event]
        return not isinstance(mark, Work) or self._time.step(mark)

    @call
    def event_synchronize(self, event: int) -> None:
        mark = self._events[event]
        if isinstance(mark, Node):
            mark.graph.invalid = True
            raise self._failure("event_synchronize", 900)
        if mark is not None:
            self._time.complete([mark])

    @call
    def event_elapsed(self, start: int, end: int) -> float:
        marks = self._events[start], self._events[end]
        if not all(isinstance(mark, Work) and mark.done for mark in marks):
            raise self._failure("event_elapsed", 400)
        first, last = (mark.finished for mark in marks if isinstance(mark, Work))
        return float(last - first)

    # -- graphs ------------------------------------------------------------------------------------------------------

    @call
    def capture_begin(self, stream: int) -> None:
        if stream == LEGACY_STREAM:
            raise self._failure("capture_begin", 900)
        self._time.begin_capture(self._known(stream, "capture_begin"), Graph(self._rank))

    @call
    def capture_end(self, stream: int) -> int:
        graph, joined = self._time.end_capture(stream)
        if graph is None:
            raise self._failure("capture_end", 1)
        if graph.invalid:
            raise self._failure("capture_end", 901)
        if not joined:
            raise self._failure("capture_end", 904)
        handle = self._handle()
        self._graphs[handle] = graph
        return handle

    def is_capturing(self, stream: int) -> bool:
        if stream == LEGACY_STREAM:
            return self._time.blocks_legacy(self._context())
        return self._time.capturing(stream) is not None

    @call
    def capture_tail(self, stream: int) -> tuple[int, ...]:
        graph, heads = self._time.capturing(stream), self._time.heads(stream)
        if graph is None or heads is None or graph.invalid:
            raise self._failure("capture_tail", 901)
        return tuple(self._handle_of(node) for node in sorted(heads, key=lambda node: node.number))

    @call
    def capture_behind(self, stream: int, nodes: Sequence[int]) -> None:
        graph = self._time.capturing(stream)
        if graph is not None and graph.invalid:
            raise self._failure("capture_behind", 901)
        chosen = {self._nodes[handle] for handle in nodes}
        if graph is None or len(chosen) < len(nodes) or any(node.graph is not graph for node in chosen):
            raise self._failure("capture_behind", 1)
        self._time.come_behind(stream, chosen)

    def _handle_of(self, node: Node) -> int:
        if not node.handle:
            node.handle = self._handle()
            self._nodes[node.handle] = node
        return node.handle

    def graph_nodes(self, graph: int) -> int:
        return len(self._graphs[graph].nodes)

    @call
    def graph_destroy(self, graph: int) -> None:
        del self._graphs[graph]

    @call
    def graph_instantiate(self, graph: int) -> int:
        handle = self._handle()
        self._executables[handle] = self._graphs[graph]
        return handle

    @call
    def graph_update(self, executable: int, graph: int) -> bool:
        if self._executables[executable].form() != self._graphs[graph].form():
            return False
        self._executables[executable] = self._graphs[graph]
        return True

    @call
    def graph_exec_destroy(self, executable: int) -> None:
        del self._executables[executable]

    @call
    def graph_launch(self, executable: int, stream: int) -> None:
        graph = self._executables[executable]
        self._enqueue("graph_launch", stream, "graph", graph.run)

    def has_conditional_nodes(self) -> bool:
        return self._conditional

    @call
    def conditional_handle(self, stream: int, context: int) -> int:
        if self._time.capturing(stream) is None:
            raise self._failure("conditional_handle", 1)
        handle = self._handle()
        self._conditions[handle] = False
        return handle

    @call
    def conditional_body(self, stream: int, body_stream: int, context: int, handle: int, loop: bool) -> None:
        body = Graph(self._rank)

        def run() -> None:
            while self._conditions[handle]:
                body.run()
                if not loop:
                    break

        self._enqueue("conditional_body", stream, "while" if loop else "if", run)
        self._time.begin_capture(body_stream, body)

    @call
    def set_condition(self, handle: int, address: int, negate: bool, stream: int) -> None:
        self._check("set_condition", address, 4)

        def run() -> None:
            self._conditions[handle] = bool(ctypes.c_int32.from_address(address).value) != negate

        self._enqueue("set_condition", stream, "kernel", run, (handle, address, negate))
