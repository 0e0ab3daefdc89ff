"""Faults in looking after cache directories, in what loads code, and in hash grids, each with tests that must notice.

They run as those of :mod:`mutation.elsewhere` do.
"""

from __future__ import annotations

from diffkern.cache import entries, manifest, notes, place, store
from diffkern.frontend.syntax import contents, outline, plain
from diffkern.runtime.cuda import stream
from diffkern.runtime.native import perf_map
from diffkern.spatial import hash_grid

from .edits import Fault, constant, edit

_FOREIGN = "tests/unit/cache/test_foreign_files.py"
_CLEARED = f"{_FOREIGN}::test_nothing_foreign_is_touched_and_all_else_is_cleared"
_GRIDS = "tests/e2e/test_hash_grid_table.py"
_OUTLINE = "tests/unit/frontend/test_outline.py"
_REFUSED = f"{_FOREIGN}::test_directories_that_launches_refuse_are_refused"

CACHES = [
    Fault("whatever has a manifest is an entry", constant(entries, "names_key", lambda text, key: True), (_CLEARED,)),
    Fault("an entry goes with whatever else lies in its directory",
          edit(entries, "_empty", "in FILES", "in folder.names()"), (_CLEARED,)),
    Fault("links in a cache directory are followed", constant(place, "_NO_LINK", 0), (_CLEARED,)),
    Fault("directories of others are looked after as well",
          edit(place, "is_private", "status.st_uid in (0, os.geteuid()) and", ""), (_REFUSED,)),
    Fault("links of others lead to what is removed",
          constant(entries, "check_links", lambda directory: None),
          (f"{_FOREIGN}::test_a_link_of_another_user_does_not_lead_to_what_is_removed",)),
    Fault("what a killed process left behind stays",
          edit(entries, "_sweep_work", "_empty(folder)", "pass"), (_CLEARED,)),
    Fault("any directory of a similar name was left behind",
          edit(entries, "_sweep_work", "if _WORK.fullmatch(name):", "if True:"), (_CLEARED,)),
    Fault("locks are removed while they are held",
          edit(entries, "sweep", 'with exclusive(f"{root.path}/{name}", 0.0):\n                    pass',
               "root.unlink(name)"),
          (f"{_FOREIGN}::test_a_lock_that_is_held_is_left",)),
    Fault("a cache directory is made once",
          edit(store, "Store._make_directory", "self._root.mkdir(",
               "if self._usable:\n        return\n    self._root.mkdir("),
          (f"{_FOREIGN}::test_a_directory_that_is_removed_is_made_again",)),
    Fault("a manifest may be nested as deep as it likes",
          edit(manifest, "parse", "(ValueError, RecursionError)", "ValueError"),
          (f"{_FOREIGN}::test_a_manifest_of_many_brackets_is_a_damaged_one",)),
    # files and objects of others
    Fault("the map for perf is any file of that name", constant(perf_map, "_problem", lambda status: ""),
          ("tests/unit/runtime/test_perf_map.py::test_what_others_have_put_there_is_neither_written_to_nor_waited_for",)),
    Fault("a stream is owned before the finalizer can know it",
          edit(stream, "CudaStream.__del__", 'getattr(self, "_owned", False)', "self._owned"),
          ("tests/unit/runtime/cuda/test_cuda_interrupted.py::test_at_any_line_of_a_constructor",)),
    # hash grids
    Fault("the last points of a grid are in no block",
          edit(hash_grid, "HashGrid._sorted_by_digits", "-(-n // blocks)", "n // blocks"),
          (f"{_GRIDS}::test_any_number_of_blocks_gives_the_same_order",)),
    Fault("the last cells of a grid begin nowhere",
          edit(hash_grid, "HashGrid._sorted_by_digits", "-(-(self._cells + 1) // self._chunk)",
               "(self._cells + 1) // self._chunk"),
          (f"{_GRIDS}::test_order_and_content_are_those_of_a_search_through_all",)),
    Fault("the groups of a grid are not sorted",
          edit(hash_grid, "HashGrid._sorted_by_digits", "if groups is not None:", "if False:"),
          (f"{_GRIDS}::test_order_and_content_are_those_of_a_search_through_all",)),
    Fault("a grid is built where a tape keeps what it was",
          edit(hash_grid, "HashGrid._allocate", "now.kept or ", ""),
          ("tests/e2e/test_hash_grid.py::test_each_step_on_a_tape_has_the_grid_of_its_time",)),
    # what is remembered of texts
    Fault("a note that is damaged is one",
          edit(notes, "_notes", "rest and digest(rest).encode() == own", "rest"),
          ("tests/unit/cache/test_notes.py::test_what_is_cut_off_or_changed_is_none",)),
    Fault("what is remembered of a text is right whatever its names mean",
          edit(outline, "_remembered", "if names_of_static(outline.called, scope) != frozenset(outline.of_static):",
               "if False:"),
          (f"{_OUTLINE}::test_what_stands_for_static_counts",)),
    Fault("positions of a part of a text are those of the part",
          edit(outline, "_call_at", "node.lineno += line - 1", "pass"),
          (f"{_OUTLINE}::test_errors_say_the_same_place",)),
    Fault("members of any enum are data", edit(plain, "snapshot", "and _is_plain_enum(type(obj))", ""),
          (f"{_OUTLINE}::test_members_whose_class_has_operators_are_not",)),
    Fault("what kind of enum a member is of does not count",
          edit(contents, "_of", "if isinstance(obj, enum.Enum)", "if False"),
          (f"{_OUTLINE}::test_the_kind_of_a_member_counts",)),
]  # fmt: skip
