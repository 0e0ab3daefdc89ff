"""Random kernels as Python source: loops, branches, local mutation, gathers, in-place updates, atomics, functions.

In: a source of choices (``choose(n)`` gives a number from 0 to n-1), from hypothesis or from a seed. Out: a
:class:`RandomKernel`: the text of a module, and arguments to launch it with. Arithmetic is smooth between kinks that
branches, minima and absolute values make, and every assignment keeps its variable bounded, so that central differences
are exact enough. No thread reads what another one writes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

__all__ = ["KernelWriter", "RandomKernel", "load_module", "random_kernel"]

Choose = Callable[[int], int]
T = TypeVar("T")

THREADS = 4
SIZE = 5  # elements of the read-only arrays
_INDENT = "    "

_SIGNATURE = """\
@dk.kernel
def fuzzed(
    x: dk.array(dtype=float),
    w: dk.array(dtype=float),
    g: dk.array(dtype=float, ndim=2),
    pts: dk.array(dtype=dk.vec2),
    idx: dk.array(dtype=int),
    a: float,
    b: float,
    n: int,
    m: int,
    y: dk.array(dtype=float),
    s: dk.array(dtype=float, ndim=2),
    q: dk.array(dtype=dk.vec2),
    acc: dk.array(dtype=float),
    loss: dk.array(dtype=float),
    perm: dk.array(dtype=int),
    out: dk.array(dtype=float),
):
    i = dk.tid()
"""

_FUNCTIONS = """\
import diffkern as dk


@dk.func
def squash(v: float, k: float = 1.0):
    return v / (k + v * v)


@dk.func
def pieces(v: float, limit: float):
    if v > limit:
        return dk.sin(v) * limit
    if v < -0.4:
        return 0.3 * v * v
    return v + 0.1 * limit


@dk.func
def search(w: dk.array(dtype=float), start: int, limit: float):
    for t in range(start, w.shape[0]):
        if w[t] * float(t) > limit:
            return w[t] + 0.5 * limit
        if t == 3:
            break
    return 0.3 * limit


@dk.func
def repeat(v: float, trips: int):
    r = 0.4
    for t in range(trips):
        r = 0.5 * r + dk.tanh(v * r)
        if r > 0.9:
            break
    return r
"""


@dataclass(frozen=True)
class RandomKernel:
    """A random kernel.

    Attributes
    ----------
    source
        The text of a module that defines ``fuzzed``.
    dim
        Dimensions of the launch.
    arguments
        One per parameter.
    options
        Kernel options: few slots for the state of loops, or the default.
    """

    source: str
    dim: tuple[int, ...]
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


class KernelWriter:
    """What writing a random kernel takes, whatever its statements are.

    Attributes
    ----------
    choose
        The source of choices.
    lines
        The kernel's body so far.
    loop_vars
        Counters of the loops around the next statement.
    """

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.lines: list[str] = []
        self.depth = 1
        self.loop_vars: list[str] = []
        self.names = 0

    def pick(self, items: Sequence[T]) -> T:
        """One of several."""
        return items[self.choose(len(items))]

    def emit(self, text: str) -> None:
        """Write a line."""
        self.lines.append(_INDENT * self.depth + text)

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet."""
        self.names += 1
        return f"{stem}{self.names}"

    @contextlib.contextmanager
    def block(self, head: str, *loop_vars: str) -> Iterator[None]:
        """A line, and what is indented under it."""
        self.emit(head)
        self.depth += 1
        self.loop_vars.extend(loop_vars)
        yield
        del self.loop_vars[len(self.loop_vars) - len(loop_vars) :]
        self.depth -= 1


class _Writer(KernelWriter):
    """Writes the body of a kernel, one random statement after the other."""

    def __init__(self, choose: Choose) -> None:
        super().__init__(choose)
        self.place = self.pick(("perm[i]", "3 - i"))
        self.budget = 9 + choose(9)  # statements left to write

    def chance(self, percent: int) -> bool:
        return self.choose(100) < percent

    # -- expressions -------------------------------------------------------------------------------------------------

    def number(self) -> str:
        return self.pick(("0.5", "-0.7", "1.25", "0.3", "2.0", "-1.1"))

    def integer(self) -> str:
        options = ["i", "j0", "idx[i]", "1", "2", "m", *self.loop_vars, *self.loop_vars]
        return self.pick(options)

    def index(self) -> str:
        """An index into arrays of SIZE elements."""
        kind = self.choose(6)
        if kind == 0:
            return "i"
        if kind == 1:
            return "idx[i]"
        if kind == 2:
            return str(self.choose(SIZE))
        if kind == 3:
            return "j0"
        return f"(i * {1 + self.choose(3)} + {self.integer()}) % n"

    def leaf(self) -> str:
        kind = self.choose(12)
        if kind < 4:
            return self.pick(("v0", "v1", "v2"))
        if kind < 6:
            return f"{self.pick(('x', 'w'))}[{self.index()}]"
        if kind == 6:
            return f"g[i, {self.pick(['0', '2', *(f'{k} % 3' for k in self.loop_vars)])}]"
        if kind == 7:
            return self.pick(("a", "b"))
        if kind == 8:
            return self.pick(
                ("y[i]", "y[i]", "s[i, 1]", "s[i, 0]", "q[i][0]", *(f"s[i, {k} % 2]" for k in self.loop_vars))
            )
        if kind == 9:
            return self.pick(("p[0]", "p[1]", "r[0]", "r[1]", f"pts[{self.index()}][{self.choose(2)}]"))
        if kind == 10:
            return f"{self.number()} * float({self.integer()} % 4)"
        return self.number()

    def expression(self, depth: int = 2) -> str:
        if depth == 0 or self.chance(20):
            return self.leaf()
        kind = self.choose(14)
        left = self.expression(depth - 1)
        if kind < 3:
            return f"({left} {self.pick('+-')} {self.expression(depth - 1)})"
        if kind < 6:
            return f"{self.squashed(depth - 1)} * {self.expression(depth - 1)}"
        if kind == 6:
            return f"dk.{self.pick(('min', 'max'))}({left}, {self.expression(depth - 1)})"
        if kind == 7:
            return f"dk.{self.pick(('abs', 'sin', 'cos'))}({left})"
        if kind == 8:
            other = self.expression(depth - 1)
            return f"({left} if {self.condition()} else {other})"
        if kind == 9:
            return f"dk.dot({self.vector()}, {self.vector()})"
        if kind == 10:
            return f"dk.where({self.condition()}, dk.sqrt(0.5 + dk.abs({left})), {self.leaf()})"
        if kind == 11:
            return f"dk.sqrt(0.3 + {left} * {left})"
        if kind == 12:
            return f"dk.clamp({left}, -0.8, 0.9)"
        return self.squashed(depth)

    def squashed(self, depth: int = 2) -> str:
        """An expression between about -1 and 1."""
        inner = self.expression(max(depth - 1, 0))
        kind = self.choose(10)
        if kind < 4:
            return f"dk.{self.pick(('sin', 'cos', 'tanh'))}({inner})"
        if kind == 9:
            return f"search(w, {self.pick(('0', '1', 'idx[i]'))}, dk.sin({inner}))"
        if kind == 4:
            return f"squash({inner})"
        if kind == 5:
            return f"squash({inner}, k={self.pick(('0.7', '2.0'))})"
        if kind == 6:
            return f"pieces(dk.sin({inner}), {self.pick(('0.5', '0.8'))})"
        if kind == 7:
            return f"repeat({self.leaf()}, {self.pick(('2', 'm', 'idx[i]'))})"
        return f"dk.exp(-({inner}) * ({inner}))"

    def vector(self) -> str:
        kind = self.choose(8)
        if kind < 3:
            return self.pick(("p", "r"))
        if kind == 6:
            return f"dk.mat22({self.leaf()}, 0.3, {self.leaf()}, -0.5) * {self.pick(('p', 'r'))}"
        if kind == 7:
            return self.pick(("q[i]", "dk.normalize(p) * dk.length(r)"))
        if kind == 3:
            return f"pts[{self.index()}]"
        if kind == 4:
            return f"dk.normalize({self.pick(('p', 'r'))} + dk.vec2(2.0, 0.5))"
        return f"dk.vec2({self.leaf()}, {self.leaf()})"

    def condition(self) -> str:
        kind = self.choose(8)
        if kind < 4:
            return f"{self.leaf()} {self.pick('<>')} {self.leaf()}"
        if kind == 4:
            return f"{self.integer()} % {2 + self.choose(2)} == {self.choose(2)}"
        if kind == 5:
            return f"{self.integer()} {self.pick(('<', '>=', '!='))} {self.integer()}"
        if kind == 6:
            return f"{self.leaf()} > -0.2 {self.pick(('and', 'or'))} {self.integer()} > 1"
        return f"not ({self.leaf()} > {self.number()})"

    # -- statements --------------------------------------------------------------------------------------------------

    def statements(self, most: int) -> None:
        count = 1 + self.choose(most)
        for _ in range(count):
            self.budget -= 1
            self.statement()

    def statement(self) -> None:
        kind = self.choose(100)
        deep = self.depth >= 5 or self.budget <= 0
        if kind < 32 or (deep and kind < 74):
            self.assign()
        elif kind < 47:
            self.branch()
        elif kind < 64:
            self.for_loop()
        elif kind < 70:
            self.while_loop()
        elif kind < 74:
            self.swap()
        elif kind < 82:
            self.store()
        elif kind < 88:
            self.atomic()
        elif kind < 94:
            self.vector_assign()
        elif kind < 97 and self.loop_vars:
            with self.block(f"if {self.condition()}:"):
                self.emit(self.pick(("break", "continue")))
        elif kind < 98 and self.depth >= 2:
            with self.block(f"if {self.condition()}:"):
                self.emit("return")
        else:
            self.emit(f"j0 = (j0 * {1 + self.choose(3)} + {self.integer()}) % n")

    def assign(self) -> None:
        v = self.pick(("v0", "v1", "v2"))
        kind = self.choose(6)
        if kind == 0:
            self.emit(f"{v} = {self.squashed()}")
        elif kind == 1:
            self.emit(f"{v} = {self.pick(('0.6', '-0.8', '0.9'))} * {v} + 0.5 * {self.squashed()}")
        elif kind == 2:
            self.emit(f"{v} *= {self.squashed()}")
        elif kind == 3:
            self.emit(f"{v} = {v} * {self.squashed(1)} + {self.squashed()}")
        elif kind == 4:
            self.emit(f"{v} += 0.25 * {self.squashed()}")
        else:
            self.emit(f"{v} = squash({self.expression(3)}, 0.8)")

    def swap(self) -> None:
        self.emit(f"v0, v1 = v1, {self.squashed()}")

    def vector_assign(self) -> None:
        p, r = self.pick((("p", "r"), ("r", "p")))
        kind = self.choose(4)
        if kind == 0:
            self.emit(f"{p} = dk.vec2(0.8 * {p}[0] - 0.6 * {p}[1], 0.6 * {p}[0] + 0.8 * {p}[1]) * {self.squashed(1)}")
        elif kind == 1:
            self.emit(f"{p}[{self.choose(2)}] = {self.squashed()}")
        elif kind == 2:
            self.emit(f"{p} = 0.5 * {r} + dk.normalize({self.vector()} + dk.vec2(0.1, 3.0)) * {self.squashed(1)}")
        else:
            self.emit(f"{p} = {r} * {self.squashed(1)} + {p} * 0.5")

    def store(self) -> None:
        kind = self.choose(11)
        if kind == 8:
            column = self.pick(("0", "0", "1", "m % 2", *(f"{k} % 2" for k in self.loop_vars[:1])))
            self.emit(f"s[i, {column}] = {self.squashed()}")
        elif kind == 9:
            self.emit(f"out[{self.place}] = {self.squashed()}")
        elif kind == 10:
            self.emit(f"q[i] = q[i] * {self.squashed(1)}")
        elif kind < 3:
            self.emit(f"y[i] = {self.squashed()}")
        elif kind == 3:
            self.emit(f"y[i] += {self.squashed()}")
        elif kind == 4:
            self.emit(f"y[i] *= {self.squashed()}")
        elif kind == 5:
            self.emit(f"s[i, 1] = 0.5 * s[i, 1] + {self.squashed()}")
        elif kind == 6:
            self.emit(f"q[i] = {self.vector()} * {self.squashed(1)}")
        else:
            self.emit(f"y[i] = 0.5 * y[i] + {self.squashed()} * w[i]")

    def atomic(self) -> None:
        kind = self.choose(4)
        if kind < 2:
            self.emit(f"dk.atomic_add(loss, 0, {self.squashed()})")
        elif kind == 2:
            self.emit(f"dk.atomic_{self.pick(('add', 'sub'))}(acc, {self.index()}, {self.squashed()})")
        else:
            self.emit(f"dk.atomic_add(acc, idx[i], {self.expression()})")

    def branch(self) -> None:
        with self.block(f"if {self.condition()}:"):
            self.statements(3)
        if self.chance(25):
            with self.block(f"elif {self.condition()}:"):
                self.statements(2)
        if self.chance(55):
            with self.block("else:"):
                self.statements(3)

    def for_loop(self) -> None:
        k = self.fresh("k")
        bounds = self.pick(("m", "m", "3", "idx[i]", "1, m + 2", "m, -1, -1", "0, n, 2", "i"))
        self.loop_body(f"for {k} in range({bounds}):", k)
        if self.chance(8):
            with self.block("else:"):
                self.assign()

    def while_loop(self) -> None:
        c = self.fresh("c")
        self.emit(f"{c} = 0")
        with self.block(f"while {c} < {self.pick(('m', '4', 'idx[i] + 1'))} and ({self.condition()}):", c):
            self.emit(f"{c} += 1")
            self.statements(3)

    def loop_body(self, head: str, k: str) -> None:
        with self.block(head, k):
            self.statements(4)

    def kernel(self) -> str:
        self.emit("v0 = x[i]")
        self.emit(f"v1 = {self.pick(('0.5', 'w[i] * a', 'y[i]'))}")
        self.emit(f"v2 = {self.pick(('1.0', 'b', 'x[idx[i]]'))}")
        self.emit("p = pts[i]")
        self.emit("r = dk.vec2(0.4, x[0])")
        self.emit("j0 = idx[i]")
        while self.budget > 0:
            self.budget -= 1
            self.statement()
        self.emit(f"y[i] = {self.pick(('v0 * v1 + v2', 'y[i] * v1 + v0 * p[1]', 'v0 + v1 * v2 + r[0]'))}")
        if self.chance(60):
            self.emit("q[i] = p * v0 + r")
        return "\n".join(self.lines) + "\n"


def random_kernel(choose: Choose) -> RandomKernel:
    """Write a random kernel and draw arguments for it.

    Parameters
    ----------
    choose
        Given n, returns a number from 0 to n-1. The same answers give the same kernel.
    """
    body = _Writer(choose).kernel()
    slots = choose(4)
    rng = np.random.default_rng(choose(1 << 16))

    def floats(*shape: int) -> np.ndarray[Any, Any]:
        return np.asarray(rng.uniform(0.2, 1.1, shape) * rng.choice((-1.0, 1.0), shape), dtype=np.float32)

    arguments = (
        floats(SIZE), floats(SIZE), floats(THREADS, 3), floats(SIZE, 2),
        rng.integers(0, SIZE, THREADS).astype(np.int32),
        np.float32(rng.uniform(-1.0, 1.0)), np.float32(rng.uniform(-1.0, 1.0)), SIZE, choose(5),
        floats(THREADS), floats(THREADS, 2), floats(THREADS, 2), floats(SIZE), floats(1),
        rng.permutation(THREADS).astype(np.int32), floats(THREADS),
    )  # fmt: skip
    return RandomKernel(f"{_FUNCTIONS}\n\n{_SIGNATURE}{body}", (THREADS,), arguments, {"slots": slots} if slots else {})


def load_module(source: str, directory: str | None = None) -> ModuleType:
    """Write source text to a file of its own and import it; kernels need a file to be read from."""
    with tempfile.NamedTemporaryFile(
        "w", suffix=".py", prefix="fuzzed_", dir=directory, delete=False, encoding="utf-8"
    ) as file:
        file.write(source)
    name = Path(file.name).stem
    spec = importlib.util.spec_from_file_location(name, file.name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module
