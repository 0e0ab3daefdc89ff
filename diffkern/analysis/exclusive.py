"""Operations that never both happen in one launch, because a value that all its threads share chooses between them.

:class:`Exclusive` tells for two operations whether the conditions around them contradict each other. A condition counts
if it follows from parameters, shapes and literals alone, and so is the same in all threads and in all trips of a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from diffkern.analysis.uniformity import launch_values
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.views import is_branch

__all__ = ["Exclusive"]

Key: TypeAlias = Any
"""A value by how it is computed: equal keys, equal values."""


class Exclusive:
    """The conditions of a function's operations."""

    def __init__(self, fn: Function) -> None:
        self._made = launch_values(fn)
        self._keys: dict[Value, Key] = {}
        self._under: dict[Op, tuple[tuple[Value, bool], ...]] = {}
        self._enter(fn.body, ())

    def __call__(self, a: Op, b: Op) -> bool:
        """Return whether no launch executes both operations."""
        facts = self._facts(a)
        for key, holds in self._facts(b).items():
            # The same condition holds around one operation and fails around the other.
            if facts.get(key, holds) is not holds:
                return True
            # n == 1 and n == 2 cannot both hold.
            if holds and key[0] == "eq" and any(_differ(key, other) for other, true in facts.items() if true):
                return True
        return False

    def _enter(self, region: Region, under: tuple[tuple[Value, bool], ...]) -> None:
        for op in region.ops:
            self._under[op] = under
            for k, inside in enumerate(op.regions):
                chosen = is_branch(op) and op.operands[0] in self._made
                self._enter(inside, (*under, (op.operands[0], k == 0)) if chosen else under)

    def _facts(self, op: Op) -> Mapping[Key, bool]:
        return dict(fact for cond, holds in self._under[op] for fact in self._implied(cond, holds))

    def _implied(self, cond: Value, holds: bool) -> Iterator[tuple[Key, bool]]:
        """Iterate over the facts that follow from a condition that holds, or does not hold."""
        op = self._made[cond]
        match op.name if op is not None else "":
            case "not":
                assert op is not None
                yield from self._implied(op.operands[0], not holds)
            # A conjunction that holds, or a disjunction that does not, says something about each of its parts; the
            # others do not.
            case "and" | "or" if op is not None and holds is (op.name == "and"):
                for part in op.operands:
                    yield from self._implied(part, holds)
            case "ne":
                # ne is stored as the negated eq, so that the two forms of one test are recognised.
                _, *rest = self._key(cond)
                yield ("eq", *rest), not holds
            case _:
                yield self._key(cond), holds

    def _key(self, value: Value) -> Key:
        if value not in self._keys:
            op = self._made[value]
            if op is None:
                self._keys[value] = ("", id(value))
            else:
                attrs = tuple(sorted((name, repr(attr)) for name, attr in op.attrs.items()))
                place = op.results.index(value)
                self._keys[value] = (op.name, str(value.type), attrs, place, *map(self._key, op.operands))
        return self._keys[value]


def _differ(a: Key, b: Key) -> bool:
    """Return whether two keys compare one integer with different literals. Floats have two zeros, which are equal."""
    if b[0] != "eq" or a[:-2] != b[:-2]:
        return False
    (x, m), (y, n) = a[-2:], b[-2:]
    return bool(x == y and m[0] == n[0] == "const" and m[1] == n[1] and "int" in m[1] and m != n)
