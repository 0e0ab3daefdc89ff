"""Faults in looking after cache directories, in what loads code, and in hash grids, each with tests that must notice.

They run as those of :mod:`mutation.elsewhere` do.
"""

from __future__ import annotations

from diffkern import llvm_modules
from diffkern.cache import entries, manifest, place, store

from .edits import Fault, constant, edit

_FOREIGN = "tests/unit/cache/test_foreign_files.py"
_CLEARED = f"{_FOREIGN}::test_nothing_foreign_is_touched_and_all_else_is_cleared"
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
    # native memory
    Fault("the passes of a compiler are not freed",
          edit(llvm_modules, "run_passes", "NewPassManager._dispose(passes)", "pass"),
          ("tests/e2e/test_unloading.py::test_the_memory_of_kernels_that_are_gone_is_given_back",)),
]  # fmt: skip
