import numpy as np

import diffkern as dk


@dk.kernel
def spring_energy(
    x: dk.array(dtype=dk.vec3),
    edges: dk.array(dtype=int, ndim=2),
    rest: dk.array(dtype=float),
    k: float,
    energy: dk.array(dtype=float),
):
    e = dk.tid()
    i, j = edges[e, 0], edges[e, 1]
    stretch = dk.length(x[i] - x[j]) - rest[e]
    dk.atomic_add(energy, 0, 0.5 * k * stretch * stretch)


if __name__ == "__main__":
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 2, 0]], dtype=np.float32)
    x = dk.array(points, dtype=dk.vec3, requires_grad=True)
    edges = dk.array(np.array([[0, 1], [1, 2]], dtype=np.int32))
    rest = dk.array([0.5, 1.0], dtype=float, requires_grad=True)
    energy = dk.zeros(1, dtype=float)

    with dk.Tape() as tape:
        dk.launch(spring_energy, dim=2, inputs=[x, edges, rest, 10.0], outputs=[energy])
    tape.backward(energy)

    print("energy   ", energy.numpy())
    print("d/d x    ", x.grad.numpy().tolist())
    print("d/d rest ", rest.grad.numpy().tolist())
