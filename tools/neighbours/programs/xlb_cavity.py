"""XLB's cavity with a moving lid: 27 velocities, the entropic collision, in double precision."""

import numpy as np
import xlb
from xlb.grid import grid_factory
from xlb.operator.boundary_condition import EquilibriumBC, HalfwayBounceBackBC
from xlb.operator.macroscopic import Macroscopic
from xlb.operator.stepper import IncompressibleNavierStokesStepper

PACKAGE = "xlb"
STEPS = 31
TOLERANCE = 1e-10
SHAPE = (16, 16, 16)


class Cavity:
    def __init__(self):
        policy, backend = xlb.PrecisionPolicy.FP64FP64, xlb.ComputeBackend.WARP
        velocities = xlb.velocity_set.D3Q27(precision_policy=policy, compute_backend=backend)
        xlb.init(velocity_set=velocities, default_backend=backend, default_precision_policy=policy)
        self.grid = grid_factory(SHAPE)
        inside, box = self.grid.bounding_box_indices(remove_edges=True), self.grid.bounding_box_indices()
        names = ("bottom", "left", "right", "front", "back")
        walls = np.unique(np.array([[i for name in names for i in box[name][k]] for k in range(3)]), axis=-1).tolist()
        conditions = [
            HalfwayBounceBackBC(indices=walls),
            EquilibriumBC(rho=1.0, u=(0.05, 0.0, 0.0), indices=inside["top"]),
        ]
        self.stepper = IncompressibleNavierStokesStepper(
            self.grid, boundary_conditions=conditions, collision_type="KBC"
        )
        self.before, self.after, self.kinds, self.missing = self.stepper.prepare_fields()
        self.count = 0

    def step(self):
        self.before, self.after = self.stepper(self.before, self.after, self.kinds, self.missing, 1.7, self.count)
        self.before, self.after = self.after, self.before
        self.count += 1

    def outputs(self):
        density, velocity = self.grid.create_field(1), self.grid.create_field(3)
        Macroscopic()(self.before, density, velocity)
        return {"density": density.numpy(), "velocity": velocity.numpy(), "missing": self.missing.numpy()}


def begin():
    return Cavity()
