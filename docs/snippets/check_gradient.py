import numpy as np

import diffkern as dk
from diffkern.testing import gradcheck


@dk.kernel
def logistic(x: dk.array(dtype=float), rate: float, steps: int, y: dk.array(dtype=float)):
    i = dk.tid()
    v = x[i]
    for _ in range(steps):
        v = rate * v * (1.0 - v)
    y[i] = v


if __name__ == "__main__":
    x = np.linspace(0.1, 0.9, 8, dtype=np.float32)
    report = gradcheck(logistic, dim=8, inputs=[x, 2.9, 12], outputs=[np.zeros(8, np.float32)])
    print("right in", report.checked, "elements of", ", ".join(report.parameters))
