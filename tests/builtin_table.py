"""The table of built-in functions, and the kernels in which all of them are called, for one scalar type.

A kernel calls the functions of some rows one after the other, each with numbers of its own from a row of the array
``x``, and writes what comes back to a row of ``y``; what is no number of the scalar type goes to ``q`` and ``w``.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import builtin_library as library
import numpy as np
from builtin_numbers import BOOLS, NUMERIC
from builtin_rows import SIZES, Row, shape
from builtin_vectors import LARGER, NORMS, OF_MATRICES, OF_VECTORS, RIGID

GROUPS = {
    "decompositions": library.DECOMPOSITIONS,
    "numbers": library.NUMBERS,
    "quaternions": library.QUATERNIONS,
    "spatial": library.SPATIAL,
    "transforms": library.TRANSFORMS,
    "vectors": (*library.VECTORS, *NORMS),
    "edges": library.EDGES,
    "bools": BOOLS,
    "numeric": NUMERIC,
    "rigid": RIGID,
    "of vectors": OF_VECTORS,
    "of matrices": OF_MATRICES,
    "of larger matrices": LARGER,
}
"""Rows by what they are of; those of the library by its modules."""

RESULTS = {"int": "q", "real": "w"}
"""Where results go that are no numbers of the scalar type."""


_TOGETHER = 24
"""How many rows a kernel has at most: the time of adjoints grows faster than that."""


def of_type(group: str, dtype: str) -> list[list[Row]]:
    """The rows of a group over a scalar type, those of one kernel together."""
    rows = [entry for entry in GROUPS[group] if dtype in entry.of]
    return [rows[k : k + _TOGETHER] for k in range(0, len(rows), _TOGETHER)]


def source(rows: Sequence[Row], dtype: str, module: str = "diffkern", prefix: str = "dk") -> str:
    """A module with the kernel ``calls`` of some rows."""
    types = {t for entry in rows for t in (*entry.takes, *entry.gives) if t not in ("number", "bool", *RESULTS)}
    lines = [
        f"import {module} as {prefix}", "", f"number = dk.{dtype}", *(type_of(t) for t in sorted(types)), "", "",
        "@dk.kernel",
        "def calls(",
        "    x: dk.array(dtype=number, ndim=2), y: dk.array(dtype=number, ndim=2),",
        "    q: dk.array(dtype=dk.int32, ndim=2), w: dk.array(dtype=dk.float64, ndim=2),",
        "):",
        "    i = dk.tid()",
    ]  # fmt: skip
    for k, (entry, places) in enumerate(zip(rows, parts(rows), strict=True)):
        lines += [f"    {line}" for line in _of_row(entry, k, places)]
    return "\n".join(lines).replace("dk.", f"{prefix}.") + "\n"


def type_of(name: str) -> str:
    if name.startswith(("mat", "spatial_matrix")):
        return f"{name} = dk.types.matrix({shape(name)}, number)"
    if name == "quat":
        return "quat = dk.types.quaternion(number)"
    if name == "transform":
        return "transform = dk.types.transformation(number)"
    return f"{name} = dk.types.vector({SIZES[name]}, number)"


class Places(NamedTuple):
    """Where a row's numbers stand: columns of ``x``, and for each result the array and its columns."""

    taken: slice
    given: tuple[tuple[str, slice], ...]

    @property
    def of_y(self) -> slice:
        """The columns of ``y``."""
        found = [s for name, s in self.given if name == "y"]
        return slice(found[0].start, found[-1].stop) if found else slice(0, 0)


def parts(rows: Sequence[Row]) -> list[Places]:
    """The places of each row."""
    taken, used, found = 0, {"y": 0, "q": 0, "w": 0}, []
    for entry in rows:
        given = []
        for t in entry.gives:
            name = RESULTS.get(t.rstrip("2345") if t.startswith("real") else t, "y")
            given.append((name, slice(used[name], used[name] + SIZES[t])))
            used[name] += SIZES[t]
        found.append(Places(slice(taken, taken + entry.inputs), tuple(given)))
        taken += entry.inputs
    return found


def widths(rows: Sequence[Row]) -> dict[str, int]:
    """How many columns each of the arrays of results has."""
    found = {"y": 1, "q": 1, "w": 1}
    for places in parts(rows):
        for name, columns in places.given:
            found[name] = max(found[name], columns.stop)
    return found


def _of_row(entry: Row, k: int, places: Places) -> Iterator[str]:
    taken = places.taken.start
    for letter, t in zip("abcdef", entry.takes, strict=False):
        numbers = ", ".join(f"x[i, {taken + n}]" for n in range(SIZES[t]))
        yield f"{letter}{k} = {f'{numbers} > number(0)' if t == 'bool' else f'{t}({numbers})'}"
        taken += SIZES[t]
    results = [f"r{k}_{n}" for n in range(len(entry.gives))]
    call, before = (_renamed(text, k) for text in (entry.call, entry.before))
    if before:
        yield before
    elif f"r{k}_" in call:
        for name, t in zip(results, entry.gives, strict=True):
            yield f"{name} = {t}({'0.0' if t == 'number' else ''})"
    yield call if f"r{k}_" in call else f"{', '.join(results) or f'r{k}'} = {call}"
    for name, t, (array, columns) in zip(results, entry.gives, places.given, strict=True):
        for n, at in enumerate(_components(t)):
            value = f"{name}{at}"
            value = {"y": value, "q": f"int({value})", "w": f"dk.float64({value})"}[array]
            yield f"{array}[i, {columns.start + n}] = {value}"


def _renamed(text: str, k: int) -> str:
    """A call with the names of its row for arguments and results."""
    return re.sub(r"\br(\d)\b", rf"r{k}_\1", re.sub(r"\b([a-f])\b", rf"\g<1>{k}", text))


def _components(t: str) -> list[str]:
    if t in ("number", "int", "real"):
        return [""]
    if len(shape(t)) == 2:
        n, m = shape(t)
        return [f"[{i}, {j}]" for i in range(n) for j in range(m)]
    return [f"[{i}]" for i in range(SIZES[t])]


def load(text: str, path: Path) -> ModuleType:
    """The module of a text."""
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(rows: Sequence[Row], dtype: str = "float64") -> np.ndarray:
    """The array ``x``; of floats in double precision."""
    return np.concatenate([entry.points(dtype) for entry in rows if entry.inputs], axis=1)
