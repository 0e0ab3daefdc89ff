"""Newton's example of a double pendulum."""

from _newton import Example

PACKAGE = "newton"
STEPS = 21
TOLERANCE = 1e-3


def begin():
    return Example("basic.example_basic_pendulum")
