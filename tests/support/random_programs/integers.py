"""Whole numbers: thread indices, counters, data, floor division, bits, narrow types and casts."""

from __future__ import annotations

from .memory import Role
from .writer import Writer

__all__ = ["Integers"]

_DATA = ("int32", "int8", "uint8", "int16", "uint16")


class Integers:
    """Writes expressions of type ``int32`` that stay small.

    Parameters
    ----------
    writer
        The kernel's.
    """

    def __init__(self, writer: Writer) -> None:
        self.w = writer

    def leaf(self) -> str:
        """A number without an operation."""
        w = self.w
        kind = w.below(10)
        if kind < 4:
            return w.pick(w.thread)[0]
        if kind < 6 and w.counters:
            return w.pick(w.counters)[0]
        if kind == 6:
            return w.pick(("j0", "j0", "n", "m"))
        if kind < 9 and (data := w.having(Role.READ, *_DATA)):
            found = w.pick(data)
            read = f"{found.name}[{w.indices.anywhere(0)}]"
            return read if found.kind == "int32" else f"dk.int32({read})"
        return str(w.below(7) - 2) if w.chance(70) else w.pick(w.thread)[0]

    def expression(self, depth: int = 2) -> str:
        """A number between about -10,000 and 10,000, of any sign."""
        w = self.w
        if depth <= 0 or w.chance(30):
            return self.leaf()
        a = self.expression(depth - 1)
        kind = w.below(15)
        if kind < 2:
            return f"({a} + {self.expression(depth - 1)})"
        if kind < 4:
            return f"({a} - {self.expression(depth - 1)})"
        if kind == 4:
            return f"({a} * {w.pick(('2', '3', '-1', '-2'))})"
        if kind == 5:
            return f"({a} // {w.pick(('2', '3', '-2', '-3'))})"
        if kind == 6:
            return f"({a} % {w.pick(('2', '3', '5', '-2', '-3', '-5'))})"
        if kind == 7:
            return f"({a} {w.pick('&|^')} {w.pick(('1', '3', '6', self.leaf()))})"
        if kind == 8:
            return w.pick((f"(~{a})", f"(-{a})", f"(({a}) >> 1)", f"((({a}) & 63) << 1)"))
        if kind == 9:
            return f"dk.{w.pick(('min', 'max'))}({a}, {self.leaf()})"
        if kind == 10:
            return f"dk.abs({a})"
        if kind == 11:
            return f"dk.int32({self.narrow(a)})"
        if kind == 12:
            return self.wide(a)
        if kind == 13:
            return f"({a} if {self.condition()} else {self.leaf()})"
        return f"int({w.scalars.squashed(1)} * 3.0)"

    def narrow(self, a: str) -> str:
        """A number in a type that may cut it off."""
        return f"dk.{self.w.pick(('int8', 'int8', 'uint8', 'int16'))}({a})"

    def wide(self, a: str) -> str:
        """A number that has gone through 64 bits, some of which do not come back."""
        w = self.w
        if (data := w.having(Role.READ, "int64")) and w.chance(60):
            return f"dk.int32({w.pick(data).name}[{w.indices.anywhere(0)}] {w.pick(('', '+ 1', '- 2'))})"
        return f"dk.int32(dk.int64({a}) {w.pick(('+ 4294967296', '* 4294967297', '- 8589934592'))})"

    def condition(self) -> str:
        """A comparison of whole numbers."""
        w = self.w
        if w.chance(40):
            return f"{self.expression(1)} % {2 + w.below(2)} == {w.below(2)}"
        return f"{self.leaf()} {w.pick(('<', '>=', '!=', '=='))} {self.expression(1)}"
