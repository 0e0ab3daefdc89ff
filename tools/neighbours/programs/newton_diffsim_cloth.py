"""Newton's example of a cloth whose first velocities are found by gradient descent."""

from _newton import Example

PACKAGE = "newton"
STEPS = 3
TOLERANCE = 1e-3


class Cloth(Example):
    def outputs(self):
        # The losses after the first are those of the gradients; another tape of as many launches would take gigabytes.
        example = self.example
        return {"losses": example.loss_history, "particles": example.states[-1].particle_q.numpy()}


def begin():
    return Cloth("diffsim.example_diffsim_cloth")
