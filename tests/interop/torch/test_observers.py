"""What looks on in PyTorch besides autograd: torch.jit.trace, and forward mode."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require

require("torch")

import torch
from torch.autograd import forward_ad

import diffkern as dk

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]


@dk.kernel
def wave(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.sin(a * x[i])


f = dk.torch_function(wave)


@pytest.mark.parametrize("graded", [False, True])
def test_a_trace_calls_the_kernel(graded):
    x = torch.arange(4.0)
    traced = torch.jit.trace(lambda x: 2.0 * f(x, 0.5), (x,))
    x = (x + 1.0).requires_grad_(graded)
    torch.testing.assert_close(traced(x), 2.0 * torch.sin(0.5 * x))
    if graded:
        traced(x).sum().backward()
        torch.testing.assert_close(x.grad, torch.cos(0.5 * x.detach()))


def test_a_launch_in_a_trace_is_refused():
    def launched(x):
        y = dk.zeros(4)
        wave[4](x, 0.5, y)
        return dk.to_torch(y)

    with pytest.raises(dk.LaunchError, match=r"torch\.jit\.trace .*cannot be seen"):
        torch.jit.trace(launched, (torch.arange(4.0),))
    with pytest.raises(TypeError, match=r"torch\.jit\.trace .*cannot be seen"):
        torch.jit.trace(lambda x: dk.to_torch(dk.from_torch(x)), (torch.arange(4.0),))


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("recorded", [False, True])
def test_tangents_are_not_dropped(graded, recorded):
    with forward_ad.dual_level(), torch.set_grad_enabled(recorded):
        x = torch.arange(4.0).requires_grad_(graded)
        dual = forward_ad.make_dual(x, torch.ones(4))
        number = forward_ad.make_dual(torch.tensor(0.5), torch.tensor(1.0))
        for args in ((dual, 0.5), (torch.arange(4.0), number)):
            with pytest.raises((RuntimeError, NotImplementedError), match=r"forward.mode|forward mode"):
                f(*args)
        assert np.allclose(f(torch.arange(4.0), 0.5), np.sin(0.5 * np.arange(4)))


def test_tangents_of_arguments_of_launches_are_not_dropped():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.arange(4.0), torch.ones(4))
        with pytest.raises(RuntimeError, match="forward-mode derivatives"):
            wave[4](dual, 0.5, dk.zeros(4))
        with pytest.raises(RuntimeError, match="forward-mode derivatives"):
            dk.from_torch(dual)


def test_tangents_of_compiled_calls_are_not_dropped():
    compiled = torch.compile(lambda x: f(x, 0.5) * 2.0, backend="aot_eager")
    x = torch.arange(4.0)
    torch.testing.assert_close(compiled(x), 2.0 * torch.sin(0.5 * x))
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="forward-mode derivatives"):
        compiled(forward_ad.make_dual(x, torch.ones(4)))
