"""Faults in tiles, lanes, gathers and sums by destinations, each with the tests that must notice it.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.ad import gather, shifted_gather
from diffkern.frontend.tiles import tile_reductions
from diffkern.lower.tiles import fft, serial
from diffkern.lower.tiles import serial_scans as order
from diffkern.runtime.accumulate import sorting
from diffkern.targets.cpu import kernel as cpu_kernel
from diffkern.targets.cpu.lanes import accesses, choice

from .edits import Fault, edit

_LANES = "tests/e2e/test_lanes.py"
_TILE_LANES = "tests/unit/targets/test_tile_lanes.py"
_NEIGHBOURS = "tests/e2e/test_neighbour_gather.py::test_the_same_as_on_the_cpu"
_OFF = f"{_LANES}::test_lanes_without_a_thread_add_nothing_to_shared_elements"
_FFT = "tests/e2e/test_tile_fft.py"
_EXTREMA = "tests/e2e/test_tile_extrema.py::test_extrema_and_the_first_of_them"

TILES = [
    # tiles
    Fault("blocks that work on tiles run in lanes",
          edit(serial, "lower_tiles", "fn.tiled = _works_on_tiles(fn)", "pass"),
          (f"{_TILE_LANES}::test_blocks_that_work_on_tiles_run_one_by_one[tiles.load_store]",)),
    Fault("tiles of one element are those of a block",
          edit(serial, "_works_on_tiles", "of_block(op) and _elements(op) > 1", "of_block(op)"),
          (f"{_TILE_LANES}::test_what_each_thread_has_of_its_own_is_no_tile_of_a_block[own_numbers]",)),
    Fault("an array of a thread is a tile of a block",
          edit(serial, "_works_on_tiles", "of_block(op) and ", ""),
          (f"{_TILE_LANES}::test_what_each_thread_has_of_its_own_is_no_tile_of_a_block[own_array]",)),
    Fault("roots turn the other way",
          edit(fft, "_turned", "if sign > 0.0", "if sign < 0.0"),
          (f"{_FFT}::test_transforms_and_gradients[60-float32]",)),
    Fault("a quarter of a turn goes the other way",
          edit(fft, "_by_root", "(1 if sign > 0.0 else -1)", "(1 if sign < 0.0 else -1)"),
          (f"{_FFT}::test_transforms_and_gradients[8-float64]",)),
    Fault("roots are not exact at quarters of a turn",
          edit(fft, "_on_circle", "near, far = (math.pi / 2.0", "near, far = (3.1415926 / 2.0"),
          (f"{_FFT}::test_transforms_and_gradients[5-float64]",)),
    Fault("a long sum of a transform forgets to turn",
          edit(fft, "_Stage.element", "b.add(turns, k)", "turns"),
          (f"{_FFT}::test_transforms_and_gradients[22-float32]",)),
    Fault("the last elements have no part in an extremum",
          edit(order, "_extremum", "if size % count:", "if False:"), (f"{_EXTREMA}[47-float32]",)),
    Fault("an extremum that is NaN has no position",
          edit(order, "_position", 'b.one("or", here, b.one("isnan", value))', "here"),
          (f"{_EXTREMA}[47-float32]",)),
    Fault("an extremum begins at 0",
          edit(order, "_extremum", "least = neutral(b, kind, dtype)", "least = b.zero(value_type(dtype))"),
          (f"{_EXTREMA}[47-int32]",)),
    Fault("the position of a NaN behind a number is lost",
          edit(order, "better", 'found = b.one("or", found, first_nan)', "pass"), (f"{_EXTREMA}[5-float32]",)),
    Fault("an element that is left over from the pairs of a reduction comes before them",
          edit(tile_reductions, "_folded", "z, v.value, 0), w.value, half)", "z, v.value, 1), w.value, 0)"),
          ("tests/e2e/test_tile_extrema.py::test_extrema_of_vectors_are_those_of_each_component",)),
    # lanes
    Fault("lanes that are off add to a sum of all threads",
          edit(accesses, "LaneAccesses.summed", "if self.mask is not None:", "if False:"), (_OFF,)),
    Fault("lanes that are off add to an element that all share",
          edit(accesses, "LaneAccesses.at_once", "self.where_on(self.b.spread(v))", "self.b.spread(v)"), (_OFF,)),
    Fault("a row of one thread is left out",
          edit(cpu_kernel, "Chunk.neighbours", "if self.runs_in_lanes:", "if self.lanes:"),
          (f"{_LANES}::test_rows_of_one_thread_run_without_lanes",)),
    Fault("a row of one thread runs twice",
          edit(cpu_kernel, "Chunk.neighbours", "lo = lanes.run(body, leading, lo, end)",
               "first, lo = lo, lanes.run(body, leading, lo, hi)\n        lo = first if self.row_by_itself else lo"),
          (f"{_LANES}::test_rows_of_one_thread_run_without_lanes",)),
    Fault("a thread by itself is taken for as cheap as in lanes",
          edit(choice, "_one_costs_more", "any(map(work.pieces, ops))", "False"),
          ("tests/unit/targets/test_lane_threads.py::test_a_row_of_one_thread_runs_by_itself_where_a_mask_costs_time",)),
    # gathers and sums by destinations
    Fault("twice as many trips are taken for as many",
          edit(gather, "_GatherSearch._number", "if factor == 1 and len(product)", "if len(product)"),
          ("tests/grad/test_gather.py::test_other_loops_scatter[twice_as_many]",)),
    Fault("a sum of which a component is zero is left out",
          edit(gather, "_differs_from_zero", 'b.one("or", one, other)', 'b.one("and", one, other)'),
          ("tests/grad/test_gather.py::test_a_sum_of_which_a_component_is_zero",)),
    Fault("a branch is taken by neighbours of which nobody has asked",
          edit(shifted_gather, "_Neighbours._usual", "if op in needed[d]", "if op in needed[d] and not any(d)"),
          (f"{_NEIGHBOURS}[kept]",)),
    Fault("what holds of the nearest neighbour is taken to hold of all",
          edit(shifted_gather, "_Neighbours._usual", "hardest = max(", "hardest = min("), (f"{_NEIGHBOURS}[inside]",)),
    Fault("a gradient is cleared where no thread has consumed it",
          edit(shifted_gather, "_Neighbours.run", "by_fill = all(_always_stores(self.fn.body, b) for b in plan.later)",
               "by_fill = True"), (f"{_NEIGHBOURS}[inside]",)),
    Fault("sums by destinations are written to a gradient with gaps as to one without",
          edit(sorting, "sorting_of", "if not goal._data.flags.c_contiguous or not", "if not"),
          ("tests/grad/test_sorted.py::test_a_gradient_with_gaps_is_added_to_atomically",)),
]  # fmt: skip
