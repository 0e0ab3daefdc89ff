"""Faults in variables that some path does not set, changed views and exclusive updates, with tests that notice them.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.analysis import exclusive
from diffkern.frontend.builtins import pointers
from diffkern.frontend.statements import array_choices, branch, inline, loops, unset
from diffkern.frontend.terms import context, merge, views
from diffkern.frontend.tiles import tile_terms

from .edits import Fault, edit

_UNSET = "tests/e2e/test_unset_variables.py"
_ENDS = "tests/e2e/test_ends_without_value.py"
_UPDATES = "tests/e2e/test_exclusive_updates.py"
_REFUSED = f"{_UPDATES}::test_what_one_launch_may_do_both_ways_is_refused"
_VIEWS = "tests/e2e/test_changed_views.py::test_what_is_read_again_is_no_copy"

UNSET = [
    Fault("what a trip sets is not kept for the next one",
          edit(loops, "_plan", "or is_endless(stmt) or cx.dialect.unset_is_zero", "or is_endless(stmt)"),
          (f"{_UNSET}::test_a_loop_keeps_what_a_trip_has_set",)),
    Fault("every dialect takes what is not set for zero",
          edit(unset, "read", "not frame.dialect.unset_is_zero or (", "("),
          (f"{_UNSET}::test_other_dialects_refuse",)),
    Fault("a variable may be read before the text sets it",
          edit(loops, "_body", "cx.frame.seen = dict(plan.seen)", "pass"),
          (f"{_UNSET}::test_a_variable_is_set_before_in_the_text",)),
    Fault("a debug program does not report what no trip has set",
          edit(loops, "_plan", "for name in names if mark(name) in cx.env", "for name in ()"),
          (f"{_UNSET}::test_a_debug_program_reports_the_read",)),
    Fault("the branches of a choice between arrays are exchanged",
          edit(array_choices, "_ChoiceExpander.branch", "trees[0], trees[1]", "trees[1], trees[0]"),
          ("tests/e2e/test_chosen_arrays.py::test_rows_of_arrays",)),
    Fault("an update of a chosen array is no atomic one",
          edit(array_choices, "expand", "for made in expander.updates(update)", "for made in (update,)"),
          ("tests/e2e/test_chosen_arrays.py::test_updates_of_the_chosen_array_are_atomic",)),
    Fault("an array of an address begins anywhere",
          edit(pointers, "_divisor", "return abs(term.value) if", "return 4 if"),
          ("tests/e2e/test_arrays_of_addresses.py::test_what_is_refused",)),
    Fault("a part of an array begins where the array does",
          edit(pointers, "of_address", "start = cx.b.add(axis.start, start)", "pass"),
          ("tests/e2e/test_arrays_of_addresses.py::test_parts_of_a_parameter",)),
    Fault("a func of any dialect may end without a value",
          edit(inline, "returned", "frame.may_return_nothing and not frame.dialect.unset_is_zero", "False"),
          (f"{_ENDS}::test_several_values_and_other_dialects_are_refused",)),
    Fault("the array that a func gives back is there on all paths",
          edit(context, "Activation.is_sure", "name == RETURN and not self.may_return_nothing", "name == RETURN"),
          (f"{_ENDS}::test_structs_are_zero_and_arrays_null",)),
    Fault("an array that some path has not set is there on all paths",
          edit(branch, "_joined_shape", "with_null(shape, *regions, how", "with_null(shape, perhaps=False, how"),
          (f"{_UNSET}::test_an_array_is_null_where_it_is_not_set",)),
    Fault("a row of an array is that of the last trip",
          edit(merge, "_parts", "if isinstance(as_one, Scalar)", "if isinstance(as_one, Scalar) and False"),
          (f"{_UNSET}::test_a_row_of_an_array_is_kept",)),
    Fault("elements are read where an array is null",
          edit(views, "_if_present", "if view.present is None", "if True"),
          (f"{_UNSET}::test_elements_of_null_are_zero_and_what_is_written_to_it_is_lost",)),
    Fault("what is written to a field that is not set is kept",
          edit(views, "guarded", "if is_unset(cx, view)", "if False"),
          (f"{_UNSET}::test_what_is_written_to_fields_that_stay_unset_is_lost",)),
    Fault("every thread may read a field that is not set",
          edit(views, "_check_unset", "if cx.b.region is cx.root", "if False"),
          (f"{_UNSET}::test_elements_of_a_field_that_stays_unset_are_refused_where_every_thread_comes",)),
    Fault("a condition of each trip chooses for the launch",
          edit(exclusive, "Exclusive._enter", "and op.operands[0] in self._made", ""), (_REFUSED,)),
    Fault("what is not equal to one number is equal to another",
          edit(exclusive, "Exclusive.__call__", "for other, true in facts.items() if true", "for other in facts"),
          (f"{_REFUSED}[one_beside_another]",)),
    Fault("a view is a copy though the next trip reads the whole",
          edit(tile_terms, "_is_read_no_more", "if not sharing.isdisjoint(repeated)", "if False"),
          (f"{_VIEWS}[read_by_the_next_trip]",)),
    Fault("a view is a copy though another view is read",
          edit(tile_terms, "_is_read_no_more", "(wholes | shown)", "wholes"), (f"{_VIEWS}[another_view_is_read]",)),
]  # fmt: skip
