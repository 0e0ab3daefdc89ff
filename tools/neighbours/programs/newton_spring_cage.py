"""Newton's example of a cage of springs whose rest lengths are found by gradient descent."""

from _newton import Example

PACKAGE = "newton"
STEPS = 11
TOLERANCE = 1e-4


class Cage(Example):
    def outputs(self):
        example = self.example
        return {
            "losses": example.loss_history,
            "rest lengths": example.model.spring_rest_length.numpy(),
            "particles": example.states[-1].particle_q.numpy(),
        }


def begin():
    return Cage("diffsim.example_diffsim_spring_cage")
