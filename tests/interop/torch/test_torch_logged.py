"""Kernels that overwrite what their gradients need, as functions of tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.utils.checkpoint

import diffkern as dk
from diffkern.errors import AutodiffError

F = dk.float64
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

D1, D2 = dk.array(dtype=F), dk.array(dtype=F, ndim=2)
RNG = np.random.default_rng(3)


@dk.kernel
def relaxed(a: D2, x: D2, sweeps: int):
    r = dk.tid()
    for _ in range(sweeps):
        for i in range(x.shape[1]):
            s = F(0.0)
            for j in range(x.shape[1]):
                s += a[i, j] * x[r, j] * x[r, j]
            x[r, i] = 0.9 * x[r, i] + 0.1 * dk.sin(s)


@dk.kernel
def powers(x: D2, y: D2):
    """What is overwritten is an output, which begins as zeros."""
    r = dk.tid()
    for _ in range(5):
        for i in range(40):
            y[r, i] = dk.sin(y[r, i]) * y[r, i] + x[r, i]


@dk.kernel
def until_it_settles(x: D2):
    r = dk.tid()
    worst = F(1.0)
    while worst > 0.05:
        worst = F(0.0)
        for i in range(x.shape[1]):
            change = 0.3 * x[r, i] * x[r, i]
            worst = dk.max(worst, dk.abs(change))
            x[r, i] = x[r, i] - change


def tensor(*shape: int) -> torch.Tensor:
    return torch.tensor(RNG.uniform(0.2, 0.9, shape), requires_grad=True)


def test_what_is_overwritten_is_logged_again() -> None:
    f = dk.torch_function(relaxed, 1, launch_dims=3, in_out_argnames=["x"])
    a, x = tensor(4, 4), tensor(3, 4)
    kept = a.detach().clone(), x.detach().clone()
    assert torch.autograd.gradcheck(lambda a, x: f(a, x, 3), (a, x))
    assert torch.equal(a, kept[0])
    assert torch.equal(x, kept[1])


def test_outputs_and_unknown_numbers_of_trips() -> None:
    x = tensor(2, 40)
    assert torch.autograd.gradcheck(dk.torch_function(powers, 1, launch_dims=2, output_dims=(2, 40)), (x,))
    assert torch.autograd.gradcheck(
        dk.torch_function(until_it_settles, 1, launch_dims=3, in_out_argnames=["x"]), (tensor(3, 4),)
    )


@dk.kernel
def compacted(x: D1, count: dk.array(dtype=int), y: D1):
    i = dk.tid()
    s = x[i]
    for _ in range(100):  # work enough for several threads of the CPU
        s = 0.5 * dk.sin(s) + x[i]
    y[dk.atomic_add(count, 0, 1)] = x[i] * x[i] + 0.0 * s


@dk.kernel
def scattered(x: D1, weight: D1, factor: F, count: dk.array(dtype=int), y: D1):
    i = dk.tid()
    for _ in range(i % 3):
        k = dk.atomic_add(count, 0, 1)
        y[k] = factor * x[i] * x[i] * weight[k]


compact = dk.torch_function(compacted, 2, in_out_argnames=["count"])


def started() -> torch.Tensor:
    return torch.zeros(1, dtype=torch.int32)


def test_counters_are_logged_by_the_call() -> None:
    x = tensor(50_000)
    for _ in range(20):
        y = compact(x, started())[1]
        if (y != x * x).any():  # two threads have counted, which a busy machine may prevent
            break
    loss = (y**3).sum()
    for _ in range(2):
        (found,) = torch.autograd.grad(loss, x, retain_graph=True)
        np.testing.assert_allclose(found, 6 * x.detach() ** 5, rtol=1e-12)


def test_counters_in_loops_whose_trips_are_counted() -> None:
    f = dk.torch_function(scattered, 2, in_out_argnames=["count"])
    x, weight = tensor(3000), torch.full((3000,), 2.0, dtype=torch.float64, requires_grad=True)
    factor = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    f(x, weight, factor, started())[1].sum().backward()
    calls = torch.arange(3000) % 3
    np.testing.assert_allclose(x.grad, calls * 6 * x.detach(), rtol=1e-12)
    np.testing.assert_allclose(factor.grad, (calls * 2 * x.detach() ** 2).sum(), rtol=1e-12)
    np.testing.assert_allclose(weight.grad.sum(), (calls * 1.5 * x.detach() ** 2).sum(), rtol=1e-12)


def second(x: torch.Tensor) -> None:
    (once,) = torch.autograd.grad((compact(x, started())[1] ** 2).sum(), x, create_graph=True)
    once.sum().backward()


def recomputed(x: torch.Tensor) -> None:
    torch.utils.checkpoint.checkpoint(lambda x: compact(x, started())[1] ** 2, x, use_reentrant=False).sum().backward()


@pytest.mark.parametrize(
    "derivative",
    [
        second,
        recomputed,
        torch.func.grad(lambda x: compact(x, started())[1].sum()),
        lambda x: torch.func.jvp(lambda x: compact(x, started())[1], (x,), (x,)),
    ],
)
def test_derivatives_that_would_take_another_launch_are_refused(derivative) -> None:
    with pytest.raises(AutodiffError, match="in another order") as caught:
        derivative(tensor(8))
    assert caught.value.loc is not None
    assert caught.value.remedy
