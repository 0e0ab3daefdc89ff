"""Newton's example of a soft body with contacts, whose material is found by gradient descent."""

from _newton import Trained

PACKAGE = "newton"
STEPS = 3
TOLERANCE = 1e-2


class SoftBody(Trained):
    def parameters(self):
        return self.example.material_params


def begin():
    return SoftBody("diffsim.example_diffsim_soft_body")
