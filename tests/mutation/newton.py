"""Faults in what kernels of Newton need, each with tests that must notice it.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.warp import blocks
from diffkern.warp.fem import eigenvalues, mappers

from .edits import Fault, func_edit

_MATRICES = "tests/unit/test_warp_small_matrices.py"

NEWTON = [
    Fault("derivatives of eigenvectors have the wrong sign",
          func_edit(eigenvalues, "_decomposed_adjoint", "d[j] - d[i], scale", "d[i] - d[j], scale"),
          (f"{_MATRICES}::test_derivatives_of_eigenvalues_and_eigenvectors",)),
    Fault("a symmetric matrix is one of twice its components",
          func_edit(mappers, "_mean", "val.dtype(0.5)", "val.dtype(1.0)"),
          (f"{_MATRICES}::test_matrices_as_vectors_of_their_free_components",)),
    Fault("blocks of a row beyond those that count are found",
          func_edit(blocks, "_row_end", "if row_counts:", "if False:"),
          (f"{_MATRICES}::test_places_of_blocks",)),
]  # fmt: skip
