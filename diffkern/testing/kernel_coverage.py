"""Coverage of kernels: the lines and branches that threads of launches took, for coverage.py.

coverage.py follows Python, which runs none of a kernel's lines. While a :class:`kernel_coverage` is open, each launch
first runs on copies of its arguments as a program that notes the statements that its threads reach; then it runs as
ever. As a plugin of pytest, ``pytest -p diffkern.testing.kernel_coverage --cov``, it is open for the whole session.
"""

from __future__ import annotations

import ast
import contextlib
import os
import warnings
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from diffkern.compiler import pipeline
from diffkern.errors import KernelError
from diffkern.ir.nodes import walk
from diffkern.ir.ops.memory import PLACE_WRITES
from diffkern.ir.types import Array
from diffkern.runtime.arrays.type_keys import type_of_key
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.observe.spans import Span, start, stop
from diffkern.testing.reached import ReachedPlace, ReachedPlaces

if TYPE_CHECKING:
    from diffkern.kernels.kernel import Kernel

__all__ = ["CoverageWarning", "kernel_coverage"]

Arc = tuple[int, int]
"""Two lines of which one follows the other, as coverage.py has it: negative, a function is entered or left."""


class CoverageWarning(UserWarning):
    """A kernel's launches are not covered; the text says why."""


class kernel_coverage:
    """Note the lines and branches of kernels that launches in the block take.

    Launches run twice, once on copies of their arrays and on one thread of the CPU; those of recorded
    sequences run one by one. A kernel that writes to volumes, or takes arrays in elements of an array, is not covered,
    with a :class:`CoverageWarning`. Functions that kernels call count as well, derivatives do not.

    Parameters
    ----------
    source : iterable of path, optional
        Files and directories whose lines are noted; by default all but diffkern's own.

    Attributes
    ----------
    left_out : dict of str to str
        The names of kernels with launches that are not covered, with a reason.

    Examples
    --------
    >>> import diffkern as dk
    >>> @dk.kernel
    ... def relu(x: dk.array(dtype=float)):
    ...     i = dk.tid()
    ...     if x[i] < 0.0:
    ...         x[i] = 0.0
    >>> with dk.testing.kernel_coverage() as covered:
    ...     dk.launch(relu, dim=2, inputs=[dk.ones(2)])
    >>> [len(lines) for lines in covered.lines().values()]
    [2]
    """

    synchronizes = False
    inspects = True

    def __init__(self, source: Iterable[str | os.PathLike[str]] | None = None) -> None:
        self._source = None if source is None else [str(Path(place).resolve()) for place in source]
        self.left_out: dict[str, str] = {}
        self._programs: dict[tuple[Any, ...], ReachedPlaces | None] = {}

    def __enter__(self) -> kernel_coverage:
        self.begin_session()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end_session()
        for name, reason in self.left_out.items():
            warnings.warn(f"launches of {name!r} are not covered: {reason}", CoverageWarning, stacklevel=2)

    def begin_session(self) -> None:
        """Begin to note what launches reach."""
        start(self)

    def end_session(self) -> None:
        """Note no more."""
        stop(self)

    # -- as an observer ------------------------------------------------------------------------------------------------

    def inspect(self, operation: Any) -> None:
        """Note what a launch reaches that is about to run."""
        # What counts for a log is no launch of the user's.
        if isinstance(operation, PackedLaunch) and (operation.log is None or operation.logged is not None):
            self._cover(operation)

    def begin(self, span: Span) -> None:
        """Do nothing: times are not measured."""

    def end(self, span: Span) -> None:
        """Do nothing, for the same reason."""

    def past(self, span: Span) -> None:
        """Do nothing, for the same reason."""

    def _cover(self, launch: PackedLaunch) -> None:
        blocks = launch.blocks.block_dim or cast("Kernel", launch.kernel).block_dim
        key = (launch.kernel, launch.generation, launch.keys, len(launch.dims), blocks)
        if key not in self._programs:
            self._programs[key] = self._program(launch, blocks)
        program = self._programs[key]
        if program is None:
            return
        parts: list[Any] = list(launch.parts)
        for k, held in enumerate(launch.arrays):
            if held is not None:
                # Not as the host reads them, of which a tape takes note.
                parts[k] = np.array(held._memory.contents(held._data))
        try:
            program.run(launch.dims, parts)
        except Exception as error:  # the launch itself, which comes next, reports what is wrong with it
            self._leave_out(launch, f"a run failed ({error})")

    def _program(self, launch: PackedLaunch, block_dim: int) -> ReachedPlaces | None:
        kernel, generation = cast("Kernel", launch.kernel), launch.generation
        types = tuple(type_of_key(key) for key in launch.keys[: len(kernel.parameters)])
        try:
            fn = pipeline.lower_kernel(kernel.function_of(generation), types, generation.variant, marked=True)
            if any(isinstance(p.type, Array) and p.type.layout.startswith("P") for p in fn.params):
                self._leave_out(launch, "it takes arrays in elements of an array, of which there are no copies")
                return None
            if any(op.name in PLACE_WRITES for op in walk(fn.body)):
                self._leave_out(launch, "it writes to a volume, of which there is no copy")
                return None
            return ReachedPlaces(fn, len(launch.dims), block_dim)
        except KernelError as error:
            self._leave_out(launch, f"it has no program for the CPU ({error})")
            return None

    def _leave_out(self, launch: PackedLaunch, reason: str) -> None:
        self.left_out.setdefault(launch.kernel.name, reason)

    # -- results -------------------------------------------------------------------------------------------------------

    def lines(self) -> dict[str, set[int]]:
        """Return the lines that were reached, by file."""
        found: dict[str, set[int]] = defaultdict(set)
        for file, arcs in self.arcs().items():
            found[file].update(line for arc in arcs for line in arc if line > 0)
        return dict(found)

    def arcs(self) -> dict[str, set[Arc]]:
        """Return the pairs of lines that followed each other, by file, as coverage.py has them.

        The first line of a function with a minus sign stands for its entry and for its end.
        """
        found: dict[str, set[Arc]] = defaultdict(set)
        for program in self._programs.values():
            for file, arcs in () if program is None else _arcs(program):
                if self._counts(file):
                    found[file].update(arcs)
        return dict(found)

    def _counts(self, file: str) -> bool:
        if self._source is None:
            return not file.startswith(_OWN)
        return any(file == place or file.startswith(place + os.sep) for place in self._source)

    def save(self, data: Any = None) -> None:
        """Add the results to coverage.py's.

        Parameters
        ----------
        data : object, optional
            The ``CoverageData`` to add to. By default that of the measurement that runs in this process, else a data
            file of its own beside ``.coverage``, which ``coverage combine`` takes.

        Raises
        ------
        ImportError
            If there is no coverage.py.
        """
        try:
            import coverage
        except ImportError:
            raise ImportError("kernel_coverage.save needs coverage.py: pip install coverage") from None
        running, arcs, lines = coverage.Coverage.current(), self.arcs(), self.lines()
        own = data is None and running is None
        if own:
            name = str(coverage.Coverage().get_option("run:data_file"))
            data = coverage.CoverageData(name, suffix=f"kernels.{os.getpid()}")
        elif data is None and running is not None:
            data = running.get_data()
            # A module with a kernel was imported: without lines of its own it is none of those that are measured.
            measured = data.measured_files()
            arcs = {file: found for file, found in arcs.items() if file in measured}
            lines = {file: found for file, found in lines.items() if file in measured}
        # A data file has lines or arcs, not both. One without either is what the configuration says.
        if data.measured_files():
            has_arcs = data.has_arcs()
        else:
            has_arcs = bool((running or coverage.Coverage()).get_option("run:branch"))
        if has_arcs:
            data.add_arcs(arcs)
        else:
            data.add_lines(lines)
        if own:
            data.write()


_OWN = str(Path(__file__).resolve().parents[1]) + os.sep


def _arcs(program: ReachedPlaces) -> Iterator[tuple[str, set[Arc]]]:
    """Yield files with their arcs: the pairs of places of a program, with the lines of loops between them."""
    places = [program.places[k] for k in range(len(program.places))]
    pairs = [(places[one], places[other]) for one, other in program.pairs]
    follows: dict[ReachedPlace, set[ReachedPlace]] = defaultdict(set)
    by_itself: set[ReachedPlace] = set()  # what follows loops that ended because they were through
    for place, goal in pairs:
        if place.kind == "after":
            follows[place].add(goal)
        if goal.kind == "after" and not _passes(place, goal):
            by_itself.add(goal)
    for place, goal in pairs:
        if place.kind == "after" and place not in by_itself:
            continue
        if _passes(place, goal):
            # It goes on after the loop, not by way of the loop's own line.
            for end in _ends(goal, follows):
                yield place.file, _between(place, end)
        elif _left(place) != _entered(goal) or goal.kind != "after":  # else the loop's line is left as it was reached
            yield place.file, _between(place, goal)


def _between(place: ReachedPlace, goal: ReachedPlace) -> set[Arc]:
    """Return the arcs from a place to another, by way of the line of a loop where the next iteration begins there."""
    begin, end = _left(place), _entered(goal)
    head = _loops(place.file).heads.get(goal.line) if goal.kind == "statement" else None
    return {(begin, end)} if head is None or begin == head else {(begin, head), (head, end)}


def _ends(goal: ReachedPlace, follows: Mapping[ReachedPlace, set[ReachedPlace]]) -> Iterator[ReachedPlace]:
    """Yield where control goes on after a loop that it has left."""
    for place in follows[goal]:
        if _passes(goal, place):
            yield from _ends(place, follows)
        else:
            yield place


def _passes(place: ReachedPlace, goal: ReachedPlace) -> bool:
    """Return whether the line of a loop is not reached again before what comes after it."""
    if goal.kind != "after":
        return False
    loops = _loops(place.file)
    if place.kind == "statement" and place.line in loops.breaks:
        return True
    first, last = loops.orelse.get(goal.line, (0, -1))
    return first <= place.line <= last


def _left(place: ReachedPlace) -> int:
    return -place.first if place.kind == "begin" else place.line


def _entered(place: ReachedPlace) -> int:
    return -place.first if place.kind == "end" else place.line


class _LoopLines(NamedTuple):
    """The loops of a file."""

    heads: dict[int, int]
    """Their lines by those of the first statements in them, and after them in an ``else``."""
    orelse: dict[int, tuple[int, int]]
    """The first and last lines of what stands in an ``else``, by their lines."""
    breaks: set[int]
    """The lines that leave one."""


@cache
def _loops(file: str) -> _LoopLines:
    loops = _LoopLines({}, {}, set())
    with contextlib.suppress(OSError, SyntaxError):
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
            if isinstance(node, (ast.For, ast.While)):
                loops.heads[node.body[0].lineno] = node.lineno
                if node.orelse:
                    loops.heads[node.orelse[0].lineno] = node.lineno
                    loops.orelse[node.lineno] = node.orelse[0].lineno, node.orelse[-1].end_lineno or 0
            elif isinstance(node, ast.Break):
                loops.breaks.add(node.lineno)
    return loops


# -- as a plugin of pytest ---------------------------------------------------------------------------------------------


def pytest_configure(config: Any) -> None:
    """Cover the kernels of a session."""
    # Not above: pytest need not be installed for anything else here.
    import pytest

    covered = kernel_coverage()

    class CoveredSession:
        # Innermost: pytest-cov, which wraps the same loop, ends its measurement right after it.
        @pytest.hookimpl(wrapper=True, trylast=True)
        def pytest_runtestloop(self) -> Generator[None, object, object]:
            covered.begin_session()
            try:
                return (yield)
            finally:
                covered.end_session()
                # With pytest-xdist the process that the workers report to has run none.
                if covered.arcs():
                    covered.save()

        def pytest_terminal_summary(self, terminalreporter: Any) -> None:
            if covered.left_out:
                terminalreporter.section("kernels that are not covered")
                for name, reason in sorted(covered.left_out.items()):
                    terminalreporter.line(f"{name}: {reason}")

    config.pluginmanager.register(CoveredSession(), "diffkern-kernel-coverage")
