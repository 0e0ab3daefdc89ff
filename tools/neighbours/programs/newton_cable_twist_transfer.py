"""Newton's example of cables that hand on a twist."""

from _newton import Example

PACKAGE = "newton"
STEPS = 11
TOLERANCE = 5e-3


def begin():
    return Example("vbd.example_cable_twist_transfer")
