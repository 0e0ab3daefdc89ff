"""Faults in arrays over an address and in views of other elements, each with the tests that must notice it."""

from __future__ import annotations

from diffkern.runtime.arrays import addresses, construct, recast
from diffkern.runtime.effects import tangents, tape_memory, tape_recording

from .edits import Fault, edit

_TESTS = "tests/e2e/test_addresses.py"
_BITS = f"{_TESTS}::test_integers_written_over_numbers_with_a_derivative"
_OTHER = f"{_TESTS}::test_no_gradient_goes_through_other_numbers"

ADDRESSES = [
    Fault(
        "an array over an address within another one knows nothing of it",
        edit(construct, "_within", "held = around(place.low, place.high)", "held = None"),
        (f"{_TESTS}::test_values_and_gradients[numbers]",),
    ),
    Fault(
        "an array that is gone has bytes",
        edit(addresses, "around", "(held := reference()) is not None", "((held := reference()) or True)"),
        (f"{_TESTS}::test_many_arrays_with_known_addresses",),
    ),
    Fault(
        "an array that contains some of the bytes contains all",
        edit(addresses, "around", "if end >= high and", "if end > low and"),
        (f"{_TESTS}::test_bytes_that_lie_in_an_array_in_part",),
    ),
    Fault(
        "numbers of any type are the same",
        edit(recast, "are_same_numbers", "scalar_of(a) == scalar_of(b)", "True"),
        (f"{_OTHER}[view-True]",),
    ),
    Fault(
        "parts of one array, taken as other elements, are fields of a struct",
        edit(recast, "is_recast", "type(held._view) is Recast", "False"),
        (f"{_TESTS}::test_two_views_of_bytes_that_overlap[float]",),
    ),
    Fault(
        "elements that lie in each other have a gradient each",
        edit(construct, "_part_of", "recast.keeps_numbers = False", "pass"),
        (f"{_TESTS}::test_elements_that_lie_in_each_other",),
    ),
    Fault(
        "integers over numbers change no derivative of a tape",
        edit(tape_memory, "TapeMemory._check_bytes", "if self._carries(held):", "if False:"),
        (f"{_BITS}[True-launch-view]",),
    ),
    Fault(
        "integers over numbers change no tangent",
        edit(tangents, "Tangents._wrote", "check_passes(held)", "pass"),
        (f"{_BITS}[False-fill-address]",),
    ),
    Fault(
        "what is under the bytes is not looked at",
        edit(tape_memory, "TapeMemory._look_at", "self._look_at(held._parent, what)", "pass"),
        (f"{_TESTS}::test_integers_written_before_the_numbers_are_met[view]",),
    ),
    Fault(
        "bits that are copied carry a derivative",
        edit(tape_recording, "TapeRecording._passes", "held._smooth and ", ""),
        (f"{_TESTS}::test_bits_that_are_read_are_constants[view]",),
    ),
    Fault(
        "an array of an array without a copy knows nothing of it",
        edit(construct, "from_data", "isinstance(data, array) and source.size", "False"),
        (f"{_TESTS}::test_an_array_of_an_array_without_a_copy[same-0]",),
    ),
]
