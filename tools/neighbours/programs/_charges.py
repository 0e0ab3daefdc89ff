"""What the sums over charges have in common: energies, forces, the virial, and gradients of two orders by PyTorch."""

import warnings

import torch
from _salt import crystal
from nvalchemiops.torch.neighbors import neighbor_list


class Charges:
    """A crystal whose energy is computed by `method`, with what belongs to that method."""

    def __init__(self, method, **settings):
        self.method, self.settings = method, settings
        self.positions, self.charges, self.cell, periodic = crystal()
        self.matrix, self.counts, self.shifts = neighbor_list(
            self.positions, 6.0, cell=self.cell, pbc=periodic, max_neighbors=256
        )[:3]
        self.positions.requires_grad_()
        self.charges.requires_grad_()

    def terms(self, positions, charges, **wish):
        return self.method(
            positions, charges, self.cell, neighbor_matrix=self.matrix, neighbor_matrix_shifts=self.shifts,
            mask_value=len(positions), **self.settings, **wish,
        )  # fmt: skip

    def step(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.direct = self.terms(
                self.positions.detach(), self.charges.detach(), compute_forces=True, compute_virial=True
            )
        energy = self.terms(self.positions, self.charges).sum()
        self.gradients = torch.autograd.grad(energy, (self.positions, self.charges), create_graph=True)
        force = self.gradients[0]
        self.second = torch.autograd.grad((force * force).sum(), (self.positions, self.charges))

    def outputs(self):
        energies, forces, virial = self.direct
        dx, dq = self.gradients
        ddx, ddq = self.second
        found = {
            "energies": energies, "forces": forces, "virial": virial, "gradient": dx,
            "gradient of charges": dq, "second": ddx, "second of charges": ddq,
        }  # fmt: skip
        return {name: value.detach().numpy() for name, value in found.items()}
