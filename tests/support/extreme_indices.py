"""Launches whose indices are extreme: large constants and strides, negative ones, of all integer types, in two axes.

A case is a kernel with one access that no condition guards, a launch, and the lengths of arrays just large enough or
too small. Which elements are meant is computed with Python's integers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["Extreme", "case"]

TYPES = ("int32", "int64", "int32", "int64", "uint32", "uint64", "int8", "uint8", "int16", "uint16")
CONSTANTS = (
    0, 1, 2, 3, 5, 7, 100, 127, 128, 255, 256, 300, 3000, 32767, 32768, 65535, 65536, 2**24 + 1, 2**30, 2**31 - 1,
    2**31, 2**32 - 1, 2**32, 2**33 + 1, 2**40, 2**62, 2**63 - 1,
)  # fmt: skip
MANY = 40_000
LONGEST = 4_000_000


@dataclass(frozen=True)
class Node:
    """An expression: ``i``, a literal, or an operation; ``type`` is that of its register."""

    op: str
    type: str
    operands: tuple[Node, ...] = ()
    value: int = 0

    def __str__(self) -> str:
        if self.op == "thread":
            return "i"
        if self.op == "literal":
            return f"dk.{self.type}({self.value})" if self.type != "int32" else f"({self.value})"
        if self.op == "cast":
            return f"dk.{self.type}({self.operands[0]})"
        if self.op == "-" and len(self.operands) == 1:
            return f"(-{self.operands[0]})"
        return f"({self.operands[0]} {self.op} {self.operands[1]})"

    def at(self, thread: int, *, exact: bool) -> int:
        """The number of a thread, in a register or where an index is computed."""
        if self.op == "thread":
            return thread
        if self.op == "literal":
            return self.value
        exact = exact and all(n.type in ("int32", "int64") for n in (self, *self.operands))
        if self.op == "cast" and bits(self.type) < bits(self.operands[0].type):
            exact = False
        numbers = [n.at(thread, exact=exact) for n in self.operands]
        match self.op, numbers:
            case "cast", [x]:
                found = x
            case "-", [x]:
                found = -x
            case "-", [x, y]:
                found = x - y
            case "+", [x, y]:
                found = x + y
            case _, [x, y]:
                found = x * y
        return found if exact else wrapped(found, self.type)


def bits(type_: str) -> int:
    """The width of a type."""
    return int(type_.lstrip("uint"))


def wrapped(value: int, type_: str) -> int:
    """A number as a register of a type holds it."""
    value %= 1 << bits(type_)
    return value if type_[0] == "u" or value < 1 << (bits(type_) - 1) else value - (1 << bits(type_))


@dataclass(frozen=True)
class Extreme:
    """A launch.

    Attributes
    ----------
    statement
        The access, of an array ``x`` with one axis or two.
    threads
        How many threads there are, each of which uses ``index``.
    shape
        Of ``x``.
    axis
        That of the index; the other one is 1.
    index
        What is computed.
    is_store
        Whether the access is a store.
    """

    statement: str
    threads: int
    shape: tuple[int, ...]
    axis: int
    index: Node
    is_store: bool

    def elements(self, threads: range | None = None) -> list[int]:
        """The elements that the threads mean, from 0 on where all are in the array."""
        return [k + self.shape[self.axis] * (k < 0) for k in self.indices(threads)]

    def indices(self, threads: range | None = None) -> list[int]:
        """The indices of threads, by default of all of them."""
        return [self.index.at(i, exact=True) for i in (range(self.threads) if threads is None else threads)]

    @property
    def fits(self) -> bool:
        """Whether all elements exist."""
        length = self.shape[self.axis]
        return all(-length <= k < length for k in extremes(self.index, self.threads))


def extremes(index: Node, threads: int) -> tuple[int, int]:
    """The least and the greatest index; that of many threads is linear."""
    seen = range(threads) if threads <= MANY else (0, threads - 1)
    found = [index.at(i, exact=True) for i in seen]
    return min(found), max(found)


def expression(r: random.Random, depth: int) -> Node:
    """A random expression in the thread index."""
    thread = Node("thread", "int32")
    type_ = r.choice(TYPES)
    found = thread if type_ == "int32" else Node("cast", type_, (thread,))
    for _ in range(depth):
        kind = r.randrange(8)
        if kind == 0:
            found = Node("-", found.type, (found,))
        elif kind == 1:
            found = Node("cast", r.choice(TYPES), (found,))
        else:
            found = Node(r.choice("**+-"), found.type, (found, literal(r, found.type)))
    return found


def literal(r: random.Random, type_: str) -> Node:
    """A literal of a type."""
    value = r.choice([c for c in (*CONSTANTS, *(-c for c in CONSTANTS)) if wrapped(c, type_) == c])
    return Node("literal", type_, value=value)


def case(seed: int) -> Extreme:
    """A launch."""
    r = random.Random(seed)
    threads = r.choice([1, 2, 3, 100, 300, 3000])
    if r.randrange(6) == 0:  # no thread index at all
        index = Node("literal", "int64", value=r.choice([1, -1]) * r.choice(CONSTANTS))
    else:
        index = expression(r, r.randrange(4))
        if r.randrange(8) == 0 and set(_types(index)) <= {"int32", "int64"}:
            threads = 10**6
    least, most = extremes(index, threads)
    need = max(most + 1, -least)
    lengths = [need, need - 1, 5, 129, need + 1, need]
    length = r.choice([n for n in lengths if 0 < n <= LONGEST] or [7])
    axes = r.choice([1, 1, 2])
    axis = r.randrange(axes)
    shape = (length,) if axes == 1 else (length, 2) if axis == 0 else (2, length)
    place = str(index) if axes == 1 else f"{index}, 1" if axis == 0 else f"1, {index}"
    is_store = threads == 1 and bool(r.randrange(2))
    return Extreme(f"x[{place}] = 7.0" if is_store else f"y[i] = x[{place}]", threads, shape, axis, index, is_store)


def _types(node: Node) -> list[str]:
    return [node.type, *(t for n in node.operands for t in _types(n))]
