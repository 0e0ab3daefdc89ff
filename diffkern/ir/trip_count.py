"""The number of trips of a ``for``: ``len(range(start, stop, step))``, and none for a step of 0.

::

    step > 0    (stop - start - 1) // step + 1     where start < stop, else 0
    step < 0    (start - stop - 1) // -step + 1    where stop < start, else 0

The bounds and the step are integers of one type. Their distance and the step's magnitude need not fit that type (in
int8, 127 - -128 and -(-128) do not), but they fit the unsigned type of the same width, and so does the number of trips.
So distances are taken modulo that width and read as unsigned.

:func:`trip_count` is the only definition. It is generic over the operations of :class:`Numbers`, which are implemented
by ops of the IR (:func:`count_trips`, for adjoints and the frontend), by LLVM values (``targets.emit.loops``) and by
Python's integers (:data:`PYTHON`). Constant bounds are a ``range`` of Python's.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Value
from diffkern.ir.types import INT32, INT64, UINT32, UINT64, Kind, Scalar
from diffkern.process.dataclass import dataclass

__all__ = ["PYTHON", "Numbers", "count_trips", "counter_type", "index_of_trip", "is_last_trip", "trip_count", "trip_of"]

N = TypeVar("N")


class Numbers(Protocol[N]):
    """The operations of :func:`trip_count`, on integers of a range and on counts, which are not negative."""

    @property
    def signed(self) -> bool:
        """True if the range's type has negative integers."""
        ...

    def less(self, a: N, b: N) -> N:
        """Return whether one integer of the range is less than another."""
        ...

    def is_zero(self, step: N) -> N:
        """Return whether the step is 0."""
        ...

    def distance(self, low: N, high: N) -> N:
        """Return ``high - low`` as a count; for ``low <= high``."""
        ...

    def ahead(self, low: N, high: N) -> N:
        """Return ``max(0, high - low)`` as a count."""
        ...

    def whole(self, distance: N, size: N) -> N:
        """Return ``(distance - 1) // size + 1`` of counts that are not 0."""
        ...

    def number(self, value: int) -> N:
        """Return a literal count."""
        ...

    def bound(self, value: int) -> N:
        """Return a literal of the range's type."""
        ...

    def select(self, condition: N, a: N, b: N) -> N:
        """Return one of two integers."""
        ...

    def only_if(self, a: N, unless: N) -> N:
        """Return ``a and not unless``."""
        ...


def trip_count(numbers: Numbers[N], start: N, stop: N, step: N, known: int | None = None) -> N:
    """Return the number of trips as a count; ``known`` is the step, if it is a literal."""
    none = numbers.number(0)
    if known is not None:
        low, high = (start, stop) if known >= 0 else (stop, start)
        if abs(known) <= 1:
            # A step of 1 or -1 needs no division, and most loops have one: the distance is the count.
            return numbers.ahead(low, high) if known else none
        whole = numbers.whole(numbers.distance(low, high), numbers.number(abs(known)))
        return numbers.select(numbers.less(low, high), whole, none)
    zero = numbers.bound(0)
    # A negative step is a range that is walked from `stop` to `start`, so both directions share one formula.
    low, high, size = start, stop, numbers.distance(zero, step)
    if numbers.signed:
        down = numbers.less(step, zero)
        low, high = numbers.select(down, stop, start), numbers.select(down, start, stop)
        size = numbers.select(down, numbers.distance(step, zero), size)
    never = numbers.is_zero(step)
    # The division is computed on every path, also where there is no trip: its divisor must not be 0.
    size = numbers.select(never, numbers.number(1), size)
    runs = numbers.only_if(numbers.less(low, high), never)
    return numbers.select(runs, numbers.whole(numbers.distance(low, high), size), none)


# -- Python's integers -------------------------------------------------------------------------------------------------


class _Python:
    signed = True

    less = staticmethod(lambda a, b: a < b)
    is_zero = staticmethod(lambda step: step == 0)
    distance = staticmethod(lambda low, high: high - low)
    ahead = staticmethod(lambda low, high: max(0, high - low))
    whole = staticmethod(lambda distance, size: (distance - 1) // size + 1)
    number = bound = staticmethod(lambda value: value)
    select = staticmethod(lambda condition, a, b: a if condition else b)
    only_if = staticmethod(lambda a, unless: a and not unless)


PYTHON: Numbers[Any] = _Python()
"""Integers that know no limits."""


# -- ops of the IR -----------------------------------------------------------------------------------------------------


def counter_type(t: Scalar) -> Scalar:
    """Return the signed type in which the trips of a loop over integers of type ``t`` are numbered.

    Integers of 8 and 16 bits are numbered in int32, since there may be more trips than the type has numbers. A loop of
    2**31 trips over 32 bits, or of 2**63 over 64, has a number of trips that does not fit: see the preconditions of
    differentiated kernels.
    """
    return INT64 if t.bits == 64 else INT32


@dataclass(frozen=True, slots=True)
class _Ops:
    """Ops on integers of type ``t``, which has at least 32 bits, and counts of type ``to``, no narrower."""

    b: Builder
    t: Scalar
    to: Scalar
    reported: bool  # whether debug programs report a step of 0

    @property
    def signed(self) -> bool:
        return self.t.kind is Kind.INT

    def less(self, a: Value, b: Value) -> Value:
        return self.b.one("lt", a, b)

    def is_zero(self, step: Value) -> Value:
        zero = self.bound(0)
        # The mark tells debug programs to report a step of 0 at this comparison; it changes nothing else.
        return self.b.one("eq", step, zero, range_step=True) if self.reported else self.b.one("eq", step, zero)

    def distance(self, low: Value, high: Value) -> Value:
        # The difference may wrap around in the range's type; as a count of the same width it is right again.
        return self.b.cast(self.b.sub(high, low), self.to)

    def ahead(self, low: Value, high: Value) -> Value:
        return self.b.cast(self.b.sub(self.b.one("max", high, low), low), self.to)

    def whole(self, distance: Value, size: Value) -> Value:
        unsigned = UINT64 if self.to.bits == 64 else UINT32
        # A division of unsigned numbers: a distance of 2**31 or more is negative in the signed counter type.
        before = self.b.cast(self.b.sub(distance, self.number(1)), unsigned)
        passed = self.b.one("floordiv", before, self.b.cast(size, unsigned))
        return self.b.add(self.b.cast(passed, self.to), self.number(1))

    def number(self, value: int) -> Value:
        # The IR spells constants of a signed type by their signed value.
        return self.b.const(value if value < 1 << (self.to.bits - 1) else value - (1 << self.to.bits), self.to)

    def bound(self, value: int) -> Value:
        return self.b.const(value, self.t)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.b.select(condition, a, b)

    def only_if(self, a: Value, unless: Value) -> Value:
        return self.b.one("and", a, self.b.one("not", unless))


def count_trips(
    b: Builder,
    bounds: tuple[Value, Value, Value],
    known: int | None = None,
    *,
    to: Scalar | None = None,
    reported: bool = False,
) -> Value:
    """Emit the number of trips.

    Parameters
    ----------
    b
        The builder that receives the ops.
    bounds
        Start, stop and step.
    known
        The step, if it is a literal.
    to
        The type of the result, of the width of ``counter_type``, which it is by default.
    reported
        Whether debug programs report a step of 0 here.
    """
    t = bounds[0].type
    assert isinstance(t, Scalar)
    bounds = _widened(b, bounds)
    wide = bounds[0].type
    assert isinstance(wide, Scalar)
    return trip_count(_Ops(b, wide, to or counter_type(t), reported), *bounds, known)


def _widened(b: Builder, values: tuple[Value, ...]) -> Any:
    """Return integers of 8 and 16 bits as int32, in which no result computed from them here wraps around."""
    t = values[0].type
    assert isinstance(t, Scalar)
    return values if t.bits >= 32 else tuple(b.cast(v, INT32) for v in values)


def index_of_trip(
    b: Builder, number: Value, start: Value, step: Value, known: int | None = None, *, from_zero: bool = False
) -> Value:
    """Emit the index of a trip by its number; ``from_zero`` if the start is a literal 0."""
    t = start.type
    assert isinstance(t, Scalar)
    # With step 1 and start 0 the index is the number itself, and no widening casts are emitted for it.
    if known != 1 or not from_zero:
        start, step = _widened(b, (start, step))
    wide = start.type if t.bits >= 32 else INT32
    assert isinstance(wide, Scalar)
    passed = b.cast(number, wide)
    passed = passed if known == 1 else b.mul(passed, step)
    return b.cast(passed if from_zero else b.add(start, passed), t)


def trip_of(b: Builder, index: Value, start: Value, step: Value, known: int | None = None) -> Value:
    """Emit the number of the trip that has this index."""
    t = index.type
    assert isinstance(t, Scalar)
    index, start, step = _widened(b, (index, start, step))
    if known == 1:
        return b.cast(b.sub(index, start), counter_type(t))
    wide = index.type
    assert isinstance(wide, Scalar)
    zero = b.const(0, wide)
    if wide.kind is Kind.INT:
        down = b.one("lt", step, zero)
        index, start = b.select(down, start, index), b.select(down, index, start)
        step = b.select(down, b.sub(zero, step), step)
    unsigned = UINT64 if wide.bits == 64 else UINT32
    passed = b.one("floordiv", b.cast(b.sub(index, start), unsigned), b.cast(step, unsigned))
    return b.cast(passed, counter_type(t))


def is_last_trip(b: Builder, index: Value, stop: Value, step: Value) -> Value:
    """Emit whether the trip with this index is the last one; the step is not 0."""
    index, stop, step = _widened(b, (index, stop, step))
    wide = index.type
    assert isinstance(wide, Scalar)
    zero = b.const(0, wide)
    # `index + step >= stop` could overflow at the end of the type's range; the distance that is left cannot.
    left, size = b.sub(stop, index), step
    if wide.kind is Kind.INT:
        down = b.one("lt", step, zero)
        left, size = b.select(down, b.sub(index, stop), left), b.select(down, b.sub(zero, step), step)
    unsigned = UINT64 if wide.bits == 64 else UINT32
    return b.one("le", b.cast(left, unsigned), b.cast(size, unsigned))
