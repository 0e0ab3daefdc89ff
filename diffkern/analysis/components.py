"""Which components of the vectors and matrices in an array does an access touch?

In: a function. Out: for a store the components that it sets, if what it stores is what was there but for these, as in
``v[k][0] = x``; for a load those of which the function makes use. Threads may share a vector, and no component of it.
"""

from __future__ import annotations

from typing import TypeAlias

from diffkern.analysis.affine import enclosing_loops
from diffkern.analysis.dependence import Positions
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.views import Access
from diffkern.ops.memory import WRITES

__all__ = ["Component", "Components"]

Component: TypeAlias = "int | Value"
"""The number of a component, or the index by which a thread finds it."""

_INSERTS = ("insert", "insert_dyn")


class Components:
    """The components that the accesses of one function touch."""

    def __init__(self, fn: Function) -> None:
        self._made: dict[Value, Op] = {}
        self._uses: dict[Value, list[Op]] = {}
        self._yielded: set[Value] = set()
        self._writes: dict[Value, list[Op]] = {}
        for op in walk(fn.body):
            self._made.update(dict.fromkeys(op.results, op))
            for v in op.operands:
                self._uses.setdefault(v, []).append(op)
            for sub in op.regions:
                self._yielded.update(sub.yields)
            if op.name in WRITES:
                self._writes.setdefault(Access(op).array, []).append(op)
        self._loops = enclosing_loops(fn)
        self._order = Positions()
        self._order.visit(Region(ops=fn.body.ops))

    def stored(self, store: Op) -> dict[Component, Value] | None:
        """Return the components that a store sets, with what it sets them to; None if it sets all."""
        found: dict[Component, Value] = {}
        value = Access(store).value
        while (op := self._made.get(value)) is not None and op.name in _INSERTS:
            found.setdefault(op.attrs["index"] if op.name == "insert" else op.operands[2], op.operands[1])
            value = op.operands[0]
        return found if found and op is not None and self._is_content(op, store) else None

    def _is_content(self, load: Op, store: Op) -> bool:
        """Whether a load reads what a store of the same thread finds at its element."""
        if load.name != "load" or Access(load).array is not Access(store).array:
            return False
        if Access(load).index != Access(store).index or self._loops[load] != self._loops[store]:
            return False
        number, exclusive = self._order.number, self._order.exclusive
        between = (w for w in self._writes[Access(load).array] if number[load] < number[w] < number[store])
        return all(exclusive(write, store) for write in between)

    def loaded(self, load: Op) -> tuple[Component, ...] | None:
        """Return the components that the function reads of what it loads; None if it may be all."""
        found: dict[Component, None] = {}
        left = [load.result]
        while left:
            v = left.pop()
            if v in self._yielded:
                return None
            for op in self._uses.get(v, ()):
                if op.name == "extract" and v is load.result:
                    found[op.attrs["index"]] = None
                elif op.name == "extract_dyn" and v is load.result and op.operands[1] is not v:
                    found[op.operands[1]] = None
                elif op.name in _INSERTS and v is op.operands[0]:
                    left.append(op.result)
                elif not (op.name == "store" and self.stored(op) is not None and self._base(op) is load):
                    return None
        return tuple(found)

    def _base(self, store: Op) -> Op:
        """The load of what a store sets components of."""
        op = self._made[Access(store).value]
        while op.name in _INSERTS:
            op = self._made[op.operands[0]]
        return op
