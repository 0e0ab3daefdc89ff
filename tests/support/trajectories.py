"""Random programs that keep a trajectory in one array, and their gradients by central differences.

In: a seed. Out: a :class:`Program`, launches that read and write rows of one array in one of several layouts, and a row
of its own, with copies and fills of rows between them. Rows are chosen so that some launches overwrite what the
gradients of earlier ones need, and others nothing. It runs without a tape as well, which gives the differences.
"""

from __future__ import annotations

import functools
import linecache
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import diffkern as dk

LAYOUTS = {
    "rows": ("dk.array2d(dtype=dk.float64)", "x[{r}, {i}]"),
    "flat": ("dk.array(dtype=dk.float64)", "x[({r}) * m + {i}]"),
    "columns": ("dk.array2d(dtype=dk.float64)", "x[{i}, {r}]"),
    "blocks": ("dk.array3d(dtype=dk.float64)", "x[{r}, ({i}) // 2, ({i}) % 2]"),
    "view": ("dk.array2d(dtype=dk.float64)", "x[{r}, {i}]"),
}
"""How an element of a row is written: of a matrix, of one axis, of columns, of rows that are matrices, of a view."""


@dataclass(frozen=True)
class Operation:
    """What a launch does: the lines of its kernel, its integers, and how many rows it reads for these."""

    lines: tuple[str, ...]
    integers: tuple[str, ...]
    reads: Callable[..., int] = lambda *given: 1


def _of(line: str, *integers: str, reads: int = 1) -> Operation:
    return Operation(tuple(line.split("; ")), integers, lambda *given: reads)


OPERATIONS = {
    "step": _of("X(n + 1, i) = dk.sin(X(n, i)) * 1.1", "n"),
    "twice": _of("X(2 * n + 1, i) = dk.cos(X(2 * n, i))", "n"),
    "product": _of("X(c, i) = X(a, i) * X(b, i) + 0.25", "a", "b", "c", reads=2),
    "in place": _of("X(c, i) = dk.sin(X(c, i)) * X(a, i)", "a", "c", reads=2),
    "added": _of("X(c, i) += dk.sin(X(a, i)) * 0.5", "a", "c"),
    "neighbours": _of("v = X(a, i); if i > 0:;     v += 0.5 * X(a, i - 1) * X(a, i); X(c, i) = v", "a", "c"),
    "some": _of("if i > 0:;     X(c, i) = X(a, i) * X(a, i) * 0.5", "a", "c"),
    "ring": _of("X((n + 1) % 2, i) = dk.sin(X(n % 2, i)) + 0.2", "n"),
    "found": _of("X(which[c], i) = dk.sin(X(a, i)) * 0.8", "a", "c"),
    "behind": _of("X(n - rows, i) = dk.cos(X(n - 1, i))", "n"),
    "out": _of("y[i] = 0.5 * y[i] + X(a, i) * X(a, i)", "a"),
    "out and in": _of("X(c, i) = y[i]; y[i] = dk.sin(y[i]) + X(a, i) * X(a, i)", "a", "c", reads=2),
    "in": _of("X(c, i) = dk.cos(y[i]) * y[i]", "c"),
    "loop": Operation(("for k in range(a, c):", "    X(k + 1, i) = dk.sin(X(k, i)) + 0.1"), ("a", "c"),
                      lambda a, c: c - a),
    "back": Operation(("for k in range(c, a, -2):", "    X(k - 1, i) = dk.cos(X(k, i)) * 0.9"), ("a", "c"),
                      lambda a, c: c - a),
}  # fmt: skip


@functools.cache
def kernel(layout: str, name: str) -> Any:
    """Return the kernel of an operation on a layout: of the arrays, a table of rows, two sizes, and the integers."""
    operation = OPERATIONS[name]
    kind, element = LAYOUTS[layout]
    lines = [re.sub(r"X\((.+?), (i - 1|i)\)", lambda m: element.format(r=m[1], i=m[2]), x) for x in operation.lines]
    integers = ", ".join(f"{each}: dk.int32" for each in operation.integers)
    arrays = f"x: {kind}, y: dk.array(dtype=dk.float64), which: dk.array(dtype=dk.int32)"
    head = f"def trajectory({arrays}, m: dk.int32, rows: dk.int32, {integers}):"
    text = "\n".join([head, "    i = dk.tid()", *(f"    {line}" for line in lines)]) + "\n"
    file = f"<{name} on {layout}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    space: dict[str, Any] = {"dk": dk}
    exec(compile(text, file, "exec"), space)
    return dk.kernel(space["trajectory"])


@dataclass
class Program:
    """Steps on one array: the name of an operation and its integers, or ``fill`` and ``copy`` of rows."""

    layout: str
    rows: int
    m: int
    steps: list[tuple[str, tuple[int, ...]]]
    start: np.ndarray
    weights: np.ndarray
    which: Any = field(init=False)

    def __post_init__(self) -> None:
        self.which = dk.array(np.arange(self.rows, dtype=np.int32))

    def row(self, x: Any, r: int) -> Any:
        """Return a row as a view."""
        if self.layout == "flat":
            return x[r * self.m : (r + 1) * self.m]
        return x[:, r] if self.layout == "columns" else x[r]

    def array(self, values: np.ndarray, requires_grad: bool = False) -> Any:
        """Return the array; of a view the rows of a larger one, every other and in the other order."""
        if self.layout != "view":
            return dk.array(values, requires_grad=requires_grad)
        around = np.full((2 * len(values), self.m + 1), 0.5)
        around[::-2, 1:] = values
        return dk.array(around, requires_grad=requires_grad)[::-2, 1:]

    def do(self, x: Any, y: Any, step: tuple[str, tuple[int, ...]]) -> None:
        """Do a step."""
        name, given = step
        if name == "fill":
            self.row(x, given[0]).fill_(0.75)
        elif name == "copy":
            dk.copy(self.row(x, given[0]), self.row(x, given[1]))
        else:
            dk.launch(kernel(self.layout, name), dim=self.m, inputs=[x, y, self.which, self.m, self.rows, *given])

    def beside(self, requires_grad: bool = False) -> Any:
        """Return the row of its own, as it is in front of a tape."""
        return dk.array(np.linspace(0.3, 0.9, self.m), requires_grad=requires_grad)

    def loss(self, values: np.ndarray, steps: slice = slice(None)) -> float:
        """Return a number that depends on all elements after some steps, without a tape."""
        x, y = self.array(values), self.beside()
        for step in self.steps[steps]:
            self.do(x, y, step)
        return float((self.weights * x.numpy()).sum() + y.numpy().sum())

    def gradient(self, values: np.ndarray, steps: slice = slice(None)) -> np.ndarray:
        """Return the gradient of the loss by central differences of two widths, extrapolated to none."""
        out, h = np.empty(values.size), 1e-5
        for k in range(values.size):
            narrow, wide = (self._slope(values, k, width, steps) for width in (h, 2 * h))
            out[k] = (4 * narrow - wide) / 3
        return out.reshape(values.shape)

    def _slope(self, values: np.ndarray, k: int, h: float, steps: slice) -> float:
        moved = [values.copy().reshape(-1) for _ in range(2)]
        moved[0][k] += h
        moved[1][k] -= h
        up, down = (self.loss(one.reshape(values.shape), steps) for one in moved)
        return (up - down) / (2 * h)

    @property
    def most_kept(self) -> int:
        """The bytes of all that the launches read: a tape keeps no more, once for the launch, once for a later one."""
        read = sum(OPERATIONS[name].reads(*given) for name, given in self.steps if name in OPERATIONS)
        return 2 * 8 * (self.m * read + 2 * len(self.steps))


def program(seed: int, layout: str | None = None) -> Program:
    """Return a random program."""
    r = random.Random(seed)
    layout = layout or r.choice([*LAYOUTS])
    rows, m = r.randint(3, 7), r.choice([2, 4])
    # Of these it is not known in one axis whether threads race, and the gradient is refused.
    unknown = ("back", "found") if layout == "flat" else ()
    names = r.sample([name for name in OPERATIONS if name not in unknown], r.randint(1, 3))
    steps = [_step(r, r.choice(names), rows, layout) for _ in range(r.randint(3, 12))]
    for k in range(len(steps)):
        if r.random() < 0.12:
            one, other = r.sample(range(rows), 2)
            steps[k] = ("copy", (one, other)) if r.random() < 0.6 else ("fill", (one,))
    if r.random() < 0.3:  # a trajectory in its order, of which nothing is overwritten
        steps = [("step", (n,)) for n in range(rows - 1)]
    numbers = np.random.default_rng(seed)
    shape = {"flat": (rows * m,), "columns": (m, rows), "blocks": (rows, m // 2, 2)}.get(layout, (rows, m))
    return Program(layout, rows, m, steps, numbers.uniform(0.2, 1.2, shape), numbers.uniform(-1, 1, shape))


def _step(r: random.Random, name: str, rows: int, layout: str) -> tuple[str, tuple[int, ...]]:
    if name in ("loop", "back"):
        a, c = sorted(r.sample(range(rows - 1), 2))
        return name, (a, c + (name == "back"))
    if name in ("step", "twice", "ring", "behind"):
        bounds = {"step": (-1, rows - 2), "twice": (0, (rows - 2) // 2), "ring": (0, 9), "behind": (1, rows - 1)}
        return name, (r.randint(*bounds[name]),)
    same = name in ("in place", "product", "" if layout in ("flat", "blocks") else "added") and r.random() < 0.3
    chosen = [r.randrange(rows) for _ in OPERATIONS[name].integers]
    if not same:
        chosen[-1] = r.choice([k for k in range(rows) if k not in chosen[:-1]] or [chosen[-1]])
    if r.random() < 0.25 and name != "found" and layout != "blocks":
        chosen = [k - rows for k in chosen]
    return name, tuple(chosen)
