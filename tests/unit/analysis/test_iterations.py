"""Which loads see what was there before, or what is there after: random loops against their execution in Python."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from diffkern.analysis.dependence import LoadSource, classify_loads
from diffkern.analysis.inequalities import Inequality, unsolvable
from diffkern.frontend.statements import lowering
from diffkern.ir.types import FLOAT64, INT32, Array
from diffkern.opt.ranges import clear_wraps

SIZE = 24
"""Elements along an axis: enough for every index that a program makes."""


class Noted:
    """An array that notes which line reads and writes which element."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, Any]] = []

    def __getitem__(self, index: Any) -> float:
        self.events.append(("load", sys._getframe(1).f_lineno, index))
        return 1.0

    def __setitem__(self, index: Any, value: float) -> None:
        self.events.append(("store", sys._getframe(1).f_lineno, index))


class Writer:
    """Writes a random program of loops with loads and stores of one array."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.axes = self.rng.choice([1, 1, 2])
        self.names = 0

    def number(self, variables: list[str]) -> str:
        kind = self.rng.random()
        if variables and kind < 0.75:
            v = self.rng.choice(variables)
            return self.rng.choice([v, v, f"{v} + 1", f"{v} - 1", f"n - {v}", f"2 * {v}"])
        return self.rng.choice(["0", "1", "n", "n - 1", "m"])

    def index(self, variables: list[str]) -> str:
        parts = [f"{self.number(variables)} + 6" for _ in range(self.axes)]
        return ", ".join(parts)

    def block(self, depth: int, variables: list[str]) -> None:
        for _ in range(self.rng.randint(1, 3 if depth < 3 else 2)):
            pad, kind = "    " * (depth + 1), self.rng.random()
            if kind < 0.45 and depth < 4:
                self.names += 1
                v = f"i{self.names}"
                start, stop = self.number(variables), self.number(variables)
                if self.rng.random() < 0.3:
                    bound = self.rng.choice(["min", "max"])
                    stop = f"dk.{bound}({stop}, {self.number(variables)})"
                step = self.rng.choice(["", "", "", ", 2", ", -1", ", -2"])
                self.lines.append(f"{pad}for {v} in range({start}, {stop}{step}):")
                self.block(depth + 1, [*variables, v])
            elif kind < 0.55 and variables and depth < 4:
                sign = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
                self.lines.append(f"{pad}if {self.number(variables)} {sign} {self.number(variables)}:")
                self.block(depth + 1, variables)
                if self.rng.random() < 0.4:
                    self.lines.append(f"{pad}else:")
                    self.block(depth + 1, variables)
            elif kind < 0.8:
                self.lines.append(f"{pad}s = s * 0.5 + a[{self.index(variables)}]")
            else:
                self.lines.append(f"{pad}a[{self.index(variables)}] = s")

    def source(self) -> str:
        self.block(0, [])
        head = ["import diffkern as dk", "", "", "def made(a, n, m):", "    s = dk.float64(1.0)"]
        return "\n".join([*head, *self.lines, ""])


def events(function: Any, n: int, m: int) -> list[tuple[str, int, Any]]:
    a = Noted()
    function(a, n, m)
    return a.events


def check(path: Path, seed: int) -> list[LoadSource]:
    writer = Writer(seed)
    path.write_text(writer.source())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fn = lowering.lower(module.made, (Array(FLOAT64, writer.axes), INT32, INT32))
    clear_wraps(fn)
    facts = {op.loc.line: fact.source for op, fact in classify_loads(fn).items() if op.loc is not None}
    for n in range(6):
        for m in (0, 2, 5):
            found = events(module.made, n, m)
            for place, (what, line, index) in enumerate(found):
                if what != "load" or line not in facts:
                    continue
                if facts[line] is LoadSource.ENTRY:
                    assert not [e for e in found[:place] if e[0] == "store" and e[2] == index], (line, n, m)
                if facts[line] is LoadSource.FINAL:
                    assert not [e for e in found[place:] if e[0] == "store" and e[2] == index], (line, n, m)
    return list(facts.values())


def test_random_loops(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    total: list[LoadSource] = []
    for seed in range(4000 if request.config.getoption("--full") else 150):
        total += check(tmp_path / f"made_{seed}.py", seed)
    proved = [source for source in total if source is not LoadSource.UNKNOWN]
    assert len(proved) > 0.4 * len(total)


def row(const: int, **terms: int) -> Inequality:
    return Inequality(terms, const)


def test_integers_are_counted_on() -> None:
    assert unsolvable([row(1, x=2, y=-2)], [])  # 2 x + 1 = 2 y
    assert unsolvable([], [row(-1, x=2), row(1, x=-2)])  # 1 <= 2 x <= 1
    assert not unsolvable([], [row(-2, x=2), row(2, x=-2)])  # x = 1
    assert unsolvable([], [row(-1, x=1, y=-1), row(-1, y=1, z=-1), row(1, z=1, x=-1)])  # x > y > z >= x - 1
    assert not unsolvable([row(0, x=1, y=1, z=-1)], [row(0, x=1), row(0, y=1)])
