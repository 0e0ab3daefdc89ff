# How stiff do the springs of a chain have to be? The gradient of 2,000 steps, with 20 states in memory.

import numpy as np

import diffkern as dk


@dk.kernel
def forces(x: dk.array(dtype=float), stiffness: dk.array(dtype=float), f: dk.array(dtype=float)):
    i = dk.tid()
    n = x.shape[0]
    total = -9.81
    if i > 0:
        total += stiffness[0] * (x[i - 1] - x[i])
    if i < n - 1:
        total += stiffness[0] * (x[i + 1] - x[i])
    f[i] = total


@dk.kernel
def advance(x: dk.array(dtype=float), v: dk.array(dtype=float), f: dk.array(dtype=float), dt: float):
    i = dk.tid()
    if i > 0:
        v[i] = 0.99 * (v[i] + dt * f[i])
        x[i] = x[i] + dt * v[i]


n, steps = 50, 2000
x, v, f = dk.zeros(n, requires_grad=True), dk.zeros(n, requires_grad=True), dk.zeros(n)
stiffness = dk.array([2000.0], dtype=float, requires_grad=True)
ran = 0


def step(k):
    global ran
    ran += 1
    dk.launch(forces, dim=n, inputs=[x, stiffness], outputs=[f])
    dk.launch(advance, dim=n, inputs=[x, v, f, 0.005])


with dk.Tape() as tape:
    dk.checkpoint(step, steps, slots=20)
states = tape.memory() // (x.numpy().nbytes + v.numpy().nbytes)
lowest = np.zeros(n, np.float32)
lowest[-1] = 1.0
tape.backward(grads={x: dk.array(lowest)})

print(f"the last mass hangs at {x.numpy()[-1]:.2f}, and {stiffness.grad.numpy()[0]:.4f} higher per unit of stiffness")
print(f"{states} states were kept; {steps} steps ran {ran} times, {ran / steps:.1f} times each")
