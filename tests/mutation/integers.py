"""Faults in what becomes of integers that a type does not hold, each with the tests that must notice it."""

from __future__ import annotations

from diffkern.frontend.terms import coerce
from diffkern.runtime.arrays import array, array_copy, convert, structs
from diffkern.runtime.launch import arguments

from .edits import Fault, edit

_TESTS = "tests/unit/test_warp_integers.py"

INTEGERS = [
    Fault("all dialects wrap integers in arrays",
          edit(array, "array._wrapped", "if not self._memory.warp_dialect or isinstance", "if isinstance"),
          (f"{_TESTS}::test_the_native_dialect_refuses",)),
    Fault("all dialects wrap integers in conversions",
          edit(coerce, "explicit_cast", "to.is_integer and cx.dialect.integers_wrap", "to.is_integer"),
          (f"{_TESTS}::test_the_native_dialect_refuses",)),
    Fault("integers that are passed to kernels do not wrap",
          edit(arguments, "Parameter.convert", "if self.wraps:", "if False:"),
          (f"{_TESTS}::test_arguments_of_launches",)),
    Fault("integers in fields of structs do not wrap",
          edit(structs, "_set", "definition.dialect.integers_wrap and", "False and"),
          (f"{_TESTS}::test_fields_of_structs",)),
    Fault("a copy is of another dialect",
          edit(array_copy, "clone", "made._memory.warp_dialect = src._memory.warp_dialect", "pass"),
          (f"{_TESTS}::test_arrays_however_they_were_made[copy]",)),
    Fault("a bool takes the last bit of a number",
          edit(convert, "wrapped", "return given != 0 if", "return given.astype(np.uint8) & 1 if"),
          (f"{_TESTS}::test_vectors_and_bools",)),
    Fault("integers of 64 bits come by way of floats",
          edit(convert, "as_numpy", "made.max() >= _LARGE", "False"),
          (f"{_TESTS}::test_lists_of_integers_that_need_all_64_bits[native]",)),
]  # fmt: skip
