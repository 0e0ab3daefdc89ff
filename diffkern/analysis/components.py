"""The components of an array's vectors and matrices that an access touches.

For a store, :class:`Components` finds the components that it sets, if the stored value is the old content but for
these, as in ``v[k][0] = x``; for a load, the components that the function uses. So threads that share a vector, but no
component of it, do not race.
"""

from __future__ import annotations

from typing import TypeAlias

from diffkern.analysis.affine import enclosing_loops
from diffkern.analysis.dependence import Positions
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.composite import INSERTS
from diffkern.ir.ops.memory import ARRAY_EXTENTS, ELEMENT_LOADS, ELEMENT_STORES, WRITES
from diffkern.ir.ops.scalar import CASTS, LITERALS, NEGATIVES
from diffkern.ir.views import Access, is_branch

__all__ = ["Component", "Components"]

Component: TypeAlias = "int | Value"
"""The number of a component, or the index by which a thread finds it."""


class Components:
    """The components that the accesses of one function touch."""

    def __init__(self, fn: Function) -> None:
        self._made: dict[Value, Op] = {}
        self._uses: dict[Value, list[Op]] = {}
        self._yielded: dict[Value, list[tuple[Op, int]]] = {}
        self._writes: dict[Value, list[Op]] = {}
        for op in walk(fn.body):
            self._made.update(dict.fromkeys(op.results, op))
            for v in op.operands:
                self._uses.setdefault(v, []).append(op)
            for sub in op.regions:
                for k, v in enumerate(sub.yields):
                    self._yielded.setdefault(v, []).append((op, k))
            if op.name in WRITES:
                self._writes.setdefault(Access(op).array, []).append(op)
        self._writing = {array: set(ops) for array, ops in self._writes.items()}
        self._loops = enclosing_loops(fn)
        self._order = Positions()
        self._order.visit(Region(ops=fn.body.ops))

    def stored(self, store: Op) -> dict[Component, Value] | None:
        """Return the components that a store sets, with what it sets them to; None if it sets all."""
        found: dict[Component, Value] = {}
        value, last = Access(store).value, self._last_before(store)
        while (op := self._made.get(value)) is not None and op.name in INSERTS:
            found.setdefault(op.attrs["index"] if op.name == "insert" else op.operands[2], op.operands[1])
            value = op.operands[0]
            # Of two stores behind each other the second need not load what the first has stored.
            if last is not None and Access(last).value is value:
                return found
        return found if found and self._is_content(value, store, store) else None

    def _last_before(self, store: Op) -> Op | None:
        """Return the thread's own store that leaves the content of a store's element before it; None if unknown."""
        number, exclusive = self._order.number, self._order.exclusive
        before = [w for w in self._writes[Access(store).array] if number[w] < number[store] and not exclusive(w, store)]
        if not before:
            return None
        last = before[-1]
        is_own = last.name in ELEMENT_STORES and Access(last).index == Access(store).index
        is_made = self._loops[last] == self._loops[store] and self._order.implies(store, last)
        return last if is_own and is_made else None

    def _is_content(self, value: Value, store: Op, before: Op) -> bool:
        """Return whether a value is the content of a store's element before an op, if no other thread writes it."""
        op = self._made.get(value)
        if op is None or not (op.name in ELEMENT_LOADS or is_branch(op)) or self._loops[op] != self._loops[store]:
            return False
        inside = {inner for sub in op.regions for inner in walk(sub)}
        array, number, exclusive = Access(store).array, self._order.number, self._order.exclusive
        between = (w for w in self._writes[array] if number[op] < number[w] < number[before] and w not in inside)
        if not all(exclusive(write, before) for write in between):
            return False
        if op.name in ELEMENT_LOADS:
            return Access(op).array is array and Access(op).index == Access(store).index
        place = op.results.index(value)
        # Where there is no such element, nothing is stored either.
        branches = op.regions[:1] if self._asks_if_it_exists(op.operands[0], store) else op.regions
        return all(self._leaves_content(sub, sub.yields[place], store, op) for sub in branches)

    def _asks_if_it_exists(self, condition: Value, store: Op) -> bool:
        """Return whether a condition is only a bounds check of a store's indices against the extents of its array."""
        op = self._made.get(condition)
        if op is not None and op.name == "and":
            return all(self._asks_if_it_exists(v, store) for v in op.operands)
        if op is None or op.name not in ("ge", "lt"):
            return False
        index, end = map(self._without_cast, op.operands)
        bound = self._made.get(end)
        if bound is None or index not in Access(store).index:
            return False
        if op.name == "ge" and bound.name in LITERALS:
            return bool(bound.attrs["value"] == 0) and not any(Access(store).wrap)
        if op.name == "ge" and bound.name in NEGATIVES:
            bound = self._made.get(self._without_cast(bound.operands[0]), bound)
        is_extent = bound.name in ARRAY_EXTENTS and bound.operands[0] is Access(store).array
        return is_extent and Access(store).index[bound.attrs["axis"]] is index

    def _without_cast(self, v: Value) -> Value:
        op = self._made.get(v)
        return self._without_cast(op.operands[0]) if op is not None and op.name in CASTS else v

    def _leaves_content(self, region: Region, value: Value, store: Op, choice: Op) -> bool:
        """Return whether a value equals the content of a store's element at the end of a branch."""
        array = Access(store).array
        writes = [op for op in walk(region) if op in self._writing[array]]
        if not writes:
            return self._is_content(value, store, choice)
        last = writes[-1]
        is_own = last in region.ops and last.name in ELEMENT_STORES and Access(last).index == Access(store).index
        return is_own and Access(last).value is value

    def loaded(self, load: Op) -> tuple[Component, ...] | None:
        """Return the components that the function reads of what it loads; None if it may be all."""
        found: dict[Component, None] = {}
        left, seen = [load.result], set[Value]()
        while left:
            v = left.pop()
            if v in seen:
                continue
            seen.add(v)
            for op, place in self._yielded.get(v, ()):
                if not is_branch(op):
                    return None
                left.append(op.results[place])
            for op in self._uses.get(v, ()):
                if op.name == "extract":
                    found[op.attrs["index"]] = None
                elif op.name == "extract_dyn" and op.operands[0] is v:
                    found[op.operands[1]] = None
                elif op.name in INSERTS and op.operands[0] is v:
                    left.append(op.result)
                elif not (op.name in ELEMENT_STORES and Access(op).value is v and self.stored(op) is not None):
                    return None
        return tuple(found)
