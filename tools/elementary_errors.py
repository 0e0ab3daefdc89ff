"""Measure the error of the elementary functions in lanes, and write the table of it into the documentation.

In: nothing. Out: ``docs/generated/elementary_errors.inc``, which states for each function and type the largest error
found, in units in the last place, rounded up. Tests read the table, and measure again with few arguments. It takes some
minutes, and a processor whose ``numpy.longdouble`` has 64 bits of significand.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.elementary import launched  # noqa: E402
from support.ulps import BINARY, MPMATH, TABLE, Array, arguments, errors_in_ulp, numbers_of_float32, wide_errors  # noqa: E402

from diffkern import vecmath  # noqa: E402

MOST = (1.5, 2.0)
SEEDS, COUNT, SLOW_COUNT = range(8), 100_000, 1_000


def largest(name: str, dtype: str) -> float:
    """The largest error of a function."""
    found = 0.0
    slow = name in ("erf", "erfc") and dtype == "float64"
    for seed in SEEDS:
        args = arguments(name, dtype, SLOW_COUNT if slow else COUNT, seed)
        errors = errors_in_ulp if slow else wide_errors
        found = max(found, *(float(errors(name, args, got).max()) for got in _spellings(name, args)))
    if dtype == "float32" and name not in BINARY:
        for x in numbers_of_float32(61):
            wide = wide_errors(name, (x,), launched(name, x, lanes=True))
            found = max(found, float(wide[~np.isnan(wide)].max(initial=0.0)))
    return found


def _spellings(name: str, args: tuple[Array, ...]) -> list[Array]:
    """What a function gives in lanes, and without fused multiplication and addition."""
    plain = [vecmath.evaluate(name, *args)] if name in vecmath.NAMES else []
    return [launched(name, *args, lanes=True), *plain]


def _shown(error: float, most: float) -> str:
    """The error rounded up, with some room below what is promised."""
    assert error <= most, error
    return f"{min(math.ceil(error * 50 + 0.5) / 50, most):.2f}"


def main() -> int:
    """Measure all functions and write the table."""
    assert np.finfo(np.longdouble).nmant >= 63, "numpy.longdouble is no wider than float64 here"
    lines = [".. list-table::", "   :header-rows: 1", "", "   * - function", "     - float32", "     - float64"]
    for name in sorted(MPMATH):
        errors = [largest(name, dtype) for dtype in ("float32", "float64")]
        print(name, *errors, flush=True)
        lines += [f"   * - ``{name}``", *(f"     - {_shown(e, m)}" for e, m in zip(errors, MOST, strict=True))]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
