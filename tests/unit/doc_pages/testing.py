import io
import sys

import numpy as np

import diffkern as dk
from diffkern.testing import run_in_python


@dk.kernel
def logistic(x: dk.array(dtype=float), rate: float, steps: int, y: dk.array(dtype=float)):
    i = dk.tid()
    v = x[i]
    for _ in range(steps):
        v = rate * v * (1.0 - v)
    y[i] = v


x, y, seed = np.float32([0.3]), np.zeros(1, np.float32), np.ones(1, np.float32)
cleanup.callback(setattr, sys, "stdin", sys.stdin)
sys.stdin = io.StringIO("continue\n")
