"""Faults in what kernels of Newton need, each with tests that must notice it.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.frontend import folded, tile_terms
from diffkern.warp import blocks
from diffkern.warp.fem import eigenvalues, mappers

from .edits import Fault, edit, func_edit

_ADDRESSES = "tests/e2e/test_arrays_of_addresses.py"
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
    Fault("a tile of an array of an address goes on in the next row",
          edit(folded, "places", 'below = cx.b.one("lt", index, given[n + k])',
               'below = cx.b.one("lt", index, cx.b.i32(10**6))'),
          (f"{_ADDRESSES}::test_tiles_of_parts_with_two_axes",)),
    Fault("rows of an array of an address are as long as there are rows",
          edit(folded, "subscript", "owner.extents[k + 1 :]))", "owner.extents[k:-1]))"),
          (f"{_ADDRESSES}::test_parts_of_a_parameter_with_several_axes",)),
    Fault("what the next round of a loop reads is not read again",
          edit(tile_terms, "_is_read_no_more", "if not sharing.isdisjoint(repeated)", "if False"),
          ("tests/e2e/test_changed_views.py::test_what_is_read_again_is_no_copy",)),
]  # fmt: skip
