"""The sparsity pattern of a Jacobian, found by probing, and a grouping of columns that are computed together.

The input is the product of the matrix and a vector, as a function; the result is a matrix of booleans. A probe has NaN
in some columns and zeros elsewhere; the rows that come out as NaN are those that depend on one of these columns. Blocks
of columns that have no row in common are probed together, and bisected down to single columns, so that a banded matrix
takes a number of probes that grows with the logarithm of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["colours", "find", "is_whole"]

Numbers = np.ndarray[Any, Any]
Product = Callable[[Numbers], Numbers]
"""From a vector to the product of the matrix and that vector."""

Block = tuple[int, int, Numbers]
"""Columns from the first number to before the second, and the rows that depend on one of them."""


def find(product: Product, rows: int, columns: int) -> Numbers:
    """Return where a matrix may differ from zero; everywhere, if finding that takes as long as computing it.

    Parameters
    ----------
    product : callable
        Gives products of the matrix and vectors.
    rows, columns : int
        The size of the matrix.
    """
    # More probes than this would cost about as much as computing the matrix column by column.
    left = max(columns // 2, 1)
    blocks: list[Block] = [(0, columns, np.ones(rows, bool))] if columns else []
    pattern = np.zeros((rows, columns), bool)
    while blocks:
        groups = _groups(blocks)
        # Each group takes a probe for either half of its blocks.
        left -= 2 * len(groups)
        if left < 0:
            return np.ones((rows, columns), bool)
        halves: list[Block] = []
        for group in groups:
            # Halves of one kind share a probe: the rows of different blocks are disjoint, which tells their results
            # apart.
            for k in range(2):
                halves += _probed(product, [block for block in group if _half(block, k)], k, columns)
        blocks = []
        for low, high, affected in halves:
            if high - low == 1:
                pattern[:, low] = affected
            # A block that no row depends on is zero, and needs no more probes.
            elif affected.any():
                blocks.append((low, high, affected))
    return pattern


def _half(block: Block, k: int) -> range:
    """The columns of one half of a block."""
    low, high, _ = block
    middle = (low + high + 1) // 2
    return range(low, middle) if k == 0 else range(middle, high)


def _probed(product: Product, blocks: Sequence[Block], k: int, columns: int) -> list[Block]:
    """One half of each block, which have no row in common, with the rows that depend on it."""
    if not blocks:
        return []
    # NaN times any derivative is NaN, also times one that happens to be 0, as for x * y at y = 0.
    probe = np.zeros(columns)
    for block in blocks:
        probe[_half(block, k)] = np.nan
    found = np.isnan(product(probe))
    return [((half := _half(block, k)).start, half.stop, found & block[2]) for block in blocks]


def _groups(blocks: Sequence[Block]) -> list[list[Block]]:
    """Blocks that have no row in common, together."""
    of = colours(np.stack([affected for _, _, affected in blocks], axis=1))
    return [[block for block, colour in zip(blocks, of, strict=True) if colour == c] for c in range(of.max() + 1)]


def colours(pattern: Numbers) -> Numbers:
    """Return a colour for each column, the first that no column with a common row has."""
    found = np.zeros(pattern.shape[1], int)
    taken: list[Numbers] = []
    for k, column in enumerate(pattern.T):
        # Greedy in the order of columns: that is optimal for banded matrices.
        free = next((c for c, rows in enumerate(taken) if not (rows & column).any()), len(taken))
        if free == len(taken):
            taken.append(np.zeros(len(column), bool))
        taken[free] |= column
        found[k] = free
    return found


def is_whole(product: Product, matrix: Numbers) -> bool:
    """Return whether a matrix that was computed by a pattern gives a product as it should, along a random vector."""
    # Positive numbers, so that a missing entry is not cancelled; a fixed seed, so that results are reproducible.
    vector = np.random.default_rng(matrix.size).uniform(0.5, 1.5, matrix.shape[1])
    with np.errstate(invalid="ignore", over="ignore"):
        found, expected = matrix @ vector, product(vector)
        # Relative to the sum of absolute values, since terms may cancel in the product.
        scale = np.abs(matrix) @ vector + np.abs(expected)
        close = np.abs(found - expected) <= 1e-3 * scale
    return bool((close | ~np.isfinite(expected)).all())
