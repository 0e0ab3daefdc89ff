"""Faults in the mathematics of numbers: special values, singular points and the dialects' semantics.

Each with the tests that must notice it, as in :mod:`~tests.mutation.elsewhere`.
"""

from __future__ import annotations

from diffkern.ad.rules import scalar as scalar_rules
from diffkern.targets.cuda import math as cuda_math
from diffkern.targets.emit import kernel, scalars

from .edits import Fault, edit

_FAST = "tests/e2e/test_fast_math.py::test_values"
_FAR = "tests/e2e/test_extreme_magnitudes.py"
_SPECIAL = "tests/unit/targets/cuda/test_elementary.py::test_fast_mathematics_at_special_values"

ARITHMETIC = [
    # fast mathematics
    Fault("quotients by roots are estimates", edit(kernel, "without_estimates", '"arcp" in flags', "False"), (_FAST,)),
    Fault("a fast power of a negative number is that of its size",
          edit(cuda_math, "CudaScalars.fast_power", "b.fneg(value)", "value"), (f"{_SPECIAL}[pow]",)),
    # squares
    Fault("hypot scales large numbers only",
          edit(scalars, "_hypot", "constant(t, 2.0**low)", "constant(t, 0.0)"), (f"{_FAR}::test_lengths",)),
    Fault("what hypot scales stays so",
          edit(scalars, "_hypot", "scale(-1)", "scale(1)"), (f"{_FAR}::test_lengths",)),
    Fault("the steeper coordinate of an angle is the other one",
          edit(scalar_rules, "atan2_parts", 'b.one("gt"', 'b.one("lt"'), (f"{_FAR}::test_slopes_of_angles",)),
]  # fmt: skip
