"""A program whose types mypy --strict and pyright find nothing to say about; it is also run."""

from typing import Any, Literal, no_type_check

import numpy as np

import diffkern as dk


@dk.struct
class Spring:
    rest: float
    stiffness: float = 10.0
    anchor: dk.vec3 = dk.vec3(0.0, 0.0, 0.0)


@dk.func
def energy_of(stretch: float, stiffness: float) -> float:
    return 0.5 * stiffness * stretch * stretch


@dk.kernel
def spring_energy(
    x: dk.array[dk.vec3],
    edges: dk.array2d[int],
    rest: dk.array[float, Literal[1]],
    k: dk.float32,
    energy: dk.array[float],
) -> None:
    e = dk.tid()
    stretch = dk.length(x[edges[e, 0]] - x[edges[e, 1]]) - rest[e]
    dk.atomic_add(energy, 0, energy_of(stretch, k))


@dk.kernel(enable_backward=False)
def scale(x: dk.array1d[float], s: Spring) -> None:
    i = dk.tid()
    x[i] *= dk.max(s.rest, dk.sin(s.stiffness)) + s.anchor[0] + dk.PI


@dk.kernel
@no_type_check
def shift(x: dk.array(dtype=float), m: dk.mat33, y: dk.array(dtype=float, ndim=2)):
    i, j = dk.tid()
    y[i, j] = x[i] + m[0, 0]


def main() -> Any:
    x = dk.array([[0, 0, 0], [1, 0, 0], [1, 2, 0]], dtype=dk.vec3, requires_grad=True)
    edges = np.array([[0, 1], [1, 2]], np.int32)
    rest = dk.array([0.5, 1.0], dtype=float, requires_grad=True)
    energy = dk.zeros(1, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(spring_energy, dim=2, inputs=[x, edges, rest, 10.0], outputs=[energy])
    tape.backward(energy)
    gradient = x.grad.numpy().copy()
    x.grad.zero_()
    scale[2](rest, Spring(rest=1.0, stiffness=2.0))
    command = dk.launch(scale, 2, inputs=[rest, Spring(1.0)], record_cmd=True)
    command.launch()
    with dk.ScopedDevice("cpu"):
        shift[3, 2](dk.zeros(3), dk.mat33(), dk.zeros((3, 2)))
    print(energy.numpy(), rest.shape[0], dk.vec3(1.0, 2.0, 3.0)[1])
    return gradient


if __name__ == "__main__":
    main()
