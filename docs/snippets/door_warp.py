import numpy as np

import diffkern.warp as wp  # was: import warp as wp


@wp.kernel
def energy(x: wp.array(dtype=float), k: float, total: wp.array(dtype=float)):
    i = wp.tid()
    stretch = x[i + 1] - x[i] - 1.0
    wp.atomic_add(total, 0, 0.5 * k * stretch * stretch)


x = wp.array(np.float32([0, 1, 3, 3.5]), dtype=float, requires_grad=True)
total = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(energy, dim=3, inputs=[x, 2.0], outputs=[total])
tape.backward(total)
print(total.numpy(), x.grad.numpy())
