"""Operands to functions that read and write a warp's registers: decoded once, called at every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .faults import PtxFault
from .parse import Address, Number, Operand, Register, Symbol
from .types import BITS, LANES, Lanes, Type, decoded, encoded, type_named

if TYPE_CHECKING:
    from .image import Program
    from .warp import Frame, Path

__all__ = ["CARRY", "Reader", "Writer", "address", "reader", "writer"]

Reader = Callable[["Frame"], Lanes]
Writer = Callable[["Frame", "Path", Lanes], None]

CARRY = Register(0, type_named("pred"))
"""The carry flag: the first slot of every function."""
_WIDE = type_named("u64")
_CONSTANTS = {"WARP_SZ": LANES}


def reader(operand: Operand, t: Type, program: Program) -> Reader:
    """Return what reads an operand as lanes of a type."""
    match operand:
        case Register():
            return _register(operand, t)
        case Number():
            return _constant(t, operand.value)
        case Symbol(name) if name in _CONSTANTS:
            return _constant(t, _CONSTANTS[name])
        case Symbol(name) if name.startswith("%"):
            return lambda frame: decoded(t, frame.warp.special(name).astype(BITS[t.size]))
        case Symbol(name):
            return _constant(t, program.address_of(name))
    raise PtxFault(f"no value: {operand}")


def _constant(t: Type, value: int) -> Reader:
    if t.kind == "pred":
        lanes = np.full(LANES, value != 0)
    else:
        lanes = decoded(t, np.full(LANES, value & ((1 << t.bits) - 1), BITS[t.size]))
    return lambda frame: lanes


def _register(operand: Register, t: Type) -> Reader:
    slot, held = operand.slot, operand.type
    if (held.kind == "pred") != (t.kind == "pred") or held.size < t.size:
        raise PtxFault(f"a register of type {held.name} read as {t.name}")
    if operand.negated:
        return lambda frame: ~frame.registers[slot]
    if t.kind == "pred":
        return lambda frame: frame.registers[slot]
    if held.size > t.size:
        bits = BITS[t.size]
        return lambda frame: decoded(t, frame.registers[slot].astype(bits))
    if t.kind == "bf" and not t.packed:
        return lambda frame: decoded(t, frame.registers[slot])
    dtype = t.dtype
    return lambda frame: frame.registers[slot].view(dtype)


def writer(operand: Operand, t: Type) -> Writer:
    """Return what writes lanes of a type to a register; a wider one is filled with the sign, or with zeros."""
    if operand == Symbol("_"):
        return lambda frame, path, values: None
    if not isinstance(operand, Register) or operand.type.size < t.size:
        raise PtxFault(f"a result of type {t.name} does not go to {operand}")
    slot, held = operand.slot, operand.type
    if held.size > t.size:
        wide = np.dtype(f"i{held.size}") if t.kind == "s" else BITS[held.size]
        bits = BITS[held.size]
        return lambda frame, path, values: frame.write(slot, values.astype(wide).view(bits), path)
    return lambda frame, path, values: frame.write(slot, encoded(t, values), path)


def address(operand: Operand, program: Program) -> Reader:
    """Return what reads ``[base + offset]`` as 64-bit addresses."""
    assert isinstance(operand, Address), operand
    base, offset = operand.base, np.uint64(operand.offset & 0xFFFFFFFFFFFFFFFF)
    if not isinstance(base, Register):
        return reader(base, _WIDE, program) if not offset else _moved(reader(base, _WIDE, program), offset)
    if base.type.size == 8:
        return _moved(_register(base, _WIDE), offset)
    narrow = _register(base, type_named("u32"))
    return lambda frame: narrow(frame).astype(np.uint64) + offset


def _moved(read: Reader, offset: Any) -> Reader:
    return lambda frame: read(frame) + offset
