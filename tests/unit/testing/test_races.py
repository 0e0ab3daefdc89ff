"""Races of planted kinds are found, with both threads and both lines; what atomics and barriers order is none."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import KernelTypeError, MisuseError
from diffkern.testing import RaceError, find_races, verify_races

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)
i1 = dk.array(dtype=int)


@dk.struct
class Pair:
    a: f1
    b: f1


@dk.kernel
def smooth(x: f1):
    i = dk.tid()
    if i > 0:
        x[i] = 0.5 * (x[i] + x[i - 1])  # write and read


@dk.kernel
def scatter(y: f1, k: i1):
    i = dk.tid()
    y[k[i]] = 1.0


@dk.kernel
def counted(y: f1, z: f1):
    i = dk.tid()
    dk.atomic_add(y, 0, 1.0)
    z[i] = y[0]


@dk.kernel
def added(y: f1, z: f1):
    i = dk.tid()
    dk.atomic_add(y, 0, 1.0)
    z[i] = 1.0


@dk.kernel
def without_barrier(x: f1, y: f1):
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(4, float)
    s[t] = x[i]
    y[i] = s[3 - t]


@dk.kernel
def with_barrier(x: f1, y: f1):
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(4, float)
    s[t] = x[i]
    dk.syncthreads()
    y[i] = s[3 - t]


@dk.kernel
def next_trip(x: f1, y: f1):
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(4, float)
    for _ in range(2):
        s[t] = x[i]
        dk.syncthreads()
        y[i] = s[3 - t]


@dk.kernel
def across_blocks(y: f1, z: f1):
    i = dk.tid()
    y[i] = 1.0
    dk.syncthreads()
    z[i] = y[7 - i]


@dk.kernel
def columns(x: f2):
    i, j = dk.tid()
    x[0, j] = float(i)


@dk.kernel
def of_struct(p: Pair):
    i = dk.tid()
    p.a[i] = p.b[i + 1]


@dk.kernel
def overlapping_tiles(x: f1):
    i = dk.tid()
    t = dk.tile_load(x, shape=4, offset=4 * i)
    dk.tile_store(x, t * 2.0, offset=3 * i)


@dk.kernel
def gathered_tiles(x: f2, k: i1, y: f2):
    i = dk.tid()
    rows = dk.tile_load(k, shape=2, offset=2 * i)
    dk.tile_store(y, dk.tile_load_indexed(x, rows, shape=(2, 2)), offset=(2 * i, 0))


def _f(*shape: int) -> np.ndarray:
    return np.ones(shape or 8, np.float32)


def _sides(race) -> list[tuple]:
    return [(s.thread, s.does, s.array) for s in (race.first, race.second)]


def test_a_stencil_in_place() -> None:
    (race,) = find_races(smooth, 8, [_f()])
    assert _sides(race) == [((1,), "writes", "x"), ((2,), "reads", "x")]
    assert (race.index, race.elements) == ((1,), 6)
    assert race.first.loc is not None
    assert "write and read" in race.first.loc.text
    assert race.second.loc is not None
    assert race.second.loc.col > race.first.loc.col


def test_two_writers() -> None:
    (race,) = find_races(scatter, 8, [_f(), np.array([0, 1, 2, 3, 4, 5, -7, 7], np.int32)])
    assert _sides(race) == [((1,), "writes", "y"), ((6,), "writes", "y")]
    assert race.index == (1,)
    assert not find_races(scatter, 8, [_f(), np.arange(8, dtype=np.int32)[::-1]])


def test_an_atomic_update_and_a_read() -> None:
    (race,) = find_races(counted, 8, [_f(), _f()])
    assert {side[1] for side in _sides(race)} == {"reads", "updates"}
    assert not find_races(counted, 1, [_f(), _f()])


def test_atomic_updates_do_not_race() -> None:
    verify_races(added, 8, [_f(), _f()])


def test_the_same_memory_under_two_names() -> None:
    x = _f()
    (race,) = find_races(added, 8, [x, x])
    assert {side[1:] for side in _sides(race)} == {("updates", "y"), ("writes", "z")}
    verify_races(added, 4, [x[:4], x[4:]])


def test_within_blocks() -> None:
    assert {race.elements for race in find_races(without_barrier, 8, [_f(), _f()], block_dim=4)} == {4}
    verify_races(with_barrier, 8, [_f(), _f()], block_dim=4)
    (race,) = find_races(next_trip, 8, [_f(), _f()], block_dim=4)
    assert {side[1:] for side in _sides(race)} == {("reads", "s"), ("writes", "s")}


def test_a_barrier_orders_only_its_own_block() -> None:
    verify_races(across_blocks, 8, [_f(), _f()], block_dim=8)
    first, second = find_races(across_blocks, 8, [_f(), _f()], block_dim=4)
    assert _sides(first) == [((0,), "writes", "y"), ((7,), "reads", "y")]
    assert _sides(second) == [((0,), "reads", "y"), ((7,), "writes", "y")]


def test_several_axes() -> None:
    (race,) = find_races(columns, (2, 3), [_f(2, 3)])
    assert _sides(race) == [((0, 0), "writes", "x"), ((1, 0), "writes", "x")]
    assert (race.index, race.elements) == ((0, 0), 3)


def test_more_axes_than_the_kernel_asks_for() -> None:
    (race,) = find_races(scatter, (3, 2), [_f(), np.arange(3, dtype=np.int32)])
    assert _sides(race) == [((0, 0), "writes", "y"), ((0, 1), "writes", "y")]
    assert race.elements == 3


def test_arrays_in_structs() -> None:
    memory = dk.array(_f(9))
    p = Pair()
    p.a, p.b = memory, memory
    (race,) = find_races(of_struct, 8, [p])
    assert {side[1] for side in _sides(race)} == {"reads", "writes"}
    p.b = dk.array(_f(9))
    verify_races(of_struct, 8, [p])


def test_tiles() -> None:
    races = find_races(overlapping_tiles, 2, [_f()])
    assert [_sides(race) for race in races] == [[((0,), "writes", "x"), ((1,), "writes", "x")]]
    assert races[0].index == (3,)
    with pytest.raises(KernelTypeError, match="the elements of another one"):
        find_races(gathered_tiles, 1, [_f(2, 2), np.zeros(2, np.int32), _f(2, 2)])


def test_as_an_assertion() -> None:
    x = _f()
    with pytest.raises(RaceError, match=r"(?s)kernel 'smooth'.*thread 1 writes x, .*:\d+\n.*\^.*thread 2 reads x") as e:
        verify_races(smooth, 8, [x])
    assert isinstance(e.value, AssertionError)
    assert len(e.value.races) == 1
    np.testing.assert_array_equal(x, 1)


def test_a_limit() -> None:
    with pytest.raises(MisuseError, match=r"would log 16 events, and 10 are allowed"):
        find_races(added, 8, [_f(), _f()], max_accesses=10)
