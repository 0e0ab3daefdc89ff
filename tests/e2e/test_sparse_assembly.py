"""Assembly of sparse matrices by one thread that counts and by several that sort: the same pattern and values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import diffkern as dk
from diffkern import sparse

RNG = np.random.default_rng(4)
KINDS = {
    "few": (40, 30, 25),
    "many": (5000, 300, 280),
    "long rows": (6000, 3, 900),
    "long columns": (6000, 900, 2),
    "sparse": (5000, 9000, 7000),
    "sorted": (5000, 200, 200),
    "none": (0, 4, 4),
}


def triplets(kind: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int, int]:
    n, nrow, ncol = KINDS[kind]
    rows, columns = RNG.integers(0, max(nrow, 1), n), RNG.integers(0, max(ncol, 1), n)
    if kind == "sorted":
        rows, columns = rows[np.lexsort((columns, rows))], np.sort(columns)
    # Some lie outside, and count for nothing.
    rows[::17], columns[::23] = nrow, -1
    return rows.astype(np.int32), columns.astype(np.int32), nrow, ncol


def parts(matrix: Any) -> list[np.ndarray[Any, Any]]:
    n = int(matrix.offsets.numpy()[matrix.nrow])
    return [matrix.offsets.numpy()[: matrix.nrow + 1], matrix.columns.numpy()[:n], matrix.values.numpy()[:n]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prune", [False, True])
def test_threads_do_not_matter(kind: str, prune: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns, nrow, ncol = triplets(kind)
    # Small integers, so that sums are exact in any order, and some of them are zero.
    values = RNG.integers(-2, 3, rows.size).astype(np.float64)
    inside = (rows >= 0) & (rows < nrow) & (columns >= 0) & (columns < ncol)
    expected = scipy.sparse.coo_matrix((values[inside], (rows[inside], columns[inside])), shape=(nrow, ncol)).toarray()
    found = []
    for threads in (1, 4):
        monkeypatch.setattr(dk.config, "num_threads", threads)
        matrix = sparse.bsr_zeros(nrow, ncol, dk.float64)
        given = [dk.array(rows), dk.array(columns), dk.array(values, dtype=dk.float64)]
        sparse.bsr_set_from_triplets(matrix, *given, prune_numerical_zeros=prune)
        found.append(parts(matrix))
        offsets, places, numbers = found[-1]
        assert all((np.diff(places[a:b]) > 0).all() for a, b in itertools.pairwise(offsets))
        dense = np.zeros((nrow, ncol))
        dense[np.repeat(np.arange(nrow), np.diff(offsets)), places] = numbers
        np.testing.assert_array_equal(dense, expected)
        if not prune:
            pattern = {*zip(rows[inside].tolist(), columns[inside].tolist(), strict=True)}
            assert len(places) == len(pattern)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_kept_pattern_takes_other_values(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dk.config, "num_threads", threads)
    rows, columns, nrow, ncol = triplets("many")
    values = RNG.normal(size=rows.size)
    taken = dk.array(values, dtype=dk.float64, requires_grad=True)
    matrix = sparse.bsr_from_triplets(nrow, ncol, dk.array(rows), dk.array(columns), taken)
    inside = (rows >= 0) & (rows < nrow) & (columns >= 0) & (columns < ncol)
    expected = scipy.sparse.coo_matrix((values[inside], (rows[inside], columns[inside])), shape=(nrow, ncol)).tocsr()
    np.testing.assert_allclose(parts(matrix)[2], expected.data, rtol=1e-12)
    np.testing.assert_array_equal(parts(matrix)[1], expected.indices)
    with dk.Tape() as tape:
        matrix = sparse.bsr_from_triplets(nrow, ncol, dk.array(rows), dk.array(columns), taken)
        seed = RNG.normal(size=matrix.values.shape)
    tape.backward(grads={matrix.values: dk.array(seed, dtype=dk.float64)})
    dense = np.zeros((nrow, ncol))
    offsets, places, _ = parts(matrix)
    dense[np.repeat(np.arange(nrow), np.diff(offsets)), places] = seed[: len(places)]
    wanted = np.where(inside, dense[np.clip(rows, 0, nrow - 1), np.clip(columns, 0, ncol - 1)], 0.0)
    np.testing.assert_allclose(taken.grad.numpy(), wanted, rtol=1e-12)
