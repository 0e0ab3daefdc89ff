"""PhysicsNeMo's pictures of meshes, points and fields."""

from _physicsnemo import Functions

PACKAGE = "nvidia-physicsnemo"
STEPS = 3
TOLERANCE = 1e-4


def begin():
    return Functions("rendering")
