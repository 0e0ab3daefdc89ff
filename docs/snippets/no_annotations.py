import numpy as np

import diffkern as dk


@dk.kernel
def smooth(x, y, a):
    i = dk.tid()
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i] + a * (x[i - 1] - 2 * x[i] + x[i + 1])
    else:
        y[i] = x[i]


x = np.array([0, 0, 1, 0, 0], dtype=np.float32)
y = np.zeros_like(x)
smooth[len(x)](x, y, 0.25)
print(y)
