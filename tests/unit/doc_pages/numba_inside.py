import numba
import numpy as np
from numba import cuda

import diffkern as dk

shares, out = np.linspace(90.0, 110.0, 5), np.zeros(5)
x, y = np.array([1, 2, 4], np.float32), np.zeros(3, np.float32)
ct_x, ct_y, ct_rate = np.zeros(3, np.float32), np.ones(3, np.float32), np.zeros(1, np.float32)


def check():
    np.testing.assert_allclose(out, 1.5 * np.sqrt(np.maximum(shares - 100.0, 0.0)))
    np.testing.assert_allclose(ct_x, 1.0, rtol=1e-6)
    np.testing.assert_allclose(ct_rate, 1.0 - 1.0, atol=1e-6)


cleanup.callback(check)
