"""``dk.record()``: launches, copies, fills and gradients as one object that is replayed in one native call.

The operations on arrays inside the ``with`` block become a :class:`Sequence`: a list of steps whose parameters can
be changed, that can be cut, reordered, differentiated and written to a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Series
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

from diffkern.errors import LaunchError, described
from diffkern.process.late import GRAPH
from diffkern.process.tracebacks import brief
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign, Copy, Operation
from diffkern.runtime.effects.tape import Tape
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.value_bytes import unpacked
from diffkern.runtime.memory.scope import Scope
from diffkern.runtime.memory.state import is_handled
from diffkern.runtime.memory.stream import drain
from diffkern.runtime.records.compiled_sequence import CompiledSequence
from diffkern.runtime.records.hazards import waits
from diffkern.runtime.records.launch_record import LaunchRecord
from diffkern.runtime.records.record import Launch
from diffkern.runtime.records.recorder import Item, Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from diffkern.runtime.records.graph import Graph

__all__ = ["Sequence", "record"]


class Sequence(Uncopied):
    """Recorded steps. Made by :func:`record`.

    ``sequence.replay(stream=None, timed=False)`` runs them all, with the contents that the arrays have then; with
    ``timed=True`` each step's time is measured, for the table and the trace (on a GPU each step is waited for then).
    ``sequence[i]`` is the record of a launch, ``sequence[a:b]`` a sequence of the same steps: changes of parameters
    show in both.
    """

    __slots__ = ("__weakref__", "_program", "replay")

    replay: Callable[..., None]

    def __init__(self, items: Series[Item] = ()) -> None:
        self._set(items)

    def _set(self, items: Series[Item]) -> None:
        self._program = CompiledSequence(items)
        self.replay = self._program.replayed()

    def __len__(self) -> int:
        return len(self._program.items)

    @overload
    def __getitem__(self, index: int) -> Launch: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence: ...

    def __getitem__(self, index: int | slice) -> Launch | Sequence:
        """Return the record of one launch, or a part of the sequence."""
        if isinstance(index, slice):
            return Sequence(self._program.items[index])
        item = self._program.items[index]
        if item.record is None:
            raise LaunchError(
                f"step {index} is a {item.operation.label}, not a launch; it has no parameters",
                remedy="launches are the steps that have a kernel",
            )
        return Launch(item.record)

    def __iter__(self) -> Iterator[Launch]:
        """Iterate over the records of the launches."""
        return iter([Launch(item.record) for item in self._program.items if item.record is not None])

    # -- parameters --------------------------------------------------------------------------------------------------

    @brief
    def set_param(self, name: str, value: Any, kernel: Any = None) -> int:
        """Set a parameter of every launch whose kernel has one of this name, also of those in loops and branches.

        Parameters
        ----------
        name : str
            The parameter.
        value
            Its value, checked for every launch before any is changed.
        kernel : Kernel, optional
            The kernel, to set it for its launches only.

        Returns
        -------
        int
            Number of launches.
        """
        return self._set_params({name: value}, kernel)

    @brief
    def set_params(self, values: Mapping[str, Any], kernel: Any = None) -> None:
        """Set several parameters by name, all of them or none; see :meth:`set_param`."""
        self._set_params(values, kernel)

    def _set_params(self, values: Mapping[str, Any], kernel: Any) -> int:
        """Set parameters by name after all are checked, and return how many were set."""
        # Those in loops and branches are launches of the sequence too; a graph may be the body of several.
        launches = dict.fromkeys(record for item in self._program.items for record in item.launches())
        goals: list[tuple[LaunchRecord, dict[int, Any]]] = []
        missing = dict.fromkeys(values)
        for record in launches:
            if kernel is None or record.launch.kernel is kernel:
                own = {p.index: values[p.name] for p in record.launch.kernel.parameters if p.name in values}
                if own:
                    goals.append((record, own))
                for p in record.launch.kernel.parameters:
                    missing.pop(p.name, None)
        for name in missing:
            raise LaunchError(
                f"no launch of the sequence has a parameter {name!r}",
                remedy="set one that a kernel of the sequence has",
            )
        # Two passes, so that a value which one launch refuses has changed none.
        for record, own_values in goals:
            record.check(own_values)
        for record, own_values in goals:
            record.set_all(own_values)
        return sum(len(own_values) for _, own_values in goals)

    # -- order -------------------------------------------------------------------------------------------------------

    def dependencies(self) -> list[set[int]]:
        """Return for each step the earlier ones it depends on: they touch memory that one of the two writes."""
        operations = [item.operation for item in self._program.items]
        return waits([(o.reads(), o.writes()) for o in operations], every=True)

    @brief
    def reorder(self, order: Series[int]) -> Sequence:
        """Return the steps in another order.

        Parameters
        ----------
        order : sequence of int
            The positions of all steps, each once.

        Raises
        ------
        ValueError
            If a step would come before one that it depends on.
        """
        if sorted(order) != list(range(len(self))):
            raise ValueError(f"the order must name each of the {len(self)} steps once, not {list(order)!r}")
        place = {step: position for position, step in enumerate(order)}
        for step, needed in enumerate(self.dependencies()):
            for other in needed:
                if place[other] > place[step]:
                    first, second = (self._program.items[k].operation.label for k in (other, step))
                    raise ValueError(
                        f"step {step} ({second}) must stay behind step {other} ({first}): they use the same memory"
                    )
        return Sequence([self._program.items[k] for k in order])

    # -- gradients ---------------------------------------------------------------------------------------------------

    @brief
    def adjoint(
        self, loss: array | None = None, grads: Mapping[array, Any] | None = None, zero: bool = True
    ) -> Sequence:
        """Return forward and reverse as one sequence: its replay computes results and gradients.

        Nothing runs meanwhile. Numbers can be changed in it by name, arrays cannot.

        Parameters
        ----------
        loss, grads : optional
            As in :meth:`Tape.backward`. Without them the gradients begin with the contents of ``grad`` of the
            results at
            each replay.
        zero : bool, optional
            Whether a replay sets the gradients to zero first; without `loss` and `grads` it never does.
        """
        if any(isinstance(item.operation, AdjointLaunch) for item in self._program.items):
            raise LaunchError(
                "the sequence contains adjoints already, and they have no gradient",
                remedy="record the forward launches alone, and take their adjoint",
            )
        if is_handled():
            raise LaunchError(
                "the adjoint of a sequence is not built inside a tape; leave its block first",
                remedy="build it behind the with block",
            )
        drain()
        tape = Tape()
        # The steps go through a tape, which records them, and the operations that tape and sweep perform go to the
        # recorder: copies of what is overwritten, the launches, their adjoints.
        with Recorder(runs=False) as recorder:
            with tape:
                copies: dict[PackedLaunch, PackedLaunch] = {}
                for item in self._program.items:
                    item.again(copies)
            if zero and not (loss is None and grads is None):
                tape.zero()
            tape.backward(loss, grads)
        # The copies that the tape made are for these arrays and dimensions.
        for item in recorder.items:
            if item.record is not None:
                item.record.fix()
        return Sequence(recorder.items)

    @brief
    def capture(self) -> Graph:
        """Return the sequence as a graph: on a GPU a CUDA graph, on the CPU the sequence itself.

        Raises
        ------
        LaunchError
            If its steps run on several devices, or one of them cannot be part of a graph.
        """
        made: Graph = GRAPH(self)
        return made

    # -- showing -----------------------------------------------------------------------------------------------------

    def table(self) -> list[dict[str, Any]]:
        """Return for each step its name, dimensions, parameters, stream, and the time of the last timed run.

        Times are in seconds, None before the first ``replay(timed=True)``.
        """
        rows = []
        for item, measured in zip(self._program.items, self._program.times, strict=True):
            operation, record = item.operation, item.record
            rows.append(
                {
                    "step": operation.label,
                    "dim": [] if record is None else list(record.launch.dims),
                    "parameters": _parameters(operation),
                    "stream": "default" if item.stream is None else repr(item.stream),
                    "native": item.steps is not None,
                    "seconds": None if measured is None else measured[1],
                }
            )
        return rows

    def __str__(self) -> str:
        head = ("", "step", "dim", "parameters", "stream", "time (us)")
        lines = [head]
        for index, row in enumerate(self.table()):
            took = "-" if row["seconds"] is None else f"{row['seconds'] * 1e6:.2f}"
            dim = " x ".join(map(str, row["dim"]))
            shown = ", ".join(f"{name}={value}" for name, value in row["parameters"].items())
            lines.append((str(index), row["step"], dim, shown, row["stream"], took))
        widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)

    def __repr__(self) -> str:
        return f"<dk.Sequence of {len(self)} steps>"

    def to_json(self, path: str | Path | None = None) -> str:
        """Return :meth:`table` and :meth:`dependencies` as JSON, and write it to a file if one is named."""
        needed = self.dependencies()
        rows = [{**row, "after": sorted(after)} for row, after in zip(self.table(), needed, strict=True)]
        text = json.dumps({"steps": rows}, indent=2)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def chrome_trace(self, path: str | Path | None = None) -> str:
        """Return the last timed run in the format of Chrome's tracing and Perfetto, and write it to a file if named.

        Raises
        ------
        RuntimeError
            If there was none.
        """
        if None in self._program.times:
            raise RuntimeError("there are no times yet; run replay(timed=True) first")
        measured = [t for t in self._program.times if t is not None]
        origin = min((begin for begin, _ in measured), default=0.0)
        events = [
            {
                "name": row["step"], "ph": "X", "pid": 0, "tid": row["stream"], "cat": "launch",
                "ts": (begin - origin) * 1e6, "dur": took * 1e6,
                "args": {"dim": row["dim"], **row["parameters"]},
            }
            for row, (begin, took) in zip(self.table(), measured, strict=True)
        ]  # fmt: skip
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text


class record(Scope):
    """Records the operations on arrays in a ``with`` block: ``with dk.record() as sequence:``.

    Launches, ``dk.copy``, fills and assignments, and what a :class:`Tape` does are recorded. What Python computes is
    not:
    a number that was read from an array is a constant of the sequence, and reading in the block what it has written is
    an error. Branches and loops that depend on results are written with :func:`capture_if` and :func:`capture_while`.

    Parameters
    ----------
    run : bool, optional
        Whether operations also run while they are recorded. With False none does, so that there are no results.
    allow_reads : bool, optional
        Whether arrays that the block has written may be read in it, for purposes that have no part in what is recorded.
    """

    if TYPE_CHECKING:  # at run time it is native code

        def __enter__(self) -> Sequence: ...

    def __init__(self, run: bool = True, allow_reads: bool = False) -> None:
        self._recorder = Recorder(run, allow_reads)
        # Made empty at once, so that the block has an object to name; filled when the block ends.
        self._sequence = Sequence()

    def _begin(self) -> tuple[str, Recorder, Sequence]:
        return *self._recorder._begin()[:2], self._sequence

    def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self._sequence._set(self._recorder.items)


def _parameters(operation: Operation) -> dict[str, str]:
    if isinstance(operation, Copy):
        return {"to": described(operation.goal), "from": described(operation.source)}
    if isinstance(operation, Assign):
        return {"array": described(operation.goal)}
    launch = operation.launch if isinstance(operation, AdjointLaunch) else operation
    if not isinstance(launch, PackedLaunch):
        written = list(operation.writes())
        return {"to": described(written[0])} if written else {}
    shown = {}
    for leaf, held, part in zip(launch.leaves, launch.arrays, launch.parts, strict=True):
        key = str(leaf.type)
        shown[leaf.name] = key + str(list(held.shape)) if held is not None else unpacked(key, part)
    return shown
