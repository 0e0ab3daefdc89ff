"""The table of instructions, and how an instruction of a program is decoded by it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import conversions, effects, floats, integers
from .faults import PtxFault
from .opcode import Effect, Opcode, Row
from .operands import CARRY, Reader, reader, writer
from .parse import Instruction, Operand, Pair
from .types import Type, type_named

if TYPE_CHECKING:
    from .image import Program
    from .warp import Frame, Path

__all__ = ["TABLE", "Step", "row_of", "step_of"]

TABLE: list[Row | Effect] = [*integers.ROWS, *floats.ROWS, *conversions.ROWS, *effects.ROWS]


@dataclass(frozen=True)
class Step:
    """An instruction, ready to be executed.

    Attributes
    ----------
    execute
        Executes it for the lanes of a path.
    guard
        Reads the predicate that it stands under.
    meets
        Which lanes must have come to it, as in :class:`~support.ptx.opcode.Effect`.
    members
        Reads the mask of those lanes where an operand has it.
    """

    execute: Callable[[Frame, Path], None]
    guard: Reader | None
    meets: str
    members: Reader | None
    text: str


@functools.cache
def row_of(opcode: str) -> Any:
    """Return the row of an opcode.

    Raises
    ------
    PtxFault
        If there is none.
    """
    for row in TABLE:
        if row.allows(opcode):
            return row
    raise PtxFault(f"there is no row for the instruction {opcode}")


def step_of(i: Instruction, program: Program) -> Step:
    """Decode an instruction of a program."""
    row, opcode = row_of(i.opcode), Opcode(tuple(i.opcode.split(".")))
    guard = reader(i.guard, type_named("pred"), program) if i.guard is not None else None
    if isinstance(row, Row):
        return Step(_computing(row, opcode, i, program), guard, "", None, i.text)
    members = reader(i.operands[-1], type_named("b32"), program) if row.meets == "mask" else None
    return Step(row.build(opcode, i, program), guard, row.meets, members, i.text)


def _computing(row: Row, op: Opcode, i: Instruction, program: Program) -> Callable[[Frame, Path], None]:
    given, wanted = row.takes.split(), row.gives.split()
    sources, results = _operands(i, given, wanted)
    reads = [reader(operand, _type(code, op), program) for operand, code in zip(sources, given, strict=True)]
    writes = [writer(operand, _type(code, op)) for operand, code in zip(results, wanted, strict=False)]
    compute = row.compute
    if len(wanted) == 1:
        (write,) = writes
        return lambda frame, path: write(frame, path, compute(op, *[read(frame) for read in reads]))

    def execute(frame: Frame, path: Path) -> None:
        values = compute(op, *[read(frame) for read in reads])
        for write, value in zip(writes, values, strict=False):
            write(frame, path, value)

    return execute


def _operands(i: Instruction, given: list[str], wanted: list[str]) -> tuple[list[Operand], list[Operand]]:
    """The operands that are read and those that are written, the carry flag among them; a second result is optional."""
    first, *rest = i.operands
    results = [first.first, first.second] if isinstance(first, Pair) else [first]
    for operands, codes in ((rest, given), (results, wanted)):
        if "carry" in codes:
            operands.append(CARRY)
    if len(rest) != len(given):
        raise PtxFault(f"{len(given)} operands are expected: {i.text}")
    return rest, results


def _type(code: str, op: Opcode) -> Type:
    if code == "t":
        return op.type
    if code == "d":
        return op.types[0]
    if code == "w":
        return type_named(f"{op.type.kind}{2 * op.type.bits}")
    return type_named("pred" if code == "carry" else code)
