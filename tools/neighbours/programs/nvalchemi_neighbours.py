"""Neighbour lists by cells and by all pairs."""

from _salt import crystal, in_order
from nvalchemiops.torch.neighbors import neighbor_list

PACKAGE = "nvalchemi-toolkit-ops"
STEPS = 11
TOLERANCE = 0.0
CUTOFF = 4.5


class Neighbours:
    def __init__(self):
        self.positions, _, self.cell, self.periodic = crystal(cells=4)
        self.found = {}

    def step(self):
        for method in ("cell_list", "naive"):
            self.found[method] = neighbor_list(
                self.positions, CUTOFF, cell=self.cell, pbc=self.periodic, method=method, max_neighbors=64
            )

    def outputs(self):
        return {method: in_order(matrix, counts, shifts) for method, (matrix, counts, shifts, *_) in self.found.items()}


def begin():
    return Neighbours()
