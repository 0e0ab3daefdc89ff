"""Random programs whose loops and branches change which array a variable stands for, with plain Python as their oracle.

The text of a program is a kernel of ``diffkern.warp``; run with NumPy's arrays and one thread after the other it is
Python. Values are compared, and derivatives in both modes and of second order with central differences of Python's.

    python -m tests.support.chosen_programs --count 100 --seed 1
"""

import argparse
import collections
import itertools
import linecache
import random
import sys
import time
import traceback
import types

import numpy as np

import diffkern as dk
import diffkern.warp as wp
from diffkern.errors import KernelError, LaunchError

THREADS, WIDTH = 3, 4

HEAD = """
A1 = wp.array(dtype=wp.float64)
A2 = wp.array(dtype=wp.float64, ndim=2)

@wp.struct
class Chosen{number}:
    v: wp.array(dtype=wp.float64, ndim=2)
    w: wp.array(dtype=wp.float64)

@wp.func
def swapped(p: A1, q: A1, n: int):
    for k in range(n):
        q[k % 4] = wp.sin(p[(k + 1) % 4]) * wp.float64(0.5) + q[k % 4]
        t = p
        p = q
        q = t
    return p[1] * q[2]

@wp.func
def picked(p: A1, q: A1, n: int):
    if n > 1:
        return q
    return p

@wp.func
def turned(p: A1, q: A1, n: int):
    for k in range(n):
        t = p
        p = q
        q = t
    return p

@wp.kernel
def program(x: A2, y: A2, z: A2, g: A2, u: A1, t: A1, s: Chosen{number}, c: wp.array(dtype=int), n: int, o: A2):
    i = wp.tid()
"""


class Writer:
    """Writes one program."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.loops = []
        self.names = itertools.count()
        r = self.random
        self.rows, self.tables, self.read, self.own = [], [], [], []
        sources = ["x", "y", "s.v"]
        rows = ["x[i]", "y[i]", "s.v[i]", "z[i, ::2]", "z[i, 1:5]", "z[i, 4:]", "z[i]", "x[i]"]
        rows = r.sample(rows, r.choice([2, 2, 3, 4]))
        for k in range(r.randint(2, 3)):
            self.rows.append(f"r{k}")
            self.put(f"r{k} = {r.choice(rows)}")
        for k in range(r.randint(0, 3)):
            self.tables.append(f"q{k}")
            self.put(f"q{k} = {r.choice(sources)}")
        parts = ["u", "t", "s.w", "u[1:5]", "u[2:]", "g[i]", "g[0]", "g[i, 0:4]", "g[1]"]
        parts = r.sample(parts, r.choice([2, 3]))
        for k in range(r.randint(0, 2)):
            self.read.append(f"v{k}")
            self.put(f"v{k} = {r.choice(parts)}")
        for k in range(r.choice([0, 0, 2, 3])):
            self.own.append(f"a{k}")
            size = r.choice([4, 4, 5])
            self.put(f"a{k} = wp.zeros(shape={size}, dtype=wp.float64)")
            self.put("for j in range(4):")
            self.put(f"    a{k}[j] = {r.choice(sources)}[i, j]")
        self.block(r.choice([1, 2, 2, 3]), 1)
        for name in [*self.rows, *self.own]:
            self.put(f"o[i, 0] += {name}[{r.randrange(4)}] * {r.choice(self.rows)}[1]")
        for name in self.tables:
            self.put(f"o[i, 1] += {name}[i, {r.randrange(4)}]")
        for name in self.read:
            self.put(f"o[i, 2] += {name}[{r.randrange(4)}] * {name}[2]")

    def put(self, text, depth=1):
        self.lines.append("    " * depth + text)

    def index(self):
        r = self.random
        if self.loops and r.random() < 0.6:
            return f"({r.choice(self.loops)} + {r.randrange(4)}) % 4"
        if r.random() < 0.15:
            return f"{r.choice([*self.loops, 'n'])} - 4"
        return str(r.randrange(4))

    def element(self, *, written=False):
        r = self.random
        pools = [self.rows, self.rows, self.tables, self.own] + ([] if written else [self.read])
        pool = r.choice([p for p in pools if p])
        name = r.choice(pool)
        return f"{name}[i, {self.index()}]" if pool is self.tables else f"{name}[{self.index()}]"

    def number(self, depth=2):
        r = self.random
        kind = r.random()
        if kind < 0.04:
            return f"wp.float64(len({r.choice(self.rows + self.read)})) * wp.float64(0.1)"
        if depth == 0 or kind < 0.3:
            return self.element()
        if kind < 0.45:
            return f"wp.sin({self.number(depth - 1)})"
        if kind < 0.6:
            return f"wp.float64({r.randint(1, 9) / 10})"
        return f"({self.number(depth - 1)} {r.choice('*+-*')} {self.number(depth - 1)})"

    def test(self):
        r = self.random
        kind = r.random()
        if kind < 0.35:
            return f"c[i] > {r.randrange(3)}"
        if kind < 0.7 and self.loops:
            return f"({r.choice(self.loops)} + c[i]) % {r.randint(2, 3)} == {r.randrange(2)}"
        if kind < 0.85:
            return f"{self.element()} > wp.float64({r.randint(1, 9) / 10 + 0.0123})"
        return f"n > {r.randrange(3)}"

    def change(self, depth):
        """One or more names of a pool for other arrays."""
        r = self.random
        pool = r.choice(
            [p for p in (self.rows, self.rows, self.tables, self.read, self.own) if len(p) > 1] or [self.rows]
        )
        a, b = r.sample(pool, 2) if len(pool) > 1 else (pool[0], pool[0])
        kind = r.randrange(9)
        if kind < 2:
            self.put(f"tmp = {a}", depth)
            self.put(f"{a} = {b}", depth)
            self.put(f"{b} = tmp", depth)
        elif kind == 2:
            self.put(f"{a}, {b} = {b}, {a}", depth)
        elif kind == 3:
            turned = [*pool[1:], pool[0]]
            self.put(f"{', '.join(pool)} = {', '.join(turned)}", depth)
        elif kind == 4:
            self.put(f"{a} = {b}", depth)
        elif kind == 5:
            self.put(f"{a} = {b} if {self.test()} else {r.choice(pool)}", depth)
        elif kind == 6 and pool is not self.tables:
            self.put(f"{a} = {r.choice(['picked', 'turned'])}({a}, {b}, {r.choice(['n', 'c[i]', '1', '2'])})", depth)
        elif self.tables and pool is self.rows:
            self.put(f"{a} = {r.choice(self.tables)}[i]", depth)
        else:
            self.put(f"if {self.test()}:", depth)
            self.put(f"    {a} = {b}", depth)

    def block(self, left, depth):
        for _ in range(self.random.randint(2, 4)):
            self.statement(left, depth)

    def statement(self, left, depth):
        r = self.random
        kind = r.random()
        if kind < 0.3 or (left == 0 and kind < 0.5):
            self.put(f"{self.element(written=True)} {r.choice(['=', '=', '+='])} wp.sin({self.number()})", depth)
        elif kind < 0.6 or left == 0:
            self.change(depth)
        elif kind < 0.75:
            name = f"k{next(self.names)}"
            self.put(f"for {name} in range({r.choice(['n', 'n', 'c[i]', '3', 'n + 1'])}):", depth)
            self.loops.append(name)
            self.block(left - 1, depth + 1)
            if r.random() < 0.3:
                self.put(f"if {self.test()}:", depth + 1)
                self.put(f"    {r.choice(['break', 'continue'])}", depth + 1)
                self.block(0, depth + 1)
            self.loops.pop()
        elif kind < 0.82:
            name = f"k{next(self.names)}"
            self.put(f"{name} = int(0)", depth)
            self.put(f"while {name} < {r.choice(['n', 'c[i]', '2'])}:", depth)
            self.loops.append(name)
            self.block(left - 1, depth + 1)
            self.put(f"{name} += 1", depth + 1)
            self.loops.pop()
        elif kind < 0.94:
            self.put(f"if {self.test()}:", depth)
            self.block(left - 1, depth + 1)
            if r.random() < 0.5:
                self.put("else:", depth)
                self.block(left - 1, depth + 1)
        else:
            pool = r.choice([p for p in (self.rows, self.own) if len(p) > 1])
            a, b = r.sample(pool, 2)
            self.put(f"o[i, 3] += swapped({a}, {b}, {r.choice(['n', 'c[i]', '2'])})", depth)


def text_of(number):
    return HEAD.format(number=number) + "\n".join(Writer(number).lines) + "\n"


class _Python:
    """What ``wp`` is for Python."""

    float64 = float
    sin = staticmethod(np.sin)
    at = 0

    @classmethod
    def tid(cls):
        return cls.at

    @staticmethod
    def zeros(shape, dtype):
        return np.zeros(shape)

    @staticmethod
    def kernel(f):
        return f

    func = struct = kernel

    @staticmethod
    def array(**_):
        return None


def executed(text, number, names):
    file = f"<chosen {number}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space = {"wp": names, "__name__": f"chosen_{number}"}
    exec(compile(text, file, "exec", dont_inherit=True), space)
    return space


NAMES = ["x", "y", "z", "g", "u", "t", "v", "w"]


def arrays_of(number):
    rng = np.random.default_rng(number)
    table = (THREADS, WIDTH)
    shapes = [table, table, (THREADS, 2 * WIDTH), table, (WIDTH + 2,), (WIDTH,), table, (WIDTH,)]
    values = [rng.uniform(0.1, 0.9, shape) for shape in shapes]
    return values, rng.integers(0, 4, THREADS).astype(np.int32), int(rng.integers(0, 4))


def in_python(space, values, c, n):
    """The arrays that a program leaves."""
    x, y, z, g, u, t, v, w = values = [a.copy() for a in values]
    o = np.zeros((THREADS, WIDTH))
    for _Python.at in range(THREADS):
        space["program"](x, y, z, g, u, t, types.SimpleNamespace(v=v, w=w), c, n, o)
    return [*values, o]


@wp.kernel
def weigh(a: wp.array(dtype=wp.float64), w: wp.array(dtype=wp.float64), total: wp.array(dtype=wp.float64)):
    k = wp.tid()
    wp.atomic_add(total, 0, a[k] * w[k] + wp.float64(0.5) * a[k] * a[k])


def check(number, *, strided=False, second=True):
    text = text_of(number)
    here, there = executed(text, number, _Python), executed(text, number, wp)
    values, c, n = arrays_of(number)
    rng = np.random.default_rng(number + 1)
    weights = [rng.normal(size=a.shape) for a in (*values, np.zeros((THREADS, WIDTH)))]

    def loss_of(*given):
        return sum((a * w + 0.5 * a * a).sum() for a, w in zip(in_python(here, given, c, n), weights, strict=True))

    finals = []

    def loss(*given):
        held = [wp.clone(a) for a in given]
        if strided:
            held[1] = apart(held[1])
        s = there[f"Chosen{number}"]()
        s.v, s.w = held[6], held[7]
        o = wp.zeros((THREADS, WIDTH), dtype=wp.float64, requires_grad=True)
        wp.launch(there["program"], THREADS, [*held[:6], s, wp.array(c, dtype=int), n, o])
        total = wp.zeros(1, dtype=wp.float64, requires_grad=True)
        finals[:] = [*held, o]
        for a, w in zip((*held, o), weights, strict=True):
            wp.launch(weigh, w.size, [flat(a), wp.array(w.ravel(), dtype=wp.float64), total])
        return total

    made = [wp.array(a, dtype=wp.float64, requires_grad=True) for a in values]
    loss(*made)
    for name, a, b in zip([*NAMES, "o"], finals, in_python(here, values, c, n), strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-12, atol=1e-12, err_msg=f"values of {name}")
    gradient = [g.numpy() for g in dk.vjp(loss, tuple(made), wp.ones(1, dtype=wp.float64))[1]]
    along = [rng.normal(size=a.shape) for a in values]
    e = 1e-6

    def moved(step, base=values):
        return [a + step * d for a, d in zip(base, along, strict=True)]

    expected = (loss_of(*moved(e)) - loss_of(*moved(-e))) / (2 * e)
    scale = max(1.0, abs(expected), sum(abs(g * d).sum() for g, d in zip(gradient, along, strict=True)))
    found = sum((g * d).sum() for g, d in zip(gradient, along, strict=True))
    assert abs(found - expected) < 2e-7 * scale, f"reverse mode: {found}, differences {expected}"
    directions = tuple(wp.array(d, dtype=wp.float64) for d in along)
    forward = dk.jvp(loss, tuple(made), directions)[1].numpy()[0]
    assert abs(forward - expected) < 2e-7 * scale, f"forward mode: {forward}, differences {expected}"
    if second:
        product = [p.numpy() for p in dk.hvp(loss, tuple(made), directions)]

        def gradient_at(step):
            arrays = tuple(wp.array(a, dtype=wp.float64, requires_grad=True) for a in moved(step))
            return [g.numpy() for g in dk.vjp(loss, arrays, wp.ones(1, dtype=wp.float64))[1]]

        for name, p, a, b in zip(NAMES, product, gradient_at(1e-5), gradient_at(-1e-5), strict=True):
            difference = (a - b) / 2e-5
            size = max(1.0, np.abs(difference).max(), np.abs(gradient[0]).max())
            np.testing.assert_allclose(p, difference, atol=3e-6 * size, rtol=0, err_msg=f"second order, {name}")


def flat(a):
    return a if a.ndim == 1 else a.contiguous().flatten() if not a.is_contiguous else a.flatten()


def apart(a):
    wide = wp.zeros((a.shape[0], 2 * a.shape[1]), dtype=wp.float64, requires_grad=True)
    view = wide[:, ::2]
    wp.copy(view, a)
    return view


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--program", type=int)
    parser.add_argument("--first-order", action="store_true")
    parser.add_argument("--strided", action="store_true")
    given = parser.parse_args(arguments)
    found = collections.Counter()
    numbers = (
        [given.program]
        if given.program is not None
        else range(given.seed * 100_000, given.seed * 100_000 + given.count)
    )
    for number in numbers:
        if given.program is not None:
            print(text_of(number))
        began = time.process_time()
        try:
            check(number, second=not given.first_order, strided=given.strided)
            found["right"] += 1
            print(".", end="")
        except (KernelError, LaunchError) as error:
            found[f"refused: {type(error).__name__}"] += 1
            print(number, "refused", str(error).splitlines()[0])
            if given.program is not None:
                traceback.print_exc()
        except AssertionError as error:
            found["WRONG"] += 1
            print(number, "WRONG", str(error)[:300])
            if given.program is not None:
                traceback.print_exc()
        except Exception as error:
            found["CRASH"] += 1
            print(number, "CRASH", type(error).__name__, str(error)[:300])
            if given.program is not None:
                traceback.print_exc()
        if time.process_time() - began > 20:
            print(number, "took", time.process_time() - began)
        sys.stdout.flush()
    print(dict(found))
    return 1 if found["WRONG"] or found["CRASH"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
