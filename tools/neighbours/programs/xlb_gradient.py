"""The gradient of kinetic energy after some steps of XLB with respect to the first populations, by a tape."""

import numpy as np
import warp as wp
import xlb
from xlb.grid import grid_factory
from xlb.operator.macroscopic import Macroscopic
from xlb.operator.stepper import IncompressibleNavierStokesStepper

PACKAGE = "xlb"
STEPS = 4
TOLERANCE = 1e-9
SHAPE = (24, 16)
ROUNDS = 8


@wp.kernel
def energy_kernel(
    density: wp.array4d(dtype=wp.float64), velocity: wp.array4d(dtype=wp.float64), energy: wp.array(dtype=wp.float64)
):
    i, j = wp.tid()
    u = wp.vec2d(velocity[0, i, j, 0], velocity[1, i, j, 0])
    wp.atomic_add(energy, 0, wp.float64(0.5) * density[0, i, j, 0] * wp.dot(u, u))


class Decay:
    def __init__(self):
        policy, backend = xlb.PrecisionPolicy.FP64FP64, xlb.ComputeBackend.WARP
        velocities = xlb.velocity_set.D2Q9(precision_policy=policy, compute_backend=backend)
        xlb.init(velocity_set=velocities, default_backend=backend, default_precision_policy=policy)
        self.stepper = IncompressibleNavierStokesStepper(grid_factory(SHAPE), collision_type="BGK")
        self.macroscopic = Macroscopic()
        start, _, self.kinds, self.missing = self.stepper.prepare_fields()
        noise = np.random.default_rng(3).uniform(0.95, 1.05, start.shape)
        self.start = wp.array(start.numpy() * noise, dtype=wp.float64, requires_grad=True)
        self.losses = []

    def step(self):
        loss = wp.zeros(1, dtype=wp.float64, requires_grad=True)
        with wp.Tape() as tape:
            fields = [self.start]
            for k in range(ROUNDS):
                fields.append(wp.zeros_like(self.start))
                self.stepper(fields[k], fields[k + 1], self.kinds, self.missing, 1.3, k)
            density, velocity = (wp.zeros((k, *SHAPE, 1), dtype=wp.float64, requires_grad=True) for k in (1, 2))
            self.macroscopic(fields[-1], density, velocity)
            wp.launch(energy_kernel, dim=SHAPE, inputs=[density, velocity], outputs=[loss])
        tape.backward(loss)
        self.losses.append(float(loss.numpy()[0]))
        self.gradient = self.start.grad.numpy().copy()
        tape.zero()
        self.start.assign(self.start.numpy() - 0.1 * self.gradient)

    def outputs(self):
        return {"losses": np.array(self.losses), "gradient": self.gradient, "populations": self.start.numpy()}


def begin():
    return Decay()
