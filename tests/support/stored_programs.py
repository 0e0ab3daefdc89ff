"""Random kernels that store through tables and computed indices, and an interpreter that knows who stores where.

In: a seed. Out: a :class:`Program`, whose source is run by diffkern and, one thread after the other, by Python. The
interpreter notes which components of which elements each thread reads and writes; gradients are central differences of
it, with the threads in order and in the opposite order.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import diffkern as dk

Numbers = Any
KINDS = ("number", "vector", "struct")
VIEWS = ("whole", "reversed", "spread", "beside x")
N_X = 8


@dk.struct
class Item:
    m: dk.float64
    r: dk.vec3d


ELEMENTS = {"number": dk.float64, "vector": dk.vec3d, "struct": Item}
STORED = {"number": np.dtype(np.float64), "vector": np.dtype((np.float64, 3)), "struct": None}


@dataclass
class Program:
    """A kernel and its arguments."""

    seed: int
    kind: str
    view: str
    dims: tuple[int, ...]
    shape: tuple[int, ...]
    text: str
    tables: dict[str, Numbers]
    x: Numbers
    y: Numbers
    weights: Numbers
    of_x: Numbers = field(default_factory=lambda: np.zeros(N_X))

    @property
    def name(self) -> str:
        return f"stored_{self.seed}"


def made(seed: int) -> Program:
    """Make the program of a seed."""
    return _Maker(seed).program()


class _Maker:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        rng = self.rng
        self.kind = str(rng.choice(KINDS, p=[0.5, 0.3, 0.2]))
        self.view = str(rng.choice(VIEWS)) if self.kind == "number" else "whole"
        self.dims = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4)))
        self.shape = tuple(int(n) for n in rng.integers(2, 5, rng.integers(1, 4)))
        self.threads = math.prod(self.dims)
        if rng.random() < 0.5:  # that there can be enough elements for all threads
            self.shape = (max(self.threads, self.shape[0]), *self.shape[1:])
        self.tables: dict[str, Numbers] = {}
        self.axes = "ijk"[: len(self.dims)]
        self.last = ""

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def table(self, values: Numbers) -> str:
        name = f"at{len(self.tables)}"
        self.tables[name] = np.asarray(values, np.int32)
        return name

    def index(self) -> str:
        """An index for each axis of what is stored to, perhaps that of the statement before."""
        if not self.last or self.rng.random() < 0.6:
            self.last = self.another_index()
        return self.last

    def another_index(self) -> str:
        size = math.prod(self.shape)
        if self.threads <= size and self.rng.random() < 0.5:  # one thread for each element
            chosen = self.rng.permutation(size)[: self.threads]
            if self.rng.random() < 0.3:
                chosen[-1] = chosen[0]
            places = np.unravel_index(chosen, self.shape)
            wrapped = [p - n if self.rng.random() < 0.2 else p for p, n in zip(places, self.shape, strict=True)]
            return ", ".join(f"{self.table(p)}[t]" for p in wrapped)
        return ", ".join(self.along(n) for n in self.shape)

    def along(self, extent: int) -> str:
        axis = self.pick(*self.axes)
        n = self.dims["ijk".index(axis)]
        choices = [f"{axis} // 2", f"{axis} % {extent}", f"t % {extent}", f"-1 - {axis} % {extent}", "0"]
        if n <= extent:
            choices += [axis] * 3 + [f"{axis} - 1", f"{n} - 1 - {axis}"]
        if self.threads <= extent:
            choices += ["t"] * 3 + [f"{self.threads} - 1 - t"]
        found = str(self.pick(*choices, "table"))
        if found == "table":
            return f"{self.table(self.rng.integers(0, extent, self.threads))}[t]"
        reach = {f"{axis} // 2": (n + 1) // 2}.get(found, 0)
        return found if reach <= extent else f"{axis} % {extent}"

    def source(self, index: str) -> str:
        """An element of x."""
        same = index.split(", ", maxsplit=1)[0]
        choices = [f"t % {N_X}", f"{self.pick(*self.axes)} % {N_X}", "0", f"abs({same}) % {N_X}"]
        found = str(self.pick(*choices, "table"))
        return f"{self.table(self.rng.integers(0, N_X, self.threads))}[t]" if found == "table" else found

    def value(self, index: str) -> str:
        x, other = (f"x[{self.source(index)}]" for _ in range(2))
        return str(self.pick(f"dk.sin({x}) * 1.5", f"{x} * {other}", x, f"{x} + 0.5 * {other}", "2.5", "total"))

    def store(self) -> list[str]:
        index, value = self.index(), self.value
        vector = f"dk.vec3d({value(index)}, {value(index)}, {value(index)})"
        if self.kind == "number":
            rest = f"y[{index}] * {value(index)}" if self.rng.random() < 0.15 else value(index)
            return [f"y[{index}] = {rest}"]
        if self.kind == "vector":
            part = self.pick("[0]", "[2]", ".y", f"[{self.axes[-1]} % 3]", "[t % 3]")
            return [str(self.pick(f"y[{index}] = {vector}", f"y[{index}]{part} = {value(index)}"))]
        part = self.pick(f".m = {value(index)}", f".r = {vector}", f".r.x = {value(index)}")
        return [f"y[{index}]{part}"]

    def statement(self) -> list[str]:
        lines = self.store()
        choice = self.rng.random()
        if choice < 0.15:
            mask = self.table(self.rng.integers(0, 2, self.threads))
            return [f"if {mask}[t] > 0:", *(f"    {line}" for line in lines)]
        if choice < 0.3:
            return [f"if {self.axes[0]} % 2 == 0:", *(f"    {line}" for line in lines)]
        return lines

    def program(self) -> Program:
        body = [f"{', '.join(self.axes)} = dk.tid()", f"t = {self.number()}", "total = 0.0"]
        body += ["for n in range(2):", f"    total += x[(t + n) % {N_X}] * x[n]"]
        for _ in range(int(self.rng.integers(1, 4))):
            body += self.statement()
        x = self.rng.uniform(0.3, 1.5, N_X)
        if self.rng.random() < 0.2:
            x = np.full(N_X, float(self.pick(0.0, 1.0)))
        inner = {"number": (), "vector": (3,), "struct": (4,)}[self.kind]
        y, weights = self.rng.uniform(0.5, 1.5, (2, *self.shape, *inner))
        ndim, element = len(self.shape), {"number": "dk.float64", "vector": "dk.vec3d", "struct": "Item"}[self.kind]
        given = [f"y: dk.array(dtype={element}, ndim={ndim})", "x: dk.array(dtype=dk.float64)"]
        given += [f"{name}: dk.array(dtype=dk.int32)" for name in self.tables]
        head = f"@dk.kernel\ndef stored_{self.seed}({', '.join(given)}):\n"
        text = head + "".join(f"    {line}\n" for line in body)
        return Program(self.seed, self.kind, self.view, self.dims, self.shape, text, self.tables, x, y, weights)

    def number(self) -> str:
        found = self.axes[0]
        for axis, n in zip(self.axes[1:], self.dims[1:], strict=True):
            found = f"({found}) * {n} + {axis}"
        return found


# -- diffkern ----------------------------------------------------------------------------------------------------------


def kernels(programs: Sequence[Program], folder: Path) -> dict[str, Any]:
    """Write the programs to a file, and return their kernels."""
    path = folder / f"stored_{programs[0].seed}.py"
    text = "import diffkern as dk\nfrom support.stored_programs import Item\n\n\n"
    path.write_text(text + "\n\n".join(p.text for p in programs))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {p.name: getattr(module, p.name) for p in programs}


def gradient(p: Program, kernel: Any) -> tuple[Numbers, Numbers]:
    """The gradients for y as it was, and for x."""
    tables = [dk.array(v) for v in p.tables.values()]
    if p.kind == "struct":
        return _of_structs(p, kernel, tables)
    whole, before, seed, y_of, x_of = _arrays(p)
    own = dk.array(p.x, requires_grad=True)
    y, x = y_of(whole), own if x_of is None else x_of(whole)
    with dk.Tape() as tape:
        dk.copy(whole, before)
        dk.launch(kernel, p.dims, [y, x, *tables])
    tape.backward(grads={whole: seed})
    found = before.grad
    return y_of(found).numpy(), (own.grad if x_of is None else x_of(found)).numpy()


def _arrays(p: Program) -> tuple[Any, Any, Any, Any, Any]:
    """An array, the one it is copied from, its cotangent, and where y and x are in it."""
    element = ELEMENTS[p.kind]
    n, *rest = p.shape
    if p.view == "beside x":
        size = math.prod(p.shape)
        flat = [np.concatenate([p.x, v.ravel()]) for v in (p.y, p.weights)]
        flat[1][:N_X] = 0.0
        made = (dk.array(flat[0], requires_grad=True) for _ in range(2))
        return *made, dk.array(flat[1]), lambda a: a[N_X : N_X + size].reshape(p.shape), lambda a: a[:N_X]
    gap = 2 if p.view == "spread" else 1
    cut = slice(None, None, -1) if p.view == "reversed" else slice(None, None, gap)
    shape = (n * gap, *rest, *p.y.shape[len(p.shape) :])
    y, seed = np.zeros(shape), np.zeros(shape)
    y[cut], seed[cut] = p.y, p.weights
    made = (dk.array(y, dtype=element, requires_grad=True) for _ in range(2))
    return *made, dk.array(seed, dtype=element), lambda a: a[cut], None


def _of_structs(p: Program, kernel: Any, tables: list[Any]) -> tuple[Numbers, Numbers]:
    y, seed = (dk.zeros(p.shape, dtype=Item, requires_grad=True) for _ in range(2))
    for held, values in ((y, p.y), (seed, p.weights)):
        content = held.numpy()
        content["m"], content["r"] = values[..., 0], values[..., 1:]
        held.assign(content)
    x = dk.array(p.x, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, p.dims, [y, x, *tables])
    tape.backward(grads={y: seed})
    found = y.grad.numpy()
    return np.concatenate([found["m"][..., None], found["r"]], axis=-1), x.grad.numpy()


# -- the interpreter ---------------------------------------------------------------------------------------------------


class _Memory:
    """An array whose components are noted when they are read and written."""

    def __init__(self, values: Numbers, inner: int, notes: Any) -> None:
        self.values, self.inner, self.notes = values, inner, notes

    def place(self, index: Any) -> tuple[int, ...]:
        index = index if isinstance(index, tuple) else (index,)
        shape = self.values.shape[: len(index)]
        assert all(-n <= k < n for k, n in zip(index, shape, strict=True)), index
        return tuple(k % n for k, n in zip(index, shape, strict=True))

    def __getitem__(self, index: Any) -> Any:
        place = self.place(index)
        return self.read(place) if not self.inner else _Element(self, place, 1 if self.inner == 4 else 0)

    def __setitem__(self, index: Any, value: Any) -> None:
        place = self.place(index)
        if not self.inner:
            self.write(place, value)
        for k in range(self.inner):
            self.write((*place, k), value[k])

    def read(self, place: tuple[int, ...]) -> float:
        self.notes.reads.add((place, self.notes.thread))
        return float(self.values[place])

    def write(self, place: tuple[int, ...], value: float) -> None:
        self.notes.writes.add((place, self.notes.thread))
        self.values[place] = value


class _Element:
    """A vector or struct in an array."""

    def __init__(self, memory: _Memory, place: tuple[int, ...], first: int) -> None:
        self.__dict__.update(memory=memory, place=place, first=first)

    def __setitem__(self, k: int, value: float) -> None:
        self.memory.write((*self.place, self.first + k), value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "m":
            self.memory.write((*self.place, 0), value)
        elif name == "r":
            for k in range(3):
                self[k] = value[k]
        else:
            self["xyz".index(name)] = value

    @property
    def r(self) -> _Element:
        return self


def run(p: Program, x: Numbers, y: Numbers, order: int = 1) -> tuple[Numbers, Any]:
    """Run the threads in Python, in their order or backwards; return y and who reads and writes what."""
    notes = SimpleNamespace(reads=set(), writes=set(), thread=0)
    index: list[tuple[int, ...]] = [()]
    stub = SimpleNamespace(
        tid=lambda: index[0] if len(p.dims) > 1 else index[0][0],
        sin=math.sin,
        vec3d=lambda *v: v,
        array=lambda **_: None,
        kernel=lambda f: f,
        float64=None,
        int32=None,
    )
    space: dict[str, Any] = {"dk": stub, "Item": None}
    exec(compile(p.text, p.name, "exec"), space)  # the text is made above
    memory = _Memory(y.copy(), {"number": 0, "vector": 3, "struct": 4}[p.kind], notes)
    tables = [[int(k) for k in v] for v in p.tables.values()]
    for number, index[0] in list(enumerate(itertools.product(*map(range, p.dims))))[::order]:
        notes.thread = number
        space[p.name](memory, [float(v) for v in x], *tables)
    return memory.values, notes


def is_shared(p: Program) -> bool:
    """Whether two threads write to one component, or one reads what another one writes."""
    _, notes = run(p, p.x, p.y)
    writers: dict[Any, set[int]] = {}
    for place, thread in notes.writes:
        writers.setdefault(place, set()).add(thread)
    return any(len(found) > 1 for found in writers.values()) or any(
        writers.get(place, {thread}) != {thread} for place, thread in notes.reads
    )


def differences(p: Program, order: int) -> tuple[Numbers, Numbers]:
    """Central differences of the weighed y, for y as it was and for x."""

    def loss(x: Numbers, y: Numbers) -> float:
        return float((run(p, x, y, order)[0] * p.weights).sum())

    return _along(p.y, lambda y: loss(p.x, y)), _along(p.x, lambda x: loss(x, p.y))


def _along(values: Numbers, of: Any, h: float = 1e-6) -> Numbers:
    found = np.zeros_like(values)
    for k in np.ndindex(values.shape):
        step = np.zeros_like(values)
        step[k] = h
        found[k] = (of(values + step) - of(values - step)) / (2 * h)
    return found


def checked(programs: Sequence[Program], folder: Path) -> Iterator[tuple[Program, str]]:
    """Compare each gradient with the differences; say of each program if it was right, refused or wrong."""
    found = kernels(programs, folder)
    for p in programs:
        try:
            of_y, of_x = gradient(p, found[p.name])
        except dk.LaunchError:  # the launch itself: all threads change one element, or one vector
            yield p, "refused"
            continue
        except dk.AutodiffError:
            yield p, "refused" if is_shared(p) else "refused without a reason"
            continue
        expected = [differences(p, order) for order in (1, -1)]
        pairs = [(a, b) for e in expected for a, b in zip((of_y, of_x), e, strict=True)]
        yield p, "right" if all(np.allclose(a, b, rtol=1e-6, atol=1e-8) for a, b in pairs) else "wrong"
