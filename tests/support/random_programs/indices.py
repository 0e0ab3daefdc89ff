"""Indices: affine, negative, wrapped, cut off by narrow types, clamped, from data; all of them inside the array."""

from __future__ import annotations

from .memory import COLUMNS, Role
from .writer import Writer

__all__ = ["Indices"]


class Indices:
    """Writes index expressions.

    Parameters
    ----------
    writer
        The kernel's.
    """

    def __init__(self, writer: Writer) -> None:
        self.w = writer

    def anywhere(self, depth: int = 1) -> str:
        """An index of an element of any array of the program's length, counted from either end."""
        w = self.w
        length = w.extents.length
        if depth > 0 and w.chance(45):
            return self.wrapped(w.integers.expression(depth), length)
        if w.chance(25) and (data := w.having(Role.READ, "int32")):
            return f"{w.pick(data).name}[{w.flat}]"
        return w.pick(self.affine(length))

    def affine(self, length: int) -> list[str]:
        """Indices that are the thread's or a counter's plus a constant, or constants, spelled in several ways."""
        w = self.w
        found = ["0", "-1", str(w.below(length)), str(-1 - w.below(length)), "n - 1"]
        for name, below in [*w.thread * 2, *w.counters, *([(w.flat, w.number_of_threads)] * 2)]:
            if below > length:
                continue
            found += [name, f"-{name} - 1", f"{name} - n", f"n - 1 - {name}", f"dk.int32(dk.int64({name}))"]
            found += [f"{name} - {k}" for k in (1, 2) if k <= length]
            found += [f"{name} + {k}" for k in (1, 2) if below + k <= length]
            found += [f"{name} // 2", f"{name} >> 1", f"{name} % 3", f"{name} % -3", f"{name} & 3"]
            found += [f"dk.min({name} + 1, n - 1)", f"dk.max({name} - 1, 0)", f"dk.abs({name} - 2)"]
            found += [f"dk.{kind}({name})" for kind in ("int64", "uint32", "uint64")]
            found += [f"dk.{kind}({name})" for kind in ("int16", "uint16") if below <= 32768]
            if below <= 128 or length >= 128:
                found += [f"dk.int8({name})"]
            if below <= 256 or length >= 256:
                found += [f"dk.uint8({name})", f"dk.int32(dk.uint8({name}))"]
        return found

    def wrapped(self, number: str, length: int) -> str:
        """Any number as an index."""
        w = self.w
        size = w.pick(("n", "n", str(length)))
        few = 1 << (length.bit_length() - 1)
        if w.chance(12) and (data := w.having(Role.READ, "uint16", "uint32")):
            found = w.pick(data)
            return f"{found.name}[{w.flat}] % dk.{found.kind}({size})"
        return w.pick(
            (
                f"({number}) % {size}", f"({number}) % {size}", f"({number}) % {size}",
                f"({number}) % -{size}", f"-(({number}) % {size}) - 1", f"dk.abs({number}) % {size}",
                f"dk.clamp({number}, 0, {size} - 1)", f"dk.clamp({number}, -{size}, {size} - 1)",
                f"dk.min(dk.max({number}, 0), {length - 1})", f"({number}) & {few - 1}",
            )
        )  # fmt: skip

    def column(self) -> str:
        """An index of a column."""
        w = self.w
        known = [name for name, below in (*w.counters, *w.thread) if below <= COLUMNS]
        options = ["0", "1", "-1", "3", "m", f"{w.integers.leaf()} % {COLUMNS}", f"({w.integers.expression(1)}) & 3"]
        return w.pick([*options, *known, *(f"-{k} - 1" for k in known)])

    def row(self) -> str:
        """The two indices of an element of an array of two axes."""
        w = self.w
        a, b = self.anywhere(), self.column()
        return w.pick((f"[{a}, {b}]", f"[{a}, {b}]", f"[{a}][{b}]"))
