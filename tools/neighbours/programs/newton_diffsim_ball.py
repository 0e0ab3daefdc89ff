"""Newton's example of a ball whose first velocity is found by gradient descent."""

from _newton import Example

PACKAGE = "newton"
STEPS = 6
TOLERANCE = 1e-4


class Ball(Example):
    def outputs(self):
        example = self.example
        return {"losses": example.loss_history, "particles": example.states[-1].particle_q.numpy()}


def begin():
    return Ball("diffsim.example_diffsim_ball")
