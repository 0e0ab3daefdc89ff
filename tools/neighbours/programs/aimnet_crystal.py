"""An AIMNet2 network with random weights on a crystal: neighbours, Ewald's sum; energy, forces and stress."""

import aimnet.models
import numpy as np
import torch
from aimnet.calculators import AIMNet2Calculator
from aimnet.config import build_module, load_yaml

PACKAGE = "aimnet"
STEPS = 4
TOLERANCE = 1e-4
EDGE = 5.64


class Crystal:
    def __init__(self):
        torch.manual_seed(3)
        description = load_yaml(f"{aimnet.models.__path__[0]}/aimnet2.yaml")
        del description["kwargs"]["outputs"]["lrcoulomb"]
        network = build_module(description).float()
        self.calculator = AIMNet2Calculator(network, device="cpu", needs_coulomb=True, needs_dispersion=False)
        self.calculator.set_lrcoulomb_method("ewald")
        corners = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
        places = np.concatenate([corners, corners + np.array([0.5, 0, 0])]) % 1.0
        cells = np.stack(np.meshgrid(*[range(2)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
        coordinates = (cells + places).reshape(-1, 3) * EDGE
        coordinates += np.random.default_rng(5).normal(scale=0.1, size=coordinates.shape)
        self.data = {
            "coord": torch.tensor(coordinates, dtype=torch.float32),
            "numbers": torch.tensor(([11] * 4 + [17] * 4) * 8),
            "charge": torch.tensor([0.0]),
            "cell": torch.eye(3) * 2 * EDGE,
        }

    def step(self):
        self.found = self.calculator(self.data, forces=True, stress=True)

    def outputs(self):
        return {name: self.found[name].detach().numpy() for name in ("energy", "forces", "stress", "charges")}


def begin():
    return Crystal()
