"""Newton's example of a cable that buckles where it is twisted."""

from _newton import Example

PACKAGE = "newton"
STEPS = 6
TOLERANCE = 5e-3


def begin():
    return Example("vbd.example_cable_twist_buckling")
