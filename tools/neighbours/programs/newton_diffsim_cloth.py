"""Newton's example of a cloth whose first velocities are found by gradient descent."""

from _newton import Trained

PACKAGE = "newton"
STEPS = 3
TOLERANCE = 1e-3


def begin():
    return Trained("diffsim.example_diffsim_cloth")
