import types
from pathlib import Path

import diffkern as dk
from diffkern.shipping.ship import compile_ahead


@dk.kernel
def step(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 0.5 * x[i]


@dk.kernel
def energy(x: dk.array(dtype=float), e: dk.array(dtype=float)):
    dk.atomic_add(e, 0, x[dk.tid()])


@dk.kernel
def scale(x, a):
    i = dk.tid()
    x[i] = a * x[i]


my_module = types.ModuleType("my_module")
my_module.step = step
compile_ahead([step], ["native"], Path("kernels"), progress=False)
