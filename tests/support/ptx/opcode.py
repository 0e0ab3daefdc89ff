"""An opcode in parts, and a row of the table of instructions.

A row's syntax is written as in the PTX ISA: ``{.x}`` may be left out, ``(a|b)`` is one of several, and ``<set>`` one of
a set of types or modifiers. An opcode that no row allows is refused, so no modifier is ever ignored.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .types import Type, type_named

__all__ = ["SPACES", "Effect", "Opcode", "Row"]

SPACES = ("global", "shared", "local", "const", "param")

_SETS = {
    "int": "s16|s32|s64|u16|u32|u64",
    "whole": "b16|b32|b64|s16|s32|s64|u16|u32|u64",
    "any": "b16|b32|b64|s16|s32|s64|u16|u32|u64|f16|bf16|f32|f64",
    "memory": "b8|b16|b32|b64|s8|s16|s32|s64|u8|u16|u32|u64|f16|bf16|f32|f64",
    "float": "f16|bf16|f32|f64",
    "half": "f16|bf16",
    "pair": "f16x2|bf16x2",
    "round": "rn|rz|rm|rp",
    "scope": "cta|cluster|gpu|sys",
    "order": "weak|volatile|relaxed|acquire|release|acq_rel|sc",
}
_MARK = re.compile(r"<(\w+)>|\{(\.[^}]*)\}|(\.)")


@functools.cache
def _pattern(syntax: str) -> re.Pattern[str]:
    def spelled(mark: re.Match[str]) -> str:
        name, optional, _ = mark.groups()
        if name:
            return f"(?:{_SETS[name]})"
        return f"(?:{_MARK.sub(spelled, optional)})?" if optional else r"\."

    return re.compile(_MARK.sub(spelled, syntax))


@dataclass(frozen=True)
class Opcode:
    """An opcode.

    Attributes
    ----------
    written
        Its parts in order: ``("add", "rn", "f32")``.
    """

    written: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.written[0]

    @functools.cached_property
    def parts(self) -> frozenset[str]:
        return frozenset(self.written[1:])

    @functools.cached_property
    def types(self) -> tuple[Type, ...]:
        """The types in it, in order; the last is that of the operands."""
        return tuple(type_named(p) for p in self.written[1:] if _is_type(p))

    @functools.cached_property
    def type(self) -> Type:
        return self.types[-1]

    @functools.cached_property
    def space(self) -> str:
        """The address space; empty where addresses are generic."""
        return next((s for s in SPACES if s in self.parts or f"{s}__cta" in self.parts), "")

    @functools.cached_property
    def rounding(self) -> str:
        return next((p for p in ("rz", "rm", "rp") if p in self.parts), "rn")

    @functools.cached_property
    def count(self) -> int:
        """How many elements a vector access has."""
        return next((int(p[1:]) for p in ("v2", "v4", "v8") if p in self.parts), 1)


def _is_type(name: str) -> bool:
    try:
        type_named(name)
    except KeyError:
        return False
    return True


@dataclass(frozen=True)
class Row:
    """An instruction that computes results from its operands, lane by lane.

    Attributes
    ----------
    syntax
        Which opcodes it is for.
    compute
        Takes the opcode and an array for each operand; returns one for each result.
    takes, gives
        The types of the operands and of the results: ``t`` is the opcode's last type, ``d`` its first, ``w`` twice as
        wide as ``t``, ``carry`` the carry flag; others are types by name.
    """

    syntax: str
    compute: Callable[..., Any]
    takes: str = "t t"
    gives: str = "t"

    def allows(self, opcode: str) -> bool:
        return _pattern(self.syntax).fullmatch(opcode) is not None


@dataclass(frozen=True)
class Effect:
    """An instruction that reads or changes more than its operands: memory, other lanes, the place in the code.

    Attributes
    ----------
    build
        Takes the opcode, the instruction and the program; returns what executes it in a warp.
    meets
        Which lanes must have come to it before it is executed: ``""`` for no others, ``"warp"`` for all that have not
        ended, ``"mask"`` for those that its last operand names.
    """

    syntax: str
    build: Callable[..., Any]
    meets: str = ""

    def allows(self, opcode: str) -> bool:
        return _pattern(self.syntax).fullmatch(opcode) is not None
