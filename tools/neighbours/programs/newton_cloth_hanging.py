"""Newton's example of hanging cloth, by the semi-implicit solver."""

from _newton import Example

PACKAGE = "newton"
STEPS = 11
TOLERANCE = 1e-3


def begin():
    return Example("cloth.example_cloth_hanging", "--solver", "semi_implicit", "--width", "16", "--height", "8")
