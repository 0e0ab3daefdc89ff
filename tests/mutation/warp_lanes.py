"""Faults in what texts in C++ for GPUs have, each with tests that must notice it.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.ad import atomic_log as slots
from diffkern.ad import load_log as overwritten
from diffkern.analysis import blocks, refusals, scopes, tile_threads
from diffkern.targets.cuda import registers
from diffkern.warp.c import c_gpu, c_statements, c_warps

from .edits import Fault, edit, func_edit

_HERE = "tests/e2e/test_warp_lanes.py"
_EXCHANGES = (f"{_HERE}::test_an_exchange",)

WARP_LANES = [
    Fault("a lane reads beyond the end of its part of the warp",
          func_edit(c_warps, "shuffle_down", "other <= (own | (width - 1))", "other < 32"), _EXCHANGES),
    Fault("a lane is one of the whole warp",
          func_edit(c_warps, "shuffle", "(own & ~(width - 1)) | (lane & (width - 1))", "lane & 31"), _EXCHANGES),
    Fault("the halves of an exchanged number are one half twice",
          edit(registers, "exchanged", "exchange(b.trunc(b.lshr(bits, i64(32)), I32))", "low"), _EXCHANGES),
    Fault("an exchange without a width is one of half a warp",
          edit(c_gpu, "called", 'if rest else "32"', 'if rest else "4"'),
          (f"{_HERE}::test_without_a_width_it_is_the_whole_warp",)),
    Fault("what equals no number is not replaced",
          func_edit(c_warps, "_tried", "wp.isnan(wp.cast(old, wp.float32))", "False"),
          (f"{_HERE}::test_extremes_by_the_bits_of_numbers",)),
    Fault("a loop that continues takes no step",
          edit(c_statements, "Statements._ended", "[*self._steps[-1], text] if self._steps else [text]", "[text]"),
          ("tests/unit/test_warp_snippets.py::test_texts",)),
    Fault("threads beside a barrier and tiles are one",
          edit(tile_threads, "threads_of", "_OF_TILES | _BESIDE_TILES if", "_OF_TILES if"),
          (f"{_HERE}::test_threads_that_share_tiles_and_wait_for_each_other",)),
    Fault("any work on tiles may stand in branches of threads",
          edit(tile_threads, "_only_reads", 'op.name == "tile_extract" and', ""),
          (f"{_HERE}::test_work_on_tiles_that_some_threads_miss_is_refused",)),
    Fault("the block of a thread differs from that of its neighbour",
          edit(scopes, "_block_indices", "fn.tid_arity != 1", "True"),
          (f"{_HERE}::test_threads_read_elements_of_tiles_in_branches_of_their_own",)),
    Fault("a barrier of which nothing is proved is not noted",
          edit(blocks, "_check_region", '{**op.attrs, "unproved": True}', "op.attrs"),
          (f"{_HERE}::test_a_derivative_on_a_gpu_is_refused",)),
    Fault("work of a warp is differentiated as if it were that of a thread",
          edit(refusals, "check_no_warps", 'lookup(op.name).family == "warp" or alone', "alone"),
          (f"{_HERE}::test_forward_mode_and_batches_are_refused",)),
    Fault("how often a thread goes round is never believed",
          edit(slots, "counted", "classify_loads(named, stamped=stamped)", "classify_loads(named)"),
          ("tests/e2e/test_stamped_launches.py::test_rounds_that_depend_on_what_the_thread_itself_has_written",)),
    Fault("threads that know the size of their block have no log",
          edit(overwritten, "overwritten_values", "is_simt(base, knowing=True)", "is_simt(base)"),
          ("tests/e2e/test_overwritten.py::test_threads_that_know_the_size_of_their_block",)),
]  # fmt: skip
"""Exchanges, barriers, elements of tiles, logs."""
