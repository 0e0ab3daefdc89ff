"""Faults in what tapes keep of arrays, and in what logs hold."""

from __future__ import annotations

from diffkern.ad import load_log as overwritten
from diffkern.analysis import boxes
from diffkern.runtime.effects import kept, residuals, tape_needs, tape_steps
from diffkern.runtime.launch import regions
from diffkern.runtime.memory import memory
from diffkern.runtime.records import launch_record, recorder

from .edits import Fault, edit

_TRAJECTORIES = "tests/e2e/test_trajectories.py"
_BOXES = "tests/unit/analysis/test_boxes.py"
_REGIONS = f"{_BOXES}::test_regions"
_LATER = f"{_TRAJECTORIES}::test_what_only_later_launches_overwrite"
_RING = f"{_TRAJECTORIES}::test_a_ring_keeps_the_rows_that_it_overwrites[40]"
_LOGS = "tests/e2e/test_overwritten.py"

TRAJECTORIES = [
    # which elements a launch touches
    Fault("a box is too small by one row",
          edit(regions, "_Numbers.extent", "found.append((low, high + 1))", "found.append((low, max(high, low + 1)))"),
          (_REGIONS,)),
    Fault("boxes are those of another parameter",
          edit(regions, "Regions.__init__", "(what, p.of): boxes", "(what, max(p.of - 1, 0)): boxes"),
          (f"{_TRAJECTORIES}::test_one_array_as_two_arguments",)),
    Fault("numbers of an earlier launch are taken for those of the present one",
          edit(regions, "Regions._of", "key = (what, index, dims, numbers, held.shape)",
               "key = (what, index, dims, held.shape)"),
          (_RING,)),
    Fault("a negative index does not count from the end",
          edit(regions, "_Numbers.extent", "if wraps and low < 0:", "if False:"), (_REGIONS,)),
    Fault("numbers of 32 bits never wrap around",
          edit(regions, "_Numbers.interval", "if low < -_LIMIT or high >= _LIMIT:", "if False:"),
          (f"{_BOXES}::test_numbers_beyond_32_bits_say_nothing",)),
    Fault("what was widened is exact",
          edit(boxes, "_Box.made", "for v in self.widened(at)", "for v in ()"), (_REGIONS,)),
    Fault("the trips of a loop are counted by one too few",
          edit(boxes, "_Box.of_loop", "number(-1 if step > 0 else 1)", "number(-1 - abs(step) if step > 0 else 1)"),
          (_BOXES,)),
    Fault("an array that a block works on is accessed by elements alone",
          edit(boxes, "boxes_of", '{"block", "tile"} & {', '{"none"} & {'),
          (f"{_BOXES}::test_what_blocks_and_tiles_touch_is_not_known",)),
    # what is kept
    Fault("a launch overwrites nothing that its own adjoint needs",
          edit(tape_needs, "TapeNeeds._save", "if not any(meet(", "if True or not any(meet("),
          (f"{_TRAJECTORIES}::test_a_row_in_place",)),
    Fault("no later launch overwrites what is needed",
          edit(tape_needs, "TapeNeeds._before_overwrite", "if not meet(held, region, need.held, read):", "if True:"),
          (_LATER,)),
    Fault("a need that is met once is never met again",
          edit(tape_needs, "TapeNeeds._before_overwrite",
               "self._need(Need(step, index, need.held, read, is_known=True))", "pass"), (_LATER,)),
    Fault("copies of parts are put to the place of another step's",
          edit(kept, "StepRooms.room", "self._taken[like] = k + 1", "pass"),
          (f"{_TRAJECTORIES}::test_two_arrays_of_which_parts_are_kept",)),
    Fault("columns are found where rows are",
          edit(residuals, "Needs.take", "range(*extent[axis])", "range(*extent[0])"),
          ("tests/unit/runtime/test_needs.py",)),
    Fault("views of one memory meet where their indices do",
          edit(regions, "meet", "(held is other or held._same_place(other))", "True"),
          ("tests/unit/runtime/test_needs.py",)),
    Fault("what an array still holds may be changed by others",
          edit(tape_steps, "LaunchStep.check_lost", "(index in self.lost_before and self.is_saved_in_place(index))",
               "False"),
          (f"{_TRAJECTORIES}::test_a_change_outside_the_tape",)),
    Fault("what another tape has written is as it was",
          edit(memory, "Memory.changes_since", "if changes.after > version", "if changes.after > self.now"),
          (f"{_TRAJECTORIES}::test_another_tape_overwrites_what_is_needed",)),
    # sequences
    Fault("numbers on which copies depend can be set",
          edit(launch_record, "LaunchRecord._check_settled", "leaf in self.settled", "False"),
          (f"{_TRAJECTORIES}::test_numbers_on_which_copies_depend_are_settled",)),
    Fault("what is settled before a launch is taken is forgotten",
          edit(recorder, "Recorder._record", "item.record.settle(settled[1])", "pass"),
          (f"{_TRAJECTORIES}::test_numbers_on_which_copies_depend_are_settled",)),
    Fault("sequences keep parts while numbers can be set",
          edit(tape_needs, "TapeNeeds._may_rest", "recorder.settle(launch, arguments)", "True"),
          (f"{_TRAJECTORIES}::test_numbers_on_which_copies_depend_are_settled",)),
    # logs
    Fault("integers of 64 bits are logged as such of 32",
          edit(overwritten, "_common_type", "INT64 if any(t.itemsize > INT32.itemsize for t in scalars) else INT32",
               "INT32"),
          (f"{_LOGS}::test_integers_are_logged_with_all_their_bits",)),
    Fault("integers beside floats are logged as these",
          edit(overwritten, "_common_type", "floats[0] if len(scalars) == 1 else FLOAT64", "floats[0]"),
          (f"{_LOGS}::test_integers_beside_floats_are_logged_in_a_type_that_holds_both",)),
]  # fmt: skip
