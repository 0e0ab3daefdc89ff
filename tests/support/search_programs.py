"""Random kernels that search: what their launches on tapes keep changes no derivative.

Gradients with and without logs are compared, by a tape, by ``dk.hvp`` and by a recorded sequence that is
replayed for other contents; and with central differences, where these do not cross a jump of what is found.

    python -m tests.support.search_programs --count 300 --seed 1
"""

from __future__ import annotations

import argparse
import collections
import linecache
import random
import sys
import traceback
from typing import Any

import numpy as np

import diffkern as dk
from diffkern.runtime.launch import packed

THREADS, ROWS = 6, 5
HEAD = """
D1, D2, I1 = dk.array(dtype=dk.float64), dk.array(dtype=dk.float64, ndim=2), dk.array(dtype=dk.int32)

@dk.func
def found_by_func(x: D2, i: int, y: D2, first: int):
    best, found = dk.float64(1e9), 0
    for j in range(first, y.shape[0]):
        if dk.abs(x[i, 0] - y[j, 1]) < best:
            best, found = dk.abs(x[i, 0] - y[j, 1]), j
    return found

def program(x: D2, y: D2, of: I1, n: int, d: D1):
    i = dk.tid()
    s = x[i, 0] * 0.5
"""


class _Writer:
    """Writes the statements of a kernel; ``found`` are names of integers that are rows of y."""

    def __init__(self, chosen: random.Random) -> None:
        self.chosen = chosen
        self.lines: list[str] = []
        self.found: list[str] = []
        self.count = 0
        self.kinds = [self.argmin, self.until, self.by_break, self.by_func, self.counted, self.nested, self.valued]

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def row(self) -> str:
        """A row of y."""
        return self.chosen.choice([*self.found, "of[i]", "0"])

    def number(self) -> str:
        c, k = self.chosen.randrange(3), self.chosen.randrange(3)
        return self.chosen.choice(
            [
                f"x[i, {c}]",
                f"y[{self.row()}, {c}]",
                f"dk.sin(x[i, {c}] * y[{self.row()}, {k}])",
                "s",
                f"x[i, {c}] * 0.7",
            ]
        )

    def fixed(self) -> str:
        """A number that is the same in all trips."""
        return self.chosen.choice(["x[i, 0]", "x[i, 1] * 0.5", "y[0, 2]", f"y[{self.row()}, 1]", "x[i, 2] + s * 0.1"])

    def argmin(self, depth: int) -> str:
        best, j, found, at = self.name("best"), self.name("j"), self.name("found"), self.fixed()
        self.line(depth, f"{best}, {found} = dk.float64(1e9), {self.chosen.choice(['0', '1'])}")
        self.line(depth, f"for {j} in range({self.chosen.choice(['y.shape[0]', 'n'])}):")
        term = f"dk.abs({at} - y[{j}, {self.chosen.randrange(3)}])"
        self.line(depth + 1, f"if {term} {self.chosen.choice(['<', '<='])} {best}:")
        self.line(depth + 2, f"{best}, {found} = {term}, {j}")
        if self.chosen.random() < 0.15:  # then the loop is no search
            self.line(depth, f"s = s + {best} * 0.3")
        return found

    def until(self, depth: int) -> str:
        j, at = self.name("j"), self.fixed()
        self.line(depth, f"{j} = 0")
        self.line(depth, f"while {j} + 1 < n and y[{j}, {self.chosen.randrange(3)}] < {at}:")
        self.line(depth + 1, f"{j} += 1")
        return j

    def by_break(self, depth: int) -> str:
        j, found, met = self.name("j"), self.name("found"), self.name("met")
        at = self.fixed()
        self.line(depth, f"{found}, {met} = 0, False")
        self.line(depth, f"for {j} in range(n):")
        self.line(depth + 1, f"if y[{j}, 0] * y[{j}, 1] > {at}:")
        self.line(depth + 2, f"{found}, {met} = {j}, True")
        self.line(depth + 2, "break")
        self.line(depth, f"if {met}:")
        self.line(depth + 1, f"s = s + {self.number()}")
        return found

    def by_func(self, depth: int) -> str:
        found = self.name("found")
        self.line(depth, f"{found} = found_by_func(x, i, y, {self.chosen.choice(['0', '1', self.row()])})")
        return found

    def counted(self, depth: int) -> str:
        j, total = self.name("j"), self.name("count")
        kind = self.chosen.choice(["int32", "int64", "int16", "uint32"])
        at = self.fixed()
        self.line(depth, f"{total} = dk.{kind}(0)")
        self.line(depth, f"for {j} in range(n):")
        self.line(depth + 1, f"if y[{j}, 2] > {at}:")
        self.line(depth + 2, f"{total} = {total} + dk.{kind}(1)")
        self.line(depth, f"s = s + dk.float64({total}) * {self.number()}")
        return f"dk.int32({total} % dk.{kind}({ROWS}))"

    def nested(self, depth: int) -> str:
        j, k, found, best, at = *map(self.name, ("j", "k", "found", "best")), self.fixed()
        self.line(depth, f"{found}, {best} = 0, dk.float64(1e9)")
        self.line(depth, f"for {j} in range(n):")
        self.line(depth + 1, f"for {k} in range({j} + 1, n):")
        term = f"dk.abs(y[{j}, 0] + y[{k}, 1] - {at})"
        self.line(depth + 2, f"if {term} < {best}:")
        self.line(depth + 3, f"{best}, {found} = {term}, {k}")
        return found

    def valued(self, depth: int) -> str:
        """No search: its float has a derivative."""
        j = self.name("j")
        self.line(depth, f"for {j} in range(n):")
        self.line(depth + 1, f"s = s * 0.9 + y[{j}, 0] * x[i, 1]")
        return "0"

    def search(self, depth: int) -> None:
        self.found.append(self.chosen.choice(self.kinds)(depth))
        for _ in range(self.chosen.randrange(1, 3)):
            self.line(depth, f"s = {self.chosen.choice(['s + ', 's * 0.5 + ', 'dk.sin(s) + '])}{self.number()}")

    def block(self, depth: int) -> None:
        way, known = self.chosen.random(), list(self.found)
        if way < 0.55 or depth > 2:
            self.search(depth)
            return
        if way < 0.8:
            self.line(depth, f"if {self.fixed()} > {self.chosen.choice(['0.3', 's', 'x[i, 2]'])}:")
            self.block(depth + 1)
            self.found = list(known)
            if self.chosen.random() < 0.5:
                self.line(depth, "else:")
                self.block(depth + 1)
        elif way < 0.9:
            self.line(depth, f"for {self.name('c')} in range({self.chosen.choice(['2', '3', 'n - 2', '70'])}):")
            self.block(depth + 1)
        else:
            self.line(depth, f"if {self.fixed()} > 1.1:")
            self.line(depth + 1, "d[i] = s")
            self.line(depth + 1, "return")
        self.found = known

    def text(self) -> str:
        for _ in range(self.chosen.randrange(1, 4)):
            self.block(1)
        self.line(1, f"d[i] = s + {self.number()}")
        return HEAD + "\n".join(self.lines) + "\n"


def text_of(number: int) -> str:
    """The text of a program."""
    return _Writer(random.Random(number)).text()


def kernels_of(number: int) -> tuple[Any, Any]:
    """A kernel that keeps what it finds, and the same that searches again."""
    text, file = text_of(number), f"<search {number}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict[str, Any] = {"dk": dk, "__name__": f"search_{number}"}
    exec(compile(text, file, "exec", dont_inherit=True), space)
    exact: dict[str, Any] = {"fuse_fp": False, "lanes": False, "deterministic": True}
    return tuple(dk.kernel(log_searches=on, **exact)(space["program"]) for on in (True, False))  # type: ignore[return-value]


@dk.kernel(deterministic=True)
def total(d: dk.array(dtype=dk.float64), w: dk.array(dtype=dk.float64), s: dk.array(dtype=dk.float64)):
    i = dk.tid()
    dk.atomic_add(s, 0, dk.sin(d[i]) * w[i])


class Point:
    """Arguments of a program, and directions in which they change."""

    def __init__(self, number: int) -> None:
        rng = np.random.default_rng(number)
        self.x, self.dx = rng.normal(size=(2, THREADS, 3))
        self.y, self.dy = rng.normal(size=(2, ROWS, 3))
        self.w = rng.normal(size=THREADS)
        self.of, self.n = rng.integers(0, ROWS, THREADS).astype(np.int32), int(rng.integers(2, ROWS + 1))

    def arrays(self, h: float = 0.0) -> list[Any]:
        moved = (self.x + h * self.dx, self.y + h * self.dy)
        return [dk.array(a, requires_grad=True) for a in moved]

    def launch(self, kernel: Any, x: Any, y: Any) -> Any:
        d = dk.zeros(THREADS, dtype=dk.float64, requires_grad=True)
        kernel[THREADS](x, y, dk.array(self.of), self.n, d)
        return d

    def loss(self, kernel: Any, x: Any, y: Any) -> Any:
        s = dk.zeros(1, dtype=dk.float64)
        total[THREADS](self.launch(kernel, x, y), dk.array(self.w), s)
        return s

    def value(self, kernel: Any, h: float) -> float:
        return float(self.w @ self.launch(kernel, *self.arrays(h)).numpy())

    def taped(self, kernel: Any) -> tuple[list[np.ndarray], int]:
        """Gradients, and the integers that a thread keeps."""
        x, y = self.arrays()
        with dk.Tape() as tape:
            d = self.launch(kernel, x, y)
        tape.backward(grads={d: self.w})
        log = tape.launches[0].logged
        return [d.numpy(), x.grad.numpy(), y.grad.numpy()], 0 if log is None else log.calls

    def hvp(self, kernel: Any) -> list[np.ndarray]:
        along = [dk.array(self.dx), dk.array(self.dy)]
        return [a.numpy() for a in dk.hvp(lambda x, y: self.loss(kernel, x, y), self.arrays(), along)]

    def recorded(self, kernel: Any) -> list[np.ndarray]:
        (x, y), found = self.arrays(), []
        with dk.record() as sequence:
            with dk.Tape() as tape:
                d = self.launch(kernel, x, y)
            tape.zero()
            tape.backward(grads={d: self.w})
        for values in (self.x, -self.x):
            x.assign(values)
            sequence.replay()
            found += [d.numpy(), x.grad.numpy(), y.grad.numpy()]
        return found


def check(number: int) -> tuple[int, bool]:
    """Check a program; return how many integers a thread keeps, and whether differences could be compared."""
    keeps, repeats = kernels_of(number)
    point = Point(number)
    (found, kept), (wanted, none) = point.taped(keeps), point.taped(repeats)
    assert none == 0
    others = ((way(keeps), way(repeats)) for way in (point.hvp, point.recorded))
    for one, other in [(found, wanted), *others]:
        for a, b in zip(one, other, strict=True):
            # Loops that have become short are unrolled, which may change the order of a sum.
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13 * np.abs(b).max(initial=1.0))
    values = [point.value(keeps, h) for h in (1e-5, -1e-5, 5e-6, -5e-6, 0.0)]
    slopes = [(values[0] - values[1]) / 2e-5, (values[2] - values[3]) / 1e-5]
    # Where something else is found in between, the differences are none of a derivative.
    sides = [(values[0] - values[4]) / 1e-5, (values[4] - values[1]) / 1e-5]
    scale = 1.0 + abs(slopes[1])
    smooth = abs(slopes[0] - slopes[1]) < 1e-6 * scale and abs(sides[0] - sides[1]) < 1e-3 * scale
    if smooth:
        slope = (found[1] * point.dx).sum() + (found[2] * point.dy).sum()
        assert abs(slope - slopes[1]) < 1e-5 * scale, (slope, slopes)
    return kept, smooth


def main() -> int:
    """Check some programs; the exit status is 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    packed.LEAST_WORK = 0.0  # of launches that are small as well
    dk.config.num_threads = 1  # how sums are divided among several depends on what an adjoint costs
    kept: collections.Counter[int] = collections.Counter()
    wrong = compared = 0
    for number in range(given.seed, given.seed + given.count):
        try:
            slots, smooth = check(number)
        except Exception:
            wrong += 1
            print(f"program {number}\n{text_of(number)}")
            traceback.print_exc(file=sys.stdout)
            continue
        kept[slots] += 1
        compared += smooth
    print(f"{given.count} programs, {wrong} wrong, {compared} compared with differences; integers kept: {dict(kept)}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
