"""AIMNet2's convolution of neighbours by its kernels: forward, backward by atomics and a transpose, and again."""

import torch
from aimnet.kernels import conv_sv_2d_sp_transpose, conv_sv_2d_sp_wp

PACKAGE = "aimnet"
STEPS = 11
TOLERANCE = 1e-5
ATOMS, NEIGHBOURS, FEATURES, SHELLS = 60, 24, 8, 12


class Convolution:
    """The package launches these kernels on GPUs only; what launches them takes tensors of a CPU as well."""

    def __init__(self):
        torch.manual_seed(5)
        self.features = torch.randn(ATOMS + 1, FEATURES, SHELLS)
        self.shells = torch.randn(ATOMS + 1, NEIGHBOURS, SHELLS, 4)
        counts = torch.randint(3, NEIGHBOURS + 1, (ATOMS + 1, 1))
        near = torch.randint(0, ATOMS, (ATOMS + 1, NEIGHBOURS))
        self.near = torch.where(torch.arange(NEIGHBOURS) < counts, near, ATOMS).to(torch.int32)
        self.weights = [torch.randn(ATOMS + 1, FEATURES, SHELLS, 4)]
        self.weights += [torch.randn_like(self.features), torch.randn_like(self.shells)]
        self.transpose = conv_sv_2d_sp_transpose(self.near, ATOMS + 1, ATOMS, ATOMS)

    def step(self):
        given = self.features, self.near, self.shells, ATOMS, ATOMS
        forward = conv_sv_2d_sp_wp._conv_sv_2d_sp_fwd_impl(*given)
        self.found = {"forward": forward}
        for name, way in (("atomics", ()), ("transpose", self.transpose)):
            once = conv_sv_2d_sp_wp._conv_sv_2d_sp_bwd_impl(self.weights[0], *given, *way)
            twice = conv_sv_2d_sp_wp._conv_sv_2d_sp_bwd_bwd_impl(*self.weights, *given, *way)
            self.found |= {f"backward, {name}, {k}": value for k, value in enumerate(once)}
            self.found |= {f"second, {name}, {k}": value for k, value in enumerate(twice)}

    def outputs(self):
        return {name: value.numpy() for name, value in self.found.items()}


def begin():
    return Convolution()
