"""Activity analysis: which values depend on what is differentiated (varied) and influence a result (useful).

In: a function and its active parameters (arrays that have a cotangent buffer, by-value parameters whose gradient is
wanted). Out: the set of active values. Only they carry cotangents in the adjoint.
"""

from __future__ import annotations

from collections.abc import Iterable

from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import is_differentiable
from diffkern.ir.views import Access, Loop, Ruled, Slot, While, loop
from diffkern.ops.memory import ATOMICS, LOADS, STORES
from diffkern.ops.row import Diff
from diffkern.ops.table import lookup


class Activity:
    """Varied and useful values of one function."""

    def __init__(self, fn: Function, active: Iterable[Value]) -> None:
        self.roots = frozenset(active)
        self.varied: set[Value] = {p for p in self.roots if is_differentiable(p.type)}
        self.useful: set[Value] = set(fn.body.yields)
        self._kept: set[tuple[Value, int]] = set()  # the fields of loop stacks to which varied values are written
        kept = -1
        while len(self._kept) > kept:
            kept = len(self._kept)
            self._forward(fn.body)
        self._backward(fn.body)

    def active(self, v: Value) -> bool:
        """Whether a value carries a cotangent."""
        return v in self.varied and v in self.useful

    def _vary(self, values: Iterable[Value], sources: Iterable[Value]) -> bool:
        """Mark each value whose source is varied; returns whether anything is new."""
        new = {v for v, s in zip(values, sources, strict=True) if s in self.varied and v not in self.varied}
        new = {v for v in new if is_differentiable(v.type)}
        self.varied |= new
        return bool(new)

    def _forward(self, region: Region) -> None:
        for op in region.ops:
            if op.name in LOADS | ATOMICS:
                seen = Access(op).array in self.roots and not op.attrs.get("opaque")
                if seen and is_differentiable(op.results[0].type):
                    self.varied.add(op.results[0])
            elif op.name == "fetch":
                self.varied.add(op.result)
            elif op.name == "if":
                for sub in op.regions:
                    self._forward(sub)
                    self._vary(op.results, sub.yields)
            elif op.name == "ruled":
                self._forward_ruled(Ruled(op))
            elif op.name == "stack_set":
                varied = (k for k, v in enumerate(Slot(op).values) if v in self.varied)
                self._kept.update((Slot(op).stack, k) for k in varied)
            elif op.name == "stack_get":
                if (Slot(op).stack, op.attrs["field"]) in self._kept:
                    self.varied.add(op.result)
            elif op.regions:
                self._forward_loop(loop(op))
            elif lookup(op.name).diff is Diff.RULE and any(v in self.varied for v in op.operands):
                self.varied.update(r for r in op.results if is_differentiable(r.type))

    def _forward_ruled(self, call: Ruled) -> None:
        if call.derivative is None:
            self._vary(call.op.results, call.returned)
        elif any(v in self.varied for v in call.inputs) or any(a in self.roots for a in call.arrays):
            self.varied.update(r for r in call.op.results if is_differentiable(r.type))

    def _forward_loop(self, loop: Loop) -> None:
        self._vary(loop.carried, loop.init)
        while True:
            self._forward(loop.body)
            if not self._vary(loop.carried, loop.yields):
                break
        self._vary(loop.results, loop.carried)
        if isinstance(loop, While):
            self._vary(loop.tested, loop.carried)
            self._forward(loop.test)

    def _use(self, values: Iterable[Value], sinks: Iterable[Value]) -> bool:
        """Mark each value whose sink is useful; returns whether anything is new."""
        new = {v for v, s in zip(values, sinks, strict=True) if s in self.useful and v not in self.useful}
        self.useful |= new
        return bool(new)

    def _backward(self, region: Region) -> None:
        for op in reversed(region.ops):
            if op.name in STORES | ATOMICS:
                if Access(op).array in self.roots and not op.attrs.get("opaque"):
                    self.useful.add(Access(op).value)
            elif op.name == "if":
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

    A value stored to such an array and loaded again would lose its cotangent without a word. Arrays that receive
    varied values and arrays whose contents are useful are found as least fixpoints; a load from an array that is both
    lies on such a path if what it loads is useful.
    """

    def __init__(self, fn: Function, active: Iterable[Value]) -> None:
        accesses = [op for op in walk(fn.body) if op.name in LOADS | STORES | ATOMICS]
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
        while sinks != wider:
            sinks = wider
            self.useful = frozenset(Activity(fn, roots | sinks).useful)
            loads = (op for op in accesses if op.name not in STORES and op.result in self.useful)
            wider = sinks.union(Access(op).array for op in loads)

    def through(self, load: Op) -> bool:
        """Whether a load (or an atomic, for what it returns) from an array without cotangent is on such a path."""
        return Access(load).array in self.carriers and load.result in self.useful
