"""Compute one gradient in a fresh process and say when it is there.

In: the library's name on the command line. Out: a line that begins with ``GRADIENT`` on standard output.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, name-defined, misc, untyped-decorator"

import importlib
import sys
from typing import Any

import numpy as np

w: Any = importlib.import_module(sys.argv[1])


@w.kernel
def loss_kernel(x: w.array(dtype=float), y: w.array(dtype=float), a: float, loss: w.array(dtype=float)):
    i = w.tid()
    r = w.sin(a * x[i]) + y[i] * w.exp(-x[i] * x[i])
    w.atomic_add(loss, 0, r * r)


n = 1000
x = w.array(np.linspace(-1.0, 1.0, n, dtype=np.float32), dtype=w.float32, requires_grad=True)
y = w.array(np.ones(n, dtype=np.float32), dtype=w.float32, requires_grad=True)
loss = w.zeros(1, dtype=w.float32, requires_grad=True)
with w.Tape() as tape:
    w.launch(loss_kernel, dim=n, inputs=[x, y, 1.5], outputs=[loss])
tape.backward(loss)
gradient = x.grad.numpy()
print(f"\nGRADIENT {float(gradient[0]):.5f} {float(gradient[n // 3]):.5f}", flush=True)
