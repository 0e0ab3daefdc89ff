"""What a launch is said to touch contains all that it touches: random indices, evaluated in Python."""

from __future__ import annotations

import linecache
import random

import pytest

import diffkern as dk
from diffkern.contracts.manifest import Box, IntegerForm, IntegerRange, Monomial
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.regions import _Numbers

SIZE = 97
_count = iter(range(10**6))


def expression(r, depth, names):
    """A random index."""
    if depth == 0 or r.random() < 0.15:
        return r.choice([*names, str(r.randint(0, 4))])
    a = expression(r, depth - 1, names)
    kind = r.choice("+-*/%+-")
    if kind in "+-":
        return f"({a} {kind} {expression(r, depth - 1, names)})"
    if kind == "*":
        return f"({a} * {r.choice(['2', '3', 'm', '-1'])})"
    return f"({a} {'//' if kind == '/' else '%'} {r.choice(['2', '3', 'm'])})"


def kernel(lines):
    text = "def stored(x: dk.array(dtype=dk.float32), n: dk.int32, m: dk.int32):\n    i = dk.tid()\n" + lines
    file = f"<boxes {next(_count)}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    space = {"dk": dk}
    exec(compile(text, file, "exec"), space)
    return dk.kernel(space["stored"])


def region_of(made, dim, inputs, index=0):
    launch = PackedLaunch(made, dim, inputs)
    return launch.executable.regions.written(launch, index)


@pytest.mark.parametrize("seed", range(24))
def test_a_region_contains_what_is_written(seed):
    r = random.Random(seed)
    loop = r.random() < 0.5
    index = expression(r, 3, ["i", "n", "n", "k"] if loop else ["i", "n", "n"])
    start, stop, step = (*(expression(r, 1, ["n", "i", "m"]) for _ in range(2)), r.choice([1, 2, -1, -3]))
    store = f"x[{index}] = 1.0\n"
    lines = f"    for k in range({start}, {stop}, {step}):\n        {store}" if loop else f"    {store}"
    made, checked = kernel(lines), 0
    for _ in range(60):
        n, m, dim = r.randint(-6, 12), r.randint(1, 7), r.randint(1, 6)
        touched = set()
        for i in range(dim):
            names = {"i": i, "n": n, "m": m}
            trips = range(*(eval(e, names) for e in (start, stop)), step) if loop else [0]
            touched |= {eval(index, names | {"k": k}) for k in trips}
        if any(not -SIZE <= at < SIZE for at in touched):
            continue
        checked += 1
        region = region_of(made, dim, [dk.zeros(SIZE), n, m])
        inside = set(range(SIZE)) if region is None else {at for ((low, high),) in region for at in range(low, high)}
        assert {at % SIZE for at in touched} <= inside, (lines, n, m, dim, region)
    assert checked or "*" in index or loop


@pytest.mark.parametrize(("lines", "region"), [
    ("    x[n + 1] = 1.0\n", (((4, 5),),)),
    ("    x[n * m + i] = 1.0\n", (((15, 18),),)),
    ("    x[n - i] = 1.0\n", (((1, 4),),)),
    ("    x[n - 4 - i] = 1.0\n", (((94, 97),),)),  # all of them count from the end
    ("    x[n - 1 - 2 * i] = 1.0\n", (((0, 97),),)),  # some of them
    ("    for k in range(n, n + 4):\n        x[k * m] = 1.0\n", (((15, 31),),)),
    ("    for k in range(n + 4, n, -2):\n        x[k] = 1.0\n", (((5, 8),),)),
    ("    x[n % 2] = 1.0\n", (((1, 2),),)),
    ("    x[(n + i) % m] = 1.0\n", (((0, 5),),)),
    ("    x[n] = 1.0\n    x[n + 1] = 2.0\n    x[n + 20] = 3.0\n", (((3, 5),), ((23, 24),))),
    ("    if i > 1:\n        x[n + i] = 1.0\n", (((3, 6),),)),
    ("    x[i] = 1.0\n", None),  # as any launch over a part of an array
    ("    x[int(x[n])] = 1.0\n", None),
    ("    x[n * 100000 * m * 100000 + i] = 1.0\n", None),  # may wrap around
    ("    j = dk.int64(n * 1000000 * m) - dk.int64(15000000)\n    x[j + n] = 1.0\n", (((3, 4),),)),
    ("    j = dk.int64(n * 1000000000) - dk.int64(n) * dk.int64(1000000000)\n    x[j + n] = 1.0\n", None),
])  # fmt: skip
def test_regions(lines, region):
    assert region_of(kernel(lines), 3, [dk.zeros(SIZE), 3, 5]) == region


def test_what_a_loop_touches_that_makes_no_trip():
    assert region_of(kernel("    for k in range(n, m):\n        x[k] = 1.0\n"), 3, [dk.zeros(SIZE), 7, 5]) == ()


@dk.kernel
def matrix(x: dk.array2d(dtype=dk.float32), which: dk.array(dtype=dk.int32), n: dk.int32):
    i = dk.tid()
    x[which[0], n] = x[n, i]


def test_an_axis_of_which_nothing_is_known_is_all():
    launch = PackedLaunch(matrix, 4, [dk.zeros((5, 6)), dk.zeros(1, dtype=dk.int32), 2])
    assert launch.executable.regions.written(launch, 0) == (((0, 5), (2, 3)),)
    assert launch.executable.regions.read(launch, 0) == (((2, 3), (0, 4)),)


@dk.kernel
def found_column(x: dk.array2d(dtype=dk.float32), at: dk.array(dtype=dk.float32), n: dk.int32):
    i = dk.tid()
    x[n, int(at[i] * 2.0)] = 1.0


def test_a_column_that_is_computed_from_floats():
    launch = PackedLaunch(found_column, 4, [dk.zeros((5, 6)), dk.zeros(4), 2])
    assert launch.executable.regions.written(launch, 0) == (((2, 3), (0, 6)),)


def test_numbers_beyond_32_bits_say_nothing():
    def form(c, *terms):
        return IntegerForm((Monomial(c),), terms)

    known = _Numbers((4,), {})
    thread = IntegerRange("thread")
    assert known.region([Box((form(1, (0, (Monomial(2),))),), (False,), (thread,))], (97,)) == (((1, 8),),)
    assert known.region([Box((form(2**31),), (False,))], (97,)) is None
    assert known.region([Box((form(2**31 - 1, (0, (Monomial(1),))),), (False,), (thread,))], (97,)) is None
    assert known.region([Box((form(1, (0, (Monomial(2**30),))),), (False,), (thread,))], (97,)) is None
    assert known.region([Box((form(1),), (False,), (), (form(-(2**31) - 1),))], (97,)) is None
    assert known.region([Box((form(5),), (True,))], (5,)) == ()  # which no thread reaches


@dk.kernel(block_dim=4)
def blockwise(x: dk.array2d(dtype=dk.float32), n: dk.int32):
    i = dk.tid()
    shared = dk.shared_array(4, dtype=dk.float32)
    shared[i % 4] = x[n, i]
    dk.syncthreads()
    x[n + 1, i] = shared[3 - i % 4]


@dk.kernel
def tiled(x: dk.array2d(dtype=dk.float32), n: dk.int32):
    i = dk.tid()
    dk.tile_store(x[n + 1], dk.tile_load(x[n], shape=4, offset=4 * i), offset=4 * i)


def test_what_blocks_and_tiles_touch_is_not_known():
    assert not PackedLaunch(blockwise, 8, [dk.zeros((5, 8)), 2]).executable.regions.are_known
    assert not PackedLaunch(tiled, 2, [dk.zeros((5, 8)), 2]).executable.regions.are_known
