"""Losses of gradients, as of forces: eagerly and in compiled graphs, against central differences and PyTorch's own."""

from __future__ import annotations

import pytest
from conftest import require

require("torch")

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, vmap

import diffkern as dk

# PyTorch scripts its own decompositions, and says of itself that it should not.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

f1 = dk.array(dtype=dk.float64)


@dk.kernel
def molecule(x: dk.array(dtype=dk.vec3d), bonds: dk.array(dtype=dk.vec2i), stiffness: f1, rest: f1, energy: f1):
    b = dk.tid()
    stretch = dk.length(x[bonds[b][1]] - x[bonds[b][0]]) - rest[b]
    dk.atomic_add(energy, 0, 0.5 * stiffness[b] * stretch * stretch)


@dk.kernel
def turn(p: dk.array(dtype=dk.vec3d), axis: dk.vec3d, s: dk.float64, q: dk.array(dtype=dk.vec3d), r: f1):
    i = dk.tid()
    q[i] = s * dk.cross(axis, p[i]) * dk.dot(p[i], p[i])
    r[i] = dk.length(p[i]) * s * s * s


@dk.kernel
def cubes(x: dk.array(dtype=dk.complex128), y: dk.array(dtype=dk.complex128)):
    i = dk.tid()
    y[i] = x[i] * x[i] * x[i]


@dk.kernel
def quartic(x: f1, y: f1):
    i = dk.tid()
    y[i] = x[i] * x[i] * x[i] * x[i]


@dk.kernel
def single(x: dk.array(dtype=dk.float32), y: dk.array(dtype=dk.float32)):
    i = dk.tid()
    y[i] = x[i] * x[i]


energy = dk.torch_function(molecule, launch_dims=lambda x, bonds, *others: bonds.shape[0], output_dims=1)
to_the_fourth = dk.torch_function(quartic)
turned = dk.torch_function(turn, num_outputs=2)


def random(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


BONDS = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]], dtype=torch.int32)
X = random(4, 3)
FORCES = random(4, 3, seed=1)


def by_method(x, bonds, stiffness, rest):
    total, slope = energy.value_and_grad(x, bonds, stiffness, rest, argnames="x")
    return ((slope + FORCES) ** 2).sum() + total.sum() ** 2


def by_autograd(x, bonds, stiffness, rest):
    total = energy(x, bonds, stiffness, rest).sum()
    (slope,) = torch.autograd.grad(total, x, create_graph=True)
    return ((slope + FORCES) ** 2).sum() + total**2


def in_torch(x, bonds, stiffness, rest):
    stretch = (x[bonds[:, 1].long()] - x[bonds[:, 0].long()]).norm(dim=1) - rest
    total = 0.5 * (stiffness * stretch * stretch).sum()
    (slope,) = torch.autograd.grad(total, x, create_graph=True)
    return ((slope + FORCES) ** 2).sum() + total**2


def parameters(count=5):
    stiffness, rest = 1.0 + random(count, seed=2).abs(), 0.5 + random(count, seed=3).abs()
    return stiffness.requires_grad_(), rest.requires_grad_()


def gradients(loss, *args):
    value = loss(*args)
    return value, torch.autograd.grad(value, [a for a in args if a.requires_grad])


@pytest.mark.parametrize("loss", [by_method, by_autograd])
@pytest.mark.parametrize("backend", [None, "aot_eager", pytest.param("inductor", marks=pytest.mark.full)], ids=str)
def test_a_loss_of_forces(loss, backend):
    x, (stiffness, rest) = X.clone().requires_grad_(), parameters()
    run = loss if backend is None else torch.compile(loss, backend=backend, fullgraph=True)
    options = {"trace_autograd_ops": True} if backend is not None and loss is by_autograd else {}
    if not all(hasattr(torch._dynamo.config, name) for name in options):
        pytest.skip("this PyTorch does not trace torch.autograd.grad")
    with torch._dynamo.config.patch(options):
        found = gradients(run, x, BONDS, stiffness, rest)
    torch.testing.assert_close(found, gradients(in_torch, x, BONDS, stiffness, rest))
    step = 1e-6
    for parameter, gradient in zip((stiffness, rest), found[1][1:], strict=True):
        for k in range(2):
            changed = []
            for sign in (1, -1):
                moved = parameter.detach().clone()
                moved[k] += sign * step
                args = [moved if p is parameter else p.detach() for p in (stiffness, rest)]
                changed.append(by_method(X, BONDS, *args))
            torch.testing.assert_close((changed[0] - changed[1]) / (2 * step), gradient[k], rtol=1e-7, atol=1e-7)


def test_graphs_of_molecules_of_any_size():
    compiled = torch.compile(by_method_of_any, backend="aot_eager", fullgraph=True, dynamic=True)
    for atoms, count in [(4, 5), (6, 8), (5, 3)]:
        x = random(atoms, 3, seed=atoms).requires_grad_()
        first = torch.arange(count) % atoms
        bonds = torch.stack([first, (first + 1 + first % 2) % atoms], 1).int()
        args = (x, bonds, *parameters(count))
        torch.testing.assert_close(gradients(compiled, *args), gradients(by_method_of_any, *args))


def by_method_of_any(x, bonds, stiffness, rest):
    total, (slope, tension) = energy.value_and_grad(x, bonds, stiffness, rest, argnames=("x", "rest"))
    return (slope**2).sum() + total.sum() ** 2 + tension.sin().sum()


def test_a_step_of_training_is_one_graph():
    stiffness, rest = parameters()

    def step(x, bonds, stiffness, rest):
        return torch.func.grad(by_method, argnums=(2, 3))(x, bonds, stiffness, rest)

    expected = gradients(by_method, X, BONDS, stiffness, rest)[1]
    torch.testing.assert_close(step(X, BONDS, stiffness.detach(), rest.detach()), expected)

    def traced(x, bonds, stiffness, rest):
        value = by_method(x, bonds, stiffness, rest)
        return torch.autograd.grad(value, (stiffness, rest))

    graph = torch.fx.experimental.proxy_tensor.make_fx(traced)(X, BONDS, stiffness, rest)
    torch.testing.assert_close(graph(X, BONDS, stiffness, rest), expected)


def of_quartic(x):
    return to_the_fourth.value_and_grad(x, argnames="x")


def of_quartic_in_torch(x):
    y, pull = torch.func.vjp(lambda x: x**4, x)
    return y, pull(torch.ones_like(y))[0]


P, AXIS, S = random(4, 3), random(3, seed=1), random(seed=2)
COTANGENTS = random(4, 3, seed=3), random(4, seed=4)


def turned_in_torch(p, axis, s):
    q = s * torch.linalg.cross(axis.expand_as(p), p) * (p * p).sum(-1, keepdim=True)
    return q, p.norm(dim=-1) * s**3


def of_both(p, axis, s):
    return turned.value_and_grad(p, axis, s, argnames=("p", "axis", "s"), cotangents=COTANGENTS)


def of_both_in_torch(p, axis, s):
    results, pull = torch.func.vjp(turned_in_torch, p, axis, s)
    return results, pull(COTANGENTS)


def squares(found):
    (q, r), slopes = found
    return q.sin().sum() + r.sum() + sum((slope**2).sum() for slope in slopes)


@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_several_results_and_vectors_and_numbers_by_value(how):
    args = [a.clone().requires_grad_() for a in (P, AXIS, S)]
    run = torch.compile(of_both, backend="aot_eager", fullgraph=True) if how == "compiled" else of_both
    found = gradients(lambda *args: squares(run(*args)), *args)
    torch.testing.assert_close(found, gradients(lambda *args: squares(of_both_in_torch(*args)), *args))


def test_pytorchs_own_checks_of_the_gradient():
    args = [a.clone().requires_grad_() for a in (P[:2], AXIS, S)]
    cotangents = [c[:2] for c in COTANGENTS]

    def slopes(*args):
        return turned.value_and_grad(*args, argnames=("p", "axis", "s"), cotangents=cotangents)[1]

    assert gradcheck(slopes, args, check_forward_ad=True)
    assert gradgradcheck(slopes, args)


@pytest.mark.parametrize(
    "transformed",
    [grad, pytest.param(hessian, marks=pytest.mark.full), lambda f: vmap(grad(f))],
    ids=["grad", "hessian", "batch"],
)
def test_the_gradient_in_transformations(transformed):
    x = random(2, 3) if transformed not in (grad, hessian) else random(3)
    found, expected = [transformed(lambda x, f=f: (f(x)[1] ** 2).sum())(x) for f in (of_quartic, of_quartic_in_torch)]
    torch.testing.assert_close(found, expected)


def test_the_order_of_the_names():
    slopes = of_both(P, AXIS, S)[1]
    _, (second, first, again) = turned.value_and_grad(P, AXIS, S, argnames=("s", "p", "s"), cotangents=COTANGENTS)
    torch.testing.assert_close((first, second, again), (slopes[0], slopes[2], slopes[2]))


def test_forces_without_a_graph():
    stiffness, rest = parameters()
    with torch.no_grad():
        total, slope = energy.value_and_grad(X, BONDS, stiffness, rest, argnames="x")
    assert not total.requires_grad
    assert not slope.requires_grad
    x = X.clone().requires_grad_()
    (expected,) = torch.autograd.grad(energy(x, BONDS, stiffness, rest).sum(), x)
    torch.testing.assert_close(slope, expected)


def test_complex_numbers_and_autocast():
    x = torch.complex(random(4), random(4, seed=1)).requires_grad_()
    cotangent = torch.complex(random(4, seed=2), random(4, seed=3))
    y, slope = dk.torch_function(cubes).value_and_grad(x, argnames="x", cotangents=cotangent)
    expected = x**3
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(slope, torch.autograd.grad(expected, x, cotangent)[0])
    with torch.autocast("cpu"):
        y, slope = dk.torch_function(single).value_and_grad(torch.ones(2, dtype=torch.bfloat16), argnames="x")
    assert y.dtype == torch.float32
    assert slope.tolist() == [2, 2]
    assert slope.dtype == torch.bfloat16


def test_what_has_no_gradient():
    for kwargs, match in [
        ({"argnames": "other"}, "no argument 'other'\nhelp: it has p, axis, s"),
        ({"argnames": "p"}, "does not return one tensor .*\nhelp: pass cotangents="),
        ({"argnames": "p", "cotangents": COTANGENTS[:1]}, "2 results, and 1 cotangents"),
        ({"argnames": "p", "cotangents": (COTANGENTS[0], COTANGENTS[1].float())}, "a cotangent of torch.float32"),
        ({"argnames": "s", "cotangents": COTANGENTS}, "'s' is asked for, which is no tensor"),
    ]:
        with pytest.raises(dk.LaunchError, match=match):
            turned.value_and_grad(P, AXIS, 2.0, **kwargs)
    switched_off = dk.torch_function(single, enable_backward=False)
    with pytest.raises(RuntimeError, match="enable_backward=False"):
        switched_off.value_and_grad(torch.ones(2), argnames="x")


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "match"),
    [
        ("value_and_grad", (AXIS, 2.0), {"argnames": "p"}, "does not return one tensor .*pass cotangents="),
        ("value_and_grad", (AXIS, 2.0), {"argnames": "q"}, "no argument .*it has p, axis, s"),
        ("__call__", (AXIS,), {}, "takes 3 arguments .*, not 2"),
    ],
)
def test_a_graph_says_what_is_wrong_with_a_call(method, args, kwargs, match):
    call = getattr(turned, method)
    with pytest.raises(dk.LaunchError):
        call(P, *args, **kwargs)
    # PyTorch's message also has the line of the call, in which no word of the pattern stands.
    compiled = torch.compile(lambda p: call(p, *args, **kwargs), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match=match):
        compiled(P)


def test_transformations_that_a_graph_would_lose_name_the_method():
    def loss(x):
        return grad(lambda x: to_the_fourth(x).sum())(x)

    with pytest.raises(Exception, match="value_and_grad"):
        torch.compile(loss, backend="eager", fullgraph=True)(X[0])
