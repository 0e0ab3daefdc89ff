"""Newton's example of a ball whose first velocity is found by gradient descent."""

from _newton import Trained

PACKAGE = "newton"
STEPS = 6
TOLERANCE = 1e-4


def begin():
    return Trained("diffsim.example_diffsim_ball")
