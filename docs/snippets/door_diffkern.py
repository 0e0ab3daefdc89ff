import numpy as np

import diffkern as dk


@dk.kernel
def energy(x: dk.array[float], k: float, total: dk.array[float]):
    i = dk.tid()
    stretch = x[i + 1] - x[i] - 1.0
    total[0] += 0.5 * k * stretch * stretch


x = dk.array(np.float32([0, 1, 3, 3.5]), requires_grad=True)
total = dk.zeros(1)

with dk.Tape() as tape:
    dk.launch(energy, dim=3, inputs=[x, 2.0], outputs=[total])
tape.backward(total)
print(total.numpy(), x.grad.numpy())
