"""The order in which the fake driver's work runs: streams, what waits for what, and graphs.

In: pieces of work given to streams. Out: they run when somebody waits for them, with everything they need before them
and nothing else; among what may run next the youngest comes first. That order is as unlike the order of the program as
the streams allow, and always the same. Another rank gives another order, for instance one by chance.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import heapq
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from diffkern.runtime.cuda.driver import LEGACY_STREAM

__all__ = ["Graph", "Node", "Rank", "Timeline", "Work", "youngest_first"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _without_collection(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Put the garbage collector off: a finalizer would free memory in the middle of it, as no driver's call can."""

    @functools.wraps(function)
    def whole(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with contextlib.ExitStack() as stack:
            if gc.isenabled():
                gc.disable()
                stack.callback(gc.enable)
            return function(*args, **kwargs)

    return whole


Rank = Callable[[Any], float]
"""Of what may run next, the piece with the lowest rank does."""


def youngest_first(piece: Any) -> float:
    """Return the rank by which the youngest piece comes first."""
    return -float(piece.number)


class Work:
    """A piece of work and what has to run before it."""

    __slots__ = ("done", "finished", "kind", "needs", "number", "run")

    def __init__(self, number: int, kind: str, run: Callable[[], None], needs: set[Work]) -> None:
        self.number = number
        self.kind = kind
        self.run = run
        self.needs = needs
        self.done = False
        self.finished = 0


class Node:
    """A piece of work in a graph."""

    __slots__ = ("graph", "handle", "kind", "needs", "number", "run", "shape")

    def __init__(self, graph: Graph, kind: str, run: Callable[[], None], shape: Any, needs: set[Node]) -> None:
        self.graph = graph
        self.number = len(graph.nodes)
        self.kind = kind
        self.run = run
        self.shape = shape
        self.needs = needs
        self.handle = 0


class Graph:
    """What was captured."""

    def __init__(self, rank: Rank = youngest_first) -> None:
        self._rank = rank
        self.nodes: list[Node] = []
        self.invalid = False

    def form(self) -> list[tuple[str, Any]]:
        """Return what has to stay when parameters are exchanged: kinds, functions and dependencies."""
        names = [n.shape.name if n.kind == "kernel" and hasattr(n.shape, "name") else "" for n in self.nodes]
        return [(n.kind, (name, sorted(x.number for x in n.needs))) for n, name in zip(self.nodes, names, strict=True)]

    def run(self) -> None:
        """Run all nodes, of those that may run next always the one with the lowest rank."""
        _in_order(self.nodes, lambda node: node.run(), self._rank)


class _Stream:
    def __init__(self, context: int, blocking: bool) -> None:
        self.context = context
        self.blocking = blocking
        self.last: Work | None = None
        self.graph: Graph | None = None
        self.is_origin = False
        # While capturing: what the next node comes behind.
        self.heads: set[Node] = set()


class Timeline:
    """All streams of a driver."""

    def __init__(self, rank: Rank = youngest_first) -> None:
        self._rank = rank
        self.pending: set[Work] = set()
        self._streams: dict[int, _Stream] = {}
        self._legacy: dict[int, _Stream] = {}
        self._count = 0
        self._clock = 0

    def add_stream(self, handle: int, context: int, blocking: bool) -> None:
        self._streams[handle] = _Stream(context, blocking)

    def has_stream(self, handle: int) -> bool:
        return handle in self._streams

    def remove_stream(self, handle: int) -> None:
        """Forget a stream; what it was given runs first, as the driver promises that it will run."""
        stream = self._streams.pop(handle)
        if stream.last is not None:
            self.complete([stream.last])

    def _stream(self, handle: int, context: int) -> _Stream:
        if handle == LEGACY_STREAM:
            return self._legacy.setdefault(context, _Stream(context, True))
        return self._streams[handle]

    # -- work --------------------------------------------------------------------------------------------------------

    @_without_collection
    def enqueue(
        self, handle: int, context: int, kind: str, run: Callable[[], None], shape: Any, needs: Work | None
    ) -> Work | Node:
        """Give work to a stream."""
        stream = self._stream(handle, context)
        if stream.graph is not None:
            if kind == "event":
                # An event in a capture is a mark behind what the stream has, not a node.
                return _mark(stream)
            node = Node(stream.graph, kind, run, shape, set(stream.heads))
            stream.graph.nodes.append(node)
            stream.heads = {node}
            return node
        before = {stream.last} if stream.last is not None else set()
        if handle == LEGACY_STREAM:
            before |= {s.last for s in self._streams.values() if s.context == context and s.blocking and s.last}
        elif stream.blocking:
            legacy = self._legacy.get(context)
            before |= {legacy.last} if legacy is not None and legacy.last is not None else set()
        if needs is not None:
            before.add(needs)
        self._count += 1
        work = Work(self._count, kind, run, {w for w in before if not w.done})
        stream.last = work
        self.pending.add(work)
        return work

    @_without_collection
    def complete(self, goals: Iterable[Work]) -> None:
        """Run some work, and what it needs."""
        wanted: set[Work] = set()
        stack = [work for work in goals if not work.done]
        while stack:
            work = stack.pop()
            if work not in wanted:
                wanted.add(work)
                stack += [w for w in work.needs if not w.done]
        _in_order(wanted, self._run, self._rank)

    def _run(self, work: Work) -> None:
        work.run()
        self._clock += 1
        work.finished = self._clock
        work.done = True
        work.needs = set()
        self.pending.discard(work)

    def finish(self, context: int | None = None) -> None:
        """Run everything, or everything of one context."""
        if context is None:
            self.complete(list(self.pending))
            return
        streams = [*self._streams.values(), *self._legacy.values()]
        self.complete([s.last for s in streams if s.context == context and s.last is not None])

    def finish_stream(self, handle: int, context: int) -> None:
        """Run all work of a stream. Waiting for the default stream waits for those that it waits for as well."""
        stream = self._stream(handle, context)
        goals = [stream.last]
        if handle == LEGACY_STREAM:
            goals += [s.last for s in self._streams.values() if s.context == context and s.blocking]
        self.complete([work for work in goals if work is not None])

    def query(self, handle: int, context: int) -> bool:
        """Return whether a stream has nothing left to run; each question lets one piece of work run."""
        last = self._stream(handle, context).last
        return last is None or self.step(last)

    def step(self, goal: Work) -> bool:
        """Return whether work has run; if not, run one piece that it needs."""
        if goal.done:
            return True
        work = goal
        while waiting := [w for w in work.needs if not w.done]:
            work = max(waiting, key=lambda w: w.number)
        self._run(work)
        return False

    # -- capture -----------------------------------------------------------------------------------------------------

    def begin_capture(self, handle: int, graph: Graph) -> None:
        stream = self._streams[handle]
        stream.graph, stream.is_origin, stream.heads = graph, True, set()

    def capturing(self, handle: int) -> Graph | None:
        """Return the graph that a stream captures."""
        stream = self._streams.get(handle)
        return None if stream is None else stream.graph

    def heads(self, handle: int) -> set[Node] | None:
        """Return what the next node of a stream comes behind, None if it does not capture."""
        stream = self._streams.get(handle)
        return None if stream is None or stream.graph is None else set(stream.heads)

    def come_behind(self, handle: int, nodes: set[Node]) -> None:
        """Let the next node of a stream that captures come behind others."""
        self._streams[handle].heads = nodes

    def blocks_legacy(self, context: int) -> bool:
        """Whether the default stream may not be used: it would have to wait for a stream that captures."""
        return any(s.graph is not None and s.blocking and s.context == context for s in self._streams.values())

    def end_captures(self, context: int) -> bool:
        """Spoil what the streams of a context capture; return whether one does."""
        graphs = [s.graph for s in self._streams.values() if s.graph is not None and s.context == context]
        for graph in graphs:
            graph.invalid = True
        return bool(graphs)

    def join(self, handle: int, mark: Node) -> None:
        """Let a stream wait for a mark in a capture, and take part in it from then on."""
        stream = self._streams[handle]
        if stream.graph is None:
            stream.graph, stream.is_origin, stream.heads = mark.graph, False, set()
        stream.heads |= mark.needs

    def end_capture(self, handle: int) -> tuple[Graph | None, bool]:
        """End a capture; return the graph, and whether all streams that took part were joined."""
        origin = self._streams.get(handle)
        if origin is None or origin.graph is None or not origin.is_origin:
            return None, False
        graph = origin.graph
        reached: set[Node] = set()
        stack = list(origin.heads)
        while stack:
            node = stack.pop()
            if node not in reached:
                reached.add(node)
                stack += node.needs
        joined = True
        for stream in self._streams.values():
            if stream.graph is graph:
                joined = joined and stream.heads <= reached
                stream.graph, stream.heads = None, set()
        return graph, joined


def _mark(stream: _Stream) -> Node:
    assert stream.graph is not None
    mark = Node(stream.graph, "event", lambda: None, None, set(stream.heads))
    return mark


def _in_order(work: Iterable[Any], run: Callable[[Any], None], rank: Rank) -> None:
    """Run pieces in an order that their needs allow, of those that may run the one with the lowest rank first."""
    waiting: dict[Any, int] = {}
    followers: dict[Any, list[Any]] = {}
    every = set(work)
    for piece in every:
        needs = [need for need in piece.needs if need in every]
        waiting[piece] = len(needs)
        for need in needs:
            followers.setdefault(need, []).append(piece)
    ready = [(rank(piece), piece.number, piece) for piece in sorted(every, key=youngest_first) if not waiting[piece]]
    heapq.heapify(ready)
    while ready:
        *_, piece = heapq.heappop(ready)
        run(piece)
        for other in sorted(followers.get(piece, ()), key=youngest_first):
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, (rank(other), other.number, other))
