"""Newton's example of a drone whose controls are found by gradient descent on rollouts that are drawn at random."""

from _newton import Example

PACKAGE = "newton"
STEPS = 3
TOLERANCE = 1e-3


class Drone(Example):
    def outputs(self):
        example = self.example
        return {
            "costs": example.rollout_costs.numpy(),
            "gradient": example.rollouts.trajectories.grad.numpy(),
            "controls": example.drone.trajectories.numpy(),
        }


def begin():
    return Drone("diffsim.example_diffsim_drone")
