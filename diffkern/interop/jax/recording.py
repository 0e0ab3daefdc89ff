"""What a Python function launches, found by running it on arrays of the right shapes without running any launch.

In: a function that launches kernels on the arrays it is given, and their shapes. Out: launches, copies and fills in
order, over buffers: the arguments, arrays that the function makes, arrays that it found outside. The function is run
twice, with other numbers and other memory: what differs is traced back to the number or memory that it came from, and
whatever came from neither is a constant.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffkern.errors import LaunchError
from diffkern.ir.types import Element, Scalar, scalar_of
from diffkern.runtime.arguments import pack_value
from diffkern.runtime.array import array
from diffkern.runtime.create import zeros
from diffkern.runtime.launch import Launch
from diffkern.runtime.operation import Assign, Copy
from diffkern.runtime.scope import Scope
from diffkern.runtime.state import current
from diffkern.runtime.type_keys import dtype_of

__all__ = ["Argument", "Constant", "Number", "Place", "Recorded", "Recording", "record"]

# Numbers that stand for arguments by value: no program computes one of them by accident in both runs.
_FLOATS = (0.8414709848078965, 0.1576130816775483)
_INTEGERS = (1_000_003, 1_299_709)


@dataclass(frozen=True)
class Argument:
    """An argument of the function: the shape and element of an array, or the type of a number."""

    name: str
    element: Element
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Place:
    """An array: a buffer, and where in it the array lies."""

    buffer: int
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_whole: bool


@dataclass(frozen=True)
class Number:
    """An argument by value, by its position."""

    argument: int


@dataclass(frozen=True)
class Constant:
    """A number that does not depend on the arguments: its bytes, and itself."""

    packed: bytes
    value: Any


@dataclass(frozen=True)
class Recorded:
    """One operation: a launch with its operands, a copy (goal, source), or a fill (goal, values)."""

    operation: Launch | Copy | Assign
    operands: tuple[Place | Number | Constant, ...]
    values: Any = None


@dataclass
class Recording:
    """The operations, and the buffers: first the arguments that are arrays, then the others with their contents.

    Attributes
    ----------
    arrays
        For each buffer an array of its shape and type.
    contents
        For each buffer beyond the arguments what it holds at the beginning; None for zeros.
    """

    operations: list[Recorded] = field(default_factory=list)
    arrays: list[array] = field(default_factory=list)
    contents: dict[int, Any] = field(default_factory=dict)


class _Recorder(Scope):
    """Takes operations, in place of doing them."""

    runs = False

    def __init__(self) -> None:
        self.operations: list[Launch | Copy | Assign] = []

    def _begin(self) -> tuple[str, _Recorder, _Recorder]:
        return "recorder", self, self

    def add(self, operation: Any, stream: Any) -> None:
        if not isinstance(operation, (Launch, Copy, Assign)):
            raise LaunchError(
                f"a function for JAX launches kernels, copies and fills; it cannot record: {operation.label}",
                remedy="JAX makes gradients itself: leave adjoint launches out",
            )
        self.operations.append(operation)


def record(name: str, function: Callable[..., Any], arguments: Sequence[Argument]) -> Recording:
    """Return what a function does with arguments of these types.

    Raises
    ------
    LaunchError
        If that depends on the numbers, or the function does something that has no counterpart.
    """
    if current.tape is not None or current.recorder is not None:
        raise LaunchError(f"{name!r} is traced inside a dk.Tape or dk.record()", remedy="call it outside")
    try:
        first = _run(function, arguments, 0)
    except LaunchError as error:
        if _is_told_otherwise(function, arguments, error):
            raise _depends(name) from error
        raise
    return _compare(name, arguments, first, _run(function, arguments, 1))


_Run = tuple[list[Any], list[Any]]


def _is_told_otherwise(function: Callable[..., Any], arguments: Sequence[Argument], error: LaunchError) -> bool:
    """Whether a launch is refused for a number that the function is given: other numbers are refused otherwise."""
    try:
        _run(function, arguments, 1)
    except LaunchError as other:
        return other.message != error.message
    return True


def _run(function: Callable[..., Any], arguments: Sequence[Argument], which: int) -> _Run:
    given = [_stand_in(a, k, which) for k, a in enumerate(arguments)]
    with _Recorder() as recorder:
        function(*given)
    return given, recorder.operations


def _stand_in(a: Argument, position: int, which: int) -> Any:
    if a.shape is not None:
        return zeros(a.shape, _dtype(a.element))
    scalar = scalar_of(a.element)
    if scalar.bits < 32 and not scalar.is_float:
        raise LaunchError(
            f"parameter {a.name!r} of type {a.element} by value: such numbers cannot be followed through the function",
            remedy="pass an int32, int64 or float, or an array of one element",
        )
    first = _FLOATS[which] + position if scalar.is_float else _INTEGERS[which] + position
    if isinstance(a.element, Scalar):
        return first
    step = 1 / 64 if scalar.is_float else 1000
    return dtype_of(a.element)(*(first + step * k for k in range(a.element.size)))


def _dtype(element: Element) -> Any:
    return array(dtype=element).dtype


def _compare(name: str, arguments: Sequence[Argument], first: _Run, second: _Run) -> Recording:
    given, operations = first
    out = Recording()
    places: dict[int, int] = {}
    twins: dict[int, array] = {}
    for value in given:
        if isinstance(value, array):
            _enter(out, places, value)
    foreign: set[int] = set()
    if len(operations) != len(second[1]):
        raise _depends(name)
    for a, b in zip(operations, second[1], strict=True):
        if type(a) is not type(b):
            raise _depends(name)
        for x, y in zip(_arrays(a), _arrays(b), strict=True):
            if (x is None) is not (y is None):
                raise _depends(name)
            if x is not None and y is not None:
                if x._memory.address == y._memory.address:
                    foreign.add(x._memory.address)
                twins[x._memory.address] = _root(y)
                _enter(out, places, _root(x))
        out.operations.append(_recorded(name, arguments, (a, b), places))
    for buffer in range(sum(isinstance(v, array) for v in given), len(out.arrays)):
        held = out.arrays[buffer]
        address = held._memory.address
        if address in foreign:
            _refuse_writes(name, operations, address)
        # Nothing ran, so arrays that the function made still hold what they began with; if that is nothing in
        # particular, it is not the same twice.
        same = held._memory.is_zero or np.array_equal(_bytes(held), _bytes(twins[address]))
        constant = same and not held._memory.is_zero and _bytes(held).any()
        out.contents[buffer] = held._data.copy() if constant else None
    return out


def _enter(out: Recording, places: dict[int, int], held: array) -> None:
    address = held._memory.address
    if address not in places:
        places[address] = len(out.arrays)
        out.arrays.append(held)


def _root(held: array) -> array:
    """The array that a view shows a part of."""
    while held._parent is not None:
        held = held._parent
    return held


def _bytes(held: array) -> Any:
    return np.ascontiguousarray(held._data).view(np.uint8)


def _arrays(operation: Any) -> Sequence[array | None]:
    if isinstance(operation, Launch):
        return operation.arrays
    return [operation.goal, operation.source] if isinstance(operation, Copy) else [operation.goal]


def _recorded(name: str, arguments: Sequence[Argument], pair: tuple[Any, Any], places: dict[int, int]) -> Recorded:
    a, b = pair
    if isinstance(a, Launch):
        if a.dims != b.dims or a.keys != b.keys or a.kernel is not b.kernel:
            raise _depends(name)
        if len(a.parts) != len(a.keys):
            raise LaunchError(f"{name!r} launches {a.kernel.name!r} with a struct; JAX has no structs")
        operands = [
            _place(held, places) if held is not None else _number(name, arguments, a.keys[k], a.parts[k], b.parts[k])
            for k, held in enumerate(a.arrays)
        ]
        return Recorded(a, tuple(operands))
    if isinstance(a, Copy):
        return Recorded(a, (_place(a.goal, places), _place(a.source, places)))
    if not np.array_equal(a.values, b.values):
        raise _depends(name)
    return Recorded(a, (_place(a.goal, places),), a.values)


def _place(held: array, places: dict[int, int]) -> Place:
    root = _root(held)
    pointer, *extents = struct.unpack(f"{len(held._packed) // 8}q", held._packed)
    start, ndim = pointer - root._memory.address, len(extents) // 2
    shape, strides = tuple(extents[:ndim]), tuple(extents[ndim:])
    whole = start == 0 and held.shape == root.shape and held._type.layout == "C"
    return Place(places[root._memory.address], start, shape, strides, whole)


def _number(name: str, arguments: Sequence[Argument], key: str, a: bytes, b: bytes) -> Number | Constant:
    if a == b:
        return Constant(a, None)
    for k, argument in enumerate(arguments):
        if argument.shape is None and str(argument.element) == key:
            stands = [pack_value(argument.element, _stand_in(argument, k, which)) for which in (0, 1)]
            if stands == [a, b]:
                return Number(k)
    raise LaunchError(
        f"{name!r} computes with a number that it is given before it passes it to a launch",
        remedy="pass the number on as it is and compute in the kernel, in the type of the function's parameter",
    )


def _depends(name: str) -> LaunchError:
    return LaunchError(
        f"what {name!r} launches depends on a number that it is given",
        remedy="make one function for each case, or pass the number as a default argument",
    )


def _refuse_writes(name: str, operations: Sequence[Any], address: int) -> None:
    for operation in operations:
        if any(held._memory.address == address for held in operation.writes()):
            raise LaunchError(
                f"{name!r} writes to an array that is not among its arguments",
                remedy="make it an in-out argument or an output",
            )
