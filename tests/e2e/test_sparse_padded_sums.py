"""Sums into padded matrices, whose rows have room: beside sums of rows by hand, in their own memory and not."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern import sparse
from diffkern.runtime.native import pool
from diffkern.sparse import sums

NROW, NCOL = 9, 12
BLOCKS = {
    "float32": dk.float32,
    "float64": dk.float64,
    "float16": dk.float16,
    "int32": dk.int32,
    "matrix": dk.types.matrix((2, 3), dk.float64),
}


def rows_of(rng, kind):
    """The columns of each row: ascending, or in any order, also twice."""
    rows = []
    for _ in range(NROW):
        count = int(rng.integers(0, 7))
        columns = rng.choice(NCOL, count, replace=kind == "twice")
        rows.append(np.sort(columns) if kind == "ascending" else columns)
    return rows


def matrix(rng, rows, room, dtype):
    """A matrix with these columns, whose rows have room for more, and numbers that are no blocks in it."""
    capacities = [len(row) + int(more) for row, more in zip(rows, room, strict=True)]
    offsets = np.concatenate([[0], np.cumsum(capacities)]).astype(np.int32)
    made = sparse.bsr_zeros(NROW, NCOL, dtype)
    columns = np.full(offsets[-1], -1, np.int32)
    for begin, row in zip(offsets, rows, strict=False):
        columns[begin : begin + len(row)] = row
    shape = made.block_shape if made.block_shape != (1, 1) else ()
    numbers = rng.integers(-8, 9, (offsets[-1], *shape))
    numbers = numbers if dtype is dk.int32 else numbers / 8
    made.nnz = int(offsets[-1])
    made.offsets, made.columns = dk.array(offsets), dk.array(columns, dtype=dk.int32)
    made.row_counts = dk.array(np.int32([len(row) for row in rows]))
    made.values = dk.array(numbers, dtype=dtype)
    return made


def held(m):
    """The blocks of each row as they lie."""
    offsets, counts = m.offsets.numpy(), np.diff(m.offsets.numpy()) if m.row_counts is None else m.row_counts.numpy()
    columns, values = m.columns.numpy(), m.values.numpy().astype(np.float64)
    places = [range(offsets[i], offsets[i] + counts[i]) for i in range(m.nrow)]
    return [[(int(columns[k]), values[k]) for k in place] for place in places]


def expected(x, y, alpha, beta):
    """The sum, row by row in ascending order, as far as there is room, and whether there was too little."""
    rows, room = [], np.diff(y.offsets.numpy())
    for of_x, of_y in zip(held(x), held(y), strict=True):
        row = {}
        for factor, blocks in ((beta, of_y), (alpha, of_x)):
            for column, value in blocks if factor else ():
                row[column] = row.get(column, 0.0) + factor * value
        rows.append(sorted(row.items(), key=lambda one: one[0]))
    is_full = any(len(row) > most for row, most in zip(rows, room, strict=True))
    return [row[:most] for row, most in zip(rows, room, strict=True)], is_full


def agree(found, rows):
    for one, other in zip(held(found), rows, strict=True):
        assert [column for column, _ in one] == [column for column, _ in other]
        for (_, value), (_, wanted) in zip(one, other, strict=True):
            np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("kind", ["ascending", "any order", "twice"])
@pytest.mark.parametrize("dtype", BLOCKS.values(), ids=BLOCKS)
def test_sums_into_rows_with_room(dtype, kind, monkeypatch):
    own = []
    monkeypatch.setattr(sums, "_added_into", _watched(sums._added_into, own))
    for seed, (alpha, beta) in enumerate([(2.0, 3.0), (-1.0, 1.0), (1.0, 0.0), (3.0, 0.0), (2.0, -1.0)]):
        rng = np.random.default_rng(seed)
        x = matrix(rng, rows_of(rng, kind), rng.integers(0, 3, NROW), dtype)
        # In every second case some rows have too little room.
        y = matrix(rng, rows_of(rng, kind), rng.integers(0, 3) + 6 * (seed % 2 == 0) + np.zeros(NROW), dtype)
        before = x.values.numpy().copy(), x.columns.numpy().copy()
        wanted, is_full = expected(x, y, alpha, beta)
        assert sparse.bsr_axpy(x, y, alpha, beta, topology="padded") is y
        agree(y, wanted)
        assert y.status_sync() == int(is_full)
        np.testing.assert_array_equal(before[0], x.values.numpy())
        np.testing.assert_array_equal(before[1], x.columns.numpy())
    assert len(own) == 5
    assert all(own) == (kind == "ascending")


def _watched(function, seen):
    def call(*args):
        seen.append(function(*args))
        return seen[-1]

    return call


@pytest.fixture
def ascending():
    rng = np.random.default_rng(7)
    return [matrix(rng, rows_of(rng, "ascending"), np.full(NROW, 6), dk.float64) for _ in range(2)]


def test_the_numbers_of_blocks_that_are_no_more_are_zero(ascending):
    x, y = ascending
    rest = y.values.numpy().copy()
    first = y.offsets.numpy()[:-1]
    ends = first + np.maximum(y.row_counts.numpy(), x.row_counts.numpy())
    shorter = [(first[i] + x.row_counts.numpy()[i], first[i] + y.row_counts.numpy()[i]) for i in range(NROW)]
    assert any(lo < hi for lo, hi in shorter)
    sparse.bsr_axpy(x, y, 1.0, 0.0, topology="padded")
    for lo, hi in shorter:
        assert not y.values.numpy()[lo:hi].any()
    # What was no block stays what it was.
    for end, last in zip(ends, y.offsets.numpy()[1:], strict=True):
        np.testing.assert_array_equal(y.values.numpy()[end:last], rest[end:last])


def test_zero_times_nan(ascending):
    x, y = ascending
    x.values.fill_(np.nan)
    wanted, _ = expected(x, y, 0.0, 2.0)
    sparse.bsr_axpy(x, y, 0.0, 2.0, topology="padded")
    agree(y, wanted)
    y.values.fill_(np.nan)
    x.values.fill_(1.0)
    sparse.bsr_axpy(x, y, 2.0, 0.0, topology="padded")
    assert all((value == 2.0).all() for row in held(y) for _, value in row)


def test_matrices_that_share_memory(ascending):
    _, y = ascending
    shared = dk.array(y.values.numpy())
    for give in (lambda z: setattr(z, "values", y.values), lambda z: setattr(z, "values", y.values[:]),
                 lambda z: setattr(z, "columns", y.columns)):  # fmt: skip
        z = sparse.bsr_copy(y, topology="padded")
        z.values, z.columns = dk.array(y.values.numpy()), dk.array(y.columns.numpy())
        give(z)
        wanted, _ = expected(z, y, 2.0, 3.0)
        sparse.bsr_axpy(z, y, 2.0, 3.0, topology="padded")
        agree(y, wanted)
        y.values = dk.array(shared.numpy())
    wanted, _ = expected(y, y, 2.0, 3.0)
    sparse.bsr_axpy(y, y, 2.0, 3.0, topology="padded")
    agree(y, wanted)
    z = sparse.bsr_copy(y, topology="padded")
    z.row_counts = y.row_counts
    wanted, _ = expected(z, y, 2.0, 3.0)
    sparse.bsr_axpy(z, y, 2.0, 3.0, topology="padded")
    agree(y, wanted)


def test_no_rows_and_no_blocks():
    for nrow in (0, 3):
        x, y = (sparse.bsr_zeros(nrow, 4, dk.float32, row_capacity=2) for _ in range(2))
        assert sparse.bsr_axpy(x, y, topology="padded") is y
        assert sparse.to_scipy(y).nnz == 0
    sparse.bsr_set_from_triplets(x, *(dk.array([1], dtype=int),) * 2, dk.ones(1, dtype=dk.float32), topology="padded")
    sparse.bsr_axpy(x, y, 3.0, topology="padded")
    assert sparse.to_scipy(y).toarray().sum() == 3.0


def test_values_that_a_tape_reads_stay(ascending):
    x, y = ascending
    vector, out = dk.ones(NCOL, dtype=dk.float64), dk.zeros(NROW, dtype=dk.float64)
    x.values.requires_grad = True
    wanted, _ = expected(x, y, 2.0, 3.0)
    with dk.Tape() as tape:
        sparse.bsr_axpy(x, y, 2.0, 3.0, topology="padded")
        sparse.bsr_mv(y, vector, out)
    agree(y, wanted)
    tape.backward(grads={out: dk.ones_like(out)})
    starts, counts = x.offsets.numpy(), x.row_counts.numpy()
    blocks = np.concatenate([np.arange(a, a + n) for a, n in zip(starts, counts, strict=False)])
    np.testing.assert_array_equal(x.values.grad.numpy()[blocks], 2.0)


def test_a_map_is_not_for_the_pattern_of_a_sum(ascending):
    x, y = ascending
    i = dk.array([0, 1, 2], dtype=int)
    for one in (x, sparse.bsr_copy(x)):
        mapping = sparse.bsr_set_from_triplets(y, i, i, prune_numerical_zeros=False, build_mapping=True)
        one = one if one is x else _reversed(one)
        sparse.bsr_axpy(one, y, topology="padded")
        with pytest.raises(ValueError, match="another pattern"):
            sparse.bsr_set_values(y, mapping, dk.zeros(3, dtype=dk.float64))


def _reversed(m):
    """The same matrix with rows in descending order."""
    for begin, end in zip(m.offsets.numpy()[:-1], m.offsets.numpy()[1:], strict=True):
        for part in (m.columns, m.values):
            part.numpy()[begin:end] = part.numpy()[begin:end][::-1].copy()
    return m


def test_many_rows_by_two_threads():
    before = pool.num_threads()
    rng, n = np.random.default_rng(3), 4000
    rows = np.repeat(np.arange(n), 8)
    found = []
    try:
        for threads in (1, 2):
            pool.set_num_threads(threads)
            rng = np.random.default_rng(3)
            x, y = (sparse.bsr_zeros(n, 500, dk.float64, row_capacity=20) for _ in range(2))
            for one in (x, y):
                triplets = dk.array(rows, dtype=int), dk.array(rng.integers(0, 500, rows.size), dtype=int)
                sparse.bsr_set_from_triplets(one, *triplets, dk.array(rng.random(rows.size)), topology="padded")
            wanted = (sparse.to_scipy(y) * 0.5 + sparse.to_scipy(x) * 2.0).toarray()
            sparse.bsr_axpy(x, y, 2.0, 0.5, topology="padded")
            np.testing.assert_allclose(sparse.to_scipy(y).toarray(), wanted, rtol=1e-14)
            found.append(y.values.numpy().tobytes())
    finally:
        pool.set_num_threads(before)
    assert found[0] == found[1]
