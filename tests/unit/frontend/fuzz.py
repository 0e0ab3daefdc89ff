"""Random kernels for comparing the frontend with Python: loops, branches, escapes and mutation, nested at will.

In: a seed. Out: the source of a kernel ``def kernel(x, y, n)`` that terminates and stays inside its arrays, whatever
path it takes. All floats are float64 and all ints are small, so that both sides compute the same bits.
"""

from __future__ import annotations

import random

FLOATS = ("a", "b", "c")
INTS = ("k", "m")


class Program:
    """Writes one random kernel."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0
        self.counters = 0
        self.budget = 26
        self.in_func = False

    def source(self) -> str:
        if self.random.random() < 0.5:
            self.func()
        self.emit(0, "def kernel(x, y, n):")
        self.emit(1, "i = dk.tid()")
        for name in FLOATS:
            self.emit(1, f"{name} = {self.random.choice(('0.0', '1.0', 'x[i]', '0'))}")
        for name in INTS:
            self.emit(1, f"{name} = {self.random.choice(('0', '1', 'n'))}")
        self.block(1, in_loop=False)
        self.emit(1, f"y[i] = {' + '.join(FLOATS)} + k - m")
        return "\n".join(self.lines) + "\n"

    def func(self) -> None:
        """A func with loops and several returns, called by the kernel."""
        self.in_func, self.budget = True, 8
        self.emit(0, "@dk.func")
        self.emit(0, "def helper(a, b, k, m=2):")
        self.emit(1, "c = a")
        self.emit(1, "i = n = k")
        self.block(1, in_loop=False)
        self.emit(1, f"return {self.number()}, c - b")
        self.in_func, self.budget = False, 26

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, in_loop: bool) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.statement(depth, in_loop)

    def statement(self, depth: int, in_loop: bool) -> None:
        self.budget -= 1
        choices = ["call", "float", "float", "augmented", "int", "store", "swap", "ternary"]
        if self.budget > 0 and depth < 6:
            choices += ["if", "if", "ifelse", "for", "while"]
        if in_loop:
            choices += ["break", "continue"]
        if depth > 1:
            choices.append("return")
        getattr(self, "do_" + self.random.choice(choices))(depth, in_loop)

    def number(self) -> str:
        if self.in_func:
            return self.random.choice([*FLOATS, *FLOATS, "0.5", "2.0", "a * b"])
        return self.random.choice([*FLOATS, *FLOATS, "x[i]", "y[i]", "0.5", "2", "x[(k + i) % 6]", "1.5", "y[m % 6]"])

    def integer(self) -> str:
        return self.random.choice([*INTS, "i", "n", "1", "3", "k % 5", "m // 2"])

    def condition(self) -> str:
        simple = f"{self.number()} {self.random.choice(('<', '>', '<=', '!='))} {self.number()}"
        other = f"{self.integer()} {self.random.choice(('<', '>', '==', '>='))} {self.integer()}"
        joined = self.random.choice((f"{simple} and {other}", f"{other} or {simple}", f"not ({other})", "0 <= k < m"))
        return self.random.choice((simple, other, joined))

    def do_float(self, depth: int, in_loop: bool) -> None:
        op = self.random.choice(("+", "-", "*"))
        value = f"{self.number()} {op} {self.number()}"
        self.emit(depth, f"{self.random.choice(FLOATS)} = ({value}) * 0.5 + 0.0")

    def do_call(self, depth: int, in_loop: bool) -> None:
        if self.in_func or not self.lines[0].startswith("@"):
            self.do_float(depth, in_loop)
            return
        last = self.random.choice(("", f", m={self.integer()}", f", {self.integer()}"))
        call = f"helper({self.number()}, {self.number()}, {self.integer()}{last})"
        self.emit(depth, f"a, b = {call}" if self.random.random() < 0.5 else f"c = {call}[0] * 0.5")

    def do_augmented(self, depth: int, in_loop: bool) -> None:
        self.emit(depth, f"{self.random.choice(FLOATS)} {self.random.choice(('+=', '-='))} {self.number()}")

    def do_int(self, depth: int, in_loop: bool) -> None:
        value = f"{self.integer()} {self.random.choice(('+', '-'))} {self.integer()}"
        self.emit(depth, f"{self.random.choice(INTS)} = ({value}) % 11")

    def do_store(self, depth: int, in_loop: bool) -> None:
        if self.in_func:
            self.do_float(depth, in_loop)
            return
        self.emit(depth, f"y[i] = {self.number()} * 0.25")

    def do_swap(self, depth: int, in_loop: bool) -> None:
        self.emit(depth, "a, b = b, a")

    def do_ternary(self, depth: int, in_loop: bool) -> None:
        self.emit(depth, f"c = {self.number()} if {self.condition()} else {self.number()}")

    def do_if(self, depth: int, in_loop: bool) -> None:
        self.emit(depth, f"if {self.condition()}:")
        self.block(depth + 1, in_loop)

    def do_ifelse(self, depth: int, in_loop: bool) -> None:
        self.do_if(depth, in_loop)
        if self.random.random() < 0.4:
            self.emit(depth, f"elif {self.condition()}:")
            self.block(depth + 1, in_loop)
        self.emit(depth, "else:")
        self.block(depth + 1, in_loop)

    def do_for(self, depth: int, in_loop: bool) -> None:
        bounds = self.random.choice(
            ("3", "n", "1, 4", "n, 0, -1", "0, 7, 2", "k % 4", "2, 2 - (m % 3), -1", "0, 3, 1 + k % 2")
        )
        variable = self.random.choice(("j", "k", "p"))
        self.emit(depth, f"for {variable} in range({bounds}):")
        self.block(depth + 1, in_loop=True)
        self.do_else(depth, in_loop)

    def do_while(self, depth: int, in_loop: bool) -> None:
        self.counters += 1
        count = f"w{self.counters}"
        self.emit(depth, f"{count} = 0")
        head = self.random.choice((f"{count} < {self.random.randint(1, 4)} and ({self.condition()})", "True"))
        self.emit(depth, f"while {head}:")
        self.emit(depth + 1, f"{count} += 1")
        if head == "True":
            self.emit(depth + 1, f"if {count} > 3:")
            self.emit(depth + 2, "break")
        self.block(depth + 1, in_loop=True)
        self.do_else(depth, in_loop)

    def do_else(self, depth: int, in_loop: bool) -> None:
        if self.random.random() < 0.25:
            self.emit(depth, "else:")
            self.block(depth + 1, in_loop)

    def do_break(self, depth: int, in_loop: bool) -> None:
        self.emit(depth, "break")

    def do_continue(self, depth: int, in_loop: bool) -> None:
        self.emit(depth, "continue")

    def do_return(self, depth: int, in_loop: bool) -> None:
        if self.in_func:
            self.emit(depth, f"return a + {self.number()}, {self.number()} - b")
        elif self.random.random() < 0.4:
            self.emit(depth, "return")
        else:
            self.do_store(depth, in_loop)


def write_program(seed: int) -> str:
    """The source of the kernel of a seed."""
    return Program(seed).source()
