"""Faults in the mathematics of numbers: special values, singular points and the dialects' semantics.

Each with the tests that must notice it, as in :mod:`~tests.mutation.elsewhere`.
"""

from __future__ import annotations

from diffkern.ad import forward, reverse, singular, steep
from diffkern.ad.rules import rule
from diffkern.ad.rules import scalar as scalar_rules
from diffkern.frontend.builtins import exponents, library, library_vector
from diffkern.frontend.numba import numba_numbers
from diffkern.frontend.statements import expr
from diffkern.frontend.terms import coerce, narrow
from diffkern.library import quaternions
from diffkern.lower import polygammas
from diffkern.lower.tiles import serial_scans as order
from diffkern.targets.cuda import math as cuda_math
from diffkern.targets.emit import kernel, scalars

from .edits import Fault, constant, edit

_FAST = "tests/e2e/test_fast_math.py::test_values"
_FAR = "tests/e2e/test_extreme_magnitudes.py"
_GAMMA = "tests/e2e/test_gamma.py"
_HALF = "tests/e2e/test_half_values.py"
_NUMBA = "tests/cuda_dialect/test_numbers.py"
_DIALECTS = "tests/unit/frontend/test_dialects.py"
_POINTS = "test_special_points_in_the_dialect_of_warp"
_MODES = "tests/grad/test_singular_modes.py"
_CHOSEN = f"{_MODES}::test_chosen_derivatives_in_both_modes"
_SECOND = f"{_MODES}::test_second_derivatives_of_launches"
_INSIDE = f"{_MODES}::test_second_derivatives_in_kernels"
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
    # gamma functions
    Fault("digamma is not reflected", edit(polygammas, "_polygamma", "b.select(above, mirrored, below)", "mirrored"),
          (f"{_GAMMA}::test_values",)),
    Fault("digamma has no sign at 0", edit(polygammas, "_polygamma", "b.const(-1.0, t), x)", "b.const(-1.0, t), zero)"),
          (f"{_GAMMA}::test_poles",)),
    Fault("the derivative of a polygamma function is of the order after the next",
          edit(scalar_rules, "next_polygamma", 'op.attrs["order"] + 1', 'op.attrs["order"] + 2'),
          (f"{_GAMMA}::test_derivatives_to_order_four",)),
    Fault("the logarithm has another root", constant(polygammas, "ROOT", (1.4616321449683622, 0.0)),
          (f"{_GAMMA}::test_values",)),
    # rotations, positions in tiles
    Fault("Euler angles are never locked", constant(quaternions, "_LOCKED", -1.0), ("tests/e2e/test_euler_angles.py",)),
    Fault("a NaN is no extremum of a tile", edit(order, "better", 'b.one("isnan", value)', 'b.one("isnan", best)'),
          ("tests/e2e/test_tile_positions.py",)),
    # float16
    Fault("a double is rounded to float16 by way of float32",
          edit(narrow, "_rounded_to_odd", "select(exact, near, odd)", "select(exact, near, near)"),
          (f"{_HALF}::test_doubles_are_rounded_once",)),
    Fault("what is converted has more digits than its type",
          edit(coerce, "rounded", "cx.dialect.narrow_elements", "False"),
          (f"{_HALF}::test_conversions_round_first_in_warps_dialect",)),
    # numba's spelling
    Fault("no bit is found at the end", edit(numba_numbers, "_ffs", "cx.b.i32(0), position", "cx.b.i32(33), position"),
          (f"{_NUMBA}::test_bits",)),
    Fault("zeros are counted in 32 bits", edit(numba_numbers, "_clz", "while shift < t.bits", "while shift < 32"),
          (f"{_NUMBA}::test_bits[int64]",)),
    Fault("bits of 64 are those of 32", edit(numba_numbers, "_bits", "v.type.bits == 64", "False"),
          (f"{_NUMBA}::test_bits[int64]",)),
    Fault("a fused product is no sum", edit(numba_numbers, "_fma", '"add"', '"sub"'),
          (f"{_NUMBA}::test_fused_products",)),
    Fault("the last operand of and is the first", edit(expr, "_operand", '(others, lambda: first) if op == "and"',
          '(others, lambda: first) if op == "or"'), (f"{_NUMBA}::test_operands_of_and_and_or",)),
    Fault("a subnormal number has the exponent of its bits", edit(exponents, "fraction_and_exponent",
          "b.const(fraction + 1, T.INT64)", "b.const(0, T.INT64)"), (f"{_NUMBA}::test_exponents",)),
    # the dialect of Warp
    Fault("a quotient by -1 is the dividend",
          edit(scalars, "_truncdiv", "b.neg(x)", "x"), (f"{_DIALECTS}::test_quotients_by_minus_one",)),
    Fault("the first of equal arguments has the derivative in every dialect",
          edit(library_vector, "_extremum", "cx.dialect.later_of_equals", "False"), (f"{_DIALECTS}::{_POINTS}",)),
    Fault("an arccosine is clamped and still varies",
          edit(library, "_cosine", "b.const(1.0, t)), x, end", "b.const(1.5, t)), x, end"),
          (f"{_DIALECTS}::{_POINTS}",)),
    # singular points
    Fault("any sum is one of squares",
          edit(steep, "Squares._is_sum", "return all(map(self.of, op.operands))", "return True"),
          (_CHOSEN,)),
    Fault("infinite tangents do not leave loops", edit(steep, "_edges", "(*inside, out)", "inside"),
          (_CHOSEN,)),
    Fault("a factor of zero is not compared",
          edit(rule, "times", "if steep else", "if not steep else"), (_CHOSEN,)),
    Fault("a zero tangent has no derivative", edit(forward, "_Forward.pure", "again=True", "again=False"),
          (_SECOND,)),
    Fault("a zero cotangent of a func has no derivative",
          edit(singular, "kept_zero", "if not again", "if True"), (_INSIDE,)),
    Fault("a func's loop is left out with its cotangent",
          edit(reverse, "_Reverse.may_be_skipped", "self.again or", ""), (_INSIDE,)),
    Fault("the slope of a power does not vary at the exponent zero",
          edit(rule, "_zero_with", 'b.one("and", zero, b.one("isnan", v))', "zero"),
          (_SECOND,)),
]  # fmt: skip
