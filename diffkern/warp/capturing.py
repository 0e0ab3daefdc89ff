"""``wp.ScopedCapture`` and ``wp.capture_begin``, which take Warp's additional arguments.

They return captures of :mod:`diffkern`. A program is compiled when a launch of it is captured, so nothing has to be
loaded before, and arguments about loading modules have no effect.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from diffkern.errors import MisuseError
from diffkern.runtime.arrays.operation import Operation
from diffkern.runtime.memory.stream import Stream
from diffkern.runtime.records.graph import Graph
from diffkern.runtime.records.graph import ScopedCapture as NativeCapture
from diffkern.runtime.records.graph import capture_begin as native_begin
from diffkern.runtime.records.hazards import waits

__all__ = ["ScopedCapture", "capture_begin", "capture_debug_dot_print"]


class ScopedCapture(NativeCapture):
    """Captures what happens to arrays in a ``with`` block; afterwards ``graph`` holds it.

    Parameters
    ----------
    device, stream : optional
        As in :func:`diffkern.capture_begin`.
    force_module_load : bool, optional
        Accepted: programs are compiled where a launch is captured.
    external : bool, optional
        Only False.
    apic : bool, optional
        Accepted: a graph is always recorded by diffkern itself.
    capture_mode : optional
        Accepted.

    Raises
    ------
    MisuseError
        If another library is to capture.
    """

    def __init__(
        self,
        device: Any = None,
        stream: Stream | None = None,
        force_module_load: bool | None = None,
        external: bool = False,
        apic: bool = False,
        capture_mode: Any = None,
    ) -> None:
        _check(external)
        super().__init__(device, stream)


def capture_begin(
    device: Any = None,
    stream: Stream | None = None,
    force_module_load: bool | None = None,
    external: bool = False,
    apic: bool = False,
    capture_mode: Any = None,
) -> None:
    """Capture all operations on arrays from now on into a graph, instead of running them.

    Parameters
    ----------
    device, stream, force_module_load, external, apic, capture_mode : optional
        As in :class:`ScopedCapture`.

    Raises
    ------
    MisuseError
        If another library is to capture.
    """
    _check(external)
    native_begin(device, stream)


def capture_debug_dot_print(graph: Graph, path: str, verbose: bool = True) -> None:
    """Write a graph as a DOT file: its steps, and which of them wait for which.

    Parameters
    ----------
    graph : Graph
        The captured graph.
    path : str
        The file.
    verbose : bool, optional
        Whether it says which arrays each step reads and writes.
    """
    operations = [item.operation for item in graph.sequence._program.items]
    # The edges are derived from the arrays, as a sequence has its steps in order and no graph.
    before = waits([(operation.reads(), operation.writes()) for operation in operations])
    lines = [f"  step{k} [label={_label(k, operation, verbose)}];" for k, operation in enumerate(operations)]
    lines += [f"  step{first} -> step{k};" for k, needed in enumerate(before) for first in sorted(needed)]
    text = "\n".join(["digraph graph_of_steps {", "  node [shape=box];", *lines, "}", ""])
    Path(path).write_text(text, encoding="utf-8")


def _label(number: int, operation: Operation, verbose: bool) -> str:
    """Return the label of a step as a quoted string of the DOT language."""
    text = f"{number}: {operation.label}"
    if verbose:
        for verb, arrays in (("reads", operation.reads()), ("writes", operation.writes())):
            text += "".join(f"\n{verb} {a._summary()}" for a in arrays)
    # JSON's escapes of quotes and newlines are those of DOT.
    return json.dumps(text, ensure_ascii=False)


def _check(external: bool) -> None:
    if external:
        raise MisuseError(
            "a capture that another library has begun cannot be taken over", remedy="capture with ScopedCapture alone"
        )
