import numpy as np

import diffkern as dk
from diffkern.testing import GradientError, bisect_gradient, gradcheck


@dk.func
def cube(v: float):
    return v * v * v


@dk.func_grad(cube)
def cube_grad(v: float, ct: float):
    dk.adjoint[v] += 3.0 * v * ct  # v * v is meant


@dk.kernel
def waves(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
    i = dk.tid()
    a = x[i]
    for k in range(n):
        a = dk.sin(a + float(k))
        if k == 2:
            a = cube(a)
    y[i] = a


if __name__ == "__main__":
    x, y = np.array([0.3, 0.8], np.float32), np.zeros(2, np.float32)
    try:
        gradcheck(waves, dim=2, inputs=[x, 4], outputs=[y])
    except GradientError as error:
        print(error)
    found = bisect_gradient(waves, dim=2, inputs=[x, 4], outputs=[y])
    print(f"line {found.loc.line}, thread {found.thread[0]}, {found.value}: {found.analytic:.6f}, {found.numeric:.6f}")
    print(found.loc.excerpt())
