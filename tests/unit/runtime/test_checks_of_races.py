"""Whether two threads of a launch touch one element: against all threads, one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.contracts.integer_systems import Row, narrowed, search
from diffkern.contracts.manifest import IntegerForm, Monomial, Order, RaceCheck, Touch
from diffkern.contracts.race_search import needed
from diffkern.errors import AutodiffError
from diffkern.runtime.launch import race_checks
from diffkern.runtime.launch.race_checks import check_races

INT32 = (-(2**31), 2**31 - 1)


def form(const: int, *coefficients: int) -> IntegerForm:
    terms = ((k, (Monomial(c),)) for k, c in enumerate(coefficients) if c)
    return IntegerForm((Monomial(const),) if const else (), tuple(terms))


def value(f: IntegerForm, point: tuple[int, ...]) -> int:
    return sum(m.factor for m in f.const) + sum(c[0].factor * point[k] for k, c in f.terms)


def touch(rng: np.random.Generator, axes: int, loops: int) -> Touch:
    """An access with random indices, in loops whose last trip may depend on the thread, under a condition."""
    index = [form(int(rng.integers(-3, 8)), *map(int, rng.integers(-3, 4, 2 + loops))) for _ in range(axes)]
    under = []
    for k in range(2, 2 + loops):
        itself = form(0, *[int(j == k) for j in range(k + 1)])
        under += [Order(form(0), itself), Order(itself, form(int(rng.integers(0, 3)), int(rng.integers(0, 2))))]
    if rng.random() < 0.5:
        under.append(Order(form(int(rng.integers(0, 3))), form(0, *map(int, rng.integers(-1, 2, 2)))))
    return Touch(None, tuple(index), tuple(map(bool, rng.integers(0, 2, axes))), tuple(under))


def elements(t: Touch, dims: tuple[int, int], loops: int, shape: tuple[int, ...]) -> dict[Any, set[Any]]:
    """The threads that come to each element."""
    found: dict[Any, set[Any]] = {}
    for point in itertools.product(*map(range, dims), *[range(-1, 8)] * loops):
        if all(value(o.less, point) <= value(o.more, point) for o in t.under):
            index = [value(f, point) for f in t.index]
            wrapped = tuple(i + n if w and i < 0 else i for i, w, n in zip(index, t.wrap, shape, strict=True))
            found.setdefault(wrapped, set()).add(point[:2])
    return found


def races(check: RaceCheck, dims: tuple[int, int], loops: int, shape: tuple[int, ...]) -> bool:
    """Whether two threads, or one where it counts too, touch one element."""
    load, write = (elements(t, dims, loops, shape) for t in (check.load, check.write))
    return any(
        check.same_thread or len(load[e] | write[e]) > 1 for e in load.keys() & write.keys() if load[e] and write[e]
    )


def test_random_accesses():
    rng = np.random.default_rng(5)
    counts = {True: 0, False: 0}
    missed = 0
    for _ in range(600):
        axes, loops = int(rng.integers(1, 3)), int(rng.integers(0, 2))
        dims, shape = tuple(map(int, rng.integers(1, 4, 2))), tuple(map(int, rng.integers(9, 20, axes)))
        load, write = touch(rng, axes, loops), touch(rng, axes, loops)
        check = RaceCheck(0, load, write, (INT32,) * (2 + loops), same_thread=bool(rng.random() < 0.2))
        numbers = {(0, axis): extent for axis, extent in enumerate(shape)}
        race = races(check, dims, loops, shape)
        counts[race] += 1
        try:
            check_races("k", [check], ["x"], dims, numbers)
        except AutodiffError:
            missed += not race
        else:
            assert not race, (check, dims, shape)
    assert min(counts.values()) > 80
    assert missed < 0.05 * counts[False]  # conditions on several axes bind two threads in ways that are not searched


def test_a_launch_is_searched_once(monkeypatch: pytest.MonkeyPatch):
    """Whether its threads race or not: the next one of the same numbers is told the same."""
    searched: list[Any] = []

    def racing(check: RaceCheck, dims: Any, numbers: Any) -> Any:
        searched.append(dims)
        return search_of_races(check, dims, numbers)

    search_of_races = race_checks.racing
    monkeypatch.setattr(race_checks, "racing", racing)

    @dk.kernel
    def spread(x: dk.array(dtype=float), step: int):
        i = dk.tid()
        x[step * i] = 0.5 * x[i]

    x = dk.ones(8, requires_grad=True)
    x.grad.fill_(1.0)
    for _ in range(3):
        with pytest.raises(AutodiffError, match="thread 2 reads an element of x here that thread 1 writes"):
            dk.launch(spread, 4, [x, 2], adjoint=True)
        dk.launch(spread, 4, [x, 1], adjoint=True)
    assert len(searched) == 4  # for each number once a load and a store, and two stores


def test_numbers_that_are_looked_at():
    n = IntegerForm((Monomial(1, ((1, -1),)),), ((0, (Monomial(1, ((1, -1), (2, 0))),)),))
    check = RaceCheck(0, Touch(None, (n,), (True,)), Touch(None, (form(1),), (False,)), (INT32,))
    assert needed([check]) == ((0, 0), (1, -1), (2, 0))


def test_wrapped_around():
    """Indices beyond 32 bits say nothing."""
    far = IntegerForm((Monomial(2**31),), ((0, (Monomial(2**31),)),))
    check = RaceCheck(0, Touch(None, (far,), (False,)), Touch(None, (form(0),), (False,)), (INT32,))
    with pytest.raises(AutodiffError, match="another thread of the same launch may write"):
        check_races("k", [check], ["x"], (2,), {})


def test_systems():
    assert narrowed([Row(((0, 2), (1, -4)), 1, True)], [(0, 9), (0, 9)]) is None  # even is not odd
    assert narrowed([Row(((0, 1),), -3, False), Row(((0, -2),), 9, False)], [(0, 9)]) == [(3, 4)]
    rows = [Row(((0, 10), (1, 1)), -37, True)]
    assert search(rows, [(0, 9), (0, 9)]) == [(3, 3), (7, 7)]
    assert search([*rows, Row(((1, 1),), -8, False)], [(0, 9), (0, 9)]) is None
