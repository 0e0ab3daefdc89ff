"""Faults in how texts in C++ are read, each with tests that must notice it.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.warp.c import c_expressions, c_statements, c_text, c_types

from .edits import Fault, edit

_HERE = "tests/unit/test_c_texts.py"
_VALUES = (f"{_HERE}::test_values_of_a_compiler",)
_REFUSED = (f"{_HERE}::test_what_is_refused",)

C_TEXTS = [
    Fault("a variable of an inner scope is that of the outer one",
          edit(c_statements, "Statements._name", "while found in self._used or", "while"), _VALUES),
    Fault("a variable is read before it is counted down",
          edit(c_statements, "Statements._read", "if not before:", "if before:"), _VALUES),
    Fault("what is returned keeps its type",
          edit(c_statements, "Statements._returned", "as_kind(value, self.result)", "value.code"), _VALUES),
    Fault("narrow integers are not promoted",
          edit(c_types, "promoted", "< 32", "< 0"), _VALUES),
    Fault("signed and unsigned integers of one width are signed together",
          edit(c_types, "common", 'first.startswith("u")', 'second.startswith("u")'), _VALUES),
    Fault("literals in base 8 are read in base 10",
          edit(c_types, "literal", "8 if octal else 0", "10 if octal else 0"), _VALUES),
    Fault("arguments of C's functions keep their types",
          edit(c_expressions, "Expression._call", "set_to(a, k) for a, k", "a.code for a, k"), _VALUES),
    Fault("an address has the index of the time when it is used",
          edit(c_statements, "Statements._pointed", 'f"{array.code}, {kept}"', 'f"{array.code}, {value.code}"'),
          (f"{_HERE}::test_an_address_keeps_its_index",)),
    Fault("a variable that is counted may stand beside itself",
          edit(c_expressions, "Expression._check_steps", "names.count(name) > 1", "names.count(name) > 9"), _REFUSED),
    Fault("#elif is dropped",
          edit(c_text, "preprocessed", 'directive == "#elif" or', ""), _REFUSED),
]  # fmt: skip
"""Each rule of C++ broken."""
