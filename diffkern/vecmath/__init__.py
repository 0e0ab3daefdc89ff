"""Elementary functions that LLVM's loop vectoriser can vectorise.

:func:`declare` takes a function's name, float32 or float64, and an LLVM module, and defines the function there as a
straight line of arithmetic: a loop that calls it becomes packed instructions with no call to libm. Special values,
signed zeros and subnormal numbers are those of C99, and results do not depend on libm.

Each function is written once, over the operations of ``emitter.py``, and read by two emitters: ``llvm_emitter.py``
(scalars or vectors) and ``numpy_emitter.py``, which does the same arithmetic on arrays. The two agree bit for bit on a
target without fused multiply-add. With it, the terms of polynomials are fused, which moves some results by a unit in
the last place.

The one exception to the straight line: sin, cos and tan of |x| >= 2^20, infinite or nan are computed out of line, one
by one.

The largest errors found are in the documentation, in a table that ``tools/elementary_errors.py`` writes: at most 1.5
units in the last place in float32, 2 in float64.
"""

from diffkern.vecmath.approx import NAMES, declare, evaluate

__all__ = ["NAMES", "declare", "evaluate"]
