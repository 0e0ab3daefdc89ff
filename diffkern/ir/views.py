"""Ops with regions and accesses of memory, by the names of their parts instead of positions.

A view holds nothing but its op: it costs one small object, and changes of the op are seen through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from diffkern.ir.nodes import Op, Region, Value, walk
from diffkern.ir.ops.memory import LOADS, LOOPS
from diffkern.ir.ops.rule import COTANGENT_ARRAYS
from diffkern.ir.ops.scalar import LITERALS
from diffkern.ir.ops.tile import READS_OF_PARTS

__all__ = [
    "Access",
    "For",
    "If",
    "Loop",
    "Part",
    "Ruled",
    "StackSlot",
    "While",
    "control",
    "deciding",
    "is_loop",
    "literal",
    "literals",
    "loop",
    "trips_of",
]


class _OpView:
    __slots__ = ("op",)

    def __init__(self, op: Op) -> None:
        self.op = op


class If(_OpView):
    """An ``if``."""

    __slots__ = ()

    @property
    def condition(self) -> Value:
        return self.op.operands[0]

    @property
    def then(self) -> Region:
        return self.op.regions[0]

    @property
    def orelse(self) -> Region:
        return self.op.regions[1]

    @property
    def deciding(self) -> tuple[Value, ...]:
        """The values that decide which branch a thread takes."""
        return self.op.operands[:1]

    @property
    def choices(self) -> list[tuple[Value, Value, Value]]:
        """Each result with its value in either branch."""
        # Both branches yield as many values as the op has results.
        return list(zip(self.op.results, self.then.yields, self.orelse.yields, strict=True))


class _AnyLoop(_OpView):
    """The common part of ``for`` and ``while``."""

    __slots__ = ()

    @property
    def body(self) -> Region:
        return self.op.regions[-1]

    @property
    def yields(self) -> tuple[Value, ...]:
        """The carried values after a trip."""
        return self.op.regions[-1].yields

    @property
    def results(self) -> tuple[Value, ...]:
        return self.op.results


class For(_AnyLoop):
    """A ``for``: ``index`` goes from ``start`` to before ``stop``."""

    __slots__ = ()

    @property
    def start(self) -> Value:
        return self.op.operands[0]

    @property
    def stop(self) -> Value:
        return self.op.operands[1]

    @property
    def step(self) -> Value:
        return self.op.operands[2]

    @property
    def bounds(self) -> tuple[Value, ...]:
        """``start``, ``stop`` and ``step``."""
        return self.op.operands[:3]

    @property
    def deciding(self) -> tuple[Value, ...]:
        """The values that decide on the number of trips."""
        return self.op.operands[:3]

    @property
    def init(self) -> tuple[Value, ...]:
        """The carried values before the first trip."""
        return self.op.operands[3:]

    @property
    def index(self) -> Value:
        return self.op.regions[0].params[0]

    def trips(self, constant: Callable[[Value], float | None]) -> range | None:
        """Return the values of the index, if all bounds are constants; a step of zero makes no trip."""
        # The bounds are asked for as constants one by one: an analysis may know a bound that is no literal op.
        start, stop, step = map(constant, self.op.operands[:3])
        if start is None or stop is None or step is None:
            return None
        return range(int(start), int(stop), int(step)) if step else range(0)

    @property
    def carried(self) -> tuple[Value, ...]:
        """The carried values at the beginning of a trip."""
        return self.op.regions[0].params[1:]

    @property
    def chains(self) -> list[tuple[Value, ...]]:
        """Each carried value: before the first trip, at the beginning of a trip, after it, after the last."""
        return list(zip(self.init, self.carried, self.yields, self.op.results, strict=True))


class While(_AnyLoop):
    """A ``while``: ``test`` yields before each trip whether there is another one."""

    __slots__ = ()

    @property
    def test(self) -> Region:
        return self.op.regions[0]

    @property
    def condition(self) -> Value:
        return self.op.regions[0].yields[0]

    @property
    def bounds(self) -> tuple[Value, ...]:
        """Operands that are no carried values: none."""
        return ()

    @property
    def deciding(self) -> tuple[Value, ...]:
        """The values that decide on the number of trips."""
        return self.op.regions[0].yields

    @property
    def init(self) -> tuple[Value, ...]:
        """The carried values before the first trip."""
        return self.op.operands

    @property
    def tested(self) -> tuple[Value, ...]:
        """The carried values as the test sees them."""
        return self.op.regions[0].params

    @property
    def carried(self) -> tuple[Value, ...]:
        """The carried values at the beginning of a trip."""
        return self.op.regions[1].params

    @property
    def chains(self) -> list[tuple[Value, ...]]:
        """Each carried value: before the first trip, in the test, at the beginning of a trip, after it, at the end."""
        return list(zip(self.init, self.tested, self.carried, self.yields, self.op.results, strict=True))


Loop: TypeAlias = For | While


class Ruled(_OpView):
    """A call of a func with custom derivative rules."""

    __slots__ = ()

    @property
    def returned(self) -> tuple[Value, ...]:
        """The values that the func itself returns, one for each result."""
        return self.op.operands[: self.op.attrs["results"]]

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The arguments by value, whose cotangents the derivative yields."""
        return self.op.operands[self.op.attrs["results"] :]

    @property
    def derivative(self) -> Region | None:
        """The region that takes a cotangent for each result and yields those of the inputs."""
        return self.op.regions[0] if self.op.attrs["derivative"] else None

    @property
    def replay(self) -> Region | None:
        """The region that yields the results in a replay."""
        return self.op.regions[-1] if self.op.attrs["replayed"] else None

    @property
    def arrays(self) -> list[Value]:
        """The arrays whose cotangents the derivative reads or writes."""
        found = walk(self.derivative) if self.derivative is not None else ()
        return [op.operands[0] for op in found if op.name in COTANGENT_ARRAYS]


def literal(op: Op | None) -> float | None:
    """Return the number that an op is a literal of; None if it is none."""
    if op is None or op.name not in LITERALS:
        return None
    number: float = op.attrs["value"]
    return number


def literals(region: Region) -> dict[Value, Any]:
    """Return the literals in a region with their numbers."""
    return {op.result: op.attrs["value"] for op in walk(region) if op.name in LITERALS}


def is_loop(op: Op) -> bool:
    """Return whether an op is a ``for`` or a ``while``."""
    return op.name in LOOPS


def trips_of(op: Op, constant: Callable[[Value], float | None]) -> range | None:
    """Return the values of a loop's index, if all its bounds are constants; None for a ``while``."""
    return For(op).trips(constant) if op.name == "for" else None


def is_branch(op: Op) -> bool:
    """Return whether an op is an ``if``."""
    return op.name == "if"


def is_control(op: Op) -> bool:
    """Return whether an op is a branch or a loop."""
    return is_branch(op) or is_loop(op)


def loop(op: Op) -> Loop:
    """Return the view of a loop of either kind."""
    return For(op) if op.name == "for" else While(op)


def control(op: Op) -> If | For | While:
    """Return the view of a branch or loop."""
    return If(op) if is_branch(op) else loop(op)


def deciding(op: Op) -> tuple[Value, ...]:
    """Return the values that decide which way a thread takes through the regions of an op."""
    # The regions of a `ruled` op are no ways of a thread: a derivative uses one of them instead of the op.
    return () if op.name == "ruled" else control(op).deciding


class Access(_OpView):
    """A load, store, atomic update or accumulation, of an element or a tile."""

    __slots__ = ()

    @property
    def array(self) -> Value:
        return self.op.operands[0]

    @property
    def index(self) -> tuple[Value, ...]:
        """One integer per axis; for a tile, its first element."""
        # The operand behind the indices is the value that is written, or the tile of elements along an axis, or both.
        found = self.op.operands[1:] if self.op.name in LOADS else self.op.operands[1:-1]
        return found[:-1] if "along" in self.op.attrs else found

    @property
    def places(self) -> tuple[Value, ...]:
        """The index, and the tile that selects elements along an axis, if there is one."""
        return self.op.operands[1:] if self.op.name in LOADS else self.op.operands[1:-1]

    @property
    def along(self) -> dict[str, Any]:
        """The axis along which a tile's elements select elements, as an attribute of the op."""
        return {"along": self.op.attrs["along"]} if "along" in self.op.attrs else {}

    @property
    def value(self) -> Value:
        """The stored value, or the operand of the update; a load has none."""
        # In all of these ops, the value comes last.
        return self.op.operands[-1]

    @property
    def wrap(self) -> tuple[bool, ...]:
        """For each index of an element, whether it may be negative and counts from the end."""
        wrap: tuple[bool, ...] = self.op.attrs["wrap"]
        return wrap


class Part(_OpView):
    """A part or an element of a tile that is extracted, inserted or added to."""

    __slots__ = ()

    @property
    def tile(self) -> Value:
        return self.op.operands[0]

    @property
    def index(self) -> tuple[Value, ...]:
        """One integer per axis; for a part, its first element."""
        # Ops that write have the value in between.
        return self.op.operands[1 if self.op.name in READS_OF_PARTS else 2 :]

    @property
    def value(self) -> Value:
        """The value that is inserted or added."""
        return self.op.operands[1]


class StackSlot(_OpView):
    """An access of a loop stack."""

    __slots__ = ()

    @property
    def stack(self) -> Value:
        return self.op.operands[0]

    @property
    def slot(self) -> Value:
        return self.op.operands[1]

    @property
    def values(self) -> tuple[Value, ...]:
        """The values that are written, one per field."""
        return self.op.operands[2:]
