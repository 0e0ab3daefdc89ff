"""PhysicsNeMo's geometry: distances, rays, samples and deformations of meshes, remeshing."""

from _physicsnemo import Functions

PACKAGE = "nvidia-physicsnemo"
STEPS = 3
TOLERANCE = 5e-3
GPU_ONLY = ("FarthestPointSampling", "SobolevDeformPoints")
RANDOM = ("MeshPoissonDiskSample",)  # of points that are as near to each other the thread decides that comes first
TIES = ("SignedDistanceField.2",)  # the face of a place where several meet


def begin():
    return Functions("geometry", (*GPU_ONLY, *RANDOM), TIES)
