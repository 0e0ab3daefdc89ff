"""Modules that hold functions of kernels are saved, loaded and copied like others."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
from conftest import require

require("torch")

import torch

import diffkern as dk


@dk.kernel
def wave(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.sin(a * x[i])


class Wave(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        self.function = dk.torch_function(wave, output_dims=2)
        self.held = dk.array([3.0], requires_grad=True)

    def forward(self, a):
        return self.function(self.weight, a)


def _saved(module):
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


@pytest.mark.parametrize("way", [_saved, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_module(way):
    module = Wave()
    module(0.5).sum().backward()
    other = way(module)
    assert torch.equal(other(0.5), module(0.5))
    assert other.function.kernel is wave
    assert other.held.list() == [3.0]
    other.zero_grad()
    other(0.5).sum().backward()
    torch.testing.assert_close(other.weight.grad, module.weight.grad)
    with torch.no_grad():
        other.weight.zero_()
    assert module.weight.tolist() == [1.0, 2.0]


def test_function_of_a_local_kernel():
    @dk.kernel
    def local(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = 2.0 * x[i]

    f = copy.deepcopy(dk.torch_function(local, enable_backward=False))
    assert f(torch.ones(2)).tolist() == [2.0, 2.0]
    assert not f.enable_backward
    with pytest.raises(pickle.PicklingError, match="define it at the top level"):
        pickle.dumps(f)


def test_array_over_a_tensor():
    a = dk.from_torch(torch.arange(6.0).reshape(2, 3)[:, 1:], requires_grad=True)
    for made in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a)):
        np.testing.assert_array_equal(made.numpy(), [[1, 2], [4, 5]])
        assert made.requires_grad
