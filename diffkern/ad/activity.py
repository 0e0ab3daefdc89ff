"""Activity analysis: which values depend on the differentiated inputs (varied) and influence a result (useful).

Given a function and its active parameters (arrays that have a cotangent buffer, and by-value parameters whose gradient
is wanted), :class:`Activity` computes the active values. Only they carry cotangents in the adjoint.
"""

from __future__ import annotations

from collections.abc import Iterable

from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import (
    ATOMICS,
    DIFFERENTIATED_READS,
    LOADS,
    ORDERED_READS,
    PLACE_WRITES,
    STACK_READS,
    STACK_WRITES,
    STORES,
)
from diffkern.ir.ops.row import Diff
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import is_differentiable
from diffkern.ir.views import Access, Loop, Ruled, StackSlot, While, is_branch, loop


class Activity:
    """Varied and useful values of one function."""

    def __init__(self, fn: Function, active: Iterable[Value]) -> None:
        self.roots = frozenset(active)
        self.varied: set[Value] = {p for p in self.roots if is_differentiable(p.type)}
        self.useful: set[Value] = set(fn.body.yields)
        self._kept: set[tuple[Value, int]] = set()  # the fields of loop stacks to which varied values are written
        # A stack field may be written after the op that reads it in program order (in a loop), so one forward pass is
        # not enough: repeat until no further field is known to hold varied values.
        kept = -1
        while len(self._kept) > kept:
            kept = len(self._kept)
            self._forward(fn.body)
        self._backward(fn.body)

    def active(self, v: Value) -> bool:
        """Return whether a value carries a cotangent."""
        return v in self.varied and v in self.useful

    def _vary(self, values: Iterable[Value], sources: Iterable[Value]) -> bool:
        """Mark each value whose source is varied; return whether a value was newly marked."""
        new = {v for v, s in zip(values, sources, strict=True) if s in self.varied and v not in self.varied}
        new = {v for v in new if is_differentiable(v.type)}
        self.varied |= new
        return bool(new)

    def _forward(self, region: Region) -> None:
        for op in region.ops:
            # A load from an active array is a root. An opaque access is one that derivatives ignore by design.
            if op.name in LOADS | ATOMICS:
                seen = Access(op).array in self.roots and not op.attrs.get("opaque")
                if seen and is_differentiable(op.results[0].type):
                    self.varied.add(op.results[0])
            elif op.name in DIFFERENTIATED_READS | ORDERED_READS and is_differentiable(op.result.type):
                self.varied.add(op.result)
            elif is_branch(op):
                # A result of a branch is varied if either arm yields a varied value, so both arms are joined.
                for sub in op.regions:
                    self._forward(sub)
                    self._vary(op.results, sub.yields)
            elif op.name == "ruled":
                self._forward_ruled(Ruled(op))
            elif op.name in STACK_WRITES:
                varied = (k for k, v in enumerate(StackSlot(op).values) if v in self.varied)
                self._kept.update((StackSlot(op).stack, k) for k in varied)
            elif op.name in STACK_READS:
                if (StackSlot(op).stack, op.attrs["field"]) in self._kept:
                    self.varied.add(op.result)
            elif op.regions:
                self._forward_loop(loop(op))
            elif lookup(op.name).diff is Diff.RULE and any(v in self.varied for v in op.operands):
                self.varied.update(r for r in op.results if is_differentiable(r.type))

    def _forward_ruled(self, call: Ruled) -> None:
        # Without a derivative of its own, the func's inlined body decides; with one, its inputs and arrays do.
        if call.derivative is None:
            self._vary(call.op.results, call.returned)
        elif any(v in self.varied for v in call.inputs) or any(a in self.roots for a in call.arrays):
            self.varied.update(r for r in call.op.results if is_differentiable(r.type))

    def _forward_loop(self, loop: Loop) -> None:
        self._vary(loop.carried, loop.init)
        # A carried value that varies at the end of a trip varies at the start of the next: iterate to the fixpoint.
        while True:
            self._forward(loop.body)
            if not self._vary(loop.carried, loop.yields):
                break
        self._vary(loop.results, loop.carried)
        if isinstance(loop, While):
            # The test of a while sees the carried values too, but yields only the condition, which is not
            # differentiable.
            self._vary(loop.tested, loop.carried)
            self._forward(loop.test)

    def _use(self, values: Iterable[Value], sinks: Iterable[Value]) -> bool:
        """Mark each value whose sink is useful; return whether a value was newly marked."""
        new = {v for v, s in zip(values, sinks, strict=True) if s in self.useful and v not in self.useful}
        self.useful |= new
        return bool(new)

    def _backward(self, region: Region) -> None:
        for op in reversed(region.ops):
            # A value is useful if it reaches memory that has cotangents, not if it merely reaches memory.
            if op.name in STORES | ATOMICS:
                if Access(op).array in self.roots and not op.attrs.get("opaque"):
                    self.useful.add(Access(op).value)
            elif op.name in PLACE_WRITES:
                self.useful.add(op.operands[-1])
            elif is_branch(op):
                for sub in op.regions:
                    self._use(sub.yields, op.results)
                    self._backward(sub)
            elif op.name == "ruled":
                self._backward_ruled(Ruled(op))
            elif op.regions:
                self._backward_loop(loop(op))
            elif lookup(op.name).diff is Diff.RULE and any(r in self.useful for r in op.results):
                self.useful.update(op.operands)

    def _backward_ruled(self, call: Ruled) -> None:
        if call.derivative is None:
            self._use(call.returned, call.op.results)
        elif any(r in self.useful for r in call.op.results) or any(a in self.roots for a in call.arrays):
            self.useful.update(call.inputs)

    def _backward_loop(self, loop: Loop) -> None:
        self._use(loop.yields, loop.results)
        while True:
            self._backward(loop.body)
            if not self._use(loop.yields, loop.carried):
                break
        # a trip may not happen, or another may follow: carried values, results and initial values share their use
        self._use(loop.carried, loop.yields)
        self._use(loop.init, loop.carried)
        self._use(loop.init, loop.results)


class HiddenPaths:
    """Paths from active parameters to active parameters that lead through arrays without a cotangent.

    A value stored to such an array and loaded again would silently lose its cotangent. Arrays that receive varied
    values and arrays whose contents are useful are found as least fixpoints; a load from an array that is both lies on
    such a path if the loaded value is useful.
    """

    def __init__(self, fn: Function, active: Iterable[Value]) -> None:
        accesses = [op for op in walk(fn.body) if op.name in LOADS | STORES | ATOMICS]
        # The two sets depend on memory as well as on values: an array that carries varied values makes its loads
        # varied, which may make further arrays carriers. Hence the fixpoint over whole activity analyses.
        self.carriers = self.useful = frozenset[Value]()
        roots = frozenset(active)
        arrays: frozenset[Value] | None = None
        while arrays != self.carriers:
            arrays = self.carriers
            varied = Activity(fn, roots | arrays).varied
            stores = (op for op in accesses if op.name not in LOADS and Access(op).value in varied)
            self.carriers = arrays.union(Access(op).array for op in stores)
        sinks: frozenset[Value] | None = None
        wider = frozenset[Value]()
        # The same backwards: an array whose contents are useful makes the values stored to it useful.
        while sinks != wider:
            sinks = wider
            self.useful = frozenset(Activity(fn, roots | sinks).useful)
            loads = (op for op in accesses if op.name not in STORES and op.result in self.useful)
            wider = sinks.union(Access(op).array for op in loads)

    def through(self, load: Op) -> bool:
        """Return whether a load (or an atomic, for the value it returns) from an array without a cotangent is on such a
        path.
        """
        return Access(load).array in self.carriers and load.result in self.useful
