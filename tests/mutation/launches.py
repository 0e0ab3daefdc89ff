"""Faults in what is done with launches: joined, folded, fused, sorted, batched and rolled out; and in debug checks.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.ad import joint, reverse
from diffkern.ad import log_index as numbering
from diffkern.ad import stamps as ad_stamps
from diffkern.analysis import sorted_updates
from diffkern.lower import batch
from diffkern.opt import fuse
from diffkern.runtime.accumulate import sequence_dce, sorting
from diffkern.runtime.effects import rollout_step, tape_steps
from diffkern.runtime.launch import stamps
from diffkern.runtime.rollouts import rollout
from diffkern.targets.emit import checks

from .edits import Fault, edit

_FUSE = "tests/unit/opt/test_fuse.py"
_STAY = f"{_FUSE}::test_two_loops_stay"
_JOINED = f"{_FUSE}::test_which_can_be_joined"
_FOLDING = "tests/unit/runtime/test_folding.py"
_BETWEEN = f"{_FOLDING}::test_what_needs_the_launch_or_overwrites_its_results"
_SORTED = "tests/grad/test_sorted.py"
_SAME = f"{_SORTED}::test_the_gradient_is_that_of_the_plain_form"
_LOGS = "tests/e2e/test_overwritten.py::test_derivatives"
_ROLL_OUTS = "tests/e2e/test_roll_outs.py"
_STAMPED = "tests/e2e/test_stamped_launches.py"
_BATCH = "tests/unit/lower/test_batch.py::test_a_batch_is_what_its_examples_are"
_DEBUG = "tests/e2e/test_debug.py"

LAUNCHES = [
    # launches and their adjoints as one program
    Fault("threads of one program read what others write",
          edit(joint, "can_join", "written.isdisjoint(read) and ", ""), (f"{_JOINED}[reads_its_results-n1-False]",)),
    Fault("what an update returns is the same in one program",
          edit(joint, "can_join", "if any(op.name in ATOMICS and not used.isdisjoint(op.results) for op in ops):",
               "if False:"),
          (f"{_FUSE}::test_who_asks_what_an_update_returned_is_not_joined",)),
    Fault("one program adds what two do but does not store",
          edit(joint, "joined", "body.ops[:0] = b.region.ops",
               "body.ops[:0] = [op for op in b.region.ops if op.name not in WRITES]"),
          (f"{_FOLDING}::test_an_adjoint_does_its_launch",)),
    Fault("launches are put off behind what reads their results",
          edit(sequence_dce, "_may_change_places", "[*following.reads(), *others]", "others"), (_BETWEEN,)),
    Fault("launches are put off behind what overwrites their results",
          edit(sequence_dce, "_may_change_places", "[*following.reads(), *others]", "list(following.reads())"),
          (_BETWEEN,)),
    Fault("launches are put off behind what overwrites what they read",
          edit(sequence_dce, "_may_change_places", " or meet(reads, others)", ""),
          (f"{_FOLDING}::test_what_overwrites_what_the_launch_reads",)),
    Fault("a launch of fewer threads overwrites an array",
          edit(sequence_dce, "_overwrites", "held.shape == dims and ", ""),
          (f"{_FOLDING}::test_what_is_copied_or_launched_over_needs_no_fill",)),
    # loops that become one
    Fault("loops of other lengths go together", edit(fuse, "_goes_back", "last + 1 == max(stop - start, 0)", "True"),
          (f"{_STAY}[other_constant]",)),
    Fault("a loop goes past another one that reads what it stores",
          edit(fuse, "_Between.let_past", "(self.first, two), ", ""), (_STAY,)),
    Fault("a loop goes past what stores what it reads",
          edit(fuse, "_Between.let_past", "(self.first, self.left), ", ""), (_STAY,)),
    Fault("loops that begin elsewhere have the same index",
          edit(fuse, "_fused", "b.sub(first.index, first.start)", "first.index"),
          (f"{_FUSE}::test_one_loop_does_what_two_do",)),
    Fault("a sum may be looked at while it grows",
          edit(fuse, "_only_sums", ' or uses[after] != 1', ""),
          (_STAY,)),
    Fault("the order of stores does not count",
          edit(fuse, "_only_sums", "effect in _ORDERED and op.name not in ACCUMULATES", "False"), (_STAY,)),
    # sums by destinations
    Fault("negative destinations are counted from the last but one",
          edit(sorting, "_destinations", "part[part < 0] += count", "part[part < 0] += count - 1"),
          (f"{_SAME}[flat]",)),
    Fault("an order serves for whatever the indices have become",
          edit(sorting, "_order_of", "order is not None and order.digests == digests", "order is not None"),
          (f"{_SORTED}::test_every_change_of_the_indices_is_seen[launch]",)),
    Fault("contributions of a thread are stored at one place",
          edit(sorted_updates, "store_contributions", "adding.i32(place)", "adding.i32(0)"),
          (f"{_SAME}[flat]",)),
    Fault("every thread takes every branch to what it adds",
          edit(sorted_updates, "_DestinationSearch.places", "if op not in self.top:", "if False:"),
          (f"{_SORTED}::test_sums_under_conditions_are_added_atomically",)),
    # logs
    Fault("branches take the slots of the smaller one",
          edit(numbering, "Sites.of_op", "max(then, orelse)", "min(then, orelse)"),
          (f"{_LOGS}[uneven branches]",)),
    Fault("a loop takes the slots of one trip",
          edit(numbering, "Numbered.even", "self.at = b.add(start, b.mul(b.cast(trips, self.sites.index), n))",
               "self.at = b.add(start, n)"),
          (f"{_LOGS}[branches]", f"{_LOGS}[relaxed]")),
    Fault("rows of threads have one log",
          edit(numbering, "thread_number", 'b.mul(number, b.cast(b.one("extent", axis=axis), INT64))', "number"),
          ("tests/e2e/test_overwritten.py::test_threads_of_two_axes_have_logs_of_their_own",)),
    Fault("components of a vector are logged at one place",
          edit(numbering, "Logged.part", "self.slot() if k == 0 else", "self.slot() if True else"),
          (f"{_LOGS}[vectors]",)),
    # stamps
    Fault("one thread stores to what another one updates",
          edit(stamps, "_Stamps.check_reads", "self._refuse(racing,", "self._refuse(racing & False,"),
          (f"{_STAMPED}::test_a_race_without_a_load_is_named_by_the_store_and_the_update",)),
    Fault("a thread that reads alone is not asked who writes",
          edit(stamps, "_Stamps.check_reads", "self._refuse(alone & read", "self._refuse(self.several & read"),
          (f"{_STAMPED}::test_races_are_named",)),
    Fault("updates by another thread are not seen",
          edit(stamps, "_Stamps.check_reads", "self._refuse(updated &", "self._refuse(alone &"),
          (f"{_STAMPED}::test_races_are_named",)),
    Fault("of threads that store one value another one may be read",
          edit(ad_stamps, "_Stamping._stamp_row", "b.select(is_own, zero, number)", "zero"),
          (f"{_STAMPED}::test_races_are_named",)),
    Fault("each thread takes the cotangent of the same value",
          edit(reverse, "_Reverse.store", '"kind": "exch"', '"kind": "add"'),
          (f"{_STAMPED}::test_gradients_where_no_threads_race[the same values]",)),
    Fault("threads that store different values are one writer",
          edit(stamps, "_Stamps._differ", "self.several &", "False &"),
          (f"{_STAMPED}::test_races_are_named",)),
    Fault("tables that were changed are not looked at again",
          edit(stamps, "_key", "found += (memory.born, memory.now, memory.lendings)", "found += (memory.born,)"),
          (f"{_STAMPED}::test_a_launch_is_looked_at_until_nothing_changes_that_decides",)),
    Fault("changes through views that are gone are not seen by looks",
          edit(stamps, "_key", "memory.now, memory.lendings)", "memory.now)"),
          ("tests/e2e/test_one_writer.py::test_a_table_changed_through_a_view_that_is_gone_is_looked_at_again",)),
    Fault("that one thread stores to an element is taken for granted",
          edit(tape_steps, "LaunchStep._proved", "program.granted is not None:", "False:"),
          ("tests/e2e/test_one_writer.py::test_an_element_of_two_threads_is_an_error_that_names_them",)),
    Fault("that threads store the same value is believed the next time",
          edit(stamps, "_look", "shared_key if found is not False else key", "key"),
          (f"{_STAMPED}::test_the_same_values_are_looked_at_each_time",)),
    # roll-outs
    Fault("states are not kept before they are overwritten",
          edit(rollout, "Rollout._overwritten", "self._states[-1].keep(held)", "pass"),
          (f"{_ROLL_OUTS}::test_gradients_counts_and_memory[4-10]",)),
    Fault("going back leaves arrays as they were at the beginning",
          edit(rollout, "Rollout.take_back", "submit(Copy(held, copy))", "pass"),
          (f"{_ROLL_OUTS}::test_gradients_counts_and_memory[4-10]",
           f"{_ROLL_OUTS}::test_backward_runs_again_and_again")),
    Fault("a step that launches something else has done the same",
          edit(rollout, "Rollout._once", "elif self._marks[number] != self._mark:", "elif False:"),
          (f"{_ROLL_OUTS}::test_steps_that_would_do_something_else",)),
    Fault("what an array held behind a roll-out is not put back for it",
          edit(rollout_step, "RolloutStep.prepare", "for index, copy in self.contents.items()",
               "for index, copy in ()"),
          (f"{_ROLL_OUTS}::test_arrays_that_the_tape_overwrites_afterwards",)),
    # an axis of examples
    Fault("the extent of an array is the number of examples",
          edit(batch, "_Batched.op", 'op.attrs["axis"] + 1', 'op.attrs["axis"]'), (f"{_BATCH}[stencil]",)),
    Fault("examples along one axis see the index among all",
          edit(batch, "_Batched._of_thread", 'op = Op("mod", (b.one("tid", axis=0), self.first)',
               'op = Op("mod", (b.one("tid", axis=0), b.one("extent", axis=0))'),
          (f"{_BATCH}[four axes]",)),
    Fault("blocks of an example are counted among all",
          edit(batch, "_Batched.op", 'Op("mod", (b.one("block_index"), self._blocks())',
               'Op("mod", (b.one("block_index"), b.i32(1 << 30))'),
          (f"{_BATCH}[blocks]",)),
    Fault("a thread reads the value of another example",
          edit(batch, "_Batched.function", '(held, self.example)', '(held, self.b.i32(0))'), (f"{_BATCH}[random]",)),
    # debug programs
    Fault("a negative index leaves its stamp elsewhere",
          edit(checks, "CheckEmitter._stamp", "zip(position, ", "zip(indices, "),
          (f"{_DEBUG}::test_a_negative_index_leaves_its_stamp_on_the_element_that_it_names",)),
    Fault("a stamp is that of the thread before",
          edit(checks, "CheckEmitter._stamp", "b.sub(old, i64(1))", "old"),
          (f"{_DEBUG}::test_two_threads_store_to_one_element",)),
    Fault("a thread that stores twice is two threads",
          edit(checks, "CheckEmitter._stamp", 'b.icmp_unsigned("!=", old, own)', 'b.icmp_unsigned("!=", own, i64(0))'),
          (f"{_DEBUG}::test_a_thread_may_store_twice",)),
    Fault("the index behind the last one is inside",
          edit(checks, "CheckEmitter.access", 'b.icmp_unsigned("<", i, n)', 'b.icmp_unsigned("<=", i, n)'),
          (f"{_DEBUG}::test_write_outside_is_not_done",)),
    Fault("what is reported happens all the same",
          edit(checks, "CheckEmitter.access", "ir.Constant(I1, 0), outside", "ir.Constant(I1, 1), outside"),
          (f"{_DEBUG}::test_write_outside_is_not_done",)),
    Fault("a later error takes the place of the first one",
          edit(checks, "CheckEmitter._report_function", "b.extract_value(claimed, 1)", "ir.Constant(I1, 1)"),
          (f"{_DEBUG}::test_the_first_error_is_told",)),
]  # fmt: skip
