"""Newton's example of weights on a tendon over a pulley."""

from _newton import Example

PACKAGE = "newton"
STEPS = 11
TOLERANCE = 1e-3


def begin():
    return Example("tendon.example_tendon_pulley")
