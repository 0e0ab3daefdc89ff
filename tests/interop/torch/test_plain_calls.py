"""Calls of a dk.torch_function on the shortest way: forms of tensors, cotangents and modes that it must not mistake."""

from __future__ import annotations

import pytest
from conftest import require

require("torch")

import torch

import diffkern as dk
from diffkern.interop.torch.call import blank, own_copy


@dk.kernel
def wave(x: dk.array2d(dtype=float), a: float, y: dk.array2d(dtype=float)):
    i, j = dk.tid()
    y[i, j] = dk.sin(a * x[i, j]) * x[i, j]


@dk.kernel
def parted(x: dk.array(dtype=float), y: dk.array(dtype=float), n: dk.array(dtype=int)):
    i = dk.tid()
    y[i] = x[i] * x[i]
    n[i] = int(x[i])


f = dk.torch_function(wave)
X = torch.arange(12.0).reshape(3, 4) / 5.0


def formula(x, a):
    return torch.sin(a * x) * x


@pytest.mark.parametrize("shape", [(), (1,), (0,), (5,), (3, 1), (1, 3), (2, 0, 3), (2, 1, 3), (1, 1, 1, 7)])
@pytest.mark.parametrize("make", [torch.empty_like, torch.zeros_like])
def test_tensors_like_a_blank_are_those_of_their_shape(shape, make):
    made, wanted = make(blank(shape, torch.float64, torch.device("cpu"))), torch.zeros(shape, dtype=torch.float64)
    assert made.shape == wanted.shape
    assert made.stride() == wanted.stride()
    assert made.dtype == wanted.dtype
    assert made.untyped_storage().nbytes() == wanted.untyped_storage().nbytes()
    assert make is torch.empty_like or not made.any()


GIVEN = {
    "contiguous": lambda: torch.ones(3, 4),
    "transposed": lambda: torch.arange(12.0).reshape(4, 3).T,
    "expanded": lambda: torch.tensor(2.0).expand(3, 4),
    "strided": lambda: torch.arange(48.0).reshape(6, 8)[::2, ::2],
    "negated when it is read": lambda: torch.full((3, 4), 1 + 2j).conj().imag,
    "contiguous, negated when it is read": lambda: torch._neg_view(torch.arange(12.0).reshape(3, 4)),
    "requires a gradient": lambda: torch.ones(3, 4).requires_grad_(),
}


@pytest.mark.parametrize("form", GIVEN)
def test_cotangents_of_any_form(form):
    given = GIVEN[form]()
    before = given.detach().clone()
    found = []
    for function in (f, formula):
        x = X.clone().requires_grad_()
        found += torch.autograd.grad(function(x, 0.7), x, given)
    torch.testing.assert_close(*found)
    torch.testing.assert_close(given.detach(), before)


def test_a_copy_is_never_the_tensor_itself():
    for form in GIVEN.values():
        given = form()
        made = own_copy(given)
        assert made.is_contiguous()
        assert not made.requires_grad
        assert made.data_ptr() != given.data_ptr()
        torch.testing.assert_close(made, given.detach())


def test_a_tensor_that_has_left_a_transformation():
    left = []

    def loss(x):
        left.append(x)
        return f(x, 0.7).sum()

    x = X.clone().requires_grad_()
    torch.func.grad(loss)(x)
    (dead,) = left
    assert torch._C._functorch.is_functorch_wrapped_tensor(dead)
    (found,) = torch.autograd.grad(f(dead, 0.7).sum(), x)
    (wanted,) = torch.autograd.grad(formula(x, 0.7).sum(), x)
    torch.testing.assert_close(found, wanted)


def test_modes_take_turns():
    x = X.clone().requires_grad_()
    with torch.inference_mode():
        assert f(x, 0.3).is_inference()  # makes the plan
    kept = f(x, 0.3)
    assert not kept.is_inference()
    assert kept.requires_grad
    with torch.no_grad():
        assert not f(x, 0.3).requires_grad
    first, second = torch.autograd.grad(kept.sum(), x)[0], torch.autograd.grad(formula(x, 0.3).sum(), x)[0]
    torch.testing.assert_close(first, second)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert f(x.bfloat16(), 0.3).dtype == torch.float32
    with pytest.raises(dk.LaunchError, match=r"not a tensor of torch\.bfloat16"):
        f(x.bfloat16(), 0.3)


def test_a_parameter_and_a_subclass():
    class Named(torch.Tensor):
        pass

    parameter = torch.nn.Parameter(X.clone())
    f(parameter, 0.7).sum().backward()
    named = X.clone().as_subclass(Named).requires_grad_()
    f(named, 0.7).sum().backward()
    torch.testing.assert_close(named.grad.as_subclass(torch.Tensor), parameter.grad)


def test_a_numbers_gradient_has_its_shape_and_integers_have_none():
    a = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    f(X, a).sum().backward()
    b = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    formula(X.double(), b).sum().backward()
    assert a.grad.shape == ()
    torch.testing.assert_close(a.grad.double(), b.grad, rtol=1e-5, atol=0)
    x = torch.arange(4.0).requires_grad_()
    y, n = dk.torch_function(parted, num_outputs=2)(x)
    assert y.requires_grad
    assert not n.requires_grad
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2.0 * x.detach())


def test_a_plan_holds_no_memory():
    g = dk.torch_function(wave)
    x = torch.zeros(64, 64, requires_grad=True)
    g(x, 0.7).sum().backward()
    (plan,) = g._plans.values()
    for _, _, like in plan._makers:
        assert like.untyped_storage().nbytes() == 0


def test_a_tensor_that_is_negated_when_it_is_read_is_refused_each_time():
    f(X, 0.7)
    for _ in range(2):
        with pytest.raises(dk.LaunchError, match="lazy negative"):
            f(torch._neg_view(X), 0.7)
