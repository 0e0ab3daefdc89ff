"""Adjoints on a GPU whose cotangents are known to be zero: they store what they would add, and fills are left out.

From operations that run one after the other on one GPU, and their native forms, follow forms that do less. A program
has bits in the header of its launch for arrays that it need not read where they are zero; a fill of such an array that
the program overwrites as a whole is dropped. Gradients that nothing has written before are zero in some runs only:
their bits are set for each run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from diffkern.contracts import abi
from diffkern.runtime.accumulate.accumulation import Atomic, Plain
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign, Operation
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.native.device import DeviceStep
from diffkern.runtime.native.replay import Steps

__all__ = ["OpenBit", "Spared", "goals_of_threads", "is_alone", "meet", "spare_zeros"]


class OpenBit(NamedTuple):
    """A bit of an argument block that is set where some memory is zero before the operations run."""

    memory: Memory
    block: bytearray
    bit: int

    def set(self, is_zero: bool) -> None:
        """Set the bit."""
        bits = self.block[abi.GPU_BITS]
        self.block[abi.GPU_BITS] = bits | self.bit if is_zero else bits & ~self.bit


class Spared(NamedTuple):
    """The forms of operations with known zeros, and the bits that depend on the contents before."""

    forms: list[Steps]
    open: list[OpenBit]


def spare_zeros(
    operations: Sequence[Operation],
    forms: Sequence[Steps],
    before: Collection[Memory] = (),
    own: Collection[Memory] = (),
    resting: Collection[Memory] = (),
) -> Spared:
    """Return the forms to run, which rely on what fills and adjoints before them have left zero.

    Parameters
    ----------
    operations
        All on one GPU, in the order in which they run.
    forms
        The native form of each.
    before
        Memory of which it will be known before each run whether it is zero.
    own
        Memory that nothing but these operations uses: only the part that they use has to be overwritten.
    resting
        Memory that is zero before each run.
    """
    made, opened = list(forms), list[OpenBit]()
    touched = [(_memories(operation.reads()), _memories(operation.writes())) for operation in operations]
    # Memory of other libraries may be other objects over the same bytes.
    if any(_looks_elsewhere(o) for o in operations) or any(m.foreign for pair in touched for m in {*pair[0], *pair[1]}):
        return Spared(made, opened)
    zero, fills, written = set(resting), dict[Memory, int](), set[Memory]()
    for index, (operation, (read, changed)) in enumerate(zip(operations, touched, strict=True)):
        if isinstance(operation, AdjointLaunch) and _has_bits(operation, made[index]):
            opened += _fit(operation, made, index, zero, set(before) - written)
            for memory in _overwritten(operation, operations, fills, own) & zero:
                made[fills[memory]] = []
        for memory in {*read, *changed}:
            fills.pop(memory, None)
        zero.difference_update(changed)
        written.update(changed)
        if isinstance(operation, AdjointLaunch):
            zero.update(operation.consumed())
        elif isinstance(operation, Assign) and _clears(operation):
            zero.add(operation.goal._memory)
            fills[operation.goal._memory] = index
    return Spared(made, opened)


def _memories(arrays: Any) -> set[Memory]:
    return {a._memory for a in arrays}


def _looks_elsewhere(operation: Operation) -> bool:
    """Return whether an operation may touch arrays that it does not name, or runs others."""
    launch = operation.launch if isinstance(operation, AdjointLaunch) else operation
    if isinstance(launch, PackedLaunch):
        return launch.executable.by_id or bool(launch.executable.manifest.pointing)
    return bool(operation.sequences) or operation.is_composite


def _has_bits(adjoint: AdjointLaunch, form: Steps) -> bool:
    """Return whether an adjoint is one launch of a program with bits for its cotangents."""
    program = adjoint.executable
    if not program.zeroed or len(form) != 1 or type(adjoint.accumulation) not in (Plain, Atomic):
        return False
    # Where arrays share memory another program is launched, which reads what it adds to.
    step = form[0]
    return isinstance(step, DeviceStep) and bool(step.block) and step.facts[0] == program.address


def _fit(
    adjoint: AdjointLaunch, forms: Sequence[Steps], index: int, zero: Collection[Memory], unknown: Collection[Memory]
) -> list[OpenBit]:
    """Set the bits of an adjoint; return those that depend on memory of which nothing is known yet."""
    (step,) = forms[index]
    assert isinstance(step, DeviceStep)
    program, cotangents = adjoint.executable, adjoint.cotangents
    known = [k for k, ct in cotangents.items() if ct._memory in zero]
    step.block[abi.GPU_BITS] |= program.bits_of_zeros(adjoint.grid, known)
    found = []
    for k, ct in cotangents.items():
        bit = program.bits_of_zeros(adjoint.grid, [k])
        if bit and ct._memory in unknown:
            found.append(OpenBit(ct._memory, step.block, bit))
    return found


def _overwritten(
    adjoint: AdjointLaunch, operations: Sequence[Operation], fills: Mapping[Memory, int], own: Collection[Memory]
) -> set[Memory]:
    """Return the memory of cotangents that an adjoint overwrites as a whole, where it has been filled before."""
    goals = goals_of_threads(adjoint, {p.of: p.once for p in adjoint.executable.manifest.params})
    found = set[Memory]()
    for k, ct in goals.items():
        memory = ct._memory
        if memory not in fills or not adjoint.executable.bits_of_zeros(adjoint.grid, [k]):
            continue
        is_whole = ct._type.layout == "C" and ct._data.nbytes == memory.nbytes
        if is_alone(adjoint, ct) and (is_whole or (memory in own and _is_all_of(ct, operations))):
            found.add(memory)
    return found


def _is_all_of(ct: array, operations: Sequence[Operation]) -> bool:
    """Return whether all uses of some memory but fills are of elements of one array."""
    first, end = ct._range
    uses = [
        a._range
        for operation in operations
        if not isinstance(operation, Assign)
        for a in (*operation.reads(), *operation.writes())
        if a._memory is ct._memory
    ]
    return ct._type.layout == "C" and all(first <= low and high <= end for low, high in uses)


def _clears(fill: Assign) -> bool:
    """Return whether a fill sets whole memory to zero."""
    goal = fill.goal
    is_whole = goal._type.layout == "C" and goal._data.nbytes == goal._memory.nbytes
    return is_whole and fill.values.dtype.names is None and not any(fill.values.tobytes())


def goals_of_threads(adjoint: AdjointLaunch, axes: Mapping[int, int | None]) -> dict[int, array]:
    """Return the cotangents in which every thread of the launch has an element of its own.

    `axes` are the axes by which each of them is indexed.
    """
    return {k: adjoint.cotangents[k] for k, found in axes.items() if found == len(adjoint.launch.dims)}


def is_alone(adjoint: AdjointLaunch, ct: array) -> bool:
    """Return whether a cotangent has the grid's shape and its memory is used by the adjoint for nothing else."""
    touched = [*adjoint.reads(), *adjoint.writes()]
    others = [a for a in touched if a._memory is not ct._memory]
    # Two uses are the read and the write of the cotangent itself.
    return ct.shape == adjoint.launch.dims and len(touched) - len(others) == 2 and not meet([ct], others)


def meet(some: Sequence[array], others: Sequence[array]) -> bool:
    """Return whether the memory of some arrays may overlap that of others."""
    ranges = [a._range for a in others]
    return any(low < end and begin < high for low, high in (a._range for a in some) for begin, end in ranges)
