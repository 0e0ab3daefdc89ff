"""Ops that are executed once for many threads, ahead of the loop over these threads.

:func:`place` gives a :class:`Placement`. Values computed from parameters, literals and leading components of the thread
index alone are the same for all threads of a chunk, or for all of a row, which differ in the last component only. They
are *moved* out of the loop over threads as far as the following allows.

Loads, branches and loops are moved only where every thread would execute them: outside of branches and loops of the
kernel, or inside of a branch or loop that is moved as a whole. A target executes them only if there is a thread. The
array must not be written by the kernel, and no store may come before the load, so that a thread reads the contents at
its start. A store of another thread may still change the element, if the two arrays overlap: a target has to exclude
that for the ``reads`` of a placement, or compute the moved ops once more for each thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from diffkern.analysis.uniformity import recomputable
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ELEMENT_LOADS, THREAD_INDICES, WRITES
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Array, is_shared
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass

__all__ = ["Placement", "place"]


@dataclass(slots=True)
class Placement:
    """The ops that are executed ahead of the threads; all others are executed by each thread.

    Attributes
    ----------
    chunk, row
        The ops that are executed once for all threads and once for a row, in program order. The regions of a moved op
        belong to it.
    reads
        The array parameters that they load from, in program order.
    writes
        The array parameters that the kernel writes.
    """

    chunk: list[Op] = field(default_factory=list)
    row: list[Op] = field(default_factory=list)
    reads: list[Value] = field(default_factory=list)
    writes: list[Value] = field(default_factory=list)

    @property
    def guarded(self) -> bool:
        """True if an op is moved that must not be executed unless there is a thread."""
        return any(op.name in ELEMENT_LOADS or op.regions for op in (*self.chunk, *self.row))

    @property
    def moved(self) -> frozenset[Op]:
        """All ops that no thread executes by itself."""
        return frozenset((*self.chunk, *self.row))


_CHUNK, _ROW, _THREAD = range(3)


def place(fn: Function, *, loads: bool = True) -> Placement:
    """Find the ops of a function that can be executed ahead of the loops over threads.

    Parameters
    ----------
    fn : Function
        The function; it is not changed.
    loads : bool, optional
        Whether loads may be moved.
    """
    search = _UniformSearch(fn, loads)
    search.region(fn.body, top=True)
    # The ops are listed in program order, so operands precede their uses.
    found = search.placement
    # Moving ops that cost nothing (constants, casts) would only add registers.
    return found if any(lookup(op.name).cost for op in (*found.chunk, *found.row)) else Placement()


class _UniformSearch:
    def __init__(self, fn: Function, loads: bool) -> None:
        self.last_axis = fn.tid_arity - 1
        written = dict.fromkeys(Access(op).array for op in walk(fn.body) if op.name in WRITES)
        self.placement = Placement(writes=[p for p in fn.params if p in written])
        self.level: dict[Value, int] = dict.fromkeys(fn.params, _CHUNK)
        arrays = [p for p in fn.params if isinstance(p.type, Array) and not is_shared(p.type)]
        self.readable = {p for p in arrays if p not in written} if loads else set()

    def region(self, region: Region, top: bool) -> None:
        """Visit the ops of the body, or of a region in it that each thread enters by itself."""
        for op in region.ops:
            level = self.of(op, top)
            self.level.update(dict.fromkeys(op.results, level))
            if level != _THREAD:
                self.move(op, level)
                continue
            if op.name in WRITES:
                # After a write of any array a load might see it through an overlapping parameter, so no later load
                # moves.
                self.readable.clear()
            for sub in op.regions:
                # Parameters of a region that stays with the threads, such as a loop index, vary within a thread.
                self.level.update(dict.fromkeys(sub.params, _THREAD))
                self.region(sub, top=False)

    def of(self, op: Op, top: bool) -> int:
        """Return the outermost level at which an op can be executed."""
        if op.name in THREAD_INDICES:
            return _THREAD if op.attrs["axis"] == self.last_axis else _ROW
        if not self.movable(op, top):
            return _THREAD
        return max((self.level[v] for v in _operands(op)), default=_CHUNK)

    def movable(self, op: Op, top: bool) -> bool:
        """Return whether an op ahead of the threads does the same as in each of them, given its operands."""
        if op.name in ELEMENT_LOADS:
            return top and Access(op).array in self.readable
        if op.regions:
            return top and all(self.movable(inner, top) for sub in op.regions for inner in sub.ops)
        return recomputable(op)

    def move(self, op: Op, level: int) -> None:
        (self.placement.chunk if level == _CHUNK else self.placement.row).append(op)
        for inner in (op, *(inner for sub in op.regions for inner in walk(sub))):
            if inner.name in ELEMENT_LOADS and Access(inner).array not in self.placement.reads:
                self.placement.reads.append(Access(inner).array)


def _operands(op: Op) -> Iterator[Value]:
    """Iterate over the values from outside that an op or its regions use."""
    yield from op.operands
    if not op.regions:
        return
    own: set[Value] = set()
    for sub in op.regions:
        own.update(sub.params)
        for inner in walk(sub):
            own.update(inner.results)
            for deeper in inner.regions:
                own.update(deeper.params)
    for sub in op.regions:
        used = (*sub.yields, *(v for inner in walk(sub) for v in (*inner.operands, *_yields(inner))))
        yield from (v for v in used if v not in own)


def _yields(op: Op) -> Iterator[Value]:
    for sub in op.regions:
        yield from sub.yields
