# A training step as one native call.

import numpy as np

import diffkern as dk


@dk.kernel
def mismatch(w: dk.array(dtype=float), x: dk.array(dtype=float), y: dk.array(dtype=float), loss: dk.array(dtype=float)):
    i = dk.tid()
    d = w[0] * x[i] + w[1] - y[i]
    dk.atomic_add(loss, 0, d * d / float(x.shape[0]))


@dk.kernel
def descend(w: dk.array(dtype=float), gradient: dk.array(dtype=float), rate: float):
    i = dk.tid()
    w[i] = w[i] - rate * gradient[i]


x = dk.array(np.linspace(0, 1, 100), dtype=float)
y = dk.array(3.0 * np.linspace(0, 1, 100) - 1.0, dtype=float)
w = dk.zeros(2, requires_grad=True)
loss = dk.zeros(1)

with dk.record(run=False) as forward:
    loss.zero_()
    dk.launch(mismatch, dim=100, inputs=[w, x, y], outputs=[loss])
gradient = forward.adjoint(loss)

with dk.record(run=False) as step:
    gradient.replay()
    dk.launch(descend, dim=2, inputs=[w, w.grad, 0.5])

for _ in range(500):
    step.replay()
print(np.round(w.numpy(), 3))
