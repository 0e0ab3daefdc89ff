"""Faults in what happens to arrays on the host's side: conditions, recordings, influence, records, shared memory."""

from __future__ import annotations

from diffkern.runtime.accumulate import aliases, given_cotangents
from diffkern.runtime.effects import influence, snapshots, tape_steps
from diffkern.runtime.launch import plain_launch, race_checks, shared_memory
from diffkern.runtime.records import graph, launch_record, recorder, sequence

from .edits import Fault, edit

_CONDITIONS = "tests/unit/runtime/test_conditionals.py"
_READS = "tests/unit/runtime/test_reads_while_recording.py"
_INFLUENCE = "tests/e2e/test_influence.py"
_SEQUENCES = "tests/unit/runtime/test_records_sequence.py"
_SHARED = "tests/e2e/test_shared_memory.py"

EFFECTS = [
    # conditions
    Fault("a condition is read again for its other side",
          edit(graph, "Conditional.execute", "_execute(self.on_true if self._holds() else self.on_false)",
               "_ = [_execute(side) for side, negate in self.sides if self._holds() != negate]"),
          (f"{_CONDITIONS}::test_the_condition_is_read_once",)),
    Fault("a graph reads a condition again for its other side",
          edit(graph, "Conditional._capture", "inside = device.new_stream()",
               "inside = (driver.set_condition(handle, address, negate, stream), device.new_stream())[1]"),
          (f"{_CONDITIONS}::test_the_condition_is_read_once",)),
    Fault("a condition may change places with what sets it",
          edit(graph, "Conditional.reads", "[self.condition, *(", "[*("),
          (f"{_CONDITIONS}::test_a_condition_stays_behind_what_sets_it",)),
    Fault("a part under a condition is recorded on a tape before that is refused",
          edit(graph, "_checked", "raise _no_adjoint()", "pass"),
          (f"{_CONDITIONS}::test_derivatives_of_a_recording_are_refused_before_anything_is_recorded",)),
    # reads of what is being recorded
    Fault("a recording does not know what it has written",
          edit(recorder, "Recorder._record", "self.written[a._memory] = label", "pass"),
          (f"{_READS}::test_a_read_is_refused",)),
    Fault("a part under a condition does not know what was recorded around it",
          edit(recorder, "Recorder.inside", "self.written", "None"),
          (f"{_READS}::test_a_part_of_a_condition_is_part_of_the_recording",)),
    # influence
    Fault("a result that depends on nothing has a derivative of zero",
          edit(influence, "Influence.check_results", "if results and not any(", "if not results and any("),
          (f"{_INFLUENCE}::test_a_lost_dependence_is_an_error[grad-of_nothing]",)),
    Fault("one of several results may have gone through the host",
          edit(influence, "Influence._may_be_read", "if self._read is None or self._is_fed(held):", "if True:"),
          (f"{_INFLUENCE}::test_one_of_several_results_went_through_numpy",)),
    Fault("what is left out on purpose carries no influence",
          edit(influence, "Influence.note_unrecorded", "a._memory for a in operation.writes()", "()"),
          (f"{_INFLUENCE}::test_a_zero_that_is_meant_is_zero",)),
    Fault("a derivative that is constant depends on nothing",
          edit(influence, "Influence.derive", "self._fed.update(a._memory for a in found)", "pass"),
          (f"{_INFLUENCE}::test_constant_derivatives_are_results",)),
    # records and sequences
    Fault("one array for two parameters has no log",
          edit(tape_steps, "LaunchStep.keep_log", "or bool(self.launch.merged)", ""),
          ("tests/e2e/test_one_array.py::test_values_that_one_array_overwrites_are_logged",)),
    Fault("the gradient of a record's array gets lost",
          edit(given_cotangents, "check_not_lost", "if leaf not in cotangents:", "if False:"),
          ("tests/unit/runtime/test_records.py::test_an_array_without_a_gradient_does_not_take_the_place_of_one_with",)),
    Fault("a refused parameter of a sequence has changed some launches",
          edit(sequence, "Sequence._set_params", "record.check(own_values)", "pass"),
          (f"{_SEQUENCES}::test_a_refused_parameter_changes_no_launch",)),
    Fault("a number lets an adjoint race when some launches have it",
          edit(launch_record, "LaunchRecord.check", "member.check_races(leaf, parts)", "pass"),
          (f"{_SEQUENCES}::test_a_number_that_lets_an_adjoint_race_changes_no_launch",)),
    Fault("a roll-out leaves NumPy's generator where its sweep has got to",
          edit(snapshots, "Randomness.restore", "np.random.set_state(self._numpy)", "pass"),
          ("tests/e2e/test_roll_outs.py::test_generators_go_on_where_they_were",)),
    Fault("arrays whose addresses overlap are one pair",
          edit(aliases, "near_pairs", "still.append((position, held))", "still = [(position, held)]"),
          ("tests/e2e/test_adjoint_launch.py::test_pairs_of_near_arrays",)),
    Fault("a launch whose threads race is searched again and again",
          edit(race_checks, "Races.check", "if (dims, found) not in self._found:",
               "if self._found.get((dims, found)) is None:"),
          ("tests/unit/runtime/test_checks_of_races.py::test_a_launch_is_searched_once",)),
    # shared memory
    Fault("arrays that share memory are not looked for",
          edit(shared_memory, "check_shared", "_check_pairs(kernel, executable, arrays)", "pass"),
          (f"{_SHARED}::test_by_launches_at_once",)),
    Fault("arguments of a launch are looked at once for ever",
          edit(plain_launch, "run", "executable.disjoint != arguments", "not executable.disjoint"),
          (f"{_SHARED}::test_the_check_is_made_anew_for_other_arguments",)),
    Fault("views in a record are exchanged unseen",
          edit(launch_record, "LaunchRecord._are_alone", "a._alone is not None", "True"),
          (f"{_SHARED}::test_records_whose_arrays_are_exchanged_in_native_code",)),
    Fault("fields of one array of structs are taken for shared",
          edit(shared_memory, "_are_shared", "return a._packed == b._packed", "return True"),
          (f"{_SHARED}::test_fields_and_rows",)),
]  # fmt: skip
"""Faults with the tests that must notice them, as those of :mod:`.elsewhere`."""
