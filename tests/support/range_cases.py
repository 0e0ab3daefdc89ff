"""The table of ranges: loops over all integer types, with bounds and steps near 0 and near the limits of the type.

A *case* is a range with a form of loop; a *group* runs many cases by one program, most of them as threads of one
launch: a dialect, a type, a form, where the bounds come from, a mode of differentiation, with lanes or without. What
has to come out is computed with Python's integers by :func:`expected`. Nothing in here compiles or launches.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["FORMS", "TYPES", "Case", "Group", "cases_of", "chosen_groups", "expected", "groups", "limits", "literals"]

TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FORMS = ("plain", "break", "return", "continue", "reversed", "nested")
MODES = ("forward", "reverse", "tangent")
MOST_TRIPS = 300
PER_GROUP = 120
"""Cases of a form whose bounds are elements of arrays, a case a thread."""
PER_SCALAR_GROUP = 24
"""Cases of a form whose bounds are arguments, a case a launch."""


@dataclass(frozen=True)
class Case:
    """A range, and after how many trips a loop that may be left early is left; ``x`` is the number in it."""

    form: str
    type: str
    start: int
    stop: int
    step: int
    limit: int
    x: float

    @property
    def name(self) -> str:
        return f"{self.type} {self.form} range({self.start}, {self.stop}, {self.step}) {self.limit}"


@dataclass(frozen=True)
class Group:
    """Cases that one program runs."""

    dialect: str
    type: str
    form: str
    bounds: str
    mode: str
    lanes: bool

    @property
    def name(self) -> str:
        return "-".join((self.dialect, self.type, self.form, self.bounds, self.mode, f"lanes_{self.lanes}".lower()))

    @property
    def cases(self) -> tuple[Case, ...]:
        if self.bounds == "literals":
            return literals(self.type)
        return cases_of(self.type, self.form)[: PER_SCALAR_GROUP if self.bounds == "arguments" else PER_GROUP]


def digest(text: str) -> int:
    """A number that belongs to a text for good."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def limits(type_: str) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    bits = int(type_.lstrip("uint"))
    return (0, 2**bits - 1) if type_.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _numbers(type_: str) -> list[int]:
    least, most = limits(type_)
    near = [0, 1, 2, 3, 7, 100, -1, -2, -3, -7, -100]
    far = [end + sign * k for end, sign in ((least, 1), (most, -1)) for k in (0, 1, 2, 5)]
    apart = [most // 2, most // 2 + 1, least // 2, most // 150, -(most // 150), most // 2 - most // 7]
    return sorted({n for n in (*near, *far, *apart) if least <= n <= most})


def trips_of(start: int, stop: int, step: int) -> int:
    """How many trips; a step of 0 makes none."""
    if step == 0:
        return 0
    return max(0, -((start - stop) // step))


@functools.cache
def _ranges(type_: str) -> tuple[tuple[int, int, int], ...]:
    """Ranges of a type in an order that is arbitrary and stays: in the first of them as many trips as not."""
    found = itertools.product(_numbers(type_), repeat=3)
    made = sorted((r for r in found if trips_of(*r) <= MOST_TRIPS), key=lambda r: digest(f"{type_}{r}"))
    some, none = [r for r in made if trips_of(*r)], [r for r in made if not trips_of(*r)]
    return tuple(r for four in itertools.zip_longest(some[::3], some[1::3], some[2::3], none) for r in four if r)


@functools.cache
def cases_of(type_: str, form: str) -> tuple[Case, ...]:
    """The cases of a form, at least as many as a group takes."""
    out = []
    for r in _ranges(type_):
        start, stop, step = r
        if form == "nested" and trips_of(*r) > 20:
            continue
        if form == "reversed" and step == 0:
            continue
        number = digest(f"{type_} {form} {r}")
        limit = number % 9 if number % 2 else 10**6
        out.append(Case(form, type_, start, stop, step, limit, 0.5 + number % 1000 / 2500))
        if len(out) == PER_GROUP:
            break
    return tuple(out)


@functools.cache
def literals(type_: str) -> tuple[Case, ...]:
    """Cases whose bounds are to stand in a kernel's text, of all forms in turn."""
    found = [cases_of(type_, FORMS[k % len(FORMS)]) for k in range(26)]
    return tuple(c for k, cases in enumerate(found) for c in (cases[40 + k],) if c.step)


def groups() -> Iterator[Group]:
    """The whole table."""
    for type_, mode, lanes in itertools.product(TYPES, MODES, (True, False)):
        for form, bounds in itertools.product(FORMS, ("elements", "arguments")):
            yield Group("native", type_, form, bounds, mode, lanes)
        yield Group("native", type_, "literal", "literals", mode, lanes)
    for type_, form, mode in itertools.product(TYPES, FORMS, ("forward", "reverse")):
        yield Group("warp", type_, form, "elements", mode, bool(digest(type_ + form) % 2))
    for type_, form in itertools.product(("uint64", "int64", "int32", "uint8"), FORMS):
        yield Group("cuda", type_, form, "elements", "forward", bool(digest(type_ + form) % 2))


def chosen_groups() -> tuple[Group, ...]:
    """Some groups for every run, by their names: for each type with derivatives and without, and each other kind."""
    found: dict[object, list[Group]] = {}
    for group in groups():
        wide = group.dialect == "native" and group.bounds == "elements"
        kind = (group.type, group.mode == "forward") if wide else (group.dialect, group.bounds)
        found.setdefault(kind, []).append(group)
    return tuple(min(many, key=lambda g: digest(g.name)) for many in found.values())


# -- what has to come out ----------------------------------------------------------------------------------------------


def _values(case: Case) -> Iterator[int]:
    """The indices of the trips that reach the sum."""
    if not case.step:
        return
    values = range(case.start, case.stop, case.step)
    for n, k in enumerate(reversed(values) if case.form == "reversed" else values):
        if case.form in ("break", "return") and n == case.limit:
            return
        if case.form == "nested":
            yield from range(k, case.stop, case.step)
        elif case.form != "continue" or k & 3 != 1:
            yield k


@functools.cache
def expected(case: Case) -> tuple[float, int, float]:
    """The sum, the number of trips that reach it, and the derivative of the sum with respect to ``x``."""
    s, d, n = 0.0, 0.0, 0
    for k in _values(case):
        s, d = 0.5 * s * case.x + float(k & 7), 0.5 * (s + case.x * d)
        n += 1
    return s, n, d
