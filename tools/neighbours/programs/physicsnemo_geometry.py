"""PhysicsNeMo's geometry: distances, rays, samples and deformations of meshes, remeshing."""

from _physicsnemo import Functions

PACKAGE = "nvidia-physicsnemo"
STEPS = 3
TOLERANCE = 1e-4


def begin():
    return Functions("geometry")
