"""XLB's flow past a sphere: 19 velocities, a model of small eddies, the force on the sphere, vortices."""

import numpy as np
import xlb
from xlb.grid import grid_factory
from xlb.operator.boundary_condition import (
    DoNothingBC,
    FullwayBounceBackBC,
    HalfwayBounceBackBC,
    ZouHeBC,
)
from xlb.operator.force import MomentumTransfer
from xlb.operator.macroscopic import Macroscopic
from xlb.operator.postprocess import QCriterion, Vorticity
from xlb.operator.stepper import IncompressibleNavierStokesStepper

PACKAGE = "xlb"
STEPS = 31
TOLERANCE = 5e-3  # the force is a sum of floats that cancel, in the order of threads
SHAPE = (32, 20, 20)


class Sphere:
    def __init__(self):
        policy, backend = xlb.PrecisionPolicy.FP32FP32, xlb.ComputeBackend.WARP
        velocities = xlb.velocity_set.D3Q19(precision_policy=policy, compute_backend=backend)
        xlb.init(velocity_set=velocities, default_backend=backend, default_precision_policy=policy)
        self.grid = grid_factory(SHAPE)
        inside, box = self.grid.bounding_box_indices(remove_edges=True), self.grid.bounding_box_indices()
        names = ("bottom", "top", "front", "back")
        walls = np.unique(np.array([[i for name in names for i in box[name][k]] for k in range(3)]), axis=-1).tolist()
        ball = np.stack(np.where(((np.indices(SHAPE).T - (11, 10, 9.5)) ** 2).sum(-1).T < 4.2**2)).tolist()
        ball_condition = HalfwayBounceBackBC(indices=ball)
        conditions = [
            FullwayBounceBackBC(indices=walls),
            ZouHeBC("velocity", prescribed_value=(0.04, 0.0, 0.0), indices=inside["left"]),
            DoNothingBC(indices=inside["right"]),
            ball_condition,
        ]
        self.stepper = IncompressibleNavierStokesStepper(
            self.grid, boundary_conditions=conditions, collision_type="SmagorinskyLESBGK"
        )
        self.before, self.after, self.kinds, self.missing = self.stepper.prepare_fields()
        self.transfer = MomentumTransfer(ball_condition)
        self.forces, self.count = [], 0

    def step(self):
        self.before, self.after = self.stepper(self.before, self.after, self.kinds, self.missing, 1.6, self.count)
        self.before, self.after = self.after, self.before
        self.forces.append(np.array(self.transfer(self.before, self.after, self.kinds, self.missing)))
        self.count += 1

    def outputs(self):
        fields = {name: self.grid.create_field(size) for name, size in FIELDS.items()}
        Macroscopic()(self.before, fields["density"], fields["velocity"])
        Vorticity()(fields["velocity"], self.kinds, fields["vorticity"], fields["magnitude"])
        QCriterion()(fields["velocity"], self.kinds, fields["norm"], fields["q"])
        found = {name: field.numpy() for name, field in fields.items()}
        return {**found, "forces": np.array(self.forces), "kinds": self.kinds.numpy(), "missing": self.missing.numpy()}


FIELDS = {"density": 1, "velocity": 3, "vorticity": 3, "magnitude": 1, "norm": 1, "q": 1}


def begin():
    return Sphere()
