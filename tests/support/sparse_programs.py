"""Operations on sparse matrices with Warp's names, for diffkern and for Warp, which ``sparse_matrices.json`` is from.

``python tests/support/sparse_programs.py`` writes it; it needs warp-lang. All numbers are quarters, so that sums do not
round, and results are compared bit by bit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

STORED = Path(__file__).with_name("sparse_matrices.json")
NROW, NCOL, TRIPLETS = 6, 5, 24
SHAPES = ((1, 1), (2, 3), (3, 1), (3, 3))


def results(wp: Any, S: Any) -> dict[str, list[Any]]:
    """Return offsets, columns and values of each result by its name."""
    found: dict[str, list[Any]] = {}
    rng = np.random.default_rng(7)
    for shape in SHAPES:
        # With duplicates, blocks that are zero, and rows and columns that do not exist.
        rows = rng.integers(-1, NROW + 1, TRIPLETS).astype(np.int32)
        columns = rng.integers(-2, NCOL + 1, TRIPLETS).astype(np.int32)
        numbers = rng.integers(-8, 9, (TRIPLETS, *shape)) / 4.0
        numbers[::7] = 0
        block = wp.float64 if shape == (1, 1) else wp.types.matrix(shape=shape, dtype=wp.float64)
        i, j = wp.array(rows, dtype=wp.int32), wp.array(columns, dtype=wp.int32)
        values = wp.array(numbers.reshape(TRIPLETS) if shape == (1, 1) else numbers, dtype=block)

        def keep(name: str, matrix: Any, shape: Any = shape) -> None:
            n = matrix.nnz_sync()
            arrays = matrix.offsets.numpy()[: matrix.nrow + 1], matrix.columns.numpy()[:n], matrix.values.numpy()[:n]
            found[f"{shape[0]}x{shape[1]} {name}"] = [array.tolist() for array in arrays]

        keep("pruned", S.bsr_from_triplets(NROW, NCOL, i, j, values))
        a = S.bsr_from_triplets(NROW, NCOL, i, j, values, prune_numerical_zeros=False)
        keep("triplets", a)
        b = S.bsr_from_triplets(NROW, NCOL, j, i, values)
        keep("exchanged", b)
        keep("transposed", S.bsr_transposed(S.bsr_copy(a * 2.0)))
        keep("sum", S.bsr_axpy(b, S.bsr_copy(a), 0.5, -3.0))
        keep("difference", 2.0 * a - b)
        masked = S.bsr_copy(b)
        S.bsr_axpy(a, masked, 2.0, 1.0, topology="masked")
        keep("masked sum", masked)
        S.bsr_set_from_triplets(masked, i, j, values, topology="masked")
        keep("masked triplets", masked)
        square = S.bsr_mm(a, S.bsr_transposed(b))
        dense = np.zeros(square.shape)
        offsets = square.offsets.numpy()
        for row in range(square.nrow):
            for k in range(offsets[row], offsets[row + 1]):
                column = square.columns.numpy()[k]
                dense[row * shape[0] : (row + 1) * shape[0], column * shape[0] : (column + 1) * shape[0]] = (
                    square.values.numpy()[k]
                )
        # Of a product the entries alone: Warp may keep blocks in it that nothing contributes to.
        found[f"{shape[0]}x{shape[1]} product"] = dense.tolist()
        if shape == (2, 3):
            for name, other in (("split", (1, 1)), ("joined", (4, 15)), ("split and joined", (1, 15))):
                keep(name, S.bsr_copy(a, block_shape=other))
        if shape[0] == shape[1]:
            keep("diagonal", S.bsr_diag(S.bsr_get_diag(square)))
        S.bsr_compress(a)
        keep("compressed", a)
    return found


if __name__ == "__main__":
    import warp
    import warp.sparse

    STORED.write_text(json.dumps(results(warp, warp.sparse)) + "\n", encoding="utf-8")
