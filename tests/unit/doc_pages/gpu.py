import numpy as np
from support.fake_driver.driver import fake_cuda

import diffkern as dk

cleanup.enter_context(fake_cuda())


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float), a: float):
    i = dk.tid()
    y[i] = a * x[i] * x[i]


@dk.kernel
def step(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 0.5 * x[i]


n = 4
values = np.ones(n, np.float32)
a, b = dk.ones(n, device="cuda:0"), dk.zeros(n, device="cuda:0")
