"""The position in a log of each execution of an op, among those of its thread.

Given a function and the ops that log something (the result of an atomic update, or of a load), :class:`Numbered` makes
a copy in which the position of each is known where it executes. The position follows from the place in the program and
the trips of the loops around it; the two branches of an ``if`` take the same number of slots. A position that depends
on more is a variable, which is carried through loops and branches like the user's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.scalar import LITERALS
from diffkern.ir.trip_count import count_trips, trip_of
from diffkern.ir.types import INT32, INT64, Array, Mat, Scalar, Vec
from diffkern.ir.views import For, While, is_branch, is_loop, loop

__all__ = ["Logged", "Numbered", "Sites", "components", "ops_of_thread", "thread_number"]


class Sites:
    """The ops of a function that log something, and the number of slots they take.

    Parameters
    ----------
    fn
        The function.
    ops
        The ops. Those without a position are left out: they are in the test of a ``while`` in which a loop makes a
        number of trips that only the launch knows.
    type
        The type of the elements of the log.
    index
        The type of a slot's position among those of a thread.
    """

    def __init__(self, fn: Function, ops: Iterable[Op], type: Scalar, index: Scalar = INT32) -> None:
        found = ops_of_thread(fn.body)
        self.type, self.index = type, index
        self.constants = {op.result: op.attrs["value"] for op in found if op.name in LITERALS}
        self.ops = dict.fromkeys(ops)
        for op in found:
            # The test of a while yields only its condition, so it cannot carry a position out; its slots have to be
            # countable.
            if op.name == "while" and self.of(While(op).test) is None:
                for inner in walk(While(op).test):
                    self.ops.pop(inner, None)

    def in_it(self, op: Op) -> bool:
        """Return whether something is logged in an op."""
        return op.name != "ruled" and any(inner in self.ops for sub in op.regions for inner in walk(sub))

    def of(self, region: Region) -> int | None:
        """Return the number of slots that a region takes, None if only the launch knows it."""
        total = 0
        for op in region.ops:
            n = self.of_op(op)
            if n is None:
                return None
            total += n
        return total

    def of_op(self, op: Op) -> int | None:
        """Return the number of slots that an op takes, its regions included."""
        if op in self.ops:
            return self.width(op)
        if is_branch(op):
            then, orelse = map(self.of, op.regions)
            # Reserving the maximum for both arms wastes slots, but keeps the position a constant instead of a variable.
            return None if then is None or orelse is None else max(then, orelse)
        if not is_loop(op):
            return 0
        if op.name == "while":
            return None if self.in_it(op) else 0
        n = self.of(loop(op).body)
        if not n:
            return n
        trips = For(op).trips(self.constants.get)
        return None if trips is None else n * len(trips)

    def width(self, op: Op) -> int:
        """Return the number of slots that an op of these takes each time it executes."""
        return components(op.result)


class Numbered(Cloner):
    """A copy of a function in which each op that logs has a position among those of its thread."""

    def __init__(self, fn: Function, sites: Sites) -> None:
        super().__init__(Builder(loc=fn.loc))
        self.fn = fn
        self.sites = sites
        self.at = self.slots(0)

    def slots(self, n: int) -> Value:
        """Return a number of slots as a constant."""
        return self.b.const(n, self.sites.index)

    def body(self) -> Region:
        """Return the copy of the function's body."""
        self.ops(self.fn.body.ops)
        return self.b.region

    def op(self, op: Op) -> None:
        with self.b.at(op.loc):
            if op in self.sites.ops:
                self.site(op)
                self.at = self.b.add(self.at, self.slots(self.sites.width(op)))
            elif not self.sites.in_it(op):
                super().op(op)
            elif is_branch(op):
                self.branch(op)
            elif op.name == "for" and self.sites.of(For(op).body) is not None:
                self.even(op)
            else:
                self.uneven(op)

    def site(self, op: Op) -> None:
        """Copy an op that logs; subclasses use its slots."""
        super().op(op)

    def branch(self, op: Op) -> None:
        """Copy a branch whose arms take the same slots, as many as the larger; else the position is one more result."""
        start, slots = self.at, self.sites.of_op(op)
        regions: list[Region] = []
        for sub in op.regions:
            # Both arms start from the same position, as only one of them executes.
            self.at = start
            copy = self.region(sub)
            copy.yields = copy.yields if slots is not None else (*copy.yields, self.at)
            regions.append(copy)
        names = [r.name for r in op.results]
        results = self.b.if_(self.value(op.operands[0]), regions[0], regions[1], names)
        self.env.update(zip(op.results, results, strict=False))
        self.at = self.b.add(start, self.slots(slots)) if slots is not None else results[-1]

    def even(self, op: Op) -> None:
        """Copy a loop whose trips take the same number of slots each."""
        b, view, start = self.b, For(op), self.at
        n = self.slots(self.sites.of(view.body) or 0)
        lo, hi, step = self.values(view.bounds)
        literal = self.sites.constants.get(view.step)
        known = int(literal) if literal is not None else None
        body = view.body
        copy = Region(tuple(Value(p.type, p.name) for p in body.params))
        self.env.update(zip(body.params, copy.params, strict=True))
        with b.into(copy):
            # In an even loop the position is start + trip * n: no carried variable, so the loop stays parallel and
            # reversible.
            trip = trip_of(b, copy.params[0], lo, step, known)
            self.at = b.add(start, b.mul(b.cast(trip, self.sites.index), n))
            self.ops(body.ops)
        copy.yields = self.values(body.yields)
        trips = count_trips(b, (lo, hi, step), known)
        self.emit(op, self.values(op.operands), (copy,))
        self.at = b.add(start, b.mul(b.cast(trips, self.sites.index), n))

    def uneven(self, op: Op) -> None:
        """Copy a loop that carries the position; the slots of a test are added in the trip behind it."""
        tested = self.sites.of(While(op).test) if op.name == "while" else 0
        operands = (*self.values(op.operands), self.at)
        regions = []
        for sub in op.regions:
            copy = Region((*(Value(p.type, p.name) for p in sub.params), Value(self.sites.index, "slot")))
            self.env.update(zip(sub.params, copy.params, strict=False))
            is_test = op.name == "while" and sub is While(op).test
            with self.b.into(copy):
                # A while test executes once more than its body. Its slots are skipped at the start of the body, and
                # once behind the loop.
                self.at = copy.params[-1] if is_test else self.behind(copy.params[-1], tested)
                self.ops(sub.ops)
            copy.yields = self.values(sub.yields) if is_test else (*self.values(sub.yields), self.at)
            regions.append(copy)
        results = (*(Value(r.type, r.name) for r in op.results), Value(self.sites.index, "slot"))
        self.b.region.ops.append(Op(op.name, operands, results, op.attrs, tuple(regions), op.loc))
        self.env.update(zip(op.results, results, strict=False))
        self.at = self.behind(results[-1], tested)

    def behind(self, at: Value, slots: int | None) -> Value:
        """Return the position behind some slots."""
        return self.b.add(at, self.slots(slots)) if slots else at


class Logged(Numbered):
    """A copy with a log, in which each thread's entries follow those of the thread before."""

    def __init__(self, fn: Function, sites: Sites) -> None:
        super().__init__(fn, sites)
        self.log = Value(Array(sites.type, 1), "log")
        count, thread = sites.of(fn.body), thread_number(self.b, fn)
        # Without a static count each thread has a segment of its own; the host computes the starts by a prefix sum.
        self.begins = Value(Array(INT64, 1), "begins") if count is None else None
        if self.begins is not None:
            self.first = self.b.one("load", self.begins, thread, wrap=(False,))
        else:
            self.first = self.b.mul(thread, self.b.const(count or 0, INT64))

    def function(self) -> Function:
        """Return the function with the log, its last parameters."""
        more = (self.log,) if self.begins is None else (self.log, self.begins)
        return replace(self.fn, params=(*self.fn.params, *more), body=self.body(), updates=())

    def slot(self) -> Value:
        """Return the position in the log of the next op."""
        return self.b.add(self.first, self.b.cast(self.at, INT64))

    def write(self, value: Value, first: int = 0) -> None:
        """Write a value to the log, from one of the slots of the next op on."""
        for k, part in enumerate(self.b.components(value), first):
            # Values are logged in the log's common type, which is chosen so that the cast back is exact.
            self.b.op("store", self.log, self.part(k), self.b.cast(part, self.sites.type), wrap=(False,))

    def read(self, t: Scalar | Vec | Mat, first: int = 0) -> Value:
        """Return the value that was written to the log, from one of the slots of the next op on."""
        scalar = t if isinstance(t, Scalar) else t.dtype
        count = 1 if isinstance(t, Scalar) else t.size
        found = [self.b.one("load", self.log, self.part(k), wrap=(False,)) for k in range(first, first + count)]
        return self.b.construct(t, [self.b.cast(v, scalar) for v in found])

    def part(self, k: int) -> Value:
        """Return the position of a component of the value that the next op logs."""
        return self.slot() if k == 0 else self.b.add(self.slot(), self.b.const(k, INT64))


def components(value: Value) -> int:
    """Return the number of slots that a value takes."""
    t = value.type
    return t.size if isinstance(t, (Vec, Mat)) else 1


def thread_number(b: Builder, fn: Function) -> Value:
    """Return the number of the thread in its launch; the threads of a kernel that does not ask for it are one."""
    number = b.const(0, INT64)
    for axis in range(fn.tid_arity):
        index = b.cast(b.one("tid", axis=axis), INT64)
        number = index if axis == 0 else b.add(b.mul(number, b.cast(b.one("extent", axis=axis), INT64)), index)
    return number


def ops_of_thread(region: Region) -> list[Op]:
    """Return the ops of a region and its subregions, without the rules of their own that funcs have."""
    found: list[Op] = []
    for op in region.ops:
        found.append(op)
        for sub in op.regions if op.name != "ruled" else ():
            found += ops_of_thread(sub)
    return found
