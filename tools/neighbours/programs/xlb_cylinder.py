"""XLB's flow past a cylinder in a channel: regularized inlet, extrapolated outlet, walls."""

import numpy as np
import xlb
from xlb.grid import grid_factory
from xlb.operator.boundary_condition import (
    ExtrapolationOutflowBC,
    FullwayBounceBackBC,
    HalfwayBounceBackBC,
    RegularizedBC,
)
from xlb.operator.macroscopic import Macroscopic
from xlb.operator.stepper import IncompressibleNavierStokesStepper

PACKAGE = "xlb"
STEPS = 101
TOLERANCE = 1e-4
SHAPE = (64, 32)
SPEED = 0.04


class Channel:
    def __init__(self):
        policy, backend = xlb.PrecisionPolicy.FP32FP32, xlb.ComputeBackend.WARP
        velocities = xlb.velocity_set.D2Q9(precision_policy=policy, compute_backend=backend)
        xlb.init(velocity_set=velocities, default_backend=backend, default_precision_policy=policy)
        self.grid = grid_factory(SHAPE)
        inside, box = self.grid.bounding_box_indices(remove_edges=True), self.grid.bounding_box_indices()
        walls = np.unique(np.array([box["bottom"][k] + box["top"][k] for k in range(2)]), axis=-1).tolist()
        x, y = np.indices(SHAPE)
        cylinder = np.stack(np.where((x - 16) ** 2 + (y - 15) ** 2 < 5**2)).tolist()
        conditions = [
            FullwayBounceBackBC(indices=walls),
            RegularizedBC("velocity", prescribed_value=(SPEED, 0.0), indices=inside["left"]),
            ExtrapolationOutflowBC(indices=inside["right"]),
            HalfwayBounceBackBC(indices=cylinder),
        ]
        self.stepper = IncompressibleNavierStokesStepper(
            self.grid, boundary_conditions=conditions, collision_type="BGK"
        )
        self.before, self.after, self.kinds, self.missing = self.stepper.prepare_fields()
        self.count = 0

    def step(self):
        self.before, self.after = self.stepper(self.before, self.after, self.kinds, self.missing, 1.2, self.count)
        self.before, self.after = self.after, self.before
        self.count += 1

    def outputs(self):
        density, velocity = self.grid.create_field(1), self.grid.create_field(2)
        Macroscopic()(self.before, density, velocity)
        return {
            "density": density.numpy(), "velocity": velocity.numpy(),
            "kinds": self.kinds.numpy(), "missing": self.missing.numpy(),
        }  # fmt: skip


def begin():
    return Channel()
