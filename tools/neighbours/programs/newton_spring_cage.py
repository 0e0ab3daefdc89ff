"""Newton's example of a cage of springs whose rest lengths are found by gradient descent."""

from _newton import Trained

PACKAGE = "newton"
STEPS = 11
TOLERANCE = 1e-4


class Cage(Trained):
    def parameters(self):
        return self.example.model.spring_rest_length

    def outputs(self):
        return {**super().outputs(), "rest lengths": self.parameters().numpy()}


def begin():
    return Cage("diffsim.example_diffsim_spring_cage")
