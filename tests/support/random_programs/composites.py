"""Vectors of two to four components and matrices from two by two to four by four."""

from __future__ import annotations

from .memory import Role
from .writer import Writer

__all__ = ["Composites"]


class Composites:
    """Writes vectors and matrices.

    Parameters
    ----------
    writer
        The kernel's.
    """

    def __init__(self, writer: Writer) -> None:
        self.w = writer

    def _read(self, kind: str) -> list[str]:
        """Elements of arrays of a kind."""
        w = self.w
        found = [f"{p.name}[{w.indices.anywhere()}]" for p in w.having(Role.READ, kind)]
        return found + [w.own(p) for p in w.readable(kind)]

    def vector(self, n: int, depth: int = 1) -> str:
        """A vector of n components."""
        w = self.w
        t = w.type(f"vec{n}")
        plain = [*self._read(f"vec{n}") * 2, *(["p"] if n == 3 else [])]
        if n == 3:
            plain += ["u", f"{w.structs.element()}.pos"]
        elif n == 2:
            plain.append(f"{w.structs.element()}.vel")
        if plain and (depth <= 0 or w.chance(35)):
            return w.pick(plain)
        kind = w.below(11) if depth > 0 else 0
        if kind < 3:
            parts = [w.scalars.leaf() for _ in range(n)]
            return f"{t}({', '.join(parts)})"
        a = self.vector(n, depth - 1)
        if kind == 3:
            return f"({a} {w.pick('+-')} {self.vector(n, depth - 1)})"
        if kind == 4:
            return f"({a} * {w.scalars.squashed(1)})"
        if kind == 5:
            return f"({a} / {w.pick(('2.0', '1.5', '-3.0'))})"
        if kind == 6:
            return f"dk.normalize({a} + {t}({', '.join(['3.0', '-2.5', '4.0', '0.5'][:n])}))"
        if kind == 7:
            return f"({self.matrix(n, 0)} * {a})"
        if kind == 8 and n == 3:
            return f"dk.cross({a}, {self.vector(3, 0)})"
        if kind == 9:
            return f"dk.cw_mul({a}, {self.vector(n, 0)})"
        return f"dk.{w.pick(('min', 'max'))}({a}, {self.vector(n, 0)})"

    def matrix(self, n: int, depth: int = 1) -> str:
        """A square matrix of n rows."""
        w = self.w
        t = w.type(f"mat{n}{n}")
        plain = self._read(f"mat{n}{n}")
        if plain and w.chance(60):
            return w.pick(plain)
        kind = w.below(6) if depth > 0 else 0
        if kind < 2:
            if n == 4:
                return f"dk.outer({self.vector(4, 0)}, {self.vector(4, 0)})"
            parts = [w.scalars.leaf() if w.chance(50) else w.scalars.number() for _ in range(n * n)]
            return f"{t}({', '.join(parts)})"
        a = self.matrix(n, depth - 1)
        if kind == 2:
            return f"dk.transpose({a})"
        if kind == 3:
            return f"({a} {w.pick(('+', '-', '*', '@'))} {self.matrix(n, 0)})"
        if kind == 4:
            return f"dk.outer({self.vector(n, 0)}, {self.vector(n, 0)})"
        return f"({a} * {w.scalars.squashed(1)})"

    def number(self) -> str:
        """A number that comes of vectors or matrices."""
        w = self.w
        n = w.pick((2, 3, 3, 4))
        kind = w.below(8)
        if kind < 2:
            return f"dk.dot({self.vector(n)}, {self.vector(n, 0)})"
        if kind == 2:
            return f"dk.length({self.vector(n)} + {w.type(f'vec{n}')}({', '.join(['1.5'] * n)}))"
        if kind == 3:
            return f"{self.vector(n, 0)}[{w.pick(('0', '1', '-1', f'dk.abs({w.integers.leaf()}) % {n}'))}]"
        if kind == 4:
            return f"dk.trace({self.matrix(w.pick((2, 3, 3)))})"
        if kind == 5:
            return f"dk.determinant({self.matrix(w.pick((2, 3)))})"
        if kind == 6:
            return f"{self.matrix(w.pick((2, 3, 3)), 0)}[{w.below(2)}, {w.below(2)}]"
        return f"dk.length_sq({self.vector(n, 0)})"
