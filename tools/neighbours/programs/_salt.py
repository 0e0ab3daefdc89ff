"""A crystal of charges, pushed off its sites, as tensors."""

import numpy as np
import torch


def crystal(cells=2, spacing=5.6, dtype=torch.float64):
    """Return positions, charges, the cell and where it repeats."""
    sites = np.array([[i, j, k] for i in range(2 * cells) for j in range(2 * cells) for k in range(2 * cells)])
    random = np.random.default_rng(5)
    positions = sites * (spacing / 2) + random.normal(size=sites.shape) * 0.15
    charges = np.where(sites.sum(axis=1) % 2 == 0, 1.0, -1.0)
    return (
        torch.tensor(positions, dtype=dtype),
        torch.tensor(charges, dtype=dtype),
        torch.eye(3, dtype=dtype)[None] * (spacing * cells),
        torch.tensor([[True, True, True]]),
    )


def in_order(matrix, counts, shifts):
    """Return the neighbours of each atom in an order that does not depend on which thread was first."""
    rows = []
    for i, count in enumerate(counts.tolist()):
        rows += sorted((i, j, *s) for j, s in zip(matrix[i, :count].tolist(), shifts[i, :count].tolist(), strict=True))
    return np.array(rows)
