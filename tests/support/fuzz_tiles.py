"""Random kernels of tiles: maps, views, products, reductions and solves, tiles changed in place and carried by loops.

In: a source of choices, as in :mod:`support.fuzz`. Out: a :class:`~support.fuzz.RandomKernel`.
Variables have one of three shapes: ``t`` (R, C), ``p`` (R, R), ``r`` (C,); ``v`` are numbers. R and C are so small that
loops over them are unrolled, or so large that they are not and vectors do not divide them. What is assigned is bounded,
and the smallest and greatest elements are told apart well enough for central differences in most kernels. Blocks write
places of their own, and add to shared ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .fuzz import Choose, KernelWriter, RandomKernel

__all__ = ["random_tile_kernel"]

BLOCKS = 3
SIZES = ((3, 4), (3, 4), (9, 18))

_SOURCE = """\
import diffkern as dk

R, C = dk.constant({rows}), dk.constant({columns})


@dk.func
def bump(v: float, w: float):
    if v > w:
        return dk.sin(v) * w
    return 0.3 * v * v + 0.1 * w


@dk.func
def rise(v: float, k: float, n: int):
    r = v
    for _ in range(n):
        r = 0.5 * r + dk.tanh(v * k)
    return r


@dk.func
def join(a: float, b: float):
    return a * 0.6 + b * (1.0 - 0.2 * a)


@dk.func
def root(v: float):
    return dk.where(v > 0.1, dk.sqrt(v), 0.3 * v)


@dk.func
def mix(t, u, s):
    q = t * s
    q[0] = u[1] * 0.5
    q += u * t
    return dk.tile_map(dk.tanh, q)


@dk.func
def twist(p, n):
    q = p
    for _ in range(n):
        q = dk.tile_map(dk.sin, q @ p + q)
    return q


@dk.kernel
def fuzzed(
    x: dk.array(dtype=float, ndim=2),
    w: dk.array(dtype=float, ndim=2),
    z: dk.array(dtype=float),
    eye: dk.array(dtype=float, ndim=2),
    idx: dk.array(dtype=int),
    a: float,
    n: int,
    m: int,
    y: dk.array(dtype=float, ndim=3),
    s: dk.array(dtype=float, ndim=2),
    acc: dk.array(dtype=float, ndim=2),
    loss: dk.array(dtype=float),
):
    i = dk.tid()
    one = dk.tile_load(eye, shape=(R, R))
    t0 = dk.tile_load(x, shape=(R, C), offset=(i, 0))
    t1 = dk.tile_load(y[i], shape=(R, C))
    p0 = dk.tile_load(w, shape=(R, R))
    p1 = dk.tile_load(x, shape=(R, R), offset=(0, i))
    r0 = dk.tile_load(z, shape=C, offset=i)
    r1 = dk.tile_load(s[i], shape=C)
    v0 = a
    v1 = z[i]
    j = idx[i]
"""


class _Writer(KernelWriter):
    """Writes the body of a kernel of tiles, one random statement after the other."""

    def __init__(self, choose: Choose) -> None:
        super().__init__(choose)
        self.budget = 6 + choose(8)  # statements left to write

    # -- expressions -------------------------------------------------------------------------------------------------

    def integer(self) -> str:
        return self.pick(("0", "1", "2", "j", "i", "m", *self.loop_vars, *self.loop_vars))

    def start(self) -> str:
        """Where a part of a tile begins; only what is known at run time may be outside it."""
        return self.pick(("0", "0", "j", "i", "m", *self.loop_vars))

    def index(self) -> str:
        """An index into an axis, now and then outside it."""
        return self.pick(("0", "1", "2", "j % 3", "-1", f"({self.integer()} + 1) % 3", self.integer()))

    def name(self, stem: str) -> str:
        return stem + self.pick("01")

    def element(self) -> str:
        kind = self.choose(3)
        if kind == 0:
            return f"{self.name('t')}[{self.index()}, {self.index()}]"
        return f"{self.name('p')}[{self.index()}, {self.index()}]" if kind == 1 else f"{self.name('r')}[{self.index()}]"

    def whole(self) -> str:
        """A number made of a whole tile."""
        t = self.name(self.pick("tpr"))
        kind = self.choose(8)
        if kind < 3:
            return f"dk.tile_sum({t})[0]"
        if kind == 3:
            return f"dk.tile_{self.pick(('min', 'max'))}({t} * 0.7)[0]"
        if kind == 4:
            return f"dk.tile_dot({t}, {self.tile(t[0], 1)})[0]"
        if kind == 5:
            r = self.name("r")
            return f"{r}[dk.tile_{self.pick(('argmin', 'argmax'))}({r})[0]]"
        if kind == 6:
            return f"dk.tile_reduce(join, {t})[0]"
        return f"dk.tile_reduce(dk.{self.pick(('min', 'max', 'add'))}, {t})[0]"

    def number(self, depth: int = 1) -> str:
        kind = self.choose(9)
        if kind < 2 or depth == 0:
            return self.pick(("v0", "v1", "a", "0.4", "-0.7"))
        if kind < 4:
            return f"dk.sin({self.whole()})"
        if kind == 4:
            return f"dk.tanh({self.element()} * {self.number(0)})"
        if kind == 5:
            return f"0.3 * y[i, {self.choose(3)}, {self.choose(4)}]"
        if kind == 6:
            return f"({self.number(0)} if {self.condition()} else {self.element()})"
        return f"bump(dk.sin({self.element()}), {self.number(0)})"

    def condition(self) -> str:
        kind = self.choose(5)
        if kind < 2:
            return f"{self.integer()} % 2 == {self.choose(2)}"
        if kind == 2:
            return f"{self.integer()} {self.pick(('<', '>=', '!='))} {self.integer()}"
        return f"{self.pick(('v0', 'v1', self.element(), self.whole()))} > {self.pick(('0.1', '-0.2', 'v0', 'a'))}"

    def tile(self, stem: str, depth: int = 2) -> str:
        """A tile of the shape that variables of a name have."""
        if depth == 0 or self.choose(10) == 0:
            return self.name(stem)
        kind = self.choose(11)
        left = self.tile(stem, depth - 1)
        if kind == 0:
            return f"({left} {self.pick('+-*')} {self.tile(stem, depth - 1)})"
        if kind == 1:
            return f"({left} * {self.number()})"
        if kind == 2:
            return f"({left} / ({self.number(0)} * {self.number(0)} + 1.5))"
        if kind == 3:
            return f"dk.tile_map(dk.{self.pick(('sin', 'tanh', 'abs', 'cos'))}, {left})"
        if kind == 4:
            return f"dk.tile_map({self.pick(('bump', 'join', 'dk.max'))}, {left}, {self.pick((self.name(stem), 'a'))})"
        if kind == 5:
            return self.pick((f"dk.tile_map(rise, {left}, {self.number(0)}, 2)", f"dk.tile_map(root, {left})"))
        if kind == 6:
            return f"({left} if {self.condition()} else {self.name(stem)})"
        return {"t": self.wide, "p": self.square, "r": self.row}[stem](depth - 1)

    def wide(self, depth: int) -> str:
        kind = self.choose(9)
        if kind < 2:
            return f"({self.tile('p', depth)} @ {self.tile('t', depth)})"
        if kind == 2:
            return f"dk.tile_broadcast({self.tile('r', depth)}, shape=(R, C))"
        if kind == 3:
            column = f"dk.tile_sum({self.tile('t', depth)}, axis=1)"
            return f"dk.tile_broadcast(dk.tile_reshape({column}, shape=(R, 1)), shape=(R, C))"
        if kind == 4:
            return f"dk.tile_scan_{self.pick(('inclusive', 'exclusive'))}({self.tile('t', depth)} * 0.3)"
        if kind == 5:
            return f"dk.tile_lower_solve({self.tile('p', depth)} * 0.2 + one, {self.tile('t', depth)})"
        if kind == 6:
            offset = f"{self.pick(('0', 'i', 'i - 1', 'j', '3'))}, {self.pick(('0', '1', '-2', self.integer()))}"
            return f"dk.tile_load({self.pick(('x', 'x', 'y[i]'))}, shape=(R, C), offset=({offset}))"
        if kind == 7:
            return f"mix({self.tile('t', depth)}, {self.name('t')}, {self.number(0)})"
        return f"dk.tile_transpose(dk.tile_reshape({self.tile('t', depth)}, shape=(C, R)))"

    def square(self, depth: int) -> str:
        kind = self.choose(10)
        if kind < 2:
            return f"({self.tile('p', depth)} @ {self.tile('p', depth)})"
        if kind == 2:
            return f"dk.tile_transpose({self.tile('p', depth)})"
        if kind == 3:
            return f"({self.name('t')} @ dk.tile_transpose({self.tile('t', depth)}))"
        if kind == 4:
            return f"dk.tile_view({self.name('t')}, offset=(0, {self.pick(('1', self.start()))}), shape=(R, R))"
        if kind == 5:
            p = self.name("p")
            fill = self.pick(("", ", fill_mode='upper'"))
            return f"dk.tile_cholesky({p} @ dk.tile_transpose({p}) + one * 2.0{fill})"
        if kind == 6:
            return (
                f"dk.tile_{self.pick(('lower', 'upper'))}_solve({self.name('p')} * 0.2 + one, {self.tile('p', depth)})"
            )
        if kind == 7:
            return f"{self.name('t')}[{self.pick(('0:R, C - R:C', '0:R, R:0:-1', '::-1, 0:R'))}]"
        if kind == 8:
            return f"twist({self.tile('p', depth)}, {self.pick(('2', 'm'))})"
        p = self.name("p")
        solve = (
            f"dk.tile_cholesky_solve(dk.tile_cholesky(dk.tile_map(dk.sin, {p}) * 0.1 + one), {self.tile('p', depth)})"
        )
        return f"({solve} * 0.5)"

    def row(self, depth: int) -> str:
        kind = self.choose(7)
        if kind == 0:
            return f"{self.name('t')}[{self.index()}]"
        if kind < 3:
            return f"dk.tile_{self.pick(('sum', 'sum', 'max', 'min'))}({self.tile('t', depth)}, axis=0)"
        if kind == 3:
            return f"dk.tile_scan_{self.pick(('inclusive', 'exclusive'))}({self.tile('r', depth)})"
        if kind == 4:
            return f"dk.tile_load(z, shape=C, offset={self.pick(('i', '2', '-1', 'j', '4'))})"
        if kind == 5:
            return (
                f"dk.tile_squeeze(dk.tile_reshape({self.tile('r', depth)}, shape=(1, C)) @ dk.tile_transpose(t0) @ t1)"
            )
        return f"{self.name('r')}[::-1]"

    def bounded(self, stem: str, depth: int = 2) -> str:
        tile = self.tile(stem, depth)
        kind = self.choose(4)
        if kind == 0:
            return f"dk.tile_map(dk.tanh, {tile})"
        return f"dk.tile_map(dk.{self.pick(('sin', 'cos'))}, {tile})" if kind == 1 else f"({tile}) * 0.3"

    # -- statements --------------------------------------------------------------------------------------------------

    def statements(self, most: int) -> None:
        for _ in range(1 + self.choose(most)):
            self.statement()

    def statement(self) -> None:
        self.budget -= 1
        kind = self.choose(30)
        if self.depth < 4 and self.budget > 0:
            if kind < 4:
                return self.for_loop()
            if kind == 4:
                return self.while_loop()
            if kind < 8:
                return self.branch()
        if kind < 13:
            self.change()
        elif kind < 16:
            self.store()
        elif kind == 16 and self.loop_vars:
            with self.block(f"if {self.condition()}:"):
                self.emit(self.pick(("break", "continue")))
        elif kind < 19:
            self.emit(f"v{self.choose(2)} = {self.number()}")
        elif kind == 19:
            stem = self.pick("tpr")
            self.emit(f"{stem}0, {stem}1 = {stem}1, {self.bounded(stem)}")
        elif kind == 20:
            stem = self.pick("tpr")
            self.emit(f"{stem}0 = {stem}1")
        elif kind == 21:
            self.emit(f"j = (j + {self.integer()}) % n")
        else:
            stem = self.pick("ttppr")
            self.emit(f"{self.name(stem)} = {self.bounded(stem)}")

    def change(self) -> None:
        """Change a tile in place."""
        t, p, r = (self.name(stem) for stem in "tpr")
        kind = self.choose(16)
        if kind == 0:
            self.emit(f"{t}[{self.index()}, {self.index()}] = {self.number()}")
        elif kind == 1:
            self.emit(f"{p}[{self.index()}, {self.index()}] {self.pick('+-')}= {self.number()}")
        elif kind == 2:
            self.emit(f"{r}[{self.index()}] = {self.element()} * 0.6")
        elif kind == 3:
            self.emit(f"{t}[{self.index()}] = {self.bounded('r', 1)}")
        elif kind == 4:
            self.emit(f"{t}[0:2, {self.pick(('1:3', '3:1:-1', '0:4:2'))}] = {self.number()}")
        elif kind == 5:
            self.emit(f"dk.tile_assign({t}, {self.name('p')} * 0.8, offset=({self.start()}, {self.start()}))")
        elif kind == 6:
            self.emit(f"{t} {self.pick('+-*')}= {self.bounded('t', 1)}")
        elif kind == 7:
            self.emit(f"dk.tile_matmul({self.bounded('p', 1)}, {self.tile('t', 1)} * 0.9, {t})")
            self.emit(f"{t} = dk.tile_map(dk.sin, {t})")
        elif kind == 8:
            other = "p1" if p == "p0" else "p0"
            factors = f"{self.pick((other, 'one'))} * 0.9, dk.tile_transpose({other} * 0.9), {p}"
            scales = f"alpha={self.pick(('a', '0.3', 'v0'))}, beta={self.pick(('0.5', 'v0', '0.0'))}"
            self.emit(f"dk.tile_matmul({factors}, {scales})")
        elif kind == 9:
            self.emit(f"dk.tile_axpy({self.number()}, {self.name('r')}, {r})")
            self.emit(f"{r} = dk.tile_map(dk.tanh, {r})")
        elif kind == 10:
            other = "r1" if r == "r0" else "r0"
            self.emit(f"dk.tile_sort({r}, {other})")
        elif kind == 11:
            self.emit(f"{t}[{self.index()}, {self.index()}] = {t}[{self.index()}, {self.index()}] * {self.number()}")
        elif kind == 12:
            side = self.pick(("lower", "upper"))
            self.emit(f"dk.tile_{side}_solve_inplace({self.bounded('p', 1)} * 0.2 + one, {t})")
        elif kind == 13:
            self.emit(f"{p} = {p} @ dk.tile_transpose({p}) * 0.3 + one")
            self.emit(f"dk.tile_cholesky_inplace({p}{self.pick(('', ', fill_mode=' + repr('upper')))})")
        elif kind == 14:
            self.emit(f"dk.tile_{self.pick(('add', 'sub'))}_inplace({t}, {self.bounded('t', 1)})")
        else:
            self.emit(f"{p} *= {self.bounded('p', 1)}")

    def store(self) -> None:
        kind = self.choose(7)
        if kind == 0:
            offset = f"{self.pick(('0', '1', '-1'))}, {self.pick(('0', '2', self.integer()))}"
            self.emit(f"dk.tile_store(y[i], {self.bounded('t', 1)}, offset=({offset}))")
        elif kind == 1:
            self.emit(f"dk.tile_store(y[i], {self.bounded('p', 1)}, offset=({self.integer()}, 0))")
        elif kind == 2:
            self.emit(f"dk.tile_store(s[i], {self.bounded('r', 1)}, offset={self.pick(('0', '1', '-2', '3'))})")
        elif kind == 3:
            self.emit(f"y[i, {self.choose(3)}, {self.choose(4)}] = {self.number()}")
        elif kind == 4:
            offset = f"{self.pick(('i', '0', 'j'))}, {self.pick(('0', '-1', '3'))}"
            self.emit(f"dk.tile_atomic_add(acc, {self.bounded('t', 1)}, offset=({offset}))")
        elif kind == 5:
            self.emit(f"dk.tile_atomic_add(loss, dk.tile_sum({self.tile('t', 1)}))")
        else:
            self.emit(f"dk.atomic_add(loss, 0, {self.number()})")

    def branch(self) -> None:
        with self.block(f"if {self.condition()}:"):
            self.statements(3)
        if self.choose(2):
            with self.block("else:"):
                self.statements(2)

    def for_loop(self) -> None:
        k = self.fresh("k")
        bounds = self.pick(("m", "m", "2", "j", "m, -1, -1", "i", "0"))
        with self.block(f"for {k} in range({bounds}):", k):
            self.statements(3)

    def while_loop(self) -> None:
        c = self.fresh("c")
        self.emit(f"{c} = 0")
        with self.block(f"while {c} < {self.pick(('m', '3'))} and ({self.condition()}):", c):
            self.emit(f"{c} += 1")
            self.statements(3)

    def kernel(self) -> str:
        while self.budget > 0:
            self.statement()
        self.emit("dk.tile_store(y[i], t0 * v0 + t1)")
        self.emit("dk.tile_store(s[i], r0 + r1 * v1)")
        self.emit(f"dk.tile_atomic_add(loss, dk.tile_sum({self.pick(('p0 * p1', 'p0 + p1', 'p0'))}))")
        return "\n".join(self.lines) + "\n"


def random_tile_kernel(choose: Choose) -> RandomKernel:
    """Write a random kernel of tiles and draw arguments for it.

    Parameters
    ----------
    choose
        Given n, returns a number from 0 to n-1. The same answers give the same kernel.
    """
    body = _Writer(choose).kernel()
    rows, columns = SIZES[choose(len(SIZES))]
    slots = choose(4)
    rng = np.random.default_rng(choose(1 << 16))

    def floats(*shape: int) -> np.ndarray[Any, Any]:
        return np.asarray(rng.uniform(0.2, 1.1, shape) * rng.choice((-1.0, 1.0), shape), dtype=np.float32)

    arguments = (
        floats(rows + 2, columns + 2), floats(rows, rows + 1), floats(columns + 3), np.eye(rows, dtype=np.float32),
        rng.integers(0, 3, BLOCKS).astype(np.int32), np.float32(rng.uniform(-1.0, 1.0)), 3, choose(4),
        floats(BLOCKS, rows + 1, columns + 1), floats(BLOCKS, columns + 1), floats(rows + 2, columns + 1), floats(1),
    )  # fmt: skip
    source = _SOURCE.format(rows=rows, columns=columns) + body
    return RandomKernel(source, (BLOCKS,), arguments, {"slots": slots} if slots else {})
