"""Random funcs in Warp's dialect that read variables which some path has not set, and what they give.

A program is text. It is a func of diffkern, or of Warp; with zeros for all variables at its top it is a function of
Python, which gives the value, and with an imaginary part in its argument the derivative. Conditions do not depend on
the argument, and a variable is read only behind a place in the text that sets it, as Warp asks.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

_SCALARS = ("r", "s", "t")
_VECTORS = ("u", "v")
_WHOLE = ("k",)
_CONDITIONS = ("c % 2 == 1", "c // 2 % 2 == 1", "c // 4 % 2 == 0", "c > 3")


class _Writer:
    """Writes the statements of one func."""

    def __init__(self, rng: random.Random, called: str | None, plain: bool) -> None:
        self.rng, self.called, self.plain = rng, called, plain
        self.lines: list[str] = []
        self.set_above: list[str] = []
        self.ever_set: set[str] = set()
        self.indices: list[str] = []
        self.loops: list[str] = []
        self.names = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def condition(self) -> str:
        if self.indices and self.rng.random() < 0.6:
            index = self.rng.choice(self.indices)
            return self.rng.choice([f"{index} % 2 == 1", f"{index} == 2", f"{index} > 0", f"({index} + c) % 3 == 0"])
        if "k" in self.set_above and self.rng.random() < 0.2:
            return f"k % 2 == {self.rng.choice((0, 1))}"
        return self.rng.choice(_CONDITIONS)

    def number(self) -> str:
        known = [name for name in self.set_above if name in _SCALARS]
        parts = [f"{name}[{self.rng.choice((0, 1))}]" for name in self.set_above if name in _VECTORS]
        found = ["x", "x * x", "acc", *known, *known, *parts]
        scale = self.rng.choice(("0.5", "0.25", "-0.5", "0.75"))
        text = f"{self.rng.choice(found)} * {scale}"
        return text + f" + {self.rng.choice(('0.5', '1.0', '-0.25', self.rng.choice(found)))} * 0.5"

    def assignment(self, depth: int, name: str) -> None:
        if self.plain and name in self.ever_set:
            self.read(depth)
            return
        self.ever_set.add(name)
        if name in _SCALARS:
            again = f"{name} * 0.5 + {self.number()}" if name in self.set_above else self.number()
            self.line(depth, f"{name} = {again}")
        elif name in _VECTORS:
            if name in self.set_above and self.rng.random() < 0.4:
                self.line(depth, f"{name} = {name} * 0.5 + wp.vec2({self.number()}, x)")
            else:
                self.line(depth, f"{name} = wp.vec2({self.number()}, {self.number()})")
        else:
            self.line(depth, f"{name} = {self.rng.choice(['c', *self.indices])} + {self.rng.choice((1, 2))}")
        if name not in self.set_above:
            self.set_above.append(name)

    def read(self, depth: int) -> None:
        name = self.rng.choice(self.set_above or ["x"])
        value = f"{name}[{self.rng.choice((0, 1))}]" if name in _VECTORS else f"float({name})"
        self.line(depth, f"acc = acc * 0.5 + {value} * {self.rng.choice(('1.0', '0.5', 'x'))}")

    def block(self, depth: int, size: int) -> None:
        for _ in range(size):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        kind = self.rng.random()
        if depth > 4 or kind < 0.3:
            self.assignment(depth, self.rng.choice((*_SCALARS, *_VECTORS, *_WHOLE)))
        elif kind < 0.5:
            self.read(depth)
        elif kind < 0.75:
            self.branch(depth)
        elif kind < 0.9:
            self.loop(depth)
        elif kind < 0.96 and self.loops:
            self.line(depth, f"if {self.condition()}:")
            if self.rng.random() < 0.5:
                self.assignment(depth + 1, self.rng.choice(_SCALARS))
            leave = "break" if self.loops[-1] == "while" else self.rng.choice(("break", "continue"))
            self.line(depth + 1, leave)
        elif kind < 0.98 and depth > 1:
            self.line(depth, f"if {self.condition()}:")
            self.line(depth + 1, f"return acc + {self.number()}")
        elif self.called is not None:
            self.line(depth, f"acc = acc + {self.called}(x, c, n) * 0.25")
        else:
            self.read(depth)

    def branch(self, depth: int) -> None:
        before = [*self.set_above]
        self.line(depth, f"if {self.condition()}:")
        self.block(depth + 1, self.rng.choice((1, 1, 2)))
        inside = self.set_above
        if self.rng.random() < 0.3:
            self.set_above = [*before] if self.plain else inside
            self.line(depth, f"elif {self.condition()}:")
            self.block(depth + 1, 1)
            inside = sorted({*inside, *self.set_above})
        if self.rng.random() < 0.4:
            self.set_above = [*before] if self.plain else inside
            self.line(depth, "else:")
            self.block(depth + 1, self.rng.choice((1, 2)))
        self.set_above = sorted({*inside, *self.set_above})

    def loop(self, depth: int) -> None:
        self.names += 1
        index = f"i{self.names}"
        kind = self.rng.choice(("for", "for", "fixed", "while"))
        if kind == "while":
            self.line(depth, f"{index} = int(0)")
            self.line(depth, f"while {index} < n:")
            self.line(depth + 1, f"{index} = {index} + 1")
        else:
            self.line(depth, f"for {index} in range({'n' if kind == 'for' else '3'}):")
        self.indices.append(index)
        self.loops.append(kind)
        self.block(depth + 1, self.rng.choice((1, 2, 3)))
        self.indices.pop()
        self.loops.pop()


def program(seed: int, *, plain: bool = False) -> str:
    """The text of a func ``program``, and maybe of one that it calls.

    A plain one assigns each variable at one place, as Warp keeps a value for each place, and reads none in an ``else``
    that is set in the ``if``, which Warp refuses.
    """
    rng = random.Random(seed)
    lines: list[str] = []
    called = None
    for name in ("inner", "program") if seed % 3 == 0 else ("program",):
        writer = _Writer(rng, called, plain)
        writer.line(0, "@wp.func")
        writer.line(0, f"def {name}(x: float, c: int, n: int):")
        writer.line(1, "acc = float(0.0)")
        writer.block(1, 5 if name == "program" else 3)
        for known in writer.set_above:
            writer.line(1, f"acc = acc + {known}[1]" if known in _VECTORS else f"acc = acc + float({known}) * 0.5")
        writer.line(1, "return acc")
        lines += [*writer.lines, ""]
        called = name
    return "\n".join(lines)


def compiled(text: str, wp: Any, name: str) -> Callable[..., Any]:
    """The func of a program."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict[str, Any] = {"wp": wp, "__name__": "unset_programs"}
    exec(compile(text, file, "exec"), space)
    found: Callable[..., Any] = space["program"]
    return found


def emulated(text: str, start: int = 0) -> Callable[[complex, int, int], complex]:
    """The program in Python, its variables zero where each function begins, or another number."""
    zeros = "".join(f"    {name} = {start}.0\n" for name in _SCALARS)
    zeros += "".join(f"    {name} = wp.vec2({start}.0, {start}.0)\n" for name in _VECTORS)
    zeros += "".join(f"    {name} = {start}\n" for name in _WHOLE)
    head = "n: int):\n"
    of_python = SimpleNamespace(func=lambda f: f, vec2=lambda a, b: np.array([a, b]))
    space: dict[str, Any] = {"wp": of_python, "float": lambda value: value}
    exec(text.replace(head, head + zeros), space)
    found: Callable[[complex, int, int], complex] = space["program"]
    return found


def expected(text: str, x: float, c: int, n: int) -> tuple[float, float]:
    """The value and the derivative of a program."""
    result = emulated(text)(x + 1e-30j, c, n)
    return result.real, result.imag / 1e-30
