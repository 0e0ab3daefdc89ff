"""One decision for launches from Python and for calls from JAX, which make it in native code."""

from __future__ import annotations

import ctypes
import random

import pytest

from diffkern.runtime.launch.partition import COST_UNIT, INTEGERS, Grain, chunk_of, distance_of, partition
from diffkern.runtime.native.assemble import _compile
from diffkern.runtime.native.builder import I64, VOID, Module
from diffkern.runtime.native.loader import load_object

FACTS = 11


def native():
    """``decide(facts, dims, reach, out)`` with words at the addresses that it takes."""
    m = Module("test")
    made, c = m.function("test_partition_decide", VOID, [I64] * 4, is_exported=True)
    facts, dims, reach, out = made.args
    n, worthwhile, lanes, group, *others = c.loads(facts, FACTS)
    for k, number in enumerate(partition(c, n, Grain(worthwhile, lanes, group), *others)):
        c.store(number, out, 8 * k)
    c.store(distance_of(c, c.loads(dims, 4), c.loads(reach, 4)), out, 32)
    c.b.ret_void()
    name = "test_partition_decide"
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(load_object(_compile(str(m), 2), [name])[name])


def test_native_code_decides_as_python_does():
    decide, rng = native(), random.Random(5)
    seen = set()
    for _ in range(2000):
        n, cost = rng.choice([1, 2, 63, 64, 1000, 60_000, 10**7]), rng.choice([1, 20, 500])
        dims = [rng.choice([1, 2, 5, 300]) for _ in range(4)]
        reach = [rng.choice([0, 0, 1, 4]) for _ in range(4)]
        distance = rng.choice([0, 0, 1, 100])
        general, copyable, spare = (rng.randrange(2) for _ in range(3))
        copied = rng.choice([1, 100, 10**6])
        cores = rng.choice([1, 2, 8, 64])
        grain = Grain(20_000 // cost, *rng.choice([(1, 1), (4, 4), (4, 16), (16, 64)]))
        facts = (n * cost * COST_UNIT, distance, general, copied, copyable, spare, cores)
        words = [(ctypes.c_int64 * len(part))(*part) for part in ((n, *grain, *facts), dims, reach, [0] * 5)]
        decide(*map(ctypes.addressof, words))
        expected = partition(INTEGERS, n, grain, *facts)
        assert expected.groups == 0 or expected.chunk % grain.lanes == 0, (n, grain, facts)
        assert tuple(words[3]) == (*expected, distance_of(INTEGERS, dims, reach)), (n, grain, facts)
        seen.add((expected.colours, expected.groups > 0, expected.is_atomic))
    assert len(seen) == 5


def busy(threads, cost, copied, cores, lanes=1):
    """How an adjoint runs whose threads may race anywhere, and how many processors work on it."""
    grain = Grain(max(1, 20_000 // cost), lanes, lanes)
    how = partition(INTEGERS, threads, grain, threads * cost * COST_UNIT, 0, 1, copied, 1, 1, cores)
    return how, min(cores, -(-threads // how.chunk))


@pytest.mark.parametrize("cores", [1, 2, 8, 64])
@pytest.mark.parametrize(("cost", "copied"), [(100, 100), (100, 100_000), (100, 3_000_000), (10_000, 1_000_000)])
def test_large_launches_keep_all_processors_busy(cores, cost, copied):
    how, working = busy(2_000_000, cost, copied, cores)
    if how.is_atomic:
        assert working == cores
    else:
        assert working >= cores / 8
        price = copied * how.groups * 2
        assert price <= 2_000_000 * cost / 2


def test_many_processors_have_a_copy_each_where_it_pays():
    assert [busy(2_000_000, 1000, 1_000_000, cores)[0].groups for cores in (2, 16, 64)] == [8, 64, 64]
    assert [busy(2_000_000, 100, 300_000, cores)[0].groups for cores in (2, 16, 64)] == [8, 32, 64]
    assert busy(2_000_000, 1000, 100, 64)[0].groups > 200


def test_few_processors_have_many_copies_where_they_cost_next_to_nothing():
    work = 2_000_000 * 1000
    for copied in (100, 100_000, 400_000, 500_000, 1_000_000, 10_000_000):
        groups = busy(2_000_000, 1000, copied, 2)[0].groups
        assert groups <= 8 or copied * groups * 2 <= work / 64, copied
    assert busy(2_000_000, 1000, 100, 2)[0].groups == 32


def test_lanes_have_fewer_copies_beyond_four_for_each_processor():
    for copied, alone, together in ((100, 32, 32), (100_000, 32, 16), (400_000, 32, 8), (1_000_000, 8, 8)):
        found = [busy(2_000_000, 1000, copied, 2, lanes)[0].groups for lanes in (1, 8)]
        assert found == [alone, together], copied


@pytest.mark.parametrize(("n", "chunks"), [(99, 1), (9_990, 1), (10_001, 5), (100_000, 50)])
def test_little_work_is_one_chunk(n, chunks):
    assert abs(-(-n // chunk_of(INTEGERS, n, Grain(2000), 1)) - chunks) <= 1
    assert (chunk_of(INTEGERS, n, Grain(2000), 1) == n) is (chunks == 1)
