"""Assembly of sparse matrices by one thread that counts and by several that sort: the same pattern and values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import diffkern as dk
from diffkern import sparse
from diffkern.sparse import assembly, serial

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
    expected = scipy.sparse.coo_matrix((values[inside], (rows[inside], columns[inside])), shape=(nrow, ncol)).tocsr()
    found = []
    monkeypatch.setattr(assembly, "sets_at_once", lambda n: False)
    for threads in (1, 4):
        monkeypatch.setattr(dk.config, "num_threads", threads)
        matrix = sparse.bsr_zeros(nrow, ncol, dk.float64)
        given = [dk.array(rows), dk.array(columns), dk.array(values, dtype=dk.float64)]
        sparse.bsr_set_from_triplets(matrix, *given, prune_numerical_zeros=prune)
        found.append(parts(matrix))
        offsets, places, numbers = found[-1]
        assert all((np.diff(places[a:b]) > 0).all() for a, b in itertools.pairwise(offsets))
        whole = scipy.sparse.csr_matrix((numbers, places, offsets), shape=(nrow, ncol))
        assert (whole != expected).nnz == 0
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


def numbers(count: int, dtype: str) -> np.ndarray[Any, Any]:
    """Return numbers whose sums depend on their order, with zeros of both signs, infinities and NaN."""
    drawn = RNG.normal(size=count) * 10.0 ** RNG.integers(-3, 3, count)
    for k, special in enumerate((0.0, -0.0, np.nan, np.inf)):
        drawn[k :: 31 + k] = special
    return drawn.astype(dtype)


def assembled(
    given: list[Any], extents: tuple[int, int], prune: bool, count: int | None, dtype: Any
) -> list[np.ndarray[Any, Any]]:
    matrix = sparse.bsr_zeros(*extents, dtype)
    limit = None if count is None else dk.array([count], dtype=dk.int32)
    sparse.bsr_set_from_triplets(matrix, *given, count=limit, prune_numerical_zeros=prune)
    assert matrix.nnz == given[0].size
    # The numbers after the last block are zero.
    return [*parts(matrix), matrix.values.numpy()]


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_numbers_are_assembled_at_once(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pattern and sums have the bits that they have where patterns come first, for groups of rows as well."""
    launched: list[str] = []
    number = getattr(dk, dtype)
    monkeypatch.setattr(serial, "launch", counting(launched, serial.launch))
    for kind in KINDS:
        rows, columns, *extents = triplets(kind)
        values = numbers(rows.size, dtype)
        given = [dk.array(rows), dk.array(columns), dk.array(values, dtype=number)]
        for prune, count in ((True, None), (False, None), (True, rows.size // 2), (False, -3), (False, 10**6)):
            found = []
            for at_once, ungrouped in ((False, 0), (True, 1 << 14), (True, 16)):
                monkeypatch.setattr(assembly, "sets_at_once", lambda n, chosen=at_once: chosen)
                monkeypatch.setattr(serial, "_UNGROUPED", ungrouped)
                found.append(assembled(given, (extents[0], extents[1]), prune, count, number))
            for other in found[1:]:
                for a, b in zip(found[0], other, strict=True):
                    assert a.tobytes() == b.tobytes(), (kind, prune, count)
    assert {"sum_triplets", "sum_groups"} <= {*launched}


def counting(launched: list[str], launch: Any) -> Any:
    """Return a launch that notes the names of kernels."""

    def noting(kernel: Any, *args: Any, **named: Any) -> Any:
        launched.append(kernel.name)
        return launch(kernel, *args, **named)

    return noting


def test_a_matrix_keeps_its_arrays() -> None:
    rows, columns, nrow, ncol = triplets("many")
    given = [dk.array(rows), dk.array(columns), dk.array(RNG.normal(size=rows.size), dtype=dk.float64)]
    matrix = sparse.bsr_from_triplets(nrow, ncol, *given)
    held = matrix.offsets, matrix.columns, matrix.values
    first = parts(matrix)
    sparse.bsr_set_from_triplets(matrix, *given)
    assert all(a is b for a, b in zip(held, (matrix.offsets, matrix.columns, matrix.values), strict=True))
    # A matrix may be assembled of its own columns and values.
    count = len(first[1])
    places = dk.array(np.repeat(np.arange(nrow, dtype=np.int32), np.diff(first[0])))
    sparse.bsr_set_from_triplets(matrix, places, matrix.columns[:count], matrix.values[:count])
    for one, other in zip(first, parts(matrix), strict=True):
        np.testing.assert_array_equal(one, other)


def test_matrices_without_rows_or_columns() -> None:
    given = [dk.array([0, 1, -1], dtype=dk.int32), dk.array([1, 0, 2], dtype=dk.int32), dk.ones(3, dtype=dk.float64)]
    for extents in ((0, 4), (4, 0), (0, 0)):
        matrix = sparse.bsr_from_triplets(*extents, *given)
        assert matrix.nnz_sync() == 0
        assert not matrix.offsets.numpy().any()


def test_places_with_two_blocks_are_one_in_the_transposed_matrix() -> None:
    # The rows are written by hand: a block without a place lies between two with the same one.
    matrix = sparse.bsr_zeros(2, 6, dk.float64)
    matrix.offsets = dk.array([0, 3, 5], dtype=dk.int32)
    matrix.columns = dk.array([5, -1, 5, 2, 0], dtype=dk.int32)
    matrix.values = dk.array([1.0, 2.0, 4.0, 8.0, 16.0], dtype=dk.float64)
    matrix.notify_nnz_changed(5)
    offsets, columns, values = parts(sparse.bsr_transposed(matrix))
    assert offsets.tolist() == [0, 1, 1, 2, 2, 2, 3]
    assert (columns.tolist(), values.tolist()) == ([1, 1, 0], [16.0, 8.0, 5.0])
