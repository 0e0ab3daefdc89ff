"""Faults in what the key says of Python objects, in captured data, and in what is told of the user's own errors."""

from __future__ import annotations

from diffkern import errors
from diffkern.compiler import specialize
from diffkern.contracts import options
from diffkern.frontend.statements import expr
from diffkern.frontend.syntax import plain, static
from diffkern.frontend.terms import components
from diffkern.lang import text
from diffkern.runtime.arrays import structs

from .edits import Fault, edit

_EDITED = "tests/e2e/test_edited_classes.py"
_ARRAYS = "tests/e2e/test_captured_arrays.py"
_LIKENESS = "tests/unit/frontend/test_likeness.py"

KEYS = [
    Fault("the text of a struct's method has no say in the key",
          edit(specialize, "Specialization.fields",
               "(pair for t in self.types for pair in functions_of(declared(t)))", "()"),
          ("tests/unit/cache/test_struct_keys.py::test_the_text_of_methods_of_what_is_passed_counts",)),
    Fault("a field of a variant has no say in the key unless it says so",
          edit(options, "_fields_told", '"in_key", True', '"in_key", False'),
          ("tests/unit/cache/test_key.py::test_every_field_counts_unless_it_says_otherwise",)),
    Fault("results of static expressions are not in the key",
          edit(expr, "_given", "if not found.is_plain:", "if False:"),
          (f"{_EDITED}::test_edits_within_a_process[chosen]",)),
    Fault("any function computes with its arguments alone",
          edit(static, "_Plain._call",
               "not any(called is function for function in _FUNCTIONS)", "not callable(called)"),
          (f"{_EDITED}::test_edits_within_a_process[chosen]",)),
    Fault("attributes of classes without a name are not noted",
          edit(expr, "_attribute", "if cx.outside(node) is MISSING:", "if False:"),
          (f"{_EDITED}::test_an_attribute_of_a_class_that_has_no_name_in_the_kernel_is_watched",)),
    Fault("values of a variable are told apart by their text",
          edit(static, "_mark", "return id(value)", "return repr(value)"),
          ("tests/unit/frontend/test_static.py::test_values_of_a_variable_that_look_alike",)),
    Fault("plain data is not copied at the definition",
          edit(plain, "snapshot", "if type(obj) in (list, tuple):", "if type(obj) is list:\n        return obj\n"
               "    if type(obj) is tuple:"),
          ("tests/unit/frontend/test_static.py::test_plain_data_is_that_of_the_definition",)),
    Fault("an array keeps its order of bytes",
          edit(plain, "native", 'own.dtype.newbyteorder("=")', "own.dtype"),
          (f"{_ARRAYS}::test_by_name_in_each_dialect",)),
    Fault("a masked array is its data",
          edit(plain, "is_masked", "isinstance(array, np.ma.MaskedArray)", "False"),
          (f"{_ARRAYS}::test_what_is_refused",)),
    Fault("a nested struct is zero",
          edit(structs, "declared", "elif nested is not None and nested.defaults:", "elif False:"),
          ("tests/unit/frontend/test_structs.py",)),
    Fault("indices of tuples are not checked",
          edit(components, "wrapped", "if cx.checked and not cx.in_map:", "if False:"),
          ("tests/e2e/test_indices_of_tuples.py::test_debug_programs_report_the_others[0]",)),
    Fault("an index below the first is not seen",
          edit(components, "_check", "if v.type.kind is not T.Kind.UINT:", "if False:"),
          ("tests/e2e/test_indices_of_tuples.py::test_debug_programs_report_the_others[0]",)),
    Fault("errors of the user's methods are errors in diffkern",
          edit(errors, "is_of_user", "return is_special and", "return False and"), ("tests/unit/test_user_code.py",)),
    Fault("a file is not read again",
          edit(text, "text_read_again", "if lines and lines != before:", "if False:"),
          (f"{_LIKENESS}::test_a_kernel_that_is_made_after_an_edit_within_the_resolution_of_the_clock",)),
]  # fmt: skip
