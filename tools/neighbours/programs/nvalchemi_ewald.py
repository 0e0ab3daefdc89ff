"""Ewald's sum: energies, forces and the virial, and the gradient that PyTorch finds."""

from _charges import Charges
from nvalchemiops.torch.interactions.electrostatics import ewald_summation

PACKAGE = "nvalchemi-toolkit-ops"
STEPS = 11
TOLERANCE = 1e-9


def begin():
    return Charges(ewald_summation, alpha=0.5, k_cutoff=4.0)
