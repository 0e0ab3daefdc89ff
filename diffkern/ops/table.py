"""The shape of a row of the operation table, and the table itself.

A row states everything that is true of an operation on every target: how result types follow from operand types, what
it does to memory, whether a cotangent flows through it, and how it is spelled in generated Python. Targets add their
own spelling in their own tables (``diffkern.targets``); derivative rules stand in ``diffkern.ad.rules``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Any

from diffkern.ir.types import Type


class Effect(enum.Enum):
    """What executing an op does besides producing values."""

    PURE = "pure"
    READ = "read"  # reads an array
    WRITE = "write"  # writes an array element this thread owns
    ATOMIC = "atomic"  # reads and writes an array element that other threads may write too
    STACK_READ = "stack read"
    STACK_WRITE = "stack write"
    BARRIER = "barrier"  # orders this thread's accesses with those of others
    CONTROL = "control"  # whatever its regions do


class Diff(enum.Enum):
    """How reverse mode treats an op."""

    RULE = "rule"  # a row of the rule table
    ZERO = "zero"  # results carry no cotangent (integers, booleans) or the derivative is 0 almost everywhere
    SPECIAL = "special"  # control flow, memory and barriers: handled by the reverse pass itself
    INTERNAL = "internal"  # only occurs in adjoints


Infer = Callable[[Sequence[Type], Mapping[str, Any]], tuple[Type, ...]]
Schema = Mapping[str, type | UnionType]
"""Attributes by name, each with the Python type of its values."""

_OF_RULES: Schema = {"guarded": bool}
"""What any op with a derivative rule may say: the rule multiplies nothing by a cotangent that is exactly zero."""


@dataclass(frozen=True, slots=True)
class OpDef:
    """One row: name, family, arity (None: any), type rule, effect, differentiability, Python spelling, attributes.

    ``py`` is a format string over the operands' spellings ``{0}``, ``{1}``, … and attributes by name; the empty string
    means that the code generator spells the op itself. ``attrs`` are those every such op has, ``optional`` those it
    may have.
    """

    name: str
    family: str
    arity: int | None
    infer: Infer
    effect: Effect = Effect.PURE
    diff: Diff = Diff.RULE
    py: str = ""
    attrs: Schema = field(default_factory=dict)
    optional: Schema = field(default_factory=dict)

    def check_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Check attributes against the schema.

        Raises
        ------
        TypeRuleError
            If one is missing, undeclared or of another type.
        """
        for name in self.attrs:
            if name not in attrs:
                raise TypeRuleError(f"has no attribute {name!r}")
        for name, value in attrs.items():
            want = self.attrs.get(name) or self.optional.get(name)
            if want is None and self.diff is Diff.RULE:
                want = _OF_RULES.get(name)
            if want is None:
                raise TypeRuleError(f"declares no attribute {name!r}")
            if not isinstance(value, want):
                raise TypeRuleError(f"takes {want} as attribute {name!r}, not {value!r}")


class TypeRuleError(Exception):
    """Operand types do not fit an operation; the message says what fits."""


_TABLE: dict[str, OpDef] = {}


def register(row: OpDef) -> None:
    """Add a row; a name may be taken once."""
    if row.name in _TABLE:
        raise ValueError(f"operation {row.name!r} is registered twice")
    _TABLE[row.name] = row


def lookup(name: str) -> OpDef:
    """The row of an operation."""
    return _TABLE[name]


def all_ops() -> Mapping[str, OpDef]:
    """The whole table, by name."""
    return _TABLE
