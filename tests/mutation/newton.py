"""Faults in what kernels of Newton need, each with tests that must notice it.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.ad import replay
from diffkern.analysis import scopes
from diffkern.frontend.builtins import folded
from diffkern.frontend.terms import parts
from diffkern.frontend.tiles import tile_terms
from diffkern.library import tiled_queries
from diffkern.runtime.launch import schedule
from diffkern.sparse import indexing
from diffkern.warp.c import c_expressions, c_statements
from diffkern.warp.fem import eigenvalues, mappers

from .edits import Fault, edit, func_edit

_ADDRESSES = "tests/e2e/test_arrays_of_addresses.py"
_QUERIES = "tests/e2e/test_tiled_queries.py"
_SNIPPETS = "tests/unit/test_warp_snippets.py"
_THREADS = "tests/unit/targets/cuda/test_tiles_of_threads.py"
_MATRICES = "tests/unit/test_warp_small_matrices.py"

NEWTON = [
    Fault("derivatives of eigenvectors have the wrong sign",
          func_edit(eigenvalues, "_over_gap", "quotient = part / gap", "quotient = part / -gap"),
          (f"{_MATRICES}::test_derivatives_of_eigenvalues_and_eigenvectors",)),
    Fault("a symmetric matrix is one of twice its components",
          func_edit(mappers, "_mean", "val.dtype(0.5)", "val.dtype(1.0)"),
          (f"{_MATRICES}::test_matrices_as_vectors_of_their_free_components",)),
    Fault("blocks of a row beyond those that count are found",
          func_edit(indexing, "_row_end", "if row_counts is not None:", "if False:"),
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
    Fault("each thread looks at the first box of a stretch",
          func_edit(tiled_queries, "following", "query.place + thread", "query.place"),
          (f"{_QUERIES}::test_each_box_is_found_by_one_thread",)),
    Fault("of a leaf with more boxes than threads the first ones are all",
          func_edit(tiled_queries, "following", "query.place += threads", "query.place = query.last"),
          (f"{_QUERIES}::test_each_box_is_found_by_one_thread",)),
    Fault("a block may lie in several rows",
          edit(schedule, "check_whole_blocks", "if rows and dims[-1] % block_dim", "if False"),
          (f"{_THREADS}::test_a_launch_whose_blocks_lie_in_several_rows_is_refused",)),
    Fault("the last index is the same in a block",
          edit(scopes, "_of_tiles", 'return bool(op.attrs["axis"] == fn.tid_arity - 1)', "return False"),
          (f"{_THREADS}::test_indices_along_the_first_axes_are_those_of_a_block_in_a_row",)),
    Fault("a derivative that is refused adds nothing",
          edit(replay, "Replay.op", 'if op.name == "refused":', 'if op.name == "never":'),
          ("tests/e2e/test_func_rules.py::test_a_derivative_that_changes_another_array_is_refused_where_it_is_needed",)),
    Fault("an array in an element that a branch chooses has the extents of one of the two",
          edit(parts, "_with_own_extents", "length=n.of(view)", "length=n"),
          (f"{_ADDRESSES}::test_a_branch_chooses_an_element_with_its_arrays",)),
    Fault("an element that a text in C reads and then writes is compiled",
          edit(c_statements, "Statements._stored", "if place.code in before and not is_cotangent and not self.gpu:",
               "if not place:"),
          (f"{_SNIPPETS}::test_texts",)),
    Fault("an element at a place in memory is one of the first row",
          edit(c_expressions, "Expression._indices", "extents += f", "extents = f"),
          (f"{_SNIPPETS}::test_elements_of_arrays_of_several_axes",)),
]  # fmt: skip
