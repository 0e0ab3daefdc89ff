"""A program for Warp whose types mypy --strict and pyright find nothing to say about; it is also run."""

from typing import Any

import numpy as np

import diffkern.warp as wp


@wp.struct
class Particle:
    at: wp.vec3
    mass: float


@wp.func
def pulled(v: wp.vec3, by: float) -> wp.vec3:
    return v * by


@wp.kernel
def move(x: wp.array[wp.vec3], p: wp.array[Particle], dt: float, out: wp.array2d[float]) -> None:
    i = wp.tid()
    moved = pulled(x[i], dt) + wp.vec3(1.0, 0.0, 0.0)
    out[i, 0] = wp.length(moved) * p[i].mass


@wp.kernel(enable_backward=False)
def draw(out: wp.array[float], seed: int) -> None:
    i = wp.tid()
    state = wp.rand_init(seed, i)
    out[i] = wp.randf(state, 0.0, 2.0)


def main() -> Any:
    x = wp.array(np.ones((2, 3)), dtype=wp.vec3, requires_grad=True)
    particles = wp.zeros(2, dtype=Particle)
    particles.field("mass").fill_(2.0)
    out = wp.zeros((2, 1), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(move, dim=2, inputs=[x, particles, 0.5], outputs=[out])
    tape.backward(grads={out: wp.ones((2, 1), dtype=float)})
    numbers = wp.empty(4, dtype=float)
    wp.launch(draw, dim=4, inputs=[numbers, 7])
    wp.copy(wp.zeros_like(numbers), numbers)
    wp.synchronize()
    print(particles.field("mass").numpy(), wp.get_device("cpu"))
    return x.grad.numpy()


if __name__ == "__main__":
    main()
