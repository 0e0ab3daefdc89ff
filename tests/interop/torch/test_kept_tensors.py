"""Tensors kept for a gradient that come back in another layout: from hooks of saved tensors, or with other data."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import diffkern as dk


@dk.kernel
def squares(x: dk.array(dtype=dk.float64, ndim=2), y: dk.array(dtype=dk.float64, ndim=2)):
    i, j = dk.tid()
    y[i, j] = x[i, j] * x[i, j]


squared = dk.torch_function(squares)

BASE = torch.arange(24.0, dtype=torch.float64).reshape(4, 6)
LAYOUTS = {
    "steps": lambda: BASE.clone()[:, ::2],
    "transposed": lambda: BASE.clone().t(),
    "expanded": lambda: BASE.clone()[:1].expand(4, 6),
    "contiguous": BASE.clone,
}


def compact(t: Any) -> Any:
    return t.detach().clone(memory_format=torch.contiguous_format)


HOOKS = {
    "copied": (compact, lambda t: t),
    "negated lazily": (lambda t: -t.detach(), torch._neg_view),
    "columns first": (lambda t: t.detach().t().contiguous().t(), lambda t: t),
}


@pytest.mark.parametrize("hooks", HOOKS.values(), ids=HOOKS.keys())
@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_hooks_may_return_copies(make: Any, hooks: Any):
    x = make().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(*hooks):
        y = squared(x)
        (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, 2 * x)


@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_second_derivatives_with_copies(make: Any):
    x = make().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(*HOOKS["copied"]):
        (gradient,) = torch.autograd.grad((x * squared(x)).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(gradient.sum(), x)
    torch.testing.assert_close(second, 6 * x)


def test_other_data_in_another_layout():
    x = BASE[:, :4].clone().requires_grad_()
    y = squared(x)
    x.data = (10 * BASE[:, :4]).t().contiguous().t()
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, 2 * x)


@pytest.mark.parametrize("change", [lambda t: t.detach().float(), lambda t: t.detach()[:2]])
def test_other_types_and_shapes_are_refused(change: Any):
    x = BASE.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(change, lambda t: t):
        y = squared(x)
    with pytest.raises(dk.LaunchError, match="kept for the gradient has come back as one of"):
        torch.autograd.grad(y.sum(), x)
