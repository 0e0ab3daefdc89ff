"""Launches that pass one array, or parts of one, by two names: each thread's reads, sums and stores in their order.

What a launch computes is compared with a loop in Python over its threads, wherever these do not race. The names are
those of one array, of one view, of fields of one array of structs, of parts that are apart, and of parts that are not.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.errors import LaunchError

D = dk.array(dtype=dk.float64)
SIZE = 44
THREADS = (1, 40)

SUMS = (
    "S[2] += x[i]",
    "dk.atomic_add(S, 2, 1.5 * x[i])",
    "S[i] += x[i]",
    "S[n - 1 - i] -= x[i]",
    "S[0] += x[i]; S[1] += 2.0 * x[i]",
)
OTHERS = (
    "y[i] = T[2]",
    "y[i] = T[i] + 1.0",
    "T[2] = 5.0",
    "T[i] = 2.0 * x[i]",
    "T[i] += 0.5 * x[i]",
    "T[i + 1] += 0.5 * x[i]",
    "T[i + 1] *= 2.0",
    "dk.atomic_add(T, 2, 0.25 * x[i])",
    "y[i] = dk.atomic_add(T, 2, 0.25)",
    "dk.atomic_max(T, 2, x[i])",
)
GUARDS = (("", ""), ("if i == 0: ", ""), ("if i == 0: ", "if i == 0: "))
"""In front of the sum, and in front of the other statement."""


def bodies() -> Iterator[tuple[str, str]]:
    """All pairs of statements, in both orders."""
    for first, second, (guard, other_guard) in product(SUMS, OTHERS, GUARDS):
        pair = guard + first, other_guard + second
        yield pair
        yield pair[::-1]


CHOSEN = (
    ("if i == 0: S[2] += x[i]", "if i == 0: y[i] = T[2]"),
    ("if i == 0: T[2] = 5.0", "if i == 0: dk.atomic_add(S, 2, 1.5 * x[i])"),
    ("S[i] += x[i]", "T[i + 1] += 0.5 * x[i]"),
    ("S[n - 1 - i] -= x[i]", "dk.atomic_add(T, 2, 0.25 * x[i])"),
)
"""What a run without ``--full`` has: a sum that ends late, one before a store, and plain updates that would race."""


def kernel_of(body: tuple[str, str], number: int, **options: Any) -> Any:
    """A kernel of two statements."""
    source = "def k(S: D, T: D, x: D, y: D, n: dk.int32):\n    i = dk.tid()\n" + "".join(f"    {s}\n" for s in body)
    name = f"<names of one array {number} {options}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    space: dict[str, Any] = {"dk": dk, "D": D}
    exec(compile(source, name, "exec"), space)
    return dk.kernel(**options)(space["k"])


# -- threads in Python -------------------------------------------------------------------------------------------------


class Element:
    """An element of an array, or what an atomic update returned, which is read when it is used."""

    def __init__(self, log: list[tuple[int, str]], held: np.ndarray, index: int, old: float | None = None) -> None:
        self.log, self.held, self.index, self.old = log, held, index, old

    def note(self, what: str) -> None:
        self.log.append((self.held[self.index :][:1].ctypes.data, what))

    def changed(self, what: str, value: float) -> Element:
        self.note(what)
        old, self.held[self.index] = float(self.held[self.index]), value
        return Element(self.log, self.held, self.index, old)

    def __float__(self) -> float:
        self.note("read")
        return float(self.held[self.index]) if self.old is None else self.old

    def __iadd__(self, value: Any) -> Any:
        return self.changed("sum", self.held[self.index] + float(value))

    def __isub__(self, value: Any) -> Any:
        return self.changed("sum", self.held[self.index] - float(value))

    def __imul__(self, value: Any) -> Any:
        return self.changed("scaled", self.held[self.index] * float(value))

    def __rmul__(self, value: float) -> float:
        return value * float(self)

    def __add__(self, value: float) -> float:
        return float(self) + value


class Names:
    """An array as a thread sees it."""

    def __init__(self, log: list[tuple[int, str]], held: np.ndarray) -> None:
        self.log, self.held = log, held

    def __getitem__(self, index: int) -> Element:
        return Element(self.log, self.held, index)

    def __setitem__(self, index: int, value: Any) -> None:
        # An augmented assignment has changed the element itself.
        if not (isinstance(value, Element) and value.held is self.held and value.index == index):
            self[index].changed("stored", float(value))


class Atomics:
    """The functions that the statements call."""

    @staticmethod
    def atomic_add(a: Names, index: int, value: Any) -> Element:
        return a[index].changed("sum", a.held[index] + float(value))

    @staticmethod
    def atomic_max(a: Names, index: int, value: Any) -> Element:
        return a[index].changed("greatest", max(a.held[index], float(value)))


def in_turn(body: tuple[str, str], arrays: list[np.ndarray], threads: int) -> bool:
    """Run threads one after the other; return whether two of them race."""
    code, found = compile("\n".join(body), "<threads>", "exec"), dict[int, set[tuple[int, str]]]()
    for i in range(threads):
        log: list[tuple[int, str]] = []
        named = {name: Names(log, held) for name, held in zip("STxy", arrays, strict=True)}
        exec(code, {"dk": Atomics, "i": i, "n": threads, **named})
        for address, what in log:
            found.setdefault(address, set()).add((i, what))
    return any(
        len({i for i, _ in seen}) > 1 and {what for _, what in seen} not in ({"read"}, {"sum"}, {"greatest"})
        for seen in found.values()
    )


# -- the two names -----------------------------------------------------------------------------------------------------


@dk.struct
class Both:
    u: dk.float64
    v: dk.float64


LINE = np.linspace(1.0, 3.0, 2 * SIZE)
Base = Callable[[], tuple[Any, Any]]


def line() -> tuple[Any, Any]:
    """An array, and the same for Python."""
    values = LINE.copy()
    return dk.array(values), values


def table() -> tuple[Any, Any]:
    values = LINE.reshape(SIZE, 2).copy()
    return dk.array(values), values


def structs() -> tuple[Any, Any]:
    values = np.zeros(SIZE, dtype=[("u", np.float64), ("v", np.float64)])
    values["u"], values["v"] = LINE[:SIZE], LINE[SIZE:]
    return dk.array(values, dtype=Both), values


def field(a: Any, name: str) -> Any:
    return a[name] if isinstance(a, np.ndarray) else a.field(name)


RELATIONS: dict[str, tuple[Base, Callable[[Any], tuple[Any, Any]]]] = {
    "two halves": (line, lambda a: (a[:SIZE], a[SIZE:])),
    "one array": (line, lambda a: (a, a)),
    "one part": (line, lambda a: (a[:SIZE], a[:SIZE])),
    "parts that overlap": (line, lambda a: (a[:-2], a[2:])),
    "every other": (line, lambda a: (a[::2], a[1::2])),
    "one of every other": (line, lambda a: (a[::2], a[::2])),
    "backwards": (line, lambda a: (a, a[::-1])),
    "both backwards": (line, lambda a: (a[::-1], a[::-1])),
    "columns": (table, lambda a: (a[:, 0], a[:, 1])),
    "one column": (table, lambda a: (a[:, 1], a[:, 1])),
    "fields": (structs, lambda a: (field(a, "u"), field(a, "v"))),
    "one field": (structs, lambda a: (field(a, "v"), field(a, "v"))),
}
USUAL = ("two halves", "one array", "one part", "parts that overlap")
REFUSED = {"parts that overlap", "backwards"}
X = np.linspace(0.5, 1.5, SIZE)


def compare(kernel: Any, body: tuple[str, str], relation: str, threads: int, launch: Any = dk.launch) -> bool:
    """Compare a launch with its threads in turn; return whether there was something to compare."""
    base, parts = RELATIONS[relation]
    held, values = base()
    s, t = parts(held)
    x, y = dk.array(X), dk.zeros(SIZE, dtype=dk.float64)
    if relation in REFUSED:
        with pytest.raises(LaunchError, match="'S' and 'T' share memory"):
            launch(kernel, threads, [s, t, x, y, threads])
        return True
    own, out = [*parts(values), X.copy()], np.zeros(SIZE)
    if in_turn(body, [*own, out], threads):
        return False
    launch(kernel, threads, [s, t, x, y, threads])
    for found, wanted in zip((*parts(held), y), (*own[:2], out), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-13, err_msg=f"{body}, {relation}, {threads} threads")
    return True


def replayed(kernel: Any, threads: int, inputs: list[Any]) -> None:
    """Launch by a record that was made for arrays that are apart: each parameter is set afterwards."""
    others = [dk.zeros_like(a) if isinstance(a, dk.array) else a for a in inputs]
    record = dk.launch(kernel, threads, others, record_cmd=True)
    for k in (0, 1, 3, 2):
        record.set_param_at_index(k, inputs[k])
    record.launch()


@pytest.mark.parametrize("number", range(len(CHOSEN)))
def test_values(number: int):
    kernel = kernel_of(CHOSEN[number], number)
    compared = [compare(kernel, CHOSEN[number], r, n) for r, n in product(USUAL, THREADS)]
    assert sum(compared) >= 4
    for relation, n in product(("one array", "two halves", "parts that overlap"), THREADS):
        compare(kernel, CHOSEN[number], relation, n, replayed)


@pytest.mark.full
@pytest.mark.parametrize("lanes", [None, True, False])
def test_all_values(lanes: bool | None):
    compared = 0
    for number, body in enumerate(bodies()):
        kernel = kernel_of(body, number, lanes=lanes)
        for relation, n, launch in product(RELATIONS, THREADS, (dk.launch, replayed)):
            compared += compare(kernel, body, relation, n, launch)
    assert compared > 5000


def test_another_array_of_a_record_and_back():
    """Each change takes the program that is right, also where no Python runs that compares the arrays."""
    kernel = kernel_of(CHOSEN[0], 0)
    s, t, x, y = (dk.array(np.full(SIZE, v)) for v in (1.0, 10.0, 2.0, 0.0))
    record = dk.launch(kernel, 1, [s, t, x, y, 1], record_cmd=True)
    for first, second in ((s, t), (s, s), (s, t), (t, t), (t, s), (s, s), (t, s)):
        before = first.numpy()[2], second.numpy()[2]
        record.set_param_at_index(0, first)
        record.set_param_at_index(1, second)
        record.launch()
        assert first.numpy()[2] == before[0] + 2.0
        assert y.numpy()[0] == (before[0] + 2.0 if first is second else before[1])


def test_a_sequence():
    kernel = kernel_of(CHOSEN[2], 2)
    a, b, x, y = (dk.zeros(SIZE, dtype=dk.float64) for _ in range(4))
    x.fill_(1.0)
    with dk.record() as sequence:
        dk.launch(kernel, 40, [a, a, x, y, 40])
        dk.launch(kernel, 40, [a, b, x, y, 40])
    sequence.replay()
    np.testing.assert_array_equal(a.numpy()[:42], 2 * np.r_[2.0, np.full(39, 2.5), 0.5, 0.0])
    np.testing.assert_array_equal(b.numpy()[:42], 2 * np.r_[0.0, np.full(40, 0.5), 0.0])


def test_on_a_gpu():
    with fake_cuda(run="ptx"):
        a, x, y = (dk.zeros(SIZE, dtype=dk.float64, device="cuda:0") for _ in range(3))
        x.fill_(1.0)
        dk.launch(kernel_of(CHOSEN[0], 0), 40, [a, a, x, y, 40])
        assert (a.numpy()[2], y.numpy()[0]) == (1.0, 1.0)


# -- derivatives -------------------------------------------------------------------------------------------------------


@dk.kernel
def squares(S: D, T: D, x: D, y: D):
    """A sum that is read by another name, of which the derivative depends on it."""
    i = dk.tid()
    if i == 0:
        S[2] += x[i] * x[i]
        y[0] = T[2] * x[1]


def result(x: Any, launch: Any = dk.launch) -> Any:
    s, y = dk.zeros(3, dtype=dk.float64), dk.zeros(1, dtype=dk.float64)
    launch(squares, 40, [s, s, x, y])
    return y


def test_derivatives():
    at, way = np.array([0.7, -1.3, 0.2]), np.array([0.3, 0.5, -0.1])
    slope = [2 * at[0] * at[1], at[0] ** 2, 0.0]
    x = dk.array(at, requires_grad=True)
    with dk.Tape() as tape:
        y = result(x)
    tape.backward(grads={y: dk.array([1.0], dtype=dk.float64)})
    np.testing.assert_allclose(x.grad.numpy(), slope, rtol=1e-13)
    assert y.numpy()[0] == pytest.approx(at[0] ** 2 * at[1])
    np.testing.assert_allclose(dk.grad(result)(dk.array(at)).numpy(), slope, rtol=1e-13)
    _, change = dk.jvp(result, (dk.array(at),), (dk.array(way),))
    assert change.numpy()[0] == pytest.approx(way @ slope)
    (product_,) = dk.hvp(result, (dk.array(at),), (dk.array(way),))
    second = np.array([[2 * at[1], 2 * at[0], 0], [2 * at[0], 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(product_.numpy(), second @ way, rtol=1e-13)


def test_one_array_has_one_tangent():
    s, t, u = (dk.zeros(3, dtype=dk.float64) for _ in range(3))
    y, t_y = dk.zeros(1, dtype=dk.float64), dk.zeros(1, dtype=dk.float64)
    x, t_x = dk.array([0.7, -1.3, 0.2]), dk.array([1.0, 0.0, 0.0])
    with pytest.raises(LaunchError, match="'S' and 'T' are one array, which the kernel writes, and have different tan"):
        squares.jvp[4](s, s, x, y, t, u, t_x, t_y)
    squares.jvp[4](s, s, x, y, t, t, t_x, t_y)
    assert t_y.numpy()[0] == pytest.approx(2 * 0.7 * -1.3)


def test_a_gradient_by_two_names():
    """Where arrays are only read, what is added by both names adds up, and no update of one gets lost."""

    @dk.kernel
    def products(a: D, b: D, y: D):
        i = dk.tid()
        y[i] = a[i] * b[i + 1]

    n = 50_000
    values, other, y = np.linspace(0.0, 1.0, n + 1), np.linspace(1.0, 2.0, n + 1), dk.zeros(n, dtype=dk.float64)
    a, b, of_b = dk.array(values), dk.array(other), dk.zeros(n + 1, dtype=dk.float64)
    of_a, ones = dk.zeros(n + 1, dtype=dk.float64), dk.ones(n, dtype=dk.float64)
    record = dk.launch(products, n, [a, b, y], adjoint=True, adj_inputs=[of_a, of_b, ones], record_cmd=True)
    record.set_param_at_index(1, of_a, adjoint=True)
    wanted = np.zeros(n + 1)
    wanted[:-1] += other[1:]
    wanted[1:] += values[:-1]
    for _ in range(5):
        of_a.zero_()
        ones.fill_(1.0)
        record.launch()
        np.testing.assert_allclose(of_a.numpy(), wanted, rtol=1e-13)
