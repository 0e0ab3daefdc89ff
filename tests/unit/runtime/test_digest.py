"""Digests of arrays: every changed bit shows."""

import sys

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.arrays import digest as digests
from diffkern.runtime.arrays.digest import digest
from diffkern.runtime.native import pool
from diffkern.runtime.native.assemble import EXTERNAL_NAMES, load_native
from diffkern.runtime.native.digest_ir import digest_ir

SIZES = [1, 7, 128, 1023, 1024, 1025, 1056, 1151, 1152, 4096, 5003, 131_072, 131_073, 131_217, 400_003]


def held(data):
    return dk.array(data, dtype=dk.uint8, copy=False)


@pytest.fixture(params=["native", "python"])
def either_way(request, monkeypatch):
    if request.param == "python":
        monkeypatch.setattr(digests, "_kernel", lambda: 0)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("size", SIZES)
def test_a_changed_bit_shows(size):
    rng = np.random.default_rng(size)
    data = rng.integers(0, 256, size, dtype=np.uint8)
    a = held(data)
    before = digest(a)
    assert digest(held(data.copy())) == before
    places = {0, size - 1, size // 2, *range(max(0, size - 40), size, 3), *rng.integers(0, size, 60).tolist()}
    seen = {before}
    for place in places:
        bit = np.uint8(1 << int(rng.integers(8)))
        data[place] ^= bit
        seen.add(digest(a))
        data[place] ^= bit
    assert len(seen) == 1 + len(places)
    assert digest(a) == before


@pytest.mark.parametrize("size", SIZES)
def test_words_that_change_places_show(size):
    data = np.arange(size, dtype=np.uint32)
    a = dk.array(data, dtype=dk.uint32, copy=False)
    before = digest(a)
    for distance in (1, 2, 8, 16, 32, 64):
        if distance < size:
            data[0], data[distance] = data[distance], data[0]
            assert digest(a) != before
            data[0], data[distance] = data[distance], data[0]
    assert digest(a) == before


def test_views_with_strides():
    data = np.arange(4000, dtype=np.float32)
    a = dk.array(data, copy=False)[::3]
    before = digest(a)
    data[1] = -1.0
    assert digest(a) == before
    data[3] = -1.0
    assert digest(a) != before


@pytest.mark.skipif(sys.platform == "win32", reason="digests are another kind there")
def test_the_optimizer_changes_no_bit():
    data = np.random.default_rng(1).integers(0, 256, 5003, dtype=np.uint8)
    names, found, chunk = ["dk_digest_bytes"], np.zeros(1, np.uint64), 8192
    block = np.array([data.ctypes.data, found.ctypes.data, chunk], np.int64)
    for level in (0, 2):
        function = load_native(digest_ir, [], names, EXTERNAL_NAMES, level=level)[names[0]]
        pool.run(function, block.ctypes.data, 0, data.size, chunk)
        assert found.tobytes() == digest(held(data))
        found[0] = 0
