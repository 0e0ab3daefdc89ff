"""Particle mesh Ewald: energies, forces and the virial, and the gradient that PyTorch finds."""

from _charges import Charges
from nvalchemiops.torch.interactions.electrostatics import particle_mesh_ewald

PACKAGE = "nvalchemi-toolkit-ops"
STEPS = 11
TOLERANCE = 1e-9


def begin():
    return Charges(particle_mesh_ewald, alpha=0.5, mesh_dimensions=(16, 16, 16))
