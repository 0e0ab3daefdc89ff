"""Scattered sums of an adjoint that can be computed by sorted destinations.

For each cotangent in which the threads of an adjoint may race anywhere, :func:`sorted_sums` returns the integers by
which threads find the elements they add to, if every thread adds to it a known number of times: elements of integer
arrays that are read at places affine in the thread index, or such places themselves. Otherwise it returns the reason
why not.

Such an adjoint may store its contributions, those of one thread behind those of the one before, for the run time to add
up by destinations: the destination of each follows from the integer array alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from diffkern.analysis.affine import AffineForms, tid_term, widens
from diffkern.analysis.blocks import is_simt
from diffkern.analysis.conflicts import use_atomics
from diffkern.contracts.manifest import Conflict, Destination, SortedSum
from diffkern.errors import Loc
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ACCESSES, ELEMENT_ACCUMULATES, ELEMENT_LOADS, THREAD_INDICES, WRITES
from diffkern.ir.ops.scalar import CASTS
from diffkern.ir.types import INT32, Array, Mat, Scalar, Vec, scalar_of
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass

__all__ = ["Unsorted", "sorted_sums", "store_contributions"]

_BITS = (32, 64)


@dataclass(frozen=True)
class Unsorted:
    """The reason why the sums in a cotangent cannot be computed by sorted destinations.

    Attributes
    ----------
    cotangent
        The cotangent's position among the buffers.
    why, loc
        The reason, and the place in the source that gives it.
    """

    cotangent: int
    why: str
    loc: Loc | None = None


def sorted_sums(
    fn: Function, buffers: Sequence[Value], conflicts: Sequence[Conflict], own: int
) -> tuple[SortedSum, ...] | Unsorted:
    """Return how destinations are found in each cotangent of class ``general``; none, or a reason, if not in all.

    Parameters
    ----------
    fn : Function
        The adjoint.
    buffers : sequence of Value
        Its cotangents.
    conflicts : sequence of Conflict
        How threads race in each.
    own : int
        The number of its parameters that are the kernel's.
    """
    general = [k for k, c in enumerate(conflicts) if c.kind == "general"]
    if not general or fn.tid_arity != 1 or is_simt(fn):
        return Unsorted(general[0], "the launch has several axes, or threads work together") if general else ()
    search = _DestinationSearch(fn, own)
    found = []
    for k in general:
        places = search.places(buffers[k])
        if isinstance(places, _Reason):
            return Unsorted(k, places.why, places.loc)
        found.append(SortedSum(k, places))
    return tuple(found)


def store_contributions(fn: Function, buffers: Sequence[Value], conflicts: Sequence[Conflict]) -> tuple[Conflict, ...]:
    """Make an adjoint store its contributions to cotangents of class ``general``, in place.

    The array that a launch passes in the place of such a cotangent has an element for each contribution: first those of
    the first thread, in program order, then those of the second, …
    """
    thread = next((op.result for op in fn.body.ops if op.name in THREAD_INDICES), None)
    b = Builder()
    if thread is None:
        thread = b.one("tid", axis=0)
    made: list[Conflict] = []
    places: dict[Op, tuple[int, int]] = {}
    for buffer, conflict in zip(buffers, conflicts, strict=True):
        sites = [op for op in fn.body.ops if op.name in ELEMENT_ACCUMULATES and Access(op).array is buffer]
        if conflict.kind != "general":
            # The launch of this form is not cut into coloured chunks, so bounded conflicts need atomics.
            if conflict.kind == "bounded":
                use_atomics(fn, [buffer])
            made.append(Conflict("none") if conflict.kind == "bounded" else conflict)
            continue
        places |= {op: (k, len(sites)) for k, op in enumerate(sites)}
        made.append(Conflict("none"))
    ops = b.region.ops
    for op in fn.body.ops:
        if op in places:
            adding = Builder(loc=op.loc)
            place, count = places[op]
            # Contribution number place of each thread: rows of count elements per thread.
            index = adding.one("add", adding.one("mul", thread, adding.i32(count)), adding.i32(place))
            op.name, op.attrs = "store", {"wrap": (False,)}
            op.operands = (op.operands[0], index, op.operands[-1])
            ops += adding.region.ops
        ops.append(op)
    fn.body.ops[:] = ops
    return tuple(made)


@dataclass(frozen=True)
class _Reason:
    why: str
    loc: Loc | None


class _DestinationSearch:
    """Finds the places at which the threads of an adjoint find the elements they add to."""

    def __init__(self, fn: Function, own: int) -> None:
        self.forms = AffineForms(fn)
        self.top = set(fn.body.ops)
        self.number = {p: k for k, p in enumerate(fn.params[:own])}
        self.accesses: dict[Value, list[Op]] = defaultdict(list)
        for op in walk(fn.body):
            if op.name in ACCESSES:
                self.accesses[Access(op).array].append(op)
        self.written = {array for array, ops in self.accesses.items() if any(op.name in WRITES for op in ops)}

    def places(self, buffer: Value) -> tuple[Destination, ...] | _Reason:
        t = buffer.type
        assert isinstance(t, Array)
        ops = self.accesses[buffer]
        loc = ops[0].loc
        if t.ndim != 1 or t.outer or not isinstance(t.dtype, (Scalar, Vec, Mat)):
            return _Reason("it has several axes, or elements of another kind", loc)
        scalar = scalar_of(t.dtype)
        if not scalar.is_float or scalar.bits not in _BITS:
            return _Reason(f"its scalars are {scalar}", loc)
        found = []
        for op in ops:
            if op.name not in ELEMENT_ACCUMULATES or "along" in op.attrs:
                return _Reason("it is also read or written", op.loc)
            if op.attrs["mode"] != "plain":
                return _Reason("all threads add to one element there", op.loc)
            # The host computes destinations without running the kernel, so the number of contributions must be fixed.
            if op not in self.top:
                return _Reason("not every thread adds to it there, or more than once", op.loc)
            place = self._destination(op)
            if place is None:
                return _Reason("which element that is, is computed", op.loc)
            found.append(place)
        return tuple(found)

    def _destination(self, op: Op) -> Destination | None:
        access = Access(op)
        (index,), (wrap,) = access.index, access.wrap
        source = self.forms.producer.get(index)
        while source is not None and source.name in CASTS and _keeps(source):
            source = self.forms.producer.get(source.operands[0])
        if source is None or source.name not in ELEMENT_LOADS:
            form = self._affine(index)
            return None if form is None else Destination(None, (form,), (False,), wrap)
        load = Access(source)
        number = self.number.get(load.array)
        forms = [self._affine(v) for v in load.index]
        # The integer array has to be a parameter that the kernel does not change: the host reads it before the launch.
        if source not in self.top or number is None or load.array in self.written or load.along:
            return None
        if not isinstance(load.array.type, Array) or load.array.type.outer:
            return None
        known = tuple(form for form in forms if form is not None)
        return Destination(number, known, load.wrap, wrap) if len(known) == len(forms) else None

    def _affine(self, v: Value) -> tuple[int, int] | None:
        """Return the coefficient of the thread index and the constant of an integer that consists of these."""
        form = self.forms.of(v)
        if any(term != tid_term(0) for term in form.terms):
            return None
        return form.terms.get(tid_term(0), 0), form.const


def _keeps(op: Op) -> bool:
    """Return whether a cast between integers keeps every value that is an index."""
    to = op.results[0].type
    return widens(op) and isinstance(to, Scalar) and to.bits >= INT32.bits
