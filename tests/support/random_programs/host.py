"""What a random program does on the host: launches with arrays and views of them, copies, overwritten rows.

Steps are values: they run on diffkern's arrays and have a meaning in NumPy, where a copy is as if its source had been
copied first, also where the two overlap (:mod:`.reference`). Their text is what a person would write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import diffkern as dk

from .choices import Choices
from .kernels import RandomKernel
from .memory import KINDS, Parameter
from .writer import Extents

__all__ = ["Array", "Copy", "Fill", "Launch", "Step", "View", "random_arrays", "random_steps"]

_INTEGERS = ("int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "perm")
_VIEWED = ("line", "grid", "vec3", "vec2", "vec4", "mat33", "mat22", "mat44", "body", "int32")


@dataclass(frozen=True)
class Array:
    """An array of the program: its kind and its extent along the first axis."""

    name: str
    kind: str
    length: int
    gradient: bool = True


@dataclass(frozen=True)
class View:
    """A part of an array, or all of it: begin, end and step along the first axis."""

    array: str
    part: tuple[int | None, int | None, int | None] | None = None

    def of(self, arrays: Mapping[str, Any]) -> Any:
        """The part of the array."""
        whole = arrays[self.array]
        return whole if self.part is None else whole[slice(*self.part)]

    def __str__(self) -> str:
        if self.part is None:
            return f"A[{self.array!r}]"
        begin, end, step = ("" if k is None else str(k) for k in self.part)
        return f"A[{self.array!r}][{begin}:{end}{':' + step if step else ''}]"


@dataclass(frozen=True)
class Launch:
    """A launch."""

    kernel: str
    dim: tuple[int, ...]
    arrays: tuple[View, ...]
    values: tuple[Any, ...]
    written: tuple[str, ...]

    def run(self, kernels: Any, arrays: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Do it."""
        given = [view.of(arrays) for view in self.arrays]
        dk.launch(getattr(kernels, self.kernel), self.dim, [*given, *(values[v] for v in self.values)])

    def __str__(self) -> str:
        return f"dk.launch({self.kernel}, {self.dim}, [{', '.join(map(str, [*self.arrays, *self.values]))}])"


@dataclass(frozen=True)
class Copy:
    """A copy, perhaps within one array, spelled in one of three ways."""

    goal: View
    source: View
    way: str

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the arrays that are changed."""
        return (self.goal.array,)

    def run(self, kernels: Any, arrays: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Do it."""
        source = self.source.of(arrays)
        if self.way == "copy":
            dk.copy(self.goal.of(arrays), source)
        elif self.way == "assign":
            self.goal.of(arrays).assign(source)
        else:
            arrays[self.goal.array][slice(*(self.goal.part or (None, None, None)))] = source

    def __str__(self) -> str:
        if self.way == "item":
            return f"{self.goal if self.goal.part else f'{self.goal}[:]'} = {self.source}"
        return f"dk.copy({self.goal}, {self.source})" if self.way == "copy" else f"{self.goal}.assign({self.source})"


@dataclass(frozen=True)
class Fill:
    """A row, or a part, that is overwritten with a constant."""

    goal: View
    value: float

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the arrays that are changed."""
        return (self.goal.array,)

    def run(self, kernels: Any, arrays: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Do it."""
        self.goal.of(arrays).fill_(self.value)

    def __str__(self) -> str:
        return f"{self.goal}.fill_({self.value})"


Step = Launch | Copy | Fill


def random_arrays(choices: Choices, kernels: list[RandomKernel], extents: Extents) -> dict[str, Array]:
    """The arrays that some kernels may be launched with: of each kind as many as one launch needs, or one more."""
    arrays: dict[str, Array] = {}
    for kind in sorted({p.kind for k in kernels for p in k.parameters}):
        uses = [[p for p in k.parameters if p.kind == kind] for k in kernels]
        most = max(sum(p.written for p in found) + any(not p.written for p in found) for found in uses)
        for k in range(most + choices.below(2)):
            name = f"{kind}_{k}"
            few = {"few": 2, "one": 1}.get(kind)
            long = few is None and kind in _VIEWED and choices.chance(35)
            length = few or (2 * extents.length + 1 if long else extents.length)
            arrays[name] = Array(name, kind, length, kind not in _INTEGERS and choices.chance(90))
    return arrays


def _view(choices: Choices, array: Array, length: int) -> View:
    if array.length in (1, 2) or (array.length == length and choices.chance(85)):
        return View(array.name)
    if array.length == length:
        return View(array.name, (None, None, -1))
    begin = choices.below(2)
    return View(
        array.name,
        choices.pick(
            (
                (begin, begin + length, None),
                (-length, None, None),
                (begin, begin + 2 * length, 2),
                (length - 1, None, -1),
            )
        ),
    )


def _launch(choices: Choices, kernel: RandomKernel, arrays: Mapping[str, Array], extents: Extents) -> Launch:
    free = {kind: [a for a in arrays.values() if a.kind == kind] for kind in KINDS}

    def bind(p: Parameter) -> View:
        of_kind = free[p.kind]
        array = choices.pick(of_kind)
        if p.written:
            of_kind.remove(array)
        return _view(choices, array, extents.length)

    written = {p.name: bind(p) for p in kernel.parameters if p.written}
    views = tuple(written[p.name] if p.written else bind(p) for p in kernel.parameters)
    values = ("a", "b", "u", "h", "n", "m")
    dim = (extents.threads,) if kernel.axes == 1 else (extents.rows, extents.columns)
    return Launch(kernel.name, dim, views, values, tuple(view.array for view in written.values()))


def _copy(choices: Choices, arrays: list[Array]) -> Copy:
    goal = choices.pick(arrays)
    source = goal if choices.chance(60) else choices.pick([a for a in arrays if a.kind == goal.kind])
    most = min(goal.length, source.length)
    count = 1 + choices.below(most)

    def part(array: Array) -> View:
        begin = choices.below(array.length - count + 1)
        options: list[tuple[int | None, int | None, int | None]] = [(begin, begin + count, None)]
        if 2 * count <= array.length:
            options.append((0, 2 * count, 2))
        options.append((begin + count - 1, begin - 1 if begin else None, -1))
        return View(array.name, choices.pick(options))

    return Copy(part(goal), part(source), choices.pick(("copy", "assign", "item")))


def random_steps(
    choices: Choices, kernels: list[RandomKernel], arrays: Mapping[str, Array], extents: Extents
) -> tuple[Step, ...]:
    """Launches, with copies and overwritten rows between them."""
    steps: list[Step] = [_launch(choices, k, arrays, extents) for k in kernels]
    if choices.chance(40):
        steps.append(_launch(choices, choices.pick(kernels), arrays, extents))
    plain = [a for a in arrays.values() if a.kind in ("line", "grid", "vec3", "mat33") and a.length > 2]
    for _ in range(choices.below(3) if choices.chance(55) else 0):
        step: Step
        if choices.chance(70):
            step = _copy(choices, plain)
        else:
            array = choices.pick(plain)
            row = choices.below(array.length)
            step = Fill(View(array.name, (row, row + 1 + choices.below(2), None)), 0.25)
        steps.insert(choices.below(len(steps) + 1), step)
    return tuple(steps)
