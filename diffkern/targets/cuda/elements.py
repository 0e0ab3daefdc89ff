"""The elements that a thread of a GPU takes at once, and holds in registers.

A kernel of plain arithmetic on the elements ``x[tid]`` of contiguous arrays waits for memory; with several axes it
works on ``x[i, j]``, the indices of the thread in their order, which are elements next to each other in arrays that
are as long as the launch along all axes but the first. A thread loads all that
it needs before it computes, and stores after that, so that no load waits for a store. Where it works on several
elements next to each other, their loads and stores become accesses of up to 16 bytes, and what a thread does once is
shared. :func:`elements_of` returns how many elements that is, and in which arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Any

from diffkern.contracts import abi
from diffkern.ir.nodes import Function, Op, Value
from diffkern.ir.ops.composite import PARTS
from diffkern.ir.ops.memory import (
    ARRAY_EXTENTS,
    ELEMENT_ACCUMULATES,
    ELEMENT_LOADS,
    ELEMENT_STORES,
    ELEMENTS,
    THREAD_INDICES,
)
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Array, Element, scalar_of
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass
from diffkern.targets.emit.facts import FunctionFacts
from diffkern.targets.emit.memory import ArrayRef, element_size, load_element, plus, store_element
from diffkern.targets.emit.scalars import is_scalar_op
from diffkern.targets.emit.types import Builder, constant, from_memory, to_memory

__all__ = ["NOTHING", "WIDEST", "HeldElement", "OwnElements", "elements_of", "load_unless"]

WIDEST = 16
"""Bytes of the widest access of a thread."""

_NUMBERS = 48
"""The most numbers that a thread loads and stores, all of them in registers at one time."""

_WORK = 48
"""The most operations of a thread on all its elements: one with more computes while others wait."""

_PLAIN = ELEMENT_LOADS | ELEMENT_STORES | ELEMENT_ACCUMULATES


@dataclass(frozen=True, slots=True)
class OwnElements:
    """The elements that a thread takes at once.

    Attributes
    ----------
    count
        Neighbouring elements; a power of two.
    arrays
        The arrays that they are elements of: no thread accesses others of them.
    read
        Those whose elements are loaded.
    counts
        Whether a thread uses its index for anything but these elements.
    zeroed
        Those whose elements are added to, and need not be loaded where the launch knows that they are zero; in the
        order of their bits.
    """

    count: int
    arrays: frozenset[Value]
    read: frozenset[Value]
    counts: bool = False
    zeroed: tuple[Value, ...] = ()


NOTHING = OwnElements(1, frozenset(), frozenset())


def elements_of(fn: Function, facts: FunctionFacts) -> OwnElements:
    """Return the elements that a thread takes at once.

    Parameters
    ----------
    fn
        A function as it is emitted, whose arrays do not overlap.
    facts
        The facts about it.
    """
    if fn.tid_arity == 0 or facts.reduced or facts.buffers or facts.stack_bytes:
        return NOTHING
    axis_of = {op.result: op.attrs["axis"] for op in fn.body.ops if op.name in THREAD_INDICES}
    axes = tuple(range(fn.tid_arity))

    def is_own(op: Op) -> bool:
        """Return whether an access is that of the element whose index is the thread's."""
        return tuple(axis_of.get(v) for v in Access(op).index) == axes and not any(op.attrs.get("wrap", ()))

    if not all(_is_plain(op, is_own, axis_of, facts.invariant) for op in fn.body.ops):
        return NOTHING
    accesses = [op for op in fn.body.ops if op.name in ELEMENTS]
    own = [op for op in accesses if is_own(op)]
    shared = {Access(op).array for op in accesses if not is_own(op)}
    arrays = frozenset(Access(op).array for op in own)
    # What others read as well lies anywhere, so nothing is known of its alignment.
    if not arrays.isdisjoint(shared):
        return NOTHING
    sizes = {scalar_of(_dtype(p)).itemsize for p in arrays}
    numbers = sum(element_size(_dtype(p)) for p in arrays)
    if not 0 < numbers <= _NUMBERS:
        return NOTHING
    count = WIDEST // max(4, *sizes)
    work = sum(lookup(op.name).cost for op in fn.body.ops if is_scalar_op(op.name))
    while count > 1 and (count * numbers > _NUMBERS or count * work > _WORK):
        count //= 2
    read = frozenset(Access(op).array for op in own if op.name not in ELEMENT_STORES)
    added = {Access(op).array for op in own if op.name in ELEMENT_ACCUMULATES}
    zeroed = tuple([p for p in fn.params if p in added][: abi.MOST_ZEROED])
    return OwnElements(count, arrays, read, any(_counts(op, axis_of, own) for op in fn.body.ops), zeroed)


def _counts(op: Op, threads: Container[Value], own: Container[Op]) -> bool:
    """Return whether an op uses a thread's index for more than its own element."""
    used = [Access(op).value] if op in own and op.name not in ELEMENT_LOADS else [] if op in own else op.operands
    return any(v in threads for v in used)


def _is_plain(
    op: Op, is_own: Callable[[Op], bool], threads: Container[Value], invariant: Mapping[Value, Op | None]
) -> bool:
    """Return whether an op is arithmetic, or an access of the thread's own element or of one that is only read.

    What is only read has the same index in all threads, or one of the indices of the thread along each axis.
    """
    if op.regions or op.attrs.get("opaque"):
        return False
    if op.name not in _PLAIN:
        return is_scalar_op(op.name) or op.name in PARTS | ARRAY_EXTENTS | THREAD_INDICES
    if op.attrs.get("mode", "plain") != "plain" or "aligned" in op.attrs:
        return False
    array = Access(op).array.type
    if not isinstance(array, Array) or array.outer or array.layout != "C":
        return False
    return is_own(op) or (op.name in ELEMENT_LOADS and all(v in invariant or v in threads for v in Access(op).index))


def _dtype(array: Value) -> Element:
    assert isinstance(array.type, Array)
    return array.type.dtype


class HeldElement:
    """An element of an array, in the registers of the thread whose own it is.

    Parameters
    ----------
    b
        The builder.
    array, pointer
        Its array and its address.
    read
        Whether it is loaded; else it is only written.
    """

    def __init__(self, b: Builder, array: ArrayRef, pointer: Any, read: bool) -> None:
        self.array, self.pointer = array, pointer
        self.values: list[Any] = [None] * element_size(array.type.dtype)
        self.written: set[int] = set()
        if read:
            self.values = self.loaded(b)

    def loaded(self, b: Builder) -> list[Any]:
        """Load the components."""
        return load_element(b, self.array.type.dtype, self.pointer, self.array)

    def put(self, b: Builder, values: Sequence[Any], only: Collection[int] | None = None) -> None:
        """Replace components, rounded as the element holds them."""
        s = scalar_of(self.array.type.dtype)
        for k, value in enumerate(values):
            if only is None or k in only:
                self.values[k] = from_memory(b, s, to_memory(b, s, value))
                self.written.add(k)

    def add(self, b: Builder, values: Sequence[Any], flags: tuple[str, ...]) -> None:
        """Add to the components."""
        self.put(b, [plus(b, old, new, flags) for old, new in zip(self.values, values, strict=True)])

    def store(self, b: Builder) -> None:
        """Store what was written."""
        if self.written:
            store_element(b, self.array.type.dtype, self.pointer, self.values, self.array, self.written)


def load_unless(b: Builder, is_zero: Any, elements: Sequence[HeldElement]) -> None:
    """Load elements of one array, in one branch, so that their loads become wide ones; where it is zero, none."""
    before = b.block
    with b.if_then(b.not_(is_zero)):
        loaded = [element.loaded(b) for element in elements]
        behind = b.block
    for element, values in zip(elements, loaded, strict=True):
        zero = constant(scalar_of(element.array.type.dtype), 0)
        element.values = [_merged(b, {behind: value, before: zero}) for value in values]


def _merged(b: Builder, values: Mapping[Any, Any]) -> Any:
    made = b.phi(next(iter(values.values())).type)
    for block, value in values.items():
        made.add_incoming(value, block)
    return made
