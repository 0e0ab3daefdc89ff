"""Random kernels whose threads work together: barriers in nested loops and branches, values kept across them.

In: a seed. Out: the text of a kernel ``fuzz(x, y, q, p)`` without races: shared memory is written at a thread's own
index, or updated atomically, and read elsewhere only between two barriers. One shared array is filled before it is
read, others keep their contents from one exchange to the next.
"""

from __future__ import annotations

import random

THREADS = 4
FUZZ = [f"fuzz.{seed}" for seed in range(24)]
"""Names of the kernels that are tried."""


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * (depth + 1) + text)

    def number(self) -> str:
        """A float that differs between threads."""
        return self.random.choice(["a", "b", "c", "x[i]", "float(m)", "a * 0.5 + b", "c - b", "dk.sin(a)"])

    def same(self) -> str:
        """A condition on what is the same for all threads of a block."""
        return self.random.choice(["u % 2 == 0", "p > 1", "u > p", "dk.block_index() == 0", "f"])

    def own(self) -> str:
        """A condition that threads decide for themselves."""
        return self.random.choice(["t > 1", "a > b", "m % 2 == 0", "t % 2 == 0 and u > 0", "x[i] < 0.0"])

    def plain(self, depth: int) -> None:
        """A statement of one thread."""
        kind = self.random.randrange(7)
        if kind <= 1:
            self.emit(depth, f"{self.random.choice('abc')} = {self.number()} + 0.25 * {self.number()}")
        elif kind == 2:
            self.emit(depth, f"m = m + t * {self.random.randrange(3)} + u")
        elif kind == 3:
            self.emit(depth, self.random.choice(["u = u + 1", "f = u > 2", "u = u * 2 - p"]))
        elif kind == 4:
            self.emit(depth, f"if {self.own()}:")
            self.emit(depth + 1, f"{self.random.choice('abc')} = {self.number()}")
            self.emit(depth, "else:")
            self.emit(depth + 1, f"m = m + {self.random.randrange(1, 4)}")
        elif kind == 5:
            self.loops += 1
            self.emit(depth, f"for k{self.loops} in range(t + 1):")
            self.emit(depth + 1, f"c = c * 0.5 + float(k{self.loops}) + {self.number()}")
        else:
            self.emit(depth, "a, b = b, a")

    def exchange(self, depth: int) -> None:
        kind = self.random.randrange(8)
        to, other = self.random.choice("abc"), self.random.randrange(1, THREADS)
        if kind <= 2:
            self.emit(depth, f"s[t] = {self.number()}")
            self.emit(depth, "dk.syncthreads()")
            self.emit(depth, f"{to} = s[(t + {other}) % n] + a * 0.125")
        elif kind == 3:
            self.emit(depth, f"r[t] = dk.sin(r[t] * {self.number()}) + 0.25 * {self.number()}")
            self.emit(depth, "dk.syncthreads()")
            self.emit(depth, f"{to} = r[(t + {other}) % n] * dk.cos(r[t])")
        elif kind == 4:
            self.emit(depth, f"if {self.own()}:")
            self.emit(depth + 1, f"r[t] = dk.cos({self.number()} + r[t])")
            self.emit(depth, "dk.syncthreads()")
            self.loops += 1
            self.emit(depth, f"for k{self.loops} in range(t + 1):")
            self.emit(depth + 1, f"c = dk.sin(c * r[k{self.loops}])")
        elif kind == 5:
            self.emit(depth, f"if {self.own()}:")
            self.emit(depth + 1, f"dk.atomic_add(w, (t * {other}) % n, dk.sin({self.number()}))")
            self.emit(depth, "dk.syncthreads()")
            self.emit(depth, f"{to} = {to} + w[n - 1 - t] * dk.cos(w[t])")
        elif kind == 6:
            self.emit(depth, f"v[t // 2, t % 2] = dk.vec2({self.number()}, {self.number()})")
            self.emit(depth, "dk.syncthreads()")
            self.emit(depth, f"if {self.own()}:")
            self.emit(depth + 1, f"{to} = dk.sin(dk.dot(v[t // 2, t % 2], v[(n - 1 - t) // 2, {other} % 2]))")
        else:
            self.emit(depth, f"if {self.same()}:")
            self.emit(depth + 1, f"r[n - 1 - t] = dk.sin({self.number()})")
            self.emit(depth + 1, "dk.syncthreads()")
            self.emit(depth, f"{to} = r[(t + {other}) % n] * dk.sin(r[t])")
        self.emit(depth, "dk.syncthreads()")

    def block(self, depth: int, length: int) -> None:
        for _ in range(length):
            kind = self.random.randrange(8) if depth < 3 else self.random.randrange(5)
            if kind <= 2:
                self.plain(depth)
            elif kind <= 4:
                self.exchange(depth)
            elif kind == 5:
                self.emit(depth, f"if {self.same()}:")
                self.block(depth + 1, self.random.randrange(1, 4))
                if self.random.random() < 0.5:
                    self.emit(depth, "else:")
                    self.block(depth + 1, self.random.randrange(1, 3))
            elif kind == 6:
                self.for_loop(depth)
            else:
                self.while_loop(depth)

    def for_loop(self, depth: int) -> None:
        self.loops += 1
        k = f"k{self.loops}"
        self.emit(depth, f"for {k} in range({self.random.choice(['2', 'p', '3', 'n - 2', 'p - 2'])}):")
        self.block(depth + 1, self.random.randrange(1, 4))
        if self.random.random() < 0.5:
            self.emit(depth + 1, f"u = u + {k}")
        if self.random.random() < 0.3:
            self.emit(depth + 1, f"if {self.same()}:")
            self.emit(depth + 2, "break")

    def while_loop(self, depth: int) -> None:
        self.loops += 1
        w = f"w{self.loops}"
        self.emit(depth, f"{w} = p")
        self.emit(depth, f"while {w} > 0:")
        self.block(depth + 1, self.random.randrange(1, 3))
        self.emit(depth + 1, f"{w} = {w} - 1")


HEAD = """import diffkern as dk


@dk.kernel
def fuzz(x: dk.array(dtype=float), y: dk.array(dtype=float), q: dk.array(dtype=int), p: int):
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(8, float)
    r = dk.shared_array(4, float)
    w = dk.shared_array(5, float)
    v = dk.shared_array((2, 2), dk.vec2)
    a = x[i]
    r[t] = a * 0.5
    w[t] = 0.25 * a
    v[t // 2, t % 2] = dk.vec2(a, 1.0)
    dk.syncthreads()
    b = float(t) * 0.5
    c = x[i] * x[i]
    m = t + 1
    u = int(0)
    f = p > 0
"""
TAIL = """    y[i] = a + 2.0 * b - c
    q[i] = m * 100 + u * 10 + int(f)
"""


def kernel_text(seed: int) -> str:
    """A module with the kernel."""
    writer = _Writer(seed)
    writer.block(0, 4 + seed % 4)
    return HEAD + "\n".join(writer.lines) + "\n" + TAIL
