"""The launches of a Python function, found by running it on arrays of the right shapes without running any launch.

A function that launches kernels on the arrays it is given, and their shapes, give launches, copies and fills in order,
over buffers: the arguments, arrays that the function makes, arrays that it found outside. The function is run twice,
with other numbers and other memory: what differs is traced back to the number or memory that it came from, and
everything that came from neither is a constant.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from diffkern.contracts.options import Merged
from diffkern.errors import LaunchError
from diffkern.interop.jax.arguments import CallArgument, jax_type
from diffkern.interop.jax.builder import BufferPart, ConstantBytes, Number, Operand
from diffkern.ir.structs import Struct
from diffkern.ir.types import Array, Scalar, scalar_of
from diffkern.kernels.kernel import Kernel
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.create import zeros
from diffkern.runtime.arrays.operation import Assign, Copy, Operation
from diffkern.runtime.arrays.type_keys import dtype_of
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.value_bytes import pack_value
from diffkern.runtime.memory.scope import Scope
from diffkern.runtime.memory.state import is_recorded
from diffkern.runtime.memory.stream import Stream

__all__ = ["Filled", "Launched", "RecordedCopy", "Recording", "record"]

# Numbers that stand for arguments by value: no program computes one of them by accident in both runs.
_FLOATS = (0.8414709848078965, 0.1576130816775483)
_INTEGERS = (1_000_003, 1_299_709)


@dataclass(frozen=True)
class Launched:
    """A launch: of a version of a kernel, over dims, with an operand for each parameter, some of which are written.

    Its dims may be the symbols of an exported program. Of several parameters that are given one array, which the kernel
    writes, `merged` has each with the first of them.
    """

    kernel: Kernel
    generation: KernelVersion
    keys: tuple[str, ...]
    dims: tuple[Any, ...]
    operands: tuple[Operand, ...]
    writes: tuple[int, ...]
    merged: Merged = ()


@dataclass(frozen=True)
class RecordedCopy:
    """A copy of one array to another."""

    goal: BufferPart
    source: BufferPart


@dataclass(frozen=True)
class Filled:
    """Constants, in diffkern's stored form, for the elements of an array."""

    goal: BufferPart
    values: Any


@dataclass
class Recording:
    """The operations of a function, over buffers.

    Attributes
    ----------
    name : str
        The function's name.
    buffers : list of Argument
        Its parameters in order, then the arrays that it makes; the value of one of these is its initial contents, in
        diffkern's stored form, None for zeros.
    parameters : int
        How many parameters there are.
    steps : list
        Launches, copies and fills in order.
    """

    name: str
    buffers: list[CallArgument]
    parameters: int
    steps: list[Launched | RecordedCopy | Filled] = field(default_factory=list)

    @property
    def passed(self) -> list[CallArgument]:
        """The parameters that the caller passes."""
        return [a for a in self.buffers[: self.parameters] if a.is_passed]

    @property
    def results(self) -> list[CallArgument]:
        """The parameters that are returned."""
        return [a for a in self.buffers if a.is_result]


class _Recorder(Scope):
    """A handler that takes operations instead of executing them."""

    runs = False

    def __init__(self) -> None:
        self.operations: list[PackedLaunch | Copy | Assign] = []

    def _begin(self) -> tuple[str, _Recorder, _Recorder]:
        return "recorder", self, self

    reader: str | None = None

    def check_read(self, held: array) -> None:
        """Raise: when the function runs the arrays are others."""
        raise LaunchError(
            f"{held._summary()} is read on the host in a function for JAX, which is recorded once for all its calls",
            remedy="use launches, copies and fills in it; compute with numbers in JAX",
        )

    def check_parts(self, operation: Operation) -> None:
        """Raise for an operation with a derivative of its own, of which JAX would see the parts alone."""
        raise LaunchError(
            f"a function for JAX cannot have an operation with a derivative of its own: {operation.label}",
            remedy="give its derivative to JAX, with jax.custom_vjp or jax.custom_jvp around functions of launches",
        )

    def take(self, operation: Operation, stream: Stream | None = None) -> None:
        if not isinstance(operation, (PackedLaunch, Copy, Assign)):
            raise LaunchError(
                f"a function for JAX launches kernels, copies and fills; it cannot record: {operation.label}",
                remedy="JAX makes gradients itself: leave adjoint launches out",
            )
        self.operations.append(operation)
        operation.touch()


def record(name: str, function: Callable[..., Any], arguments: Sequence[CallArgument]) -> Recording:
    """Return the operations of a function on arguments of these types.

    Raises
    ------
    LaunchError
        If they depend on the numbers, or the function does something that has no counterpart.
    """
    # The recording would be taken for the user's launches.
    if is_recorded():
        raise LaunchError(f"{name!r} is traced inside a dk.Tape or dk.record()", remedy="call it outside")
    try:
        first = _run(function, arguments, 0)
    except LaunchError as error:
        if _is_told_otherwise(function, arguments, error):
            raise _depends(name) from error
        raise
    return _compare(name, arguments, first, _run(function, arguments, 1))


_Run = tuple[list[Any], list[Any]]


def _is_told_otherwise(function: Callable[..., Any], arguments: Sequence[CallArgument], error: LaunchError) -> bool:
    """Return whether a launch is refused because of a number given to the function: other numbers give
    another error.
    """
    try:
        _run(function, arguments, 1)
    except LaunchError as other:
        return other.message != error.message
    return True


def _run(function: Callable[..., Any], arguments: Sequence[CallArgument], which: int) -> _Run:
    given = [_stand_in(a, k, which) for k, a in enumerate(arguments)]
    with _Recorder() as recorder:
        function(*given)
    return given, recorder.operations


def _stand_in(a: CallArgument, position: int, which: int) -> Any:
    if isinstance(a.type, Array):
        return zeros(a.extents, array(dtype=a.type.dtype).dtype)
    scalar = scalar_of(a.type)
    if scalar.bits < 32 and not scalar.is_float:
        raise LaunchError(
            f"parameter {a.name!r} of type {a.type} by value: such numbers cannot be followed through the function",
            remedy="pass an int32, int64 or float, or an array of one element",
        )
    # Distinct for each argument and run, so that equal bytes in both runs are a constant, and different ones name the
    # argument.
    first = _FLOATS[which] + position if scalar.is_float else _INTEGERS[which] + position
    if isinstance(a.type, Scalar):
        return first
    step = 1 / 64 if scalar.is_float else 1000
    return dtype_of(a.type)(*(first + step * k for k in range(a.type.size)))


def _compare(name: str, arguments: Sequence[CallArgument], first: _Run, second: _Run) -> Recording:
    given, operations = first
    out = Recording(name, [*arguments], len(arguments))
    places = {v._memory.address: k for k, v in enumerate(given) if isinstance(v, array)}
    made: list[tuple[array, array]] = []
    foreign: set[int] = set()
    # Two runs with other numbers must do the same, or the recording is of one case only.
    if len(operations) != len(second[1]):
        raise _depends(name)
    for a, b in zip(operations, second[1], strict=True):
        if type(a) is not type(b):
            raise _depends(name)
        for x, y in zip(_arrays(a), _arrays(b), strict=True):
            if (x is None) is not (y is None):
                raise _depends(name)
            if x is not None and y is not None:
                address = x._memory.address
                # The same memory in both runs: the array exists outside of the function.
                if address == y._memory.address:
                    foreign.add(address)
                if address not in places:
                    places[address] = len(arguments) + len(made)
                    made.append((_root(x), _root(y)))
        out.steps.append(_recorded(name, arguments, (a, b), places))
    _refuse_changes(name, out)
    for held, twin in made:
        if held._memory.address in foreign:
            _refuse_writes(name, operations, held._memory.address)
        out.buffers.append(_made(len(out.buffers), held, twin))
    return out


def _made(index: int, held: array, twin: array) -> CallArgument:
    """Return an array that the function makes, or finds outside, as an argument."""
    element = held._element
    assert not isinstance(element, Struct)
    # Nothing ran, so arrays made by the function still hold their initial contents. Uninitialized memory is not the
    # same twice, and counts as zeros.
    same = held._memory.is_zero or np.array_equal(_bytes(held), _bytes(twin))
    constant = same and not held._memory.is_zero and _bytes(held).any()
    contents = held._data.copy() if constant else None
    return CallArgument(index, "", Array(element, held.ndim), held._data.shape, jax_type(scalar_of(element)), contents)


def _root(held: array) -> array:
    """Return the array of which a view shows a part."""
    while held._parent is not None:
        held = held._parent
    return held


def _bytes(held: array) -> Any:
    return np.ascontiguousarray(held._data).view(np.uint8)


def _arrays(operation: Any) -> Sequence[array | None]:
    if isinstance(operation, PackedLaunch):
        return operation.arrays
    return [operation.goal, operation.source] if isinstance(operation, Copy) else [operation.goal]


def _recorded(
    name: str, arguments: Sequence[CallArgument], pair: tuple[Any, Any], places: dict[int, int]
) -> Launched | RecordedCopy | Filled:
    a, b = pair
    if isinstance(a, PackedLaunch):
        if a.dims != b.dims or a.keys != b.keys or a.kernel is not b.kernel:
            raise _depends(name)
        if a.executable.blockwise and a.blocks.block_dim not in (None, a.kernel.block_dim):
            raise LaunchError(
                f"{name!r} launches {a.kernel.name!r}, whose threads work together, with "
                f"block_dim={a.blocks.block_dim}; calls from JAX have the kernel's own",
                remedy="make the kernel with that block_dim, and leave it out of the launch",
            )
        if len(a.parts) != len(a.keys):
            raise LaunchError(
                f"{name!r} launches {a.kernel.name!r} with a struct; JAX has no structs",
                remedy="pass the fields that the kernel needs as parameters of their own",
            )
        operands = [
            _place(held, places) if held is not None else _number(name, arguments, a.keys[k], a.parts[k], b.parts[k])
            for k, held in enumerate(a.arrays)
        ]
        assert isinstance(a.kernel, Kernel)
        merged = tuple(a.merged.items())
        return Launched(a.kernel, a.generation, a.keys, a.dims, tuple(operands), a.executable.writes, merged)
    if isinstance(a, Copy):
        return RecordedCopy(_place(a.goal, places), _place(a.source, places))
    if not np.array_equal(a.values, b.values):
        raise _depends(name)
    return Filled(_place(a.goal, places), a.values)


def _place(held: array, places: dict[int, int]) -> BufferPart:
    root = _root(held)
    # Address, extents and strides, as the launch packed them: they tell where a view lies in its buffer.
    pointer, *extents = struct.unpack(f"{len(held._packed) // 8}q", held._packed)
    start, ndim = pointer - root._memory.address, len(extents) // 2
    shape, strides = tuple(extents[:ndim]), tuple(extents[ndim:])
    same = held.shape == root.shape and held._element == root._element
    whole = start == 0 and same and held._type.layout == "C"
    return BufferPart(places[root._memory.address], start, shape, strides, whole)


def _number(name: str, arguments: Sequence[CallArgument], key: str, a: bytes, b: bytes) -> Number | ConstantBytes:
    if a == b:
        return ConstantBytes(a)
    for k, argument in enumerate(arguments):
        # By type as well as bytes: a number that was converted on its way is not the argument.
        if not isinstance(argument.type, Array) and str(argument.type) == key:
            stands = [pack_value(argument.type, _stand_in(argument, k, which)) for which in (0, 1)]
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


def _refuse_changes(name: str, recording: Recording) -> None:
    """Refuse writes to arguments that JAX takes to be unchanged."""
    for step in recording.steps:
        written = [step.operands[k] for k in step.writes] if isinstance(step, Launched) else [step.goal]
        for place in written:
            assert isinstance(place, BufferPart)
            a = recording.buffers[place.buffer] if place.buffer < recording.parameters else None
            if a is not None and not a.is_result:
                raise LaunchError(
                    f"{name!r} writes to {a.name!r}, which is passed and not returned, and JAX's arrays do not change",
                    remedy="name it in in_out_argnames, and count it in num_outputs; it is returned then",
                )


def _refuse_writes(name: str, operations: Sequence[Any], address: int) -> None:
    for operation in operations:
        if any(held._memory.address == address for held in operation.writes()):
            raise LaunchError(
                f"{name!r} writes to an array that is not among its arguments",
                remedy="make it an in-out argument or an output",
            )
