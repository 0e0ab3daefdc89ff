"""Loops over ranges make the trips that Python makes, in kernels and in their derivatives: a table.

The whole table runs with ``--full``; every run takes some groups, which their names choose.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.range_cases import FORMS, TYPES, Group, chosen_groups, expected, groups
from support.range_kernels import kernel_of, literal_kernel
from support.range_source import SourceRun

import diffkern as dk
from diffkern.testing.programs import Interpreted

CHOSEN = chosen_groups()
MOST_AT_ONCE = [g for g in groups() if g not in CHOSEN]


def launched(group: Group, kernel: Any, bounds: list[Any], x: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
    """The sums, the trips, and the derivatives if the group asks for them."""
    n = len(x)
    y, trips = dk.zeros(n, dtype=dk.float64), dk.zeros(n, dtype=dk.int32)
    inputs = [*bounds, dk.array(x, requires_grad=group.mode == "reverse"), y, trips]
    if group.mode == "tangent":
        t_y = dk.zeros(n, dtype=dk.float64)
        dk.launch(kernel.jvp, n, [*inputs, dk.ones(n, dtype=dk.float64), t_y])
        return y.numpy(), trips.numpy(), t_y.numpy()
    if group.mode == "reverse":
        y.requires_grad = True
        with dk.Tape() as tape:
            dk.launch(kernel, n, inputs)
        tape.backward(grads={y: dk.ones(n, dtype=dk.float64)})
        return y.numpy(), trips.numpy(), inputs[-3].grad.numpy()
    if group.dialect == "cuda":
        inputs = [a.numpy() if isinstance(a, dk.array) else a for a in inputs]
        kernel[(n + 31) // 32, 32](*inputs)
        return inputs[-2], inputs[-1], None
    dk.launch(kernel, n, inputs)
    return y.numpy(), trips.numpy(), None


def results(group: Group, directory: Path) -> list[tuple[float, int, float | None]]:
    """What comes out of each case of a group."""
    cases = group.cases
    x = np.array([c.x for c in cases])
    if group.bounds == "literals":
        found = launched(group, literal_kernel(group, directory), [], x)
    elif group.bounds == "elements":
        columns = [np.array([getattr(c, k) for c in cases], group.type) for k in ("start", "stop", "step")]
        limit = np.array([c.limit for c in cases], np.int32)
        found = launched(group, kernel_of(group), [dk.array(a) for a in (*columns, limit)], x)
    else:
        kernel = kernel_of(group)
        one_by_one = [launched(group, kernel, [c.start, c.stop, c.step, c.limit], np.full(5, c.x)) for c in cases]
        found = tuple(
            None if parts[0] is None else np.array([p[-1] for p in parts]) for parts in zip(*one_by_one, strict=True)
        )
    y, trips, derivative = found
    none = [None] * len(cases)
    return list(zip(y.tolist(), trips.tolist(), none if derivative is None else derivative.tolist(), strict=True))


def check(group: Group, directory: Path) -> None:
    """Compare all cases of a group with Python."""
    wrong = []
    for case, (y, trips, derivative) in zip(group.cases, results(group, directory), strict=True):
        s, n, d = expected(case)
        same = trips == n and y == pytest.approx(s, rel=1e-12)
        if not same or (derivative is not None and derivative != pytest.approx(d, rel=1e-9, abs=1e-12)):
            wrong.append(f"{case.name}: {trips} trips, {y}, {derivative}; not {n}, {s}, {d}")
    assert not wrong, f"{len(wrong)} of {len(group.cases)}:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize("group", CHOSEN, ids=lambda g: g.name)
def test_some_ranges(group: Group, tmp_path: Path) -> None:
    check(group, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("group", MOST_AT_ONCE, ids=lambda g: g.name)
def test_all_other_ranges(group: Group, tmp_path: Path) -> None:
    check(group, tmp_path)


@pytest.mark.parametrize(("type_", "form"), list(zip(TYPES, (*FORMS[::-1], *FORMS), strict=False)))
def test_readable_source(type_: str, form: str) -> None:
    for what, found, wanted in SourceRun(type_, form).compared(Interpreted):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, err_msg=f"{what} of {form} over {type_}")


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("type_", TYPES)
def test_all_readable_source(type_: str, form: str) -> None:
    test_readable_source(type_, form)


@dk.kernel
def left_early(hi: dk.int8, by: dk.int8, n: dk.array(dtype=int)):
    for _ in range(dk.int8(0), hi, 2):
        n[0] += 1
        if n[0] > 500:
            break
    for _ in range(dk.int8(0), hi, by):
        n[1] += 1
        if n[1] > 500:
            return


def test_a_last_step_that_leaves_the_type() -> None:
    n = dk.zeros(2, dtype=int)
    dk.launch(left_early, 1, [127, 2, n])
    assert n.numpy().tolist() == [64, 64]


@dk.kernel
def backwards(hi: dk.int8, lo: dk.int8, n: dk.array(dtype=int)):
    for _ in reversed(range(hi)):
        n[0] += 1
    for _ in reversed(range(lo, hi)):
        n[1] += 1


def test_reversed_at_the_least_number() -> None:
    for lo, hi in ((-128, -128), (-128, 127), (5, -128), (-128, -120)):
        n = dk.zeros(2, dtype=int)
        dk.launch(backwards, 1, [hi, lo, n])
        assert n.numpy().tolist() == [len(range(hi)), len(range(lo, hi))]


@dk.kernel
def paired(first: dk.int64, second: dk.int64, x: dk.array(dtype=float), n: dk.array(dtype=int)):
    for a, _ in zip(range(first), x):  # noqa: B905
        n[0] += 1 + dk.int32(a) * 100
    for _a, _b in zip(range(first), range(second)):  # noqa: B905
        n[1] += 1


def test_the_shortest_of_ranges_beyond_32_bits() -> None:
    n = dk.zeros(2, dtype=int)
    dk.launch(paired, 1, [2**40, 4, dk.zeros(3), n])
    assert n.numpy().tolist() == [303, 4]


def test_the_table_is_large_enough() -> None:
    assert sum(len(g.cases) for g in groups()) >= 20_000
    assert 1_800 <= sum(len(g.cases) for g in CHOSEN) <= 4_000
    assert {g.type for g in CHOSEN} == set(TYPES)
    assert {g.form for g in CHOSEN} >= set(FORMS)
    assert {g.mode for g in CHOSEN} == {"forward", "reverse", "tangent"}
