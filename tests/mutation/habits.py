"""Faults in habits of published programs for Warp, each with tests that must notice it.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.frontend.syntax import guards, scope
from diffkern.runtime.arrays import create

from .edits import Fault, edit

_HERE = "tests/unit/test_warp_habits.py"

HABITS = [
    Fault("a launch does not look at attributes of objects",
          edit(guards, "_note_path", "(partial(getattr, owner), name, obj)", "(lambda _, kept=obj: kept, name, obj)"),
          (f"{_HERE}::test_attributes_of_objects_are_constants",)),
    Fault("no attribute of an object is a constant",
          edit(scope, "static_attribute", "of_objects and", "False and"),
          (f"{_HERE}::test_attributes_of_objects_are_constants",)),
    Fault("no elements are elements of one type",
          edit(create, "Untyped.taken_by", "if not self.size:", "if False:"),
          (f"{_HERE}::test_what_is_passed_for_its_memory_alone_takes_the_elements_of_the_parameter",)),
]  # fmt: skip
