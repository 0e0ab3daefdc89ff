"""Elementary functions that LLVM's loop vectoriser can vectorise.

In: a function name, float32 or float64, and an LLVM module.  Out: an LLVM function in that module.  What holds: the
function is a straight line of arithmetic, so that a loop that calls it becomes packed instructions with no call to
libm; special values, signed zeros and subnormal numbers are those of C99; results do not depend on libm.

Each function is written once, over the operations of ``emitter.py``, and read by two emitters: ``llvm_emitter.py``
(scalars or vectors) and ``numpy_emitter.py``, which does the same arithmetic on arrays.  The two agree bit for bit on a
target without fused multiply-add.  With it, the terms of polynomials are fused, which moves some results by a unit.

The one exception to the straight line: sin, cos and tan of |x| >= 2^20, infinite or nan go out of line, one by one.

Largest error found, in units in the last place, over the whole range (1.8 million samples of each function, 60 thousand
of erf and erfc, against references of 53 bits or more for float32 and of 64 bits or more for float64; NumPy form)::

              float32  float64                 float32  float64
    sin          1.48     0.77       sinh         0.50     0.98
    cos          1.55     0.76       cosh         0.50     0.94
    tan          1.92     2.01       tanh         0.50     1.30
    exp          0.92     0.95       asinh        0.50     1.56
    exp2         1.06     1.13       acosh        0.50     2.47
    expm1        0.50     1.90       atanh        0.50     1.78
    log          0.83     0.79       asin         0.50     1.06
    log2         0.50     0.71       acos         0.50     1.07
    log10        0.50     0.66       atan         0.50     0.75
    log1p        0.50     0.78       atan2        0.50     1.42
    pow          0.50     1.20       erf          0.50     1.20
    cbrt         0.50     0.67       erfc         0.50     3.10
"""

from diffkern.vecmath.approx import NAMES, declare, evaluate

__all__ = ["NAMES", "declare", "evaluate"]
