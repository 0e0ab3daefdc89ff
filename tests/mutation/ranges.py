"""Faults in how trips of loops are counted, in indices, and in names that loops rebind."""

from __future__ import annotations

from diffkern.ad import loops as ad_loops
from diffkern.analysis import affine
from diffkern.frontend.statements import iterables
from diffkern.frontend.statements import ranges as bounds
from diffkern.frontend.terms import merge
from diffkern.ir import trip_count
from diffkern.opt import ranges
from diffkern.runtime.launch import grid_checks
from diffkern.targets.emit import loops

from .edits import Fault, constant, edit

_TABLE = "tests/unit/ir/test_trip_count.py"
_NAMES = "tests/unit/frontend/test_rebound_names.py::test_a_name_that_is_rebound_in_a_loop"
_SHAPES = "tests/e2e/test_launch_shapes.py"

RANGES = [
    Fault("an unsigned range makes no trip",
          edit(loops, "trip_count", "step.constant if isinstance(step, ir.Constant) else None",
               "step.constant if isinstance(step, ir.Constant) and t.kind is Kind.INT else 0"),
          (f"{_TABLE}::test_llvm",)),
    Fault("the last step of a range is left out",
          edit(trip_count, "_Ops.whole", "self.b.add(self.b.cast(passed, self.to), self.number(1))",
               "self.b.cast(passed, self.to)"),
          (f"{_TABLE}::test_ops",)),
    Fault("the length of a range is a number of its type",
          edit(trip_count, "_Ops.whole", "UINT64 if self.to.bits == 64 else UINT32", "self.to"),
          (f"{_TABLE}::test_ops",)),
    Fault("narrow trips are numbered in the type of the index",
          constant(ad_loops, "counter_type", lambda t: t),
          ("tests/e2e/test_ranges.py::test_readable_source[int8-nested]",)),
    Fault("no step leaves the type of a range",
          edit(bounds, "stays_inside", "trips.step in (1, -1)", "True"),
          ("tests/e2e/test_ranges.py::test_a_last_step_that_leaves_the_type",)),
    Fault("a reversed range may begin below the least number",
          edit(iterables, "reversed_range", "if trips.above_least[1] else", "if True else"),
          ("tests/e2e/test_ranges.py::test_reversed_at_the_least_number",)),
    Fault("poison goes around a loop for the array that it hides",
          edit(merge, "join", "return b if isinstance(a.term, Poison) else a", "return Same(Poison())"),
          (f"{_NAMES}[array-for-for]",)),
    Fault("narrow sums are affine",
          edit(affine, "AffineForms._compute", "is_exact_index(v.type)", "True"),
          ("tests/e2e/test_wraparound.py::test_a_launch_is_judged_by_the_index_that_has_wrapped",)),
    Fault("a narrow sum of numbers that are not negative is not negative",
          edit(ranges, "Ranges.deep", "exact = exact and is_exact_index(v.type)", "pass"),
          ("tests/e2e/test_wraparound.py::test_sums_of_narrow_integers_wrap_in_an_index_too[int8-release]",)),
    Fault("an index that wraps is not reduced to its type",
          edit(grid_checks, "_reduced", "signed, bits = _WIDTHS[type_]", "signed, bits = True, 64"),
          (f"{_SHAPES}::test_an_index_that_wraps_around_is_computed_as_threads_compute_it",)),
    Fault("an index of 32 bits and more is not judged",
          edit(grid_checks, "check_extents", "length = shapes[entry.array][entry.axis]",
               "length = shapes[entry.array][entry.axis] if high < 2**31 else high + 1"),
          (f"{_SHAPES}::test_an_index_beyond_32_bits_is_computed_without_wrapping",)),
]  # fmt: skip
