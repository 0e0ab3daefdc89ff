"""Newton's example of hanging soft grids."""

from _newton import Example

PACKAGE = "newton"
STEPS = 11
TOLERANCE = 5e-3


def begin():
    return Example("softbody.example_softbody_hanging")
