"""Faults in what Warp's own programs count on, each with tests that must notice it.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.frontend.statements import expr, matching, returns
from diffkern.frontend.tiles import tile_math, tile_range
from diffkern.transforms import indexed, mapping
from diffkern.utils import sorts
from diffkern.warp import arrays

from .edits import Fault, edit

_HERE = "tests/e2e/test_warp_behaviour.py"

WARP_BEHAVIOUR = [
    Fault("a product multiplies infinity by a beta of zero",
          edit(tile_math, "_kept", "b.select(dropped, b.zero(value.type), value)", "value"),
          (f"{_HERE}::test_a_product_with_beta_zero_reads_nothing_that_is_not_finite[inf-0.0]",)),
    Fault("funcs named as operators are operators in every dialect",
          edit(matching, "user_operator", "not cx.dialect.named_operators", "False"),
          (f"{_HERE}::test_operators_of_other_types_and_of_the_native_dialect_stay[native]",)),
    Fault("shapes have four extents in every dialect",
          edit(expr, "_tuple_item", "isinstance(owner, Shape) and cx.dialect.long_shapes and", "True and"),
          (f"{_HERE}::test_shapes_have_four_extents_in_warps_dialect_alone",)),
    Fault("ranges of floats are counted exactly",
          edit(tile_range, "_count", "math.ceil(quotient if dtype == T.FLOAT64 else _nearest(quotient, dtype))",
               "math.ceil(steps)"),
          (f"{_HERE}::test_ranges_are_counted_as_the_type_of_their_elements_has_the_bounds",)),
    Fault("operators of Warp's arrays are native ones",
          edit(mapping, "operated", "WARP if any(", "NATIVE if any("),
          (f"{_HERE}::test_operators_of_arrays_follow_the_dialect_of_their_arrays",)),
    Fault("what is copied into an indexed array is no change of the array",
          edit(indexed, "indexedarray.assign", "self.data._memory.version += 1", "pass"),
          ("tests/unit/test_indexed_arrays.py::test_the_host_copies_without_a_kernel_where_nobody_notices",)),
    Fault("segments may end behind what is sorted",
          edit(sorts, "_check_ranges", "(stops > count)", "(stops > 2 * count)"),
          (f"{_HERE}::test_segments_outside_of_what_is_sorted",)),
    Fault("annotated tuples may have another length",
          edit(returns, "check_returned", "count != len(want.items)", "False"),
          (f"{_HERE}::test_funcs_return_what_they_are_annotated_with",)),
    Fault("fractions in lists are dropped",
          edit(arrays, "_whole", "(numbers == np.trunc(numbers))", "(numbers == numbers)"),
          (f"{_HERE}::test_lists_of_whole_floats_are_integers",)),
]  # fmt: skip
