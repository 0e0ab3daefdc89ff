"""What a row of the table of built-in functions is: a form of calling a function, with what it takes and gives.

A row says how a function is called with arguments ``a``, ``b``, ``c``, …, of which types these are, what comes back,
over which scalar types, and where it is tried. Types are named for one scalar type, ``number``: ``vec3``, ``mat23``,
``quat``.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *INTEGERS)

SIZES = {"number": 1, "bool": 1, "int": 1, "real": 1, "quat": 4, "transform": 7, "spatial_vector": 6,
         "spatial_matrix": 36,
         **{f"vec{n}": n for n in range(2, 10)},
         **{f"real{n}": n for n in range(2, 6)},
         **{f"mat{n}{m}": n * m for n in range(2, 7) for m in range(2, 7)}}  # fmt: skip
"""Numbers of a type. What is ``int`` is a result that is no number of the scalar type, and ``real`` a float that is a
quotient of integers."""

SAMPLES = 6

Sampler = Callable[[np.random.Generator, int], np.ndarray]


def shape(kind: str) -> tuple[int, ...]:
    """The shape of a type in NumPy."""
    if kind.startswith("mat"):
        return int(kind[-2]), int(kind[-1])
    if kind == "spatial_matrix":
        return 6, 6
    return () if SIZES[kind] == 1 else (SIZES[kind],)


def normal(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.normal(size=size)


def unit(rng: np.random.Generator, size: int) -> np.ndarray:
    v = rng.normal(size=size)
    return v / np.linalg.norm(v)


def rotation(rng: np.random.Generator, size: int = 9) -> np.ndarray:
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    q = q * np.linalg.det(q)
    if size == 9:
        return q.ravel()
    m = np.eye(4)
    m[:3, :3], m[:3, 3] = q, rng.normal(size=3)
    return m.ravel()


def rigid(rng: np.random.Generator, size: int = 7) -> np.ndarray:
    return np.concatenate([rng.normal(size=3), unit(rng, 4)])


def spread(rng: np.random.Generator, size: int) -> np.ndarray:
    """A matrix whose singular values are well apart."""
    n = math.isqrt(size)
    u, _, v = np.linalg.svd(rng.normal(size=(n, n)))
    return (u * (1.0 + np.arange(n)) @ v).ravel()


def symmetric(rng: np.random.Generator, size: int) -> np.ndarray:
    """A symmetric matrix whose eigenvalues are well apart."""
    q = rotation(rng).reshape(3, 3)
    return (q * np.array([-1.5, 0.5, 2.0]) @ q.T).ravel()


def inside(low: float, high: float) -> Sampler:
    return lambda rng, size: rng.uniform(low, high, size=size)


def divisor(rng: np.random.Generator, size: int) -> np.ndarray:
    """Numbers well away from 0, as integers too."""
    return rng.uniform(0.5, 2.0, size=size) * rng.choice([-1.0, 1.0], size=size)


def special(rng: np.random.Generator, size: int) -> np.ndarray:
    """Numbers among which some are infinite or none."""
    found = rng.normal(size=size)
    found[rng.integers(size)] = rng.choice([0.5, np.nan, np.inf, -np.inf])
    return found


@dataclass(frozen=True)
class Row:
    """One function, or one form of calling it.

    Attributes
    ----------
    call
        The call, with ``a``, ``b``, … for the arguments and ``number`` for the scalar type. A call that sets variables
        names them ``r0``, ``r1``, ….
    takes, gives
        Types of arguments and of results.
    at
        How numbers for each argument are drawn; by default normally distributed.
    oracle
        The function of NumPy's arrays that it is; None where values of warp-lang are stored, or ``own`` is set.
    of
        The scalar types over which there is such a function.
    loose
        By how much the tolerance is wider than usual.
    form
        What tells forms of one function apart.
    own
        Whether warp-lang does not have it.
    narrow
        Whether warp-lang has it in float32 alone.
    before
        A statement before the call.
    constant
        Whether its derivative is 0 whatever its values are.
    """

    call: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    at: tuple[Sampler, ...] = ()
    oracle: Callable[..., Any] | None = field(default=None, repr=False)
    of: tuple[str, ...] = FLOATS
    loose: float = 1.0
    form: str = ""
    own: bool = False
    narrow: bool = False
    before: str = field(default="", repr=False)
    constant: bool = False

    @property
    def name(self) -> str:
        return self.call.partition("(")[0].removeprefix("dk.")

    @property
    def id(self) -> str:
        return f"{self.name}-{self.form}" if self.form else self.name

    @property
    def inputs(self) -> int:
        return sum(SIZES[t] for t in self.takes)

    def points(self, dtype: str = "float64") -> np.ndarray:
        """The numbers that it is tried with, the same each time; as integers four times as large, and rounded."""
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        draw = self.at or (normal,) * len(self.takes)
        found = np.array([
            np.concatenate([f(rng, SIZES[t]) for f, t in zip(draw, self.takes, strict=True)] or [[]])
            for _ in range(SAMPLES)
        ])  # fmt: skip
        if dtype in FLOATS:
            return found
        whole = np.rint(4.0 * found)
        return (np.abs(whole) if dtype in UNSIGNED else whole).astype(dtype)

    def expected(self, x: np.ndarray) -> list[np.ndarray]:
        """What the oracle gives for one line of numbers, result by result."""
        assert self.oracle is not None
        args, taken = [], 0
        for t in self.takes:
            part = x[taken : taken + SIZES[t]].reshape(shape(t))
            args.append(part > 0 if t == "bool" else part)
            taken += SIZES[t]
        with np.errstate(all="ignore"):
            found = self.oracle(*args)
        return [np.asarray(r) for r in (found if isinstance(found, tuple) else (found,))]


def row(call: str, takes: str, gives: str, *at: Any, **options: Any) -> Row:
    return Row(call, tuple(takes.split()), tuple(gives.split()), at, **options)


def sized(sizes: Sequence[str], call: str, takes: str, gives: str, *at: Any, **options: Any) -> Iterator[Row]:
    """A row for each size; ``V`` and ``M`` stand for the vector or matrix, ``C``, ``R`` for its columns and rows."""
    form = options.pop("form", "")
    for size in sizes:
        rows, cols = (shape(size) * 2)[:2]
        known = {"V": size, "M": size, "T": f"mat{cols}{rows}", "S": f"mat{rows}{rows}", "R": f"vec{rows}",
                 "C": f"vec{cols}", "W": f"real{cols}", "B": f"mat2{cols}", "D": f"mat{cols}2"}  # fmt: skip
        given, back = ([known.get(t, t) for t in types.split()] for types in (takes, gives))
        one = row(call.replace("SIZE", size), " ".join(given), " ".join(back), *at, **options)
        yield replace(one, form=f"{form}-{size}" if form else size)
